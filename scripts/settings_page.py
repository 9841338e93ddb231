"""Writes docs/settings.md from the tables of settings, which are the only place where settings are described.

    python -m scripts.settings_page

It writes docs/limits.md as well (limits_page.py), whose defaults come from the same tables.

tests/server/settings/test_settings_page.py fails when the page and the tables do not say the same, or when a setting without
effect has no reason in WHY_IDLE.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ottla.log.config import TOPIC_SETTINGS
from ottla.log.config_def import ConfigType, Setting, Update, text_of
from ottla.server.settings.broker_settings import (
    BROKER_SETTINGS,
    FIXED_HERE,
    OF_ONE_LISTENER,
    OWN_DEFAULTS,
    OWN_SETTINGS,
    documentation,
)
from ottla.server.settings.group_settings import CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from scripts import limits_page
from scripts.written_pages import main

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "settings.md"

WHY_IDLE: Final[dict[str, tuple[str, ...]]] = {
    "A broker logs in to other nodes by PLAIN and SCRAM, with nothing to renew and no class of Java": ("sasl.", "security."),
    "OpenSSL has its own random numbers": ("ssl.secure.random.implementation",),
    "Every listener opens when the broker can serve it": ("early.start.listeners",),
    "There is no JVM to load a class in": (
        "alter.config.policy.class.name", "create.topic.policy.class.name", "client.quota.callback.class", "config.providers",
        "group.streams.topology.description.plugin.class",
    ),
    "Some of Kafka's ways of leading and following are not there yet, and a broker is no other node's controller": (
        "auto.leader.rebalance.enable", "leader.imbalance.", "controller.", "replica.", "follower.",
        "alter.log.dirs.", "log.dir.failure.timeout.ms",
    ),
    "The controllers decide about elections": ("unclean.leader.election.enable",),
    "Metrics are plain counters that are read when somebody asks for them": ("kafka.metrics.", "metric.reporters", "metrics."),
    "There is no tiered storage": ("remote.", "log.remote.", "log.local.", "local."),
    "Share groups have one assignor": ("group.share.assignors",),
    "A partition asks the coordinator beside it, which answers at once": ("add.partitions.to.txn.",),
    "Producers do not prepare transactions for another system to decide (KIP-939)": ("transaction.two.phase.commit.enable",),
    "The metadata log takes snapshots and rolls by rules of its own": ("metadata.",),
    "Everything runs on one event loop, so there are no pools, purgatories or buffers to size": (
        "background.threads", "num.", "fetch.purgatory.", "producer.purgatory.", "delete.records.purgatory.",
        "group.coordinator.", "offsets.load.buffer.size", "transaction.state.log.load.buffer.size", "share.coordinator.",
        "share.fetch.purgatory.",
    ),
    "Where logs begin is recorded together with how far they are flushed": ("log.flush.start.offset.checkpoint.interval.ms",),
}  # fmt: skip
"""The reasons why settings do nothing -> names, or first words of names (they end in a dot)."""

CHANGES: Final = {Update.READ_ONLY: "at a start", Update.PER_BROKER: "at once, per broker", Update.CLUSTER_WIDE: "at once"}
TYPES: Final = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "text",
    ConfigType.INT: "whole number",
    ConfigType.SHORT: "whole number",
    ConfigType.LONG: "whole number",
    ConfigType.DOUBLE: "number",
    ConfigType.LIST: "list",
    ConfigType.CLASS: "class",
    ConfigType.PASSWORD: "password",
}
ACCEPTED: Final = {
    "compression.gzip.level": "-1, or a whole number, 1 to 9",
    "offsets.topic.compression.codec": "whole number, 0 to 4",
}
"""The accepted values of settings whose bounds and choices do not say it."""


def _names(names: Iterable[str]) -> str:
    """Returns the names as a phrase: `a`, `b` and `c`."""
    *first, last = [f"`{name}`" for name in sorted(names)]
    return f"{', '.join(first)} and {last}" if first else last


HEAD: Final = f"""# Settings

ottla knows every setting of Apache Kafka 4.4, with its type, default and bounds. Kafka's own `server.properties` works as it is,
and `DescribeConfigs` (`kafka-configs.sh --describe --all`) answers as Kafka does, with these exceptions: the descriptions are
ottla's own; {_names(OWN_DEFAULTS)} have defaults with which
a broker starts without a configuration; and {_names(FIXED_HERE)} cannot change while the
broker runs, as they can in Kafka.

What a setting *does* is a different question, and the one that this page answers: first for the settings that have an effect,
then, by reason, for those that have none. The broker's log names the latter if they are set: one line at the start names those
that the broker was given, another those in its metadata whose value is not the default, and a setting to which a client gives
such a value is named the first time. [Limits](limits.md) lists what is bounded, and by which setting.

The value that counts is the first of these that is set: the topic's or group's own; the one set for this broker while it ran;
the one set for all brokers while they ran; the one from `server.properties`, the environment and the command line; the default.
A single listener may have settings of its own, `listener.name.<name>.<setting>`, with its name in lower case: those of TLS, and
{_names(OF_ONE_LISTENER)}. A broker that is started with any other of its settings there, or with the name of a listener that it
does not have, says so and does not start, where Kafka ignores them.

This page is written by `scripts/settings_page.py` from the tables in `log/config.py` and `server/settings/table/`.
"""


def why_idle(name: str) -> str:
    """Returns the reason, by the longest of WHY_IDLE's words that fits. Raises LookupError where nobody gave one."""
    found = [(len(word), reason) for reason, words in WHY_IDLE.items() for word in words if fits(word, name)]
    if not found:
        raise LookupError(f"{name} has no effect, and scripts/settings_page.py does not say why")
    return max(found)[1]


def fits(word: str, name: str) -> bool:
    return name == word or (word.endswith(".") and name.startswith(word))


def accepted(setting: Setting) -> str:
    """Returns what may be written."""
    if setting.name in ACCEPTED:
        return ACCEPTED[setting.name]
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    low, high = (None if bound is None else f"{bound:,}" for bound in (setting.low, setting.high))
    kind = TYPES[setting.type]
    if low is not None and high is not None:
        return f"{kind}, {low} to {high}"
    return kind if low is None else f"{kind}, at least {low}"


def default(setting: Setting) -> str:
    text = text_of(setting.default)
    return "not set" if text is None else f"`{text}`" if text else "empty"


def changes(setting: Setting) -> str:
    return CHANGES[Update.READ_ONLY] if setting.name in FIXED_HERE | OWN_SETTINGS.keys() else CHANGES[setting.update]


def effective_table(settings: Mapping[str, Setting], *, with_changes: bool) -> list[str]:
    """Returns the table of settings, sorted by name. All settings of topics and groups can be changed at once, which needs no
    column."""
    shown = [setting for name, setting in sorted(settings.items()) if setting.effective and not setting.internal]
    if not shown:
        return ["None yet."]
    more = " changes |" if with_changes else ""
    lines = [f"| setting | default | accepted |{more} what it does |", f"|---|---|---|{'---|' if with_changes else ''}---|"]
    for setting in shown:
        middle = f" {changes(setting)} |" if with_changes else ""
        lines.append(f"| `{setting.name}` | {default(setting)} | {accepted(setting)} |{middle} {documentation(setting)} |")
    return lines


def idle_list(settings: Iterable[Setting]) -> list[str]:
    """Returns the list of settings without effect by reason, in the order of WHY_IDLE, without internal ones, which are not for
    users."""
    reasons: dict[str, list[str]] = {reason: [] for reason in WHY_IDLE}
    for setting in settings:
        if not setting.effective and not setting.internal:
            reasons[why_idle(setting.name)].append(f"`{setting.name}`")
    lines: list[str] = []
    for reason, names in reasons.items():
        if names:
            lines += [f"- {reason}: {', '.join(sorted(names))}."]
    return lines


def _idle_count() -> str:
    """Returns how many of Kafka's settings do nothing, as the first line of their list."""
    tables = (TOPIC_SETTINGS, BROKER_SETTINGS, GROUP_SETTINGS, CLIENT_METRICS_SETTINGS)
    effective = [setting.effective for table in tables for setting in table.values() if not setting.internal]
    return (
        f"Of Kafka's {len(effective)} settings, these {effective.count(False)} are checked, kept and described, but do nothing:"
    )


def page() -> str:
    parts: list[tuple[str, list[str]]] = [
        ("## Topics", effective_table(TOPIC_SETTINGS, with_changes=False)),
        ("## The broker", effective_table(BROKER_SETTINGS, with_changes=True)),
        ("## ottla's own, which Kafka does not have", effective_table(OWN_SETTINGS, with_changes=True)),
        ("## Groups", effective_table(GROUP_SETTINGS, with_changes=False)),
        (
            "## Subscriptions to clients' metrics, with ottla.client.metrics=true",
            effective_table(CLIENT_METRICS_SETTINGS, with_changes=False),
        ),
        ("## Accepted, without effect", [_idle_count()]),
        ("### Of topics", idle_list(TOPIC_SETTINGS.values())),
        ("### Of the broker", idle_list(BROKER_SETTINGS.values())),
        ("### Of groups", idle_list(GROUP_SETTINGS.values())),
        ("### Of subscriptions", idle_list(CLIENT_METRICS_SETTINGS.values())),
    ]
    return HEAD + "".join(f"\n{title}\n\n{chr(10).join(lines)}\n" for title, lines in parts if lines)


def pages() -> dict[Path, str]:
    """Returns both files with their texts."""
    return {PAGE: page(), **limits_page.pages()}


if __name__ == "__main__":
    sys.exit(main(__doc__, pages))
