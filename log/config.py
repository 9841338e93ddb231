"""What a topic can be told: the table of Kafka 4.4's topic settings, and LogConfig, one topic's values with fast access.

A value comes from the first of: the topic's own override (a ConfigRecord), the broker's setting of the same meaning (a
synonym: `retention.ms` is `log.retention.ms`, else `log.retention.minutes`, else `log.retention.hours`), the default below.
Broker settings in hours and minutes become milliseconds here, and nowhere else.

Names, types, defaults and bounds are those of Kafka 4.4.0 (tests/log/test_config.py compares them with Kafka's own ConfigDef);
the documentation is ours. `internal.segment.bytes` is Kafka's back door for tests that need segments below 1 MiB: accepted,
never shown, and visible in LogConfig only as `segment_bytes`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.log.config_def import INT_MAX, LONG_MAX, ConfigError, ConfigType, Setting, Value

if TYPE_CHECKING:
    from random import Random

_log = logging.getLogger("ottla.log.config")

_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)
COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
CLEANUP_POLICIES: Final = ("compact", "delete")
MAX_ARRAY_BYTES: Final = INT_MAX - 8  # the longest byte array that every JVM can make
_DAY_MS: Final = 86_400_000
_WEEK_MS: Final = 7 * _DAY_MS
_REPLICA: Final = re.compile(r"\d+:\d+", re.ASCII)
_UNIT_MS: Final = {"hours": 3_600_000, "minutes": 60_000}  # by the last part of a broker setting's name


def check_gzip_level(value: Value) -> str | None:
    """1 to 9, or -1 for the library's own choice; 0 would be no compression."""
    return None if value == -1 or value in range(1, 10) else "is no level of gzip; use 1 to 9, or -1"


def _throttled(name: str, doc: str) -> Setting:
    def check(value: Value) -> str | None:
        # A trailing comma is forgiven, as Kafka does.
        if not value or value == ("*",) or (isinstance(value, tuple) and _REPLICA.fullmatch(value[0]) and _all_replicas(value)):
            return None
        return "is neither * nor a list of partition:broker pairs such as 0:1,1:2"

    return Setting(name, _LIST, (), check=check, doc=doc, effective=False)


def _all_replicas(words: Iterable[str]) -> bool:
    *front, last = words
    return all(_REPLICA.fullmatch(word) for word in front) and (not last or _REPLICA.fullmatch(last) is not None)


_TABLE: Final = (
    Setting(
        "cleanup.policy", _LIST, ("delete",), choices=CLEANUP_POLICIES, unique=True, synonyms=("log.cleanup.policy",),
        doc="What happens to old segments: `delete` drops them by time and size; `compact` wants a key in every record and "
        "keeps the last record of every key; both do both, and an empty list keeps everything.",
    ),
    Setting(
        "compression.gzip.level", _INT, -1, check=check_gzip_level, synonyms=("compression.gzip.level",),
        doc="Level for batches that the broker compresses with gzip: 1 is fast, 9 is small, -1 leaves it to the "
        "library.",
    ),
    Setting(
        "compression.lz4.level", _INT, 9, 1, 17, synonyms=("compression.lz4.level",),
        doc="Level for batches that the broker compresses with lz4: 1 is fast, 17 is small.",
    ),
    Setting(
        "compression.type", _STRING, "producer", choices=COMPRESSION_TYPES, synonyms=("compression.type",),
        doc="The codec batches are stored with. `producer` stores them as they were sent, which costs nothing; any "
        "other value has the broker compress anew what arrives in another codec.",
    ),
    Setting(
        "compression.zstd.level", _INT, 3, -131072, 22, synonyms=("compression.zstd.level",),
        doc="Level for batches that the broker compresses with zstd: negative is fastest, 22 is small.",
    ),
    Setting(
        "delete.retention.ms", _LONG, _DAY_MS, 0, synonyms=("log.cleaner.delete.retention.ms",),
        doc="How long a compacted topic keeps the tombstone of a deleted key, and the markers of transactions. A "
        "consumer that reads from the start must get through within this time to see every deletion.",
    ),
    Setting(
        "errors.deadletterqueue.group.enable", _BOOLEAN, False,
        doc="Whether share groups may use this topic as their dead letter queue.",
    ),
    Setting(
        "file.delete.delay.ms", _LONG, 60_000, 0, synonyms=("log.segment.delete.delay.ms",),
        doc="How long the file of a removed segment stays on disk, renamed, for reads still under way.",
    ),
    Setting(
        "flush.messages", _LONG, LONG_MAX, 1, synonyms=("log.flush.interval.messages",),
        doc="Force the log to disk after this many records; 1 is after every append. The default leaves it to the "
        "operating system.",
    ),
    Setting(
        "flush.ms", _LONG, LONG_MAX, 0, synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        doc="Force the log to disk when its oldest unforced record is this old. The default leaves it to the "
        "operating system.",
    ),
    _throttled(
        "follower.replication.throttled.replicas",
        doc="Replicas whose fetching counts against the follower's replication quota, as partition:broker pairs, or "
        "`*` for all.",
    ),
    Setting(
        "index.interval.bytes", _INT, 4096, 0, synonyms=("log.index.interval.bytes",),
        doc="Bytes of log between two entries of the offset index: smaller finds records with less scanning, and "
        "makes a larger index.",
    ),
    _throttled(
        "leader.replication.throttled.replicas",
        doc="Replicas whose reads count against the leader's replication quota, as partition:broker pairs, or `*` for "
        "all.",
    ),
    Setting(
        "local.retention.bytes", _LONG, -2, -2, synonyms=("log.local.retention.bytes",), effective=False,
        doc="With tiered storage, the size up to which a partition keeps segments on its own disk; -2 takes "
        "`retention.bytes`.",
    ),
    Setting(
        "local.retention.ms", _LONG, -2, -2, synonyms=("log.local.retention.ms",), effective=False,
        doc="With tiered storage, the time for which a partition keeps segments on its own disk; -2 takes "
        "`retention.ms`.",
    ),
    Setting(
        "max.compaction.lag.ms", _LONG, LONG_MAX, 1, synonyms=("log.cleaner.max.compaction.lag.ms",),
        doc="The longest time a record may wait for compaction: on a compacted topic the active segment rolls at this age "
        "and a segment that is older is compacted, however little is dirty.",
    ),
    Setting(
        "max.decompressed.message.bytes", _INT, MAX_ARRAY_BYTES, 1, MAX_ARRAY_BYTES,
        synonyms=("max.decompressed.message.bytes",),
        doc="The most bytes a single compressed batch may become when the broker unpacks it to check it; a larger one "
        "is refused.",
    ),
    Setting(
        "max.message.bytes", _INT, 1_048_588, 0, synonyms=("message.max.bytes",),
        doc="The largest batch accepted, as it is stored: after compression, with its header of 61 bytes and its "
        "length of 12.",
    ),
    Setting(
        "message.timestamp.after.max.ms", _LONG, 3_600_000, 0, synonyms=("log.message.timestamp.after.max.ms",),
        doc="How far a record's timestamp may lie ahead of the broker's clock. Not looked at when the broker stamps "
        "(LogAppendTime).",
    ),
    Setting(
        "message.timestamp.before.max.ms", _LONG, LONG_MAX, 0, synonyms=("log.message.timestamp.before.max.ms",),
        doc="How far a record's timestamp may lie behind the broker's clock. Not looked at when the broker stamps "
        "(LogAppendTime).",
    ),
    Setting(
        "message.timestamp.type", _STRING, "CreateTime", choices=TIMESTAMP_TYPES, synonyms=("log.message.timestamp.type",),
        doc="Whose time a record carries: the producer's (CreateTime) or that of its arrival (LogAppendTime).",
    ),
    Setting(
        "min.cleanable.dirty.ratio", _DOUBLE, 0.5, 0, 1, synonyms=("log.cleaner.min.cleanable.ratio",),
        doc="The share of a compacted log that must be new since the last compaction before the next one starts: "
        "about the share of bytes that duplicates may take.",
    ),
    Setting(
        "min.compaction.lag.ms", _LONG, 0, 0, synonyms=("log.cleaner.min.compaction.lag.ms",),
        doc="How long every record stays in the log before compaction may remove it.",
    ),
    Setting(
        "min.insync.replicas", _INT, 1, 1, synonyms=("min.insync.replicas",), effective=False,
        doc="Replicas that must hold a record before a produce request with acks=all succeeds; with fewer in sync it "
        "is refused.",
    ),
    Setting(
        "preallocate", _BOOLEAN, False, synonyms=("log.preallocate",),
        doc="Whether a new segment's file has its full size at once, in zeros; what is left over is cut off when the segment "
        "ends or the broker stops.",
    ),
    Setting(
        "remote.copy.lag.bytes", _LONG, -1, -1, synonyms=("log.remote.copy.lag.bytes",), effective=False,
        doc="With tiered storage, the bytes that may gather on local disk before they are copied; -1 takes "
        "`local.retention.bytes`.",
    ),
    Setting(
        "remote.copy.lag.ms", _LONG, 0, -1, synonyms=("log.remote.copy.lag.ms",), effective=False,
        doc="With tiered storage, how long a closed segment may wait before it is copied; -1 takes "
        "`local.retention.ms`.",
    ),
    Setting(
        "remote.log.copy.disable", _BOOLEAN, False, effective=False,
        doc="With tiered storage, stops copying: what is remote stays readable, and nothing is added.",
    ),
    Setting(
        "remote.log.delete.on.disable", _BOOLEAN, False, effective=False,
        doc="With tiered storage, whether turning `remote.storage.enable` off deletes what is remote.",
    ),
    Setting(
        "remote.storage.enable", _BOOLEAN, False, effective=False,
        doc="Whether segments are also kept in tiered storage. Refused, as a broker without tiered storage does.",
    ),
    Setting(
        "retention.bytes", _LONG, -1, synonyms=("log.retention.bytes",),
        doc="The size up to which a partition grows before its oldest segments are dropped; negative is no limit.",
    ),
    Setting(
        "retention.ms", _LONG, _WEEK_MS, -1, synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        doc="How long records are kept: a segment goes when its newest record is older than this. -1 is for ever.",
    ),
    Setting(
        "segment.bytes", _INT, 1 << 30, 1 << 20, synonyms=("log.segment.bytes",),
        doc="The size at which the next segment begins. Retention and compaction work on whole segments.",
    ),
    Setting(
        "segment.index.bytes", _INT, 10 << 20, 4, synonyms=("log.index.size.max.bytes",),
        doc="The size of a segment's offset index at which the next segment begins.",
    ),
    Setting(
        "segment.jitter.ms", _LONG, 0, 0, synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
        doc="Up to this much is taken off `segment.ms` at random, so that partitions do not all roll at once.",
    ),
    Setting(
        "segment.ms", _LONG, _WEEK_MS, 1, synonyms=("log.roll.ms", "log.roll.hours"),
        doc="The age at which the next segment begins although this one is not full, so that retention gets at old "
        "records.",
    ),
    Setting(
        "unclean.leader.election.enable", _BOOLEAN, False, synonyms=("unclean.leader.election.enable",), effective=False,
        doc="Whether a replica that is not in sync may become leader when no other can: availability at the price of "
        "lost records.",
    ),
    Setting(
        "internal.segment.bytes", _INT, None, internal=True, doc="A segment size below the bounds of `segment.bytes`, for tests.",
    ),
)  # fmt: skip

TOPIC_SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in _TABLE}
"""By name; `internal.segment.bytes` included."""

_FIELDS: Final = tuple((s.name.replace(".", "_").replace("-", "_"), s) for s in _TABLE if not s.internal)


@dataclass(slots=True)
class LogConfig:
    """A topic's settings. Names carry Kafka's dots as underscores; units are in the names."""

    cleanup_policy: frozenset[str]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    errors_deadletterqueue_group_enable: bool
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_decompressed_message_bytes: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_copy_lag_bytes: int
    remote_copy_lag_ms: int
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    def random_segment_jitter_ms(self, random: Random) -> int:
        """Draws how much earlier than `segment.ms` the next segment rolls, so that partitions do not all roll at once: between 0
        and `segment.jitter.ms`, below `segment.ms`.
        """
        bound = min(self.segment_jitter_ms, self.segment_ms)
        return random.randrange(bound) if bound > 0 else 0

    @classmethod
    def from_overrides(cls, overrides: Mapping[str, str], broker: Mapping[str, object] | None = None) -> LogConfig:
        """From a topic's overrides (as text) and the broker's settings (parsed, by name; None has the defaults).

        Raises InvalidSetting for a bad value. Names it does not know are left alone: a directory may come from a newer Kafka.
        """
        values: dict[str, Any] = {}
        for field, setting in _FIELDS:
            text = overrides.get(setting.name)
            values[field] = inherited(setting, broker) if text is None else setting.parse(text)
        values["cleanup_policy"] = frozenset(values["cleanup_policy"])
        small = overrides.get("internal.segment.bytes")
        if small is not None:
            values["segment_bytes"] = TOPIC_SETTINGS["internal.segment.bytes"].parse(small)
        return cls(**values)


def legible(topic: str, overrides: Mapping[str, str]) -> Mapping[str, str]:
    """`overrides` without the texts that do not parse: they were written where other bounds held, as segments below 1 MiB were
    allowed before Kafka 4.0. They count as not there, so that one topic keeps no broker from starting; the log says so."""
    result = dict(overrides)
    for name, text in overrides.items():
        try:
            if name in TOPIC_SETTINGS:
                TOPIC_SETTINGS[name].parse(text)
        except ConfigError as error:
            _log.warning("topic %s: setting ignored: %s", topic, error)
            del result[name]
    return result


def inherited(setting: Setting, broker: Mapping[str, object] | None) -> Value:
    """A topic setting's value where the topic has none of its own: the first synonym that is set, in the topic's unit."""
    for name in setting.synonyms if broker is not None else ():
        value = broker.get(name) if broker is not None else None
        if value is not None:
            return in_topic_unit(name, value)
    return setting.default


def in_topic_unit(broker_name: str, value: Any) -> Value:
    """A broker setting's value as its topic setting has it: hours and minutes in milliseconds, a negative time as -1."""
    unit_ms = _UNIT_MS.get(broker_name.rpartition(".")[2])
    if unit_ms is not None:
        value = int(value) * unit_ms
    if broker_name.startswith("log.retention.") and broker_name != "log.retention.bytes":
        value = max(value, -1)
    result: Value = value
    return result


def validate_overrides(overrides: Mapping[str, str], broker: Mapping[str, object] | None = None) -> LogConfig:
    """What CreateTopics and IncrementalAlterConfigs check: names, values, and values against each other.

    Returns the topic's settings. Raises ConfigError; unknown names come first.
    """
    for name in overrides:
        if name not in TOPIC_SETTINGS:
            unknown = f"Unknown topic config name: {name}"
            raise ConfigError(f"{name}: topics have no such setting; check the spelling", unknown)
    config = LogConfig.from_overrides(overrides, broker)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigError(
            f"min.compaction.lag.ms: {config.min_compaction_lag_ms} is above max.compaction.lag.ms, "
            f"{config.max_compaction_lag_ms}; lower it or raise that"
        )
    if config.remote_storage_enable:
        raise ConfigError("remote.storage.enable: this broker has no tiered storage; leave it false")
    return config
