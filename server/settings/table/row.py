"""Describes the rows of the table of the broker's settings, for those who add one.

A row is (name, text, type, default, low, high, flags); what is missing at its end is None, None and "". The text says what the
setting is for. It is empty if the setting is the default of a topic's or a group's, whose text is used then. The flags are:

- `c` can be changed while the broker runs, best for the whole cluster;
- `b` can be changed while the broker runs, for one broker;
- `i` is internal and not shown to clients;
- `e` is effective: this broker acts on it. The other settings do nothing; they are known so that a server.properties is accepted
  and described as by Kafka.

To add a setting, add a row to the module of its subject. The rows are constants that the interpreter loads as they are, texts
included: all 382 take less than a millisecond of a start, which server/settings/broker_settings.py spends on making Settings of
them.
"""

from __future__ import annotations

from ottla.log.config_def import Value

Row = tuple[str | Value | float, ...]
