"""A transaction coordinator over a log in memory, with partitions that accept markers or refuse them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from ottla.server.txn.coordinator import Producer, TransactionCoordinator, TransactionSettings
from ottla.server.txn.errors import TransactionError
from ottla.server.txn.shard import Marker
from ottla.server.txn.state import Transaction
from ottla.wire.errors import ErrorCode
from tests.server.coordination.memory import CoordinatorClock, CoordinatorLog

TID = "transfer"


class TransactionLog(CoordinatorLog):
    """The partitions of `__transaction_state` in memory."""


class Driver:
    """Partitions that take markers. `answers` has a partition's answers to its next markers; `markers` are those that were
    written.
    """

    def __init__(
        self, log: TransactionLog | None = None, clock: CoordinatorClock | None = None, version: int = 2, **settings: int
    ) -> None:
        self.log = log or TransactionLog()
        self.clock = clock or CoordinatorClock()
        self.version = version
        self.markers: list[tuple[str, int, Marker]] = []
        self.answers: dict[tuple[str, int], ErrorCode] = {}
        self.on_new_id: Callable[[], object] = lambda: None
        self._ids = itertools.count(1000)
        self.coordinator = TransactionCoordinator(
            self.log,
            self.clock,
            TransactionSettings(**settings),
            next_producer_id=self._next_id,
            transaction_version=lambda: self.version,
            write_marker=self._write_marker,
        )

    async def _next_id(self) -> int:
        await asyncio.sleep(0)
        self.on_new_id()
        return next(self._ids)

    def _write_marker(self, topic: str, partition: int, marker: Marker) -> ErrorCode:
        code = self.answers.get((topic, partition), ErrorCode.NONE)
        if code is ErrorCode.NONE:
            self.markers.append((topic, partition, marker))
        return code

    def restarted(self, **changes: Any) -> Driver:
        """Returns another coordinator over the same log."""
        driver = Driver(self.log, self.clock, self.version, **changes)
        driver.answers = self.answers
        driver.coordinator.refresh()
        return driver

    def now(self, transactional_id: str = TID) -> Transaction:
        found = self.coordinator.find(transactional_id)
        assert found is not None
        return found

    async def init(self, expected: Any = None, *, timeout_ms: int = 60_000, transactional_id: str = TID) -> Producer:
        return await self.coordinator.init_producer_id(transactional_id, timeout_ms, expected)

    def add(self, producer: Producer, *partitions: tuple[str, int]) -> None:
        self.coordinator.add_partitions(TID, *producer, partitions or (("t", 0),), client_version=min(self.version, 2))

    async def end(self, producer: Producer, *, commit: bool, version: int | None = None) -> Producer:
        ended = self.coordinator.end(TID, *producer, commit=commit, version=self.version if version is None else version)
        return ended if isinstance(ended, Producer) else await ended


def code_of(error: BaseException) -> ErrorCode:
    assert isinstance(error, TransactionError)
    return error.code
