"""A fake internal topic whose high watermark moves when the test says so, and the smallest coordinator over it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ottla.server.base.errors import NotLeaderOrFollower
from ottla.server.base.promise import Promise
from ottla.server.coordination.internal_topic import Appended
from ottla.server.coordination.shard import NO_PRODUCER_ID, CoordinatorShard
from ottla.wire.errors import ErrorCode
from ottla.wire.primitives import Buffer
from ottla.wire.records import Record, build_batch
from tests.server.coordination.memory import CoordinatorClock, CoordinatorLog

WRITE_TIMEOUT_MS = 2_000


class LaggingLog(CoordinatorLog):
    """With `lag` nothing is replicated by itself: `replicate` keeps the oldest promises, and `lose` breaks all of them."""

    def __init__(self, partitions: int = 1, *, lag: bool = True) -> None:
        super().__init__(partitions)
        self.lag = lag
        self.waiting: deque[Promise[None]] = deque()

    def append(self, partition: int, batch: bytes) -> Appended:
        base_offset, _ = super().append(partition, batch)
        if not self.lag:
            return base_offset, None
        self.waiting.append(Promise())
        return base_offset, self.waiting[-1]

    def replicated(self, partition: int) -> Promise[None] | None:
        if not self.waiting:
            return None
        self.waiting.append(Promise())
        return self.waiting[-1]

    def replicate(self, appends: int = 1) -> None:
        for _ in range(appends):
            self.waiting.popleft().set_result(None)

    def replicate_all(self) -> None:
        while self.waiting:
            self.replicate()

    def lose(self, error: Exception | None = None) -> None:
        waiting, self.waiting = self.waiting, deque()
        for promise in waiting:
            promise.set_exception(error or NotLeaderOrFollower("led by another broker"))


class Refused(Exception):
    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class Letters(CoordinatorShard[tuple[str, str]]):
    """Keeps what was written, with offsets and producer ids; a record has a letter as its key and a word as its value."""

    topic = "__letters"
    logger = logging.getLogger("ottla.server.letters")

    def __init__(
        self, partition: int, leader_epoch: int, append: Callable[[bytes], Appended], clock: CoordinatorClock | None = None
    ) -> None:
        super().__init__(partition, leader_epoch, append, clock or CoordinatorClock(), WRITE_TIMEOUT_MS)
        self.seen: list[tuple[Any, ...]] = []
        self.steps = 0

    def put(self, letter: str, word: str = "w") -> None:
        self.write(batch_of((letter, word)), [(letter, word)])

    def decode(self, key: Buffer, value: Buffer | None) -> tuple[str, str] | None:
        letter, word = bytes(key).decode(), bytes(value or b"").decode()
        if letter == "bad":
            raise ValueError("a bad letter")
        return None if letter == "unknown" else (letter, word)

    def replay(self, record: tuple[str, str], offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        self.seen.append((*record, offset, producer_id))

    def refusal(self, code: ErrorCode) -> Refused:
        return Refused(code)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.seen.append((producer_id, committed))

    def loaded(self) -> Iterator[None]:
        for _ in range(self.steps):
            yield


def batch_of(*records: tuple[str, str], **options: Any) -> bytes:
    made = [Record(index, 0, letter.encode(), word.encode(), []) for index, (letter, word) in enumerate(records)]
    return build_batch(made, **options)
