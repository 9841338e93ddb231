"""The settings of groups and of client-metrics subscriptions: resource types 32 and 16 of the config APIs.

Like a topic, a group inherits the value of a setting from the broker's of the same meaning (its synonym). The three settings of a
subscription (KIP-714) have no synonyms, and are shown only if they were set.

Names, types, defaults and bounds are Kafka 4.4's (tests/server/settings/test_table.py compares them with its ConfigDef); the
texts are ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ottla.log.config_def import ConfigType, Setting, Value
from ottla.server.base.expressions import MAX_WEIGHT, ExpressionError, compile_expression, weight

_BOOLEAN, _STRING, _INT, _LONG, _LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.LIST,
)
MATCH_KEYS: Final = frozenset(
    f"client_{what}" for what in ("id", "instance_id", "software_name", "software_version", "source_address", "source_port")
)
"""The attributes by which a subscription selects clients."""
_DURATION: Final = re.compile(
    r"by_duration:P(?=[0-9T])(?:[0-9]+D)?(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]{1,9})?S)?)?",
    re.ASCII | re.IGNORECASE,
)
ISOLATION_LEVELS: Final = ("read_committed", "read_uncommitted")


def _check_offset_reset(value: Value) -> str | None:
    if value in ("earliest", "latest") or (isinstance(value, str) and _DURATION.fullmatch(value)):
        return None
    return "is not one of earliest, latest and by_duration: with an ISO 8601 duration such as PT1H"


_ONLY_IN_JAVA: Final = re.compile(r"\\[pPQEhHRXGkzZ1-9]|\(\?[<=!>]|[*+?}]\+|\{(?:[0-9]{1,9},)?[0-9]{4,9}[,}]|&&")
"""Syntax of regular expressions that Java, and so Kafka, has and RE2 has not, or that means something else there."""
_TOO_MANY: Final = re.compile(r"\{[0-9,]*[0-9]{10}")
"""A repetition so often that no Java pattern can have it; RE2 takes it for text."""
_SHOWN: Final = 200
_PAIR_WEIGHT: Final = 100
"""An element of `match` weighs so much besides its pattern: this is what the shortest ones take."""


def _check_match(value: Value) -> str | None:
    wrong = wrong_element(value if isinstance(value, tuple) else ())
    return None if wrong is None else f"has the element '{wrong[0]}', {wrong[1]}"


def wrong_element(pairs: Iterable[str]) -> tuple[str, str] | None:
    """Returns the first element of `match` that is not valid, and why; None if all are. All together may weigh as much as one
    regular expression, since they are compiled within one turn."""
    left = MAX_WEIGHT
    for pair in pairs:
        left -= weight(pair.encode(errors="surrogatepass")) + _PAIR_WEIGHT
        why = wrong_match(pair) if left >= 0 else f"with which all are too long: they may have {MAX_WEIGHT:,} bytes"
        if why is not None:
            return (pair if len(pair) <= _SHOWN else f"{pair[:_SHOWN]}..."), why
    return None


def wrong_match(pair: str) -> str | None:
    """Returns why an element of `match` is not valid, None if it is."""
    key, equals, pattern = pair.partition("=")
    pattern = pattern.rstrip("=")  # Kafka drops these, too
    if not equals or not pattern or "=" in pattern or key.strip() not in MATCH_KEYS:
        return f"which is not key=pattern with one of {', '.join(sorted(MATCH_KEYS))}"
    if _TOO_MANY.search(pattern) is not None:
        return "whose pattern cannot be compiled: it repeats something too often"
    try:
        compile_expression(pattern.strip())
    except ExpressionError as error:
        if _ONLY_IN_JAVA.search(pattern) is None:
            return f"whose pattern cannot be compiled: {error}"
    return None


def _int(
    name: str, default: int, low: int, doc: str, *, internal: bool = False, type_: ConfigType = _INT, effective: bool = True
) -> Setting:
    """Returns the Setting of a number whose synonym at the broker is `group.<name>`."""
    return Setting(
        name, type_, default, low, synonyms=(f"group.{name}",), doc=doc, internal=internal, effective=effective
    )  # fmt: skip


def _offload(kind: str) -> Setting:
    name = f"{kind}.assignor.offload.enable"
    doc = "Whether assignments are computed outside the coordinator's own thread."
    return Setting(name, _BOOLEAN, True, synonyms=(f"group.{name}",), internal=True, effective=False, doc=doc)


_ASSIGNMENT = "The least time between two assignments of the group, so that members that join together cause only one."
_HEARTBEAT = "How often members send heartbeats; they learn it from the answers to their heartbeats."
_SESSION = "How long a member may be silent before it is removed from the group."

_GROUP: Final = (
    _int("consumer.assignment.interval.ms", 1000, 0, _ASSIGNMENT),
    _offload("consumer"),
    _int("consumer.heartbeat.interval.ms", 5000, 1, _HEARTBEAT),
    _int("consumer.session.timeout.ms", 45_000, 1, _SESSION),
    Setting(
        "errors.deadletterqueue.copy.record.enable", _BOOLEAN, False,
        doc="Whether a record that a share group gives up is copied completely into the dead letter queue, instead of only "
        "its topic, partition and offset.",
    ),
    Setting(
        "errors.deadletterqueue.topic.name", _STRING, "",
        doc="The topic for records that a share group gives up; if it is empty there is none.",
    ),
    _int("share.assignment.interval.ms", 1000, 0, _ASSIGNMENT),
    _offload("share"),
    Setting(
        "share.auto.offset.reset", _STRING, "latest", check=_check_offset_reset,
        doc="Where a share group begins in a partition for which it has no state: `earliest`, `latest`, or "
        "`by_duration:` and an ISO 8601 duration, which means that long ago.",
    ),
    _int(
        "share.delivery.count.limit", 5, 2, "How often a record is delivered before the share group gives it up.",
    ),
    _int("share.heartbeat.interval.ms", 5000, 1, _HEARTBEAT),
    Setting(
        "share.isolation.level", _STRING, "read_uncommitted", choices=ISOLATION_LEVELS,
        doc="Whether a share group sees the records of open and aborted transactions.",
    ),
    _int(
        "share.partition.max.record.locks", 2000, 100, "The most records of a partition that may be locked at the same time.",
    ),
    _int(
        "share.record.lock.duration.ms", 30_000, 1000, "How long a delivered record is locked for its consumer.",
    ),
    Setting(
        "share.renew.acknowledge.enable", _BOOLEAN, True,
        doc="Whether a consumer may ask for more time for a record that is locked for it.",
    ),
    _int("share.session.timeout.ms", 45_000, 1, _SESSION),
    _int(
        "streams.acceptable.recovery.lag", 10_000, 0, "By how many records a task may lag and still count as caught up.",
        internal=True, type_=_LONG,
    ),
    _int("streams.assignment.interval.ms", 1000, 0, _ASSIGNMENT),
    Setting(
        "streams.assignor.name", _STRING, None, synonyms=("group.streams.assignors",),
        doc="The name of the assignor of tasks; the broker's first assignor if it is not set.",
    ),
    _offload("streams"),
    _int("streams.heartbeat.interval.ms", 5000, 1, _HEARTBEAT),
    _int(
        "streams.initial.rebalance.delay.ms", 3000, 0,
        "How long the first assignment of an empty group waits for more members.",
    ),
    _int("streams.num.standby.replicas", 0, 0, "How many copies of each task's state other members keep."),
    _int(
        "streams.num.warmup.replicas", 2, 0, "How many copies may warm up at a time, besides the standby ones.", internal=True,
        effective=False,
    ),
    Setting(
        "streams.rack.aware.assignment.tags", _LIST, (), unique=True, synonyms=("group.streams.rack.aware.assignment.tags",),
        doc="The client tags that each member should have: one that lacks some is told which. As in Apache Kafka 4.4, "
        "standby copies are not spread over their values.",
    ),
    _int("streams.session.timeout.ms", 45_000, 1, _SESSION),
    _int("streams.task.offset.interval.ms", 60_000, 1, "How often members report the offsets of their tasks.", internal=True),
)  # fmt: skip

GROUP_SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in _GROUP}
"""The settings of groups by name, internal ones included."""

_CLIENT_METRICS: Final = (
    Setting("interval.ms", _INT, 300_000, 100, 3_600_000, doc="How often clients push their metrics."),
    Setting(
        "match", _LIST, (), unique=True, check=_check_match,
        doc="Which clients are asked: `key=pattern` of client_id, client_instance_id, client_software_name, "
        "client_software_version, client_source_address or client_source_port; all must match. If it is empty, all "
        "clients are asked.",
    ),
    Setting("metrics", _LIST, (), unique=True, doc="Prefixes of the metrics to push; `*` means all, empty none."),
)  # fmt: skip

CLIENT_METRICS_SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in _CLIENT_METRICS}
"""The settings of client-metrics subscriptions by name."""
