"""The settings of topics: the table of Kafka 4.4's topic settings, and LogConfig, one topic's values with fast access.

A value comes from the first of these that is there: the topic's own override (a ConfigRecord), the broker's setting of the same
meaning (a synonym: `retention.ms` is `log.retention.ms`, else `log.retention.minutes`, else `log.retention.hours`), the default
below. Broker settings in hours and minutes become milliseconds here, and nowhere else.

Names, types, defaults and bounds are those of Kafka 4.4.0 (tests/log/test_config.py compares them with Kafka's own ConfigDef);
the documentation is ours. `internal.segment.bytes` is Kafka's back door for tests that need segments below 1 MiB: it is accepted,
never shown, and visible in LogConfig only as `segment_bytes`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.log.config_def import INT_MAX, LONG_MAX, ConfigError, ConfigType, Setting, Value
from ottla.wire.compression import MAX_DECOMPRESSED_BYTES

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
MAX_BATCH_BYTES: Final = "ottla.max.decompressed.batch.bytes"
"""The broker's setting, not Kafka's, that every LogConfig has as `max_decompressed_batch_bytes`. Topics do not have it, since
Kafka would refuse to change any setting of a topic that had it."""
MAX_ARRAY_BYTES: Final = INT_MAX - 8  # the longest byte array that every JVM can allocate
_DAY_MS: Final = 86_400_000
_WEEK_MS: Final = 7 * _DAY_MS
_REPLICA: Final = re.compile(r"\d+:\d+", re.ASCII)
_UNIT_MS: Final = {"hours": 3_600_000, "minutes": 60_000}  # by the last part of a broker setting's name


def check_gzip_level(value: Value) -> str | None:
    """Returns why the value is not a gzip level, None if it is one: 1 to 9, or -1 for the library's own choice."""
    return None if value == -1 or value in range(1, 10) else "is not a gzip level; use 1 to 9, or -1"


def _throttled(name: str, doc: str) -> Setting:
    def check(value: Value) -> str | None:
        # Like Kafka, this accepts a trailing comma.
        if not value or value == ("*",) or (isinstance(value, tuple) and _REPLICA.fullmatch(value[0]) and _all_replicas(value)):
            return None
        return "is neither * nor a list of partition:broker pairs such as 0:1,1:2"

    return Setting(name, _LIST, (), check=check, doc=doc)


def _all_replicas(words: Iterable[str]) -> bool:
    *front, last = words
    return all(_REPLICA.fullmatch(word) for word in front) and (not last or _REPLICA.fullmatch(last) is not None)


_TABLE: Final = (
    Setting(
        "cleanup.policy", _LIST, ("delete",), choices=CLEANUP_POLICIES, unique=True, synonyms=("log.cleanup.policy",),
        doc="What happens to old segments: `delete` removes them by time and size; `compact` requires a key in every record and "
        "keeps the last record of every key. Both may be given, and an empty list keeps everything.",
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
        doc="The codec that batches are stored with. `producer` stores them as they were sent, which costs nothing; with any "
        "other value the broker recompresses what arrives in another codec.",
    ),
    Setting(
        "compression.zstd.level", _INT, 3, -131072, 22, synonyms=("compression.zstd.level",),
        doc="Level for batches that the broker compresses with zstd: negative is fastest, 22 is small.",
    ),
    Setting(
        "delete.retention.ms", _LONG, _DAY_MS, 0, synonyms=("log.cleaner.delete.retention.ms",),
        doc="How long a compacted topic keeps the tombstones of deleted keys, and the markers of transactions. A "
        "consumer that reads from the start must reach the end within this time to see every deletion.",
    ),
    Setting(
        "errors.deadletterqueue.group.enable", _BOOLEAN, False,
        doc="Whether share groups may use this topic as their dead letter queue.",
    ),
    Setting(
        "file.delete.delay.ms", _LONG, 60_000, 0, synonyms=("log.segment.delete.delay.ms",),
        doc="How long the file of a removed segment stays on disk, under another name, for reads that are still under way.",
    ),
    Setting(
        "flush.messages", _LONG, LONG_MAX, 1, synonyms=("log.flush.interval.messages",),
        doc="After how many records the log is forced to disk; 1 means after every append. The default leaves it to the "
        "operating system.",
    ),
    Setting(
        "flush.ms", _LONG, LONG_MAX, 0, synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        doc="How old the oldest record that is not forced to disk may be before the log is. The default leaves it to the "
        "operating system.",
    ),
    _throttled(
        "follower.replication.throttled.replicas",
        doc="Replicas whose fetching counts against the follower's replication quota, as partition:broker pairs, or "
        "`*` for all.",
    ),
    Setting(
        "index.interval.bytes", _INT, 4096, 0, synonyms=("log.index.interval.bytes",),
        doc="Bytes of log between two entries of the offset index. A smaller value means less scanning to find a record, and "
        "a larger index.",
    ),
    _throttled(
        "leader.replication.throttled.replicas",
        doc="Replicas whose reads count against the leader's replication quota, as partition:broker pairs, or `*` for "
        "all.",
    ),
    Setting(
        "local.retention.bytes", _LONG, -2, -2, synonyms=("log.local.retention.bytes",), effective=False,
        doc="With tiered storage, the size up to which a partition keeps segments on the local disk; -2 takes the value of "
        "`retention.bytes`.",
    ),
    Setting(
        "local.retention.ms", _LONG, -2, -2, synonyms=("log.local.retention.ms",), effective=False,
        doc="With tiered storage, how long a partition keeps segments on the local disk; -2 takes the value of "
        "`retention.ms`.",
    ),
    Setting(
        "max.compaction.lag.ms", _LONG, LONG_MAX, 1, synonyms=("log.cleaner.max.compaction.lag.ms",),
        doc="The longest time that a record may wait for compaction: on a compacted topic the active segment rolls at this age, "
        "and a segment that is older is compacted however little of it is dirty.",
    ),
    Setting(
        "max.decompressed.message.bytes", _INT, MAX_ARRAY_BYTES, 1, MAX_ARRAY_BYTES,
        synonyms=("max.decompressed.message.bytes",),
        doc="The size of the largest record that is accepted in a compressed batch, in bytes, once it is decompressed. "
        "`ottla.max.decompressed.batch.bytes` bounds all records of a batch together.",
    ),
    Setting(
        "max.message.bytes", _INT, 1_048_588, 0, synonyms=("message.max.bytes",),
        doc="The size of the largest batch that is accepted, in bytes, as it is stored: after compression, and with its header "
        "of 61 bytes.",
    ),
    Setting(
        "message.timestamp.after.max.ms", _LONG, 3_600_000, 0, synonyms=("log.message.timestamp.after.max.ms",),
        doc="How far a record's timestamp may lie ahead of the broker's clock. This is not checked when the broker sets the "
        "timestamps (LogAppendTime).",
    ),
    Setting(
        "message.timestamp.before.max.ms", _LONG, LONG_MAX, 0, synonyms=("log.message.timestamp.before.max.ms",),
        doc="How far a record's timestamp may lie behind the broker's clock. This is not checked when the broker sets the "
        "timestamps (LogAppendTime).",
    ),
    Setting(
        "message.timestamp.type", _STRING, "CreateTime", choices=TIMESTAMP_TYPES, synonyms=("log.message.timestamp.type",),
        doc="Which time a record carries: the producer's (CreateTime) or that of its arrival at the broker (LogAppendTime).",
    ),
    Setting(
        "min.cleanable.dirty.ratio", _DOUBLE, 0.5, 0, 1, synonyms=("log.cleaner.min.cleanable.ratio",),
        doc="The share of a compacted log that must be new since the last compaction before the next one starts, "
        "which is about the share of the bytes that duplicates may take.",
    ),
    Setting(
        "min.compaction.lag.ms", _LONG, 0, 0, synonyms=("log.cleaner.min.compaction.lag.ms",),
        doc="How long every record stays in the log before compaction may remove it.",
    ),
    Setting(
        "min.insync.replicas", _INT, 1, 1, synonyms=("min.insync.replicas",),
        doc="How many replicas must hold a record before a produce request with acks=all succeeds; with fewer replicas in sync "
        "the request is refused.",
    ),
    Setting(
        "preallocate", _BOOLEAN, False, synonyms=("log.preallocate",),
        doc="Whether the file of a new segment has its full size at once, filled with zeros; what is left over is cut off when "
        "the segment ends or the broker stops.",
    ),
    Setting(
        "remote.copy.lag.bytes", _LONG, -1, -1, synonyms=("log.remote.copy.lag.bytes",), effective=False,
        doc="With tiered storage, how many bytes may gather on the local disk before they are copied; -1 takes the value of "
        "`local.retention.bytes`.",
    ),
    Setting(
        "remote.copy.lag.ms", _LONG, 0, -1, synonyms=("log.remote.copy.lag.ms",), effective=False,
        doc="With tiered storage, how long a closed segment may wait before it is copied; -1 takes the value of "
        "`local.retention.ms`.",
    ),
    Setting(
        "remote.log.copy.disable", _BOOLEAN, False, effective=False,
        doc="With tiered storage, whether copying is stopped: what is remote stays readable, and nothing is added.",
    ),
    Setting(
        "remote.log.delete.on.disable", _BOOLEAN, False, effective=False,
        doc="With tiered storage, whether turning `remote.storage.enable` off deletes what is remote.",
    ),
    Setting(
        "remote.storage.enable", _BOOLEAN, False, effective=False,
        doc="Whether segments are also kept in tiered storage. `true` is refused, because ottla has no tiered storage.",
    ),
    Setting(
        "retention.bytes", _LONG, -1, synonyms=("log.retention.bytes",),
        doc="The size up to which a partition grows before its oldest segments are deleted; a negative value means no limit.",
    ),
    Setting(
        "retention.ms", _LONG, _WEEK_MS, -1, synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        doc="How long records are kept: a segment is deleted when its newest record is older than this. -1 keeps them for ever.",
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
        doc="The most that is subtracted from `segment.ms` at random, so that partitions do not all roll at once.",
    ),
    Setting(
        "segment.ms", _LONG, _WEEK_MS, 1, synonyms=("log.roll.ms", "log.roll.hours"),
        doc="The age at which a new segment begins even if the current one is not full, so that retention can delete old "
        "records.",
    ),
    Setting(
        "unclean.leader.election.enable", _BOOLEAN, False, synonyms=("unclean.leader.election.enable",), effective=False,
        doc="Whether a replica that is not in sync may become leader when no other can, which gains availability at the price "
        "of lost records.",
    ),
    Setting(
        "internal.segment.bytes", _INT, None, internal=True, doc="A segment size below the bounds of `segment.bytes`, for tests.",
    ),
)  # fmt: skip

TOPIC_SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in _TABLE}
"""All topic settings by name, `internal.segment.bytes` included."""

_FIELDS: Final = tuple((s.name.replace(".", "_").replace("-", "_"), s) for s in _TABLE if not s.internal)


@dataclass(slots=True)
class LogConfig:
    """Holds the settings of one topic. The names are Kafka's, with underscores for dots; units are in the names."""

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
    max_decompressed_batch_bytes: int
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

    @property
    def decompression_bounds(self) -> tuple[int, int]:
        """The most bytes to which a compressed batch may decompress, and a record of it."""
        return self.max_decompressed_batch_bytes, self.max_decompressed_message_bytes

    @property
    def roll_after_ms(self) -> int:
        """The age at which a segment is rolled, without jitter: `segment.ms`, or less in a compacted topic, whose records have to
        leave the active segment before `max.compaction.lag.ms` is over.
        """
        if "compact" in self.cleanup_policy and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    def random_segment_jitter_ms(self, random: Random) -> int:
        """Draws how much earlier than `segment.ms` the next segment rolls, so that partitions do not all roll at once: between 0
        and `segment.jitter.ms`, below `segment.ms`.
        """
        bound = min(self.segment_jitter_ms, self.segment_ms)
        return random.randrange(bound) if bound > 0 else 0

    @classmethod
    def from_overrides(cls, overrides: Mapping[str, str], broker: Mapping[str, object] | None = None) -> LogConfig:
        """Returns the settings of a topic with these overrides (as text), on a broker with these settings (parsed, by name; None
        stands for the defaults).

        Raises InvalidSetting for a bad value. Unknown names are ignored, because a directory may come from a newer Kafka.
        """
        values: dict[str, Any] = {}
        for field, setting in _FIELDS:
            text = overrides.get(setting.name)
            values[field] = inherited(setting, broker) if text is None else setting.parse(text)
        values["cleanup_policy"] = frozenset(values["cleanup_policy"])
        values["max_decompressed_batch_bytes"] = (broker or {}).get(MAX_BATCH_BYTES, MAX_DECOMPRESSED_BYTES)
        small = overrides.get("internal.segment.bytes")
        if small is not None:
            values["segment_bytes"] = TOPIC_SETTINGS["internal.segment.bytes"].parse(small)
        return cls(**values)


def parseable(topic: str, overrides: Mapping[str, str]) -> Mapping[str, str]:
    """Returns `overrides` without the texts that do not parse. Those were written by a version with other bounds (segments below
    1 MiB were allowed before Kafka 4.0), and ignoring them, with a warning in the log, lets the broker start all the same."""
    result = dict(overrides)
    for name, text in overrides.items():
        try:
            if name in TOPIC_SETTINGS:
                TOPIC_SETTINGS[name].parse(text)
        except ConfigError as error:
            _log.warning("topic %s: a setting is ignored: %s", topic, error)
            del result[name]
    return result


def inherited(setting: Setting, broker: Mapping[str, object] | None) -> Value:
    """Returns the value of a topic setting that the topic does not override: that of the first synonym that is set, in the
    topic's unit."""
    for name in setting.synonyms if broker is not None else ():
        value = broker.get(name) if broker is not None else None
        if value is not None:
            return in_topic_unit(name, value)
    return setting.default


def in_topic_unit(broker_name: str, value: Any) -> Value:
    """Converts a broker setting's value to the unit of its topic setting: hours and minutes to milliseconds, a negative time to
    -1."""
    unit_ms = _UNIT_MS.get(broker_name.rpartition(".")[2])
    if unit_ms is not None:
        value = int(value) * unit_ms
    if broker_name.startswith("log.retention.") and broker_name != "log.retention.bytes":
        value = max(value, -1)
    result: Value = value
    return result


def validate_overrides(overrides: Mapping[str, str], broker: Mapping[str, object] | None = None) -> LogConfig:
    """Checks a topic's overrides as CreateTopics and IncrementalAlterConfigs do: names, values, and values against each other.

    Returns the topic's settings. Raises ConfigError; an unknown name is reported before anything else.
    """
    for name in overrides:
        if name not in TOPIC_SETTINGS:
            raise ConfigError(f"{name}: topics do not have this setting; check the spelling")
    config = LogConfig.from_overrides(overrides, broker)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigError(
            f"min.compaction.lag.ms: {config.min_compaction_lag_ms} is above max.compaction.lag.ms, "
            f"{config.max_compaction_lag_ms}; lower the first or raise the second"
        )
    if config.remote_storage_enable:
        raise ConfigError("remote.storage.enable: this broker has no tiered storage; leave this setting false")
    return config
