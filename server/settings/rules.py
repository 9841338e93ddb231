"""Rules about several settings: combinations with which a broker does not start, or which cannot be set while it runs.

A setting's own bounds are in its table (server/settings/table/). Here are bounds that are themselves settings (`AT_MOST`), times
that can be written in several units, and some values that Kafka checks later than those of its table. Each rule refuses what
Kafka 4.4's broker refuses at a start (tests/server/settings/test_rules.py asks its own classes); the message is ours, one line
that begins with a setting that the user wrote.

`check_broker` is for the values of a whole broker, `check_group` for one group's overrides, whose bounds are the broker's. Rules
that apply only to changes while the broker runs are in server/metadata/broker_changes.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any, Final

from ottla.log.config_def import ConfigError
from ottla.server.settings.broker_settings import SAME_IN_OTHER_UNITS

_PROTOCOLS: Final = ("consumer", "share", "streams")
AT_MOST: Final = (
    *(
        pair
        for protocol in _PROTOCOLS
        for what in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
        for pair in (
            (f"group.{protocol}.min.{what}", f"group.{protocol}.max.{what}"),
            (f"group.{protocol}.min.{what}", f"group.{protocol}.{what}"),
            (f"group.{protocol}.{what}", f"group.{protocol}.max.{what}"),
        )
    ),
    *(
        pair
        for what in ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms")
        for pair in (
            (f"group.share.min.{what}", f"group.share.{what}"),
            (f"group.share.{what}", f"group.share.max.{what}"),
        )
    ),
    ("group.share.max.size", "group.share.max.share.sessions"),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
    ("group.streams.num.warmup.replicas", "group.streams.max.warmup.replicas"),
    ("group.streams.min.task.offset.interval.ms", "group.streams.task.offset.interval.ms"),
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
)
"""Pairs (smaller, larger) of settings, of which the first must not be above the second."""

BELOW: Final = tuple(
    (f"group.{protocol}.heartbeat.interval.ms", f"group.{protocol}.session.timeout.ms") for protocol in _PROTOCOLS
)
"""Pairs (smaller, larger) of settings, of which the first must be below the second."""

CODECS: Final = range(5)
_CODEC_SETTINGS: Final = ("offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec")
_LEAST_DEDUPE_BYTES: Final = 1 << 20
_LIMIT_OF_ADDRESS: Final = re.compile(r"\s*([^\s,]+)\s*:\s*([+-]?\d{1,10})\s*", re.ASCII)
_INTS: Final = range(-(1 << 31), 1 << 31)
CONSUMER_ASSIGNORS: Final = ("uniform", "range")
_KAFKAS_ASSIGNORS: Final = "org.apache.kafka.coordinator.group.assignor."


def assignor_name(text: str) -> str:
    """Returns the name of an assignor, which may also be given as the name of its class in Kafka."""
    if not text.startswith(_KAFKAS_ASSIGNORS):
        return text
    return text.removeprefix(_KAFKAS_ASSIGNORS).removesuffix("Assignor").lower()


def check_broker(values: Mapping[str, Any], written: Collection[str] = ()) -> None:
    """Checks `values`, all settings of a broker, parsed. `written` are the names that the user wrote. Raises ConfigError."""
    _check_pairs(values, written)
    _check_times(values)
    _check_connections(values, written)
    for name in _CODEC_SETTINGS:
        if values[name] not in CODECS:
            raise ConfigError(f"{name}: {values[name]} is not a codec; use 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)")
    threads = values["log.cleaner.threads"]
    if threads < 1 or values["log.cleaner.dedupe.buffer.size"] // threads <= _LEAST_DEDUPE_BYTES:
        raise ConfigError(
            f"log.cleaner.dedupe.buffer.size: {values['log.cleaner.dedupe.buffer.size']} is too small for "
            f"{threads} threads (log.cleaner.threads); give each of them more than {_LEAST_DEDUPE_BYTES} bytes"
        )
    for name in values["group.consumer.assignors"]:
        if assignor_name(name) not in CONSUMER_ASSIGNORS:
            raise ConfigError(
                f"group.consumer.assignors: there is no {name} here, and no JVM to load it in; use uniform or range"
            )
    if "classic" not in values["group.coordinator.rebalance.protocols"]:
        raise ConfigError("group.coordinator.rebalance.protocols: classic is missing, and cannot be turned off; add it")


def check_references(
    values: Mapping[str, Any], written: Collection[str], listeners: Set[str], controllers: Set[str], log_dirs: Iterable[str]
) -> None:
    """Checks that the listeners (names in capitals) and directories that settings name exist. Raises ConfigError."""
    protocol = values["security.inter.broker.protocol"]
    if "security.inter.broker.protocol" in written and not values["inter.broker.listener.name"] and protocol not in listeners:
        raise ConfigError(f"security.inter.broker.protocol: no listener has the name {protocol}; remove it")
    early = {name.upper() for name in values["early.start.listeners"] or ()}
    if unknown := early - listeners - controllers:
        raise ConfigError(f"early.start.listeners: {min(unknown)} is not in listeners; name listeners that are")
    cordoned = values["cordoned.log.dirs"]
    if cordoned != ("*",) and (unknown := {os.path.abspath(path) for path in cordoned} - set(log_dirs)):
        raise ConfigError(f"cordoned.log.dirs: {min(unknown)} is not in log.dirs; name directories that are")


def check_group(overrides: Mapping[str, Any], broker: Mapping[str, Any]) -> None:
    """Checks one group's own settings, parsed, against the broker's bounds and each other. Raises ConfigError."""
    values = {**broker, **{f"group.{name}": value for name, value in overrides.items()}}
    own = {f"group.{name}": name for name in overrides}
    _check_pairs(values, own, own)
    assignor, assignors = overrides.get("streams.assignor.name"), broker["group.streams.assignors"]
    if assignor is not None and assignor not in assignors:
        raise ConfigError(f"streams.assignor.name: '{assignor}' is not one of {', '.join(assignors)} (group.streams.assignors)")


def _check_pairs(values: Mapping[str, Any], written: Collection[str], own: Mapping[str, str] | None = None) -> None:
    """Checks AT_MOST and BELOW. With `own`, a group's names of its settings by the broker's, it checks only the pairs that have
    one of these, and calls them by the group's names. Raises ConfigError.
    """
    for pairs, strict in ((AT_MOST, False), (BELOW, True)):
        for smaller, larger in pairs:
            low, high = values[smaller], values[larger]
            if low < high or (low == high and not strict) or not (own is None or smaller in own or larger in own):
                continue
            raise _contradiction(smaller, larger, values, written, strict=strict, own=own)


def _contradiction(
    smaller: str,
    larger: str,
    values: Mapping[str, Any],
    written: Collection[str],
    *,
    strict: bool,
    own: Mapping[str, str] | None = None,
) -> ConfigError:
    """Returns the error for two settings that contradict AT_MOST, or BELOW if `strict`. Its text begins with the one that the
    user wrote. `own` has a group's names of its settings by the broker's.
    """
    low, high = (name if own is None else own.get(name, name) for name in (smaller, larger))
    if smaller in written or larger not in written:
        relation = "must be below" if strict else "is above"
        return ConfigError(f"{low}: {values[smaller]} {relation} {high}, {values[larger]}; lower the first or raise the second")
    relation = "must be above" if strict else "is below"
    return ConfigError(f"{high}: {values[larger]} {relation} {low}, {values[smaller]}; raise the first or lower the second")


def _check_times(values: Mapping[str, Any]) -> None:
    for family in SAME_IN_OTHER_UNITS:
        name = next((each for each in family if values[each] is not None), None)
        if name is None:
            continue
        value = values[name]
        if name.startswith("log.retention.") and value == 0:
            raise ConfigError(f"{name}: 0 would keep nothing; use 1 or more, or -1 for ever")
        if name == "log.roll.ms" and value < 1:
            raise ConfigError(f"{name}: {value} is too small; the least is 1")
        if name == "log.roll.jitter.ms" and value < 0:
            raise ConfigError(f"{name}: {value} is too small; the least is 0")


def _check_connections(values: Mapping[str, Any], written: Collection[str]) -> None:
    overrides = values["max.connections.per.ip.overrides"]
    wrong = [part for part in overrides.split(",") if limit_of_address(part) is None] if overrides else []
    if wrong:
        raise ConfigError(f"max.connections.per.ip.overrides: '{wrong[0]}' is not address:count; write for example 127.0.0.1:100")
    if values["max.connections.per.ip"] == 0 and not overrides:
        raise ConfigError("max.connections.per.ip: 0 allows no connection; name addresses in max.connections.per.ip.overrides")
    if 0 < values["queued.max.request.bytes"] < values["socket.request.max.bytes"]:
        raise _contradiction("socket.request.max.bytes", "queued.max.request.bytes", values, written, strict=False)
    if 0 <= values["connections.max.idle.ms"] <= values["connection.failed.authentication.delay.ms"]:
        pair = "connection.failed.authentication.delay.ms", "connections.max.idle.ms"
        raise _contradiction(*pair, values, written, strict=True)


def limit_of_address(part: str) -> tuple[str, int] | None:
    """Parses one element of max.connections.per.ip.overrides, `address:count`; returns None for anything else."""
    found = _LIMIT_OF_ADDRESS.fullmatch(part)
    if found is None or int(found[2]) not in _INTS:
        return None
    return found[1], int(found[2])
