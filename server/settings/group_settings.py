"""Settings of one group and of one client-metrics subscription: resource types 32 and 16 of the config APIs.

A group's setting is inherited from the broker's of the same meaning (its synonym), as a topic's is. A subscription's three
(KIP-714) stand alone, and are shown only where somebody set them.

Names, types, defaults and bounds are Kafka 4.4's (tests/server/test_settings_groups.py asks its ConfigDef); the texts are ours.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.log.config_def import ConfigType, Setting, Value

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
"""What a subscription can tell clients apart by."""
_DURATION: Final = re.compile(
    r"by_duration:P(?=[0-9T])(?:[0-9]+D)?(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]{1,9})?S)?)?",
    re.ASCII | re.IGNORECASE,
)
ISOLATION_LEVELS: Final = ("read_committed", "read_uncommitted")


def _check_offset_reset(value: Value) -> str | None:
    if value in ("earliest", "latest") or (isinstance(value, str) and _DURATION.fullmatch(value)):
        return None
    return "is not one of earliest, latest and by_duration: with an ISO 8601 duration such as PT1H"


_ONLY_IN_JAVA: Final = r"\\[pPQEhHRXGkzZ]|\(\?<|&&"
"""What regular expressions have in Java, or write otherwise there, and so for Kafka."""
NO_PATTERN: Final = (re.error, OverflowError, RecursionError)
"""What re.compile raises: the last two for repetitions and nesting beyond what it takes. Patterns are matched by RE2
(server/telemetry/subscriptions.py), but judged by Python's own, which is nearer to Java's in what it takes.
"""


def _check_match(value: Value) -> str | None:
    for pair in value if isinstance(value, tuple) else ():
        why = wrong_match(pair)
        if why is not None:
            return f"has the element '{pair}', {why}"
    return None


def wrong_match(pair: str) -> str | None:
    """Why an element of `match` is none."""
    key, equals, pattern = pair.partition("=")
    pattern = pattern.rstrip("=")  # which Kafka does not see either
    if not equals or not pattern or "=" in pattern or key.strip() not in MATCH_KEYS:
        return f"which is not key=pattern with one of {', '.join(sorted(MATCH_KEYS))}"
    try:
        re.compile(pattern.strip())
    except NO_PATTERN as error:
        if re.search(_ONLY_IN_JAVA, pattern) is None:
            return f"whose pattern is no regular expression: {error}"
    return None


def _int(
    name: str, default: int, low: int, doc: str, *, internal: bool = False, type_: ConfigType = _INT, effective: bool = True
) -> Setting:
    """Returns a number whose default is the broker's `group.<name>`."""
    return Setting(
        name, type_, default, low, synonyms=(f"group.{name}",), doc=doc, internal=internal, effective=effective
    )  # fmt: skip


def _offload(kind: str) -> Setting:
    name = f"{kind}.assignor.offload.enable"
    doc = "Whether assignments are computed off the coordinator's own thread."
    return Setting(name, _BOOLEAN, True, synonyms=(f"group.{name}",), internal=True, effective=False, doc=doc)


_ASSIGNMENT = "The least time between two assignments of the group, so that members that join together cost one."
_HEARTBEAT = "How often members send heartbeats; the broker tells them."
_SESSION = "How long a member may be silent before it is out of the group."

_GROUP: Final = (
    _int("consumer.assignment.interval.ms", 1000, 0, _ASSIGNMENT),
    _offload("consumer"),
    _int("consumer.heartbeat.interval.ms", 5000, 1, _HEARTBEAT),
    _int("consumer.session.timeout.ms", 45_000, 1, _SESSION),
    Setting(
        "errors.deadletterqueue.copy.record.enable", _BOOLEAN, False,
        doc="Whether a record that a share group gives up is copied whole into the dead letter queue, not only where "
        "it was.",
    ),
    Setting(
        "errors.deadletterqueue.topic.name", _STRING, "",
        doc="The topic for records that a share group gives up; empty is none.",
    ),
    _int("share.assignment.interval.ms", 1000, 0, _ASSIGNMENT),
    _offload("share"),
    Setting(
        "share.auto.offset.reset", _STRING, "latest", check=_check_offset_reset,
        doc="Where a share group begins in a partition that it has no state of: `earliest`, `latest`, or "
        "`by_duration:` and an ISO 8601 duration, which is that long ago.",
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
        "share.partition.max.record.locks", 2000, 100, "Records of a partition that may be locked for consumers at one time.",
    ),
    _int(
        "share.record.lock.duration.ms", 30_000, 1000, "How long a delivered record is locked for its consumer.",
    ),
    Setting(
        "share.renew.acknowledge.enable", _BOOLEAN, True,
        doc="Whether a consumer may ask for more time for a record it holds.",
    ),
    _int("share.session.timeout.ms", 45_000, 1, _SESSION),
    _int(
        "streams.acceptable.recovery.lag", 10_000, 0, "Records by which a task may lag behind and still count as caught up.",
        internal=True, type_=_LONG,
    ),
    _int("streams.assignment.interval.ms", 1000, 0, _ASSIGNMENT),
    Setting(
        "streams.assignor.name", _STRING, None, synonyms=("group.streams.assignors",),
        doc="The way tasks are assigned; the broker's first if not set.",
    ),
    _offload("streams"),
    _int("streams.heartbeat.interval.ms", 5000, 1, _HEARTBEAT),
    _int(
        "streams.initial.rebalance.delay.ms", 3000, 0,
        "How long the first assignment of an empty group waits for more members.",
    ),
    _int("streams.num.standby.replicas", 0, 0, "Copies of each task's state that other members keep."),
    _int(
        "streams.num.warmup.replicas", 2, 0, "Copies that may warm up at a time, besides the standby ones.", internal=True,
        effective=False,
    ),
    Setting(
        "streams.rack.aware.assignment.tags", _LIST, (), unique=True, synonyms=("group.streams.rack.aware.assignment.tags",),
        doc="Client tags over which standby copies are spread.",
    ),
    _int("streams.session.timeout.ms", 45_000, 1, _SESSION),
    _int("streams.task.offset.interval.ms", 60_000, 1, "How often members report the offsets of their tasks.", internal=True),
)  # fmt: skip

GROUP_SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in _GROUP}
"""By name; internal ones included."""

_CLIENT_METRICS: Final = (
    Setting("interval.ms", _INT, 300_000, 100, 3_600_000, effective=False, doc="How often clients push their metrics."),
    Setting(
        "match", _LIST, (), unique=True, check=_check_match, effective=False,
        doc="Which clients are asked: `key=pattern` of client_id, client_instance_id, client_software_name, "
        "client_software_version, client_source_address or client_source_port; all must match. Empty is all "
        "clients.",
    ),
    Setting(
        "metrics", _LIST, (), unique=True, effective=False, doc="Prefixes of the metrics wanted; `*` is all, empty is none.",
    ),
)  # fmt: skip

CLIENT_METRICS_SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in _CLIENT_METRICS}
"""By name."""
