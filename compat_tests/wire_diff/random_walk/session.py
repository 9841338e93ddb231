"""The state that one session of a walk knows of one broker, and how it waits for what the broker does after it has answered.

Both brokers have a Session each, which change alike as long as the brokers answer alike. Names carry the session's prefix, so
that sessions do not meet; ids that a broker chose have labels in the wire, by which same.normalise compares them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from compat_tests.wire import Connection, Wire
from ottla.wire.batch import LOG_APPEND_TIME, BatchHeader, iter_batches
from ottla.wire.messages import describe_configs, incremental_alter_configs
from ottla.wire.records import decode_records

TOPIC: Final = 2
SET: Final = 0
DEADLINE_S: Final = 30.0
PAUSE_S: Final = 0.004


def until(condition: Callable[[], Any], what: str) -> None:
    """Ask until the answer is true."""
    deadline = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {DEADLINE_S} s: {what}")
        pause.wait(PAUSE_S)


class Session:
    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.producers: dict[str, tuple[int, int]] = {}
        """Id and epoch of the idempotent and the transactional producers, by role."""
        self.sequences: dict[Any, int] = {}
        """The next sequence, by role, epoch, topic id and partition."""
        self.fetch_sessions: dict[str, tuple[int, int]] = {}
        """Id and next epoch, by role."""
        self.members: dict[str, Any] = {}
        self.waiting: dict[str, tuple[Connection, Any, int]] = {}
        """Members' requests that have no answer yet: connection, API, version."""
        self.seen_producers = 0
        self.changes = 0
        self.probe_made = False

    def name(self, role: str) -> str:
        return self.wire.name(role)

    def topic_id(self, topic: str) -> bytes:
        """Of the topic that there is or was last; one that nobody has where there never was any."""
        return self.wire.topic_ids.get(self.name(topic), b"nobody's topic!!")

    def named(self, topic: str, version: int, ids_from: int) -> dict[str, Any]:
        """The field that names a topic at this version."""
        return {"topic_id": self.topic_id(topic)} if version >= ids_from else {"name": self.name(topic)}

    def call(self, request: Any, version: int) -> Any:
        return self.wire.call(request, version)

    def label_producer(self, producer_id: int) -> int:
        if producer_id >= 0 and ("producer", producer_id) not in self.wire.labels:
            self.seen_producers += 1
            self.wire.labels["producer", producer_id] = f"<producer {self.seen_producers}>"
        return producer_id

    def settle(self) -> None:
        """Return when logs and coordinators know all metadata of before: changes are published in turn, and this one is seen."""
        topic = self.name("settles")
        if not self.changes:
            self.wire.create("settles")
        self.changes += 1
        wanted = str(1_000_000_000 + self.changes)
        setting = incremental_alter_configs.AlterableConfig("retention.ms", SET, wanted)
        resource = incremental_alter_configs.AlterConfigsResource(TOPIC, topic, [setting])
        self.call(incremental_alter_configs.IncrementalAlterConfigsRequest([resource]), 1)
        asked = describe_configs.DescribeConfigsResource(TOPIC, topic, ["retention.ms"])
        request = describe_configs.DescribeConfigsRequest([asked])
        until(lambda: self.call(request, 4).results[0].configs[0].value == wanted, "a changed setting is seen")

    def records(self, data: Any) -> list[Any]:
        """A fetch's records as values: whole batches, for a cut tail is legal and dropped by every client. In place of the bytes,
        because producer ids, and the times of markers and of LogAppendTime batches, are the broker's.
        """
        return [self._batch(header, raw) for header, raw in iter_batches(whole(bytes(data or b"")))]

    def _batch(self, header: BatchHeader, raw: memoryview) -> Any:
        of_broker = header.timestamp_type == LOG_APPEND_TIME or header.attributes & 0x20
        times = [0 if of_broker else each for each in (header.base_timestamp, header.max_timestamp)]
        if header.timestamp_type == LOG_APPEND_TIME:
            times[0] = header.base_timestamp  # the producer's, which stays
        records = [
            (each.offset, 0 if of_broker else each.timestamp_ms, each.key, each.value, each.headers)
            for each in decode_records(raw)
        ]
        producer = {"producer_id": header.producer_id}
        place = (header.base_offset, header.last_offset_delta, header.partition_leader_epoch)
        return place, header.attributes, times, producer, header.producer_epoch, header.base_sequence, records


def whole(records: bytes) -> bytes:
    at = 0
    while len(records) - at >= 12 and (size := int.from_bytes(records[at + 8 : at + 12], "big") + 12) <= len(records) - at:
        at += size
    return records[:at]
