"""A topic that is written and read at the same time: an idempotent producer at a steady rate, and a reader that is assigned all
partitions, both for as long as a test does something to the cluster. In the end each record must have been acknowledged, and
read once and in order.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from itertools import pairwise
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from compat_tests.waiting import wait_for

PATIENCE_S: Final = 120
"""The time that a record may take to be acknowledged, or to be read."""
QUIET: Final = logging.getLogger("traffic.librdkafka")
"""Brokers that are gone for a while are what tests are about."""
QUIET.propagate = False
QUIET.addHandler(logging.NullHandler())  # without any, the last resort would write to stderr
_SLICE_S: Final = 0.02
_MOST_WAITING: Final = 5_000


class Traffic:
    """Goes on while it is entered. `size`: bytes of a record."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, bytes_a_second: int, size: int = 1_000, at_once: int = 0, **config: Any
    ) -> None:
        """`at_once` bytes are written as fast as it goes, and then the rate begins. `config` is the clients', with _ for dots."""
        self.acknowledged: dict[int, dict[int, int]] = defaultdict(dict)
        """By partition: offset -> number of the record."""
        self.read: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """By partition: (offset, number) as they came."""
        self.produced = 0
        self._acknowledged_s: list[list[float]] = [[0.0] for _ in range(partitions)]
        """By partition: when records were acknowledged, in seconds of the monotonic clock."""
        self._config: dict[str, Any] = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200}
        self._config |= {name.replace("_", "."): value for name, value in config.items()}
        self._topic, self._partitions, self._size = topic, partitions, size
        self._records_a_second, self._records_at_once = bytes_a_second / size, at_once // size
        self._stop, self._all_is_written = threading.Event(), threading.Event()
        self._wrong: list[BaseException] = []
        self._threads = [threading.Thread(target=self._guarded, args=(work,)) for work in (self._write, self._consume)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if error is None:
            if self._wrong:
                raise self._wrong[0]
            self.check()

    def wait_for_more(self) -> None:
        """Waits until a record of each partition that is produced from now on was acknowledged."""
        now = time.monotonic()
        wait_for(lambda: min(each[-1] for each in self._acknowledged_s) > now, "every partition takes records", PATIENCE_S)

    def longest_outage_s(self, partition: int, since: float) -> float:
        """Returns for how many seconds nothing was acknowledged in a partition, at most, since a time of the monotonic clock."""
        times = [since, *(each for each in self._acknowledged_s[partition] if each > since)]
        return max((after - before for before, after in pairwise(times)), default=0.0)

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def check(self) -> None:
        """Raises AssertionError unless each record was acknowledged, and read once, in order, at its offset."""
        assert self.count == self.produced, f"{self.produced - self.count} records were not acknowledged"
        for partition in range(self._partitions):
            found = self.read[partition]
            lost = sorted(set(self.acknowledged[partition].items()) - set(found))
            assert not lost, f"partition {partition}: {len(lost)} acknowledged records were not read, the first is {lost[0]}"
            numbers = [number for _, number in found]
            assert numbers == sorted(set(numbers)), f"partition {partition}: records twice or out of order"
        assert sum(map(len, self.read.values())) == self.produced, "more was read than was produced"

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again where the traffic ends
            self._wrong.append(error)
            self._stop.set()
            self._all_is_written.set()

    def _write(self) -> None:
        settings = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": PATIENCE_S * 1000}
        producer = Producer(self._config | settings, logger=QUIET)
        padding = b" " * (self._size - 20)
        began = 0.0
        while not self._stop.is_set():
            if self.produced >= self._records_at_once:
                began = began or time.monotonic()
            due = self._records_at_once + int((time.monotonic() - (began or time.monotonic())) * self._records_a_second)
            while self.produced < due and len(producer) < _MOST_WAITING:
                value = b"%020d" % self.produced + padding
                producer.produce(self._topic, value, partition=self.produced % self._partitions, on_delivery=self._delivered)
                self.produced += 1
            producer.poll(_SLICE_S)
        left = producer.flush(PATIENCE_S)
        assert left == 0, f"{left} records were not acknowledged within {PATIENCE_S} s"
        self._all_is_written.set()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, f"a record was given up: {error}"
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert isinstance(value, bytes)
        self.acknowledged[partition][offset] = int(value[:20])
        self._acknowledged_s[partition].append(time.monotonic())

    def _consume(self) -> None:
        settings = {"group.id": "traffic", "enable.auto.commit": False, "auto.offset.reset": "error"}
        consumer = Consumer(self._config | settings, logger=QUIET)
        consumer.assign([TopicPartition(self._topic, index, 0) for index in range(self._partitions)])
        count, deadline = 0, 0.0
        try:
            while True:
                for message in consumer.consume(1_000, 0.1):
                    error, partition, offset, value = message.error(), message.partition(), message.offset(), message.value()
                    assert error is None or error.retriable() or error.code() < 0, error
                    if error is None:
                        assert partition is not None
                        assert offset is not None
                        assert isinstance(value, bytes)
                        self.read[partition].append((offset, int(value[:20])))
                        count += 1
                if self._all_is_written.is_set():
                    deadline = deadline or time.monotonic() + PATIENCE_S
                    if count >= self.produced or time.monotonic() > deadline:
                        return
        finally:
            consumer.close()
