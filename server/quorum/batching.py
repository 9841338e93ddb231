"""`PartitionBatches`: requests to the controllers, each about all partitions that gathered while the last one was under way.

The newest of each partition counts, and one request at a time goes out, with a bounded number of partitions. A request that did
not arrive, or was refused as a whole, is sent again until it is answered, and so is what an answer leaves out. A bug that ends a
request is logged and delays what it was about, but never loses it.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from ottla.server.base.clock import sleep
from ottla.server.quorum.channel import ControllerUnreachable
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.quorum.channel import Channel
    from ottla.wire.primitives import WireStruct

REMIND_SECONDS: Final = 30.0
"""The time between two lines of the log that say that requests go on failing."""

logger = logging.getLogger("ottla.server.quorum")

V = TypeVar("V")
Name = tuple[bytes, int]
"""A partition, by its topic's id and its index."""


class PartitionBatches(ABC, Generic[V]):
    """Gathers a value of each partition and sends them; see the module's docstring. `node_id` and `broker_epoch` say who asks, an
    answer may take `timeout_ms`, and `spawn` runs a coroutine whose end nobody waits for."""

    max_partitions: ClassVar[int]
    """The most partitions that one request names."""
    retry_seconds: ClassVar[float]
    """The pause after a request that failed, whole or in part."""
    min_version: ClassVar[int] = 0
    """The lowest version of the request that can say what it has to."""
    subject: ClassVar[str]
    """The subject of a request, for the log: the words before "of 3 partitions must wait"."""

    def __init__(
        self,
        node_id: int,
        channel: Channel,
        clock: Clock,
        broker_epoch: Callable[[], int],
        timeout_ms: int,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._node_id = node_id
        self._channel = channel
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._timeout_ms = timeout_ms
        self._spawn = spawn
        self._waiting: dict[Name, V] = {}
        self._is_sending = False
        self._failure = ""
        """The reason why the last request failed; empty if it was answered."""
        self._remind_at = 0.0
        """The time at which the same failure is logged again."""

    @abstractmethod
    def request(self, broker_epoch: int, batch: Mapping[Name, V]) -> WireStruct:
        """Returns the request about a batch, whose answer must have an error code for the whole."""

    def may_ask(self) -> bool:
        """Returns whether the controllers know this request; if they do not, it waits."""
        return True

    @abstractmethod
    def settle(self, answer: Any, batch: dict[Name, V]) -> bool:
        """Takes out of the batch what the answer settles: the rest is sent again. Returns whether all of it went as expected,
        and the next request needs no pause."""

    def gather(self, values: Iterable[tuple[Name, V]]) -> None:
        """Has values sent. Each takes the place of one for the same partition that is not on its way yet."""
        self._waiting.update(values)
        if self._waiting and not self._is_sending:
            self._is_sending = True
            self._spawn(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                if not self.may_ask():
                    await sleep(self._clock, self.retry_seconds)
                    continue
                batch = {name: self._waiting.pop(name) for name in list(self._waiting)[: self.max_partitions]}
                try:
                    expected = await self._send(batch)
                except Exception:  # noqa: BLE001 - it is logged, and nobody else would ask again for what is in the batch
                    self._log_failure(batch, "there is a bug", is_bug=True)
                    expected = False
                for name, value in batch.items():
                    self._waiting.setdefault(name, value)  # a newer one counts
                if batch or not expected:
                    await sleep(self._clock, self.retry_seconds)
        finally:
            self._is_sending = False

    async def _send(self, batch: dict[Name, V]) -> bool:
        request = self.request(self._broker_epoch(), batch)
        try:
            answer = await self._channel.ask(request, self._timeout_ms, min_version=self.min_version)
        except ControllerUnreachable as error:
            self._log_failure(batch, str(error))
            return False
        if answer.error_code != ErrorCode.NONE:
            self._log_failure(batch, f"error {answer.error_code}")
            return False
        self._failure = ""
        return self.settle(answer, batch)

    def _log_failure(self, batch: Mapping[Name, V], why: str, *, is_bug: bool = False) -> None:
        """Logs that a request failed, unless that was logged a short time ago."""
        now = self._clock.monotonic()
        if why == self._failure and now < self._remind_at:
            return
        self._failure, self._remind_at = why, now + REMIND_SECONDS
        level = logging.ERROR if is_bug else logging.WARNING
        logger.log(level, "%s of %d partitions must wait: %s", self.subject, len(batch), why, exc_info=is_bug)
