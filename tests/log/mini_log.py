"""The smallest log that validation and producer state can serve: a list of bytes. Answers in the words of KafkaLogOracle.java."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.log import errors
from ottla.log.epochs import LeaderEpochs
from ottla.log.producers import ProducerStates
from ottla.log.validate import BatchRules, validate_for_append

ERROR_NAMES = {
    errors.CorruptRecord: "CORRUPT_MESSAGE",
    errors.InvalidRecord: "INVALID_RECORD",
    errors.NotABatch: "CORRUPT_MESSAGE",
    errors.NotOneBatch: "INVALID_RECORD",
    errors.InvalidTimestamp: "INVALID_TIMESTAMP",
    errors.RecordTooLarge: "MESSAGE_TOO_LARGE",
    errors.RecordListTooLarge: "RECORD_LIST_TOO_LARGE",
    errors.UnsupportedCompression: "UNSUPPORTED_COMPRESSION_TYPE",
    errors.OutOfOrderSequence: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    errors.InvalidProducerEpoch: "INVALID_PRODUCER_EPOCH",
    errors.InvalidTransactionState: "INVALID_TXN_STATE",
}


@dataclass(slots=True)
class TopicSettings:
    """Kafka's defaults of the settings that validation reads."""

    max_message_bytes: int = 1048588
    segment_bytes: int = 1 << 30
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = 2**63 - 1
    message_timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    max_decompressed_message_bytes: int = 2**31 - 9
    max_decompressed_batch_bytes: int = 64 * 1024 * 1024

    @classmethod
    def from_texts(cls, texts: dict[str, str]) -> TopicSettings:
        """From the names and values that Kafka takes."""
        settings = cls()
        for name, text in texts.items():
            field = name.replace(".", "_")
            default = getattr(settings, field)
            setattr(settings, field, frozenset(text.split(",")) if isinstance(default, frozenset) else type(default)(text))
        return settings


class MiniLog:
    def __init__(self, settings: TopicSettings) -> None:
        self.settings = settings
        self.written = bytearray()
        self.end_offset = 0
        self.producers = ProducerStates()
        self.epochs = LeaderEpochs()

    def append(self, now_ms: int, produce_version: int, leader_epoch: int, batch: bytes) -> str:
        try:
            valid = validate_for_append(memoryview(batch), BatchRules(self.settings), now_ms, zstd_allowed=produce_version >= 7)
            duplicate = self.producers.check(valid.header)
        except errors.LogError as refused:
            indexes = (str(index) for index, _ in getattr(refused, "record_errors", ()))
            return " ".join(("error", ERROR_NAMES[type(refused)], *indexes))
        if duplicate:
            return f"ok {duplicate.first_offset} {duplicate.last_offset} {duplicate.timestamp_ms}"
        first = self.end_offset
        for part in valid.parts(first, leader_epoch):
            self.written += part
        self.producers.update(valid.header, first)
        self.epochs.assign(leader_epoch, first)
        self.end_offset = self.producers.end_offset
        return f"ok {first} {self.end_offset - 1} {valid.log_append_time_ms}"

    def files(self) -> dict[str, bytes]:
        files = {
            f"{0:020}.log": bytes(self.written),
            "leader-epoch-checkpoint": self.epochs.encoded(),
        }
        if self.end_offset:
            files[f"{self.end_offset:020}.snapshot"] = self.producers.snapshot_bytes()
        return files
