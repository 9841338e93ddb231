"""A coordinator shard is one partition of an internal topic as its coordinator keeps it: first the records change, then the
state, and then the answer goes out.

Groups, transactions and share state work in the same way. An operation looks at the state and decides on records. They are
appended as one batch and replayed at once, and the answer goes out when the partition's high watermark has passed them. So the
operations after it see state that is not replicated yet. Therefore their answers wait for the last append as well, even if they
only read, and the first answers after loading wait for everything that was loaded: no answer holds anything that a new leader
might not know. Only refusals that are raised go out at once, as in Kafka. Requests that still wait when this broker loses the
partition are answered NOT_COORDINATOR. Those that wait for longer than their coordinator allows, because the in-sync replicas do
not keep up or too few are left, are answered COORDINATOR_NOT_AVAILABLE. What they have written stays, and counts once it is
replicated; so what has to follow a write, and is no answer, waits without a limit (`when_replicated`).

With one replica every append is replicated at once: there is no promise, and an answer costs one look at an attribute.

Kafka instead keeps timeline snapshots of a shard's state and reads the committed one; waiting gives the same guarantee.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from mypy_extensions import mypyc_attr

from ottla.log.errors import LogError
from ottla.server.base.answers import map_answer
from ottla.server.base.errors import NotEnoughReplicas, NotLeaderOrFollower, append_error
from ottla.server.base.promise import Promise
from ottla.wire.batch import read_header
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import MALFORMED
from ottla.wire.records import decode_records

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.coordination.deadlines import Deadlines
    from ottla.server.coordination.internal_topic import Appended
    from ottla.wire.primitives import Buffer

R = TypeVar("R")
T = TypeVar("T")

NO_PRODUCER_ID: Final = -1
_COMMIT_MARKER: Final = 1
"""The control record type of a commit; 0 is that of an abort."""
RECORDS_A_STEP: Final = 100
"""So many records are replayed before others may come first."""
BYTES_A_STEP: Final = 64 * 1024
"""So many bytes of values are replayed before others may come first: a record of a group may have one of a MiB."""
_MOST_LINES: Final = 10
"""So many records that are skipped while a partition is loaded get a line each in the log; the others are only counted."""


@mypyc_attr(allow_interpreted_subclasses=True)  # setup.py compiles this module, and not all of the shards
class CoordinatorShard(ABC, Generic[R]):
    """The shard of `partition` while this broker leads it in `leader_epoch`. `append` writes a batch to the partition. An answer
    waits for replicas for `write_timeout_ms` at most.

    A subclass holds the state, which only `replay` may change.
    """

    topic: ClassVar[str]
    logger: ClassVar[logging.Logger]

    def __init__(
        self,
        partition: int,
        leader_epoch: int,
        append: Callable[[bytes], Appended],
        clock: Clock,
        write_timeout_ms: int,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.clock = clock
        self.loading = True
        """True until `load` has replayed the partition."""
        self.unreplicated: Promise[None] | None = None
        """The promise that is kept when everything that was read or appended is replicated, or None if it is."""
        self._append = append
        self.is_over = False
        """True once this broker no longer coordinates the partition."""
        self._waiting: deque[tuple[Promise[None], Callable[[ErrorCode], object]]] = deque()
        """The promise of an append and the function to call once it is kept, in the order of the appends."""
        self._write_timeout_ms = write_timeout_ms
        self._deadlines: Deadlines | None = None

    # What each coordinator implements

    @abstractmethod
    def decode(self, key: Buffer, value: Buffer | None) -> R | None:
        """Decodes a record of the partition. Returns None if its type is not known to this coordinator.

        Raises one of wire.frame.MALFORMED if the bytes do not follow their schema.
        """

    @abstractmethod
    def replay(self, record: R, offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Applies a record to the state. `producer_id` is that of the transaction that the record belongs to, if any."""

    @abstractmethod
    def refusal(self, code: ErrorCode) -> Exception:
        """Returns this coordinator's exception for an operation that is refused with `code`."""

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Replays the control record that ends a transaction of `producer_id` in this partition."""

    def loaded(self) -> Iterator[None]:
        """Does what remains to be done once the partition is replayed; each step of the iterator is a pause for other work."""
        return iter(())

    # Append, then replay

    def write(self, batch: bytes, records: Sequence[R], producer_id: int = NO_PRODUCER_ID) -> None:
        """Appends `records`, which are encoded as `batch`, and replays them. If the append fails, raises `refusal` and changes
        nothing.
        """
        offset = self.append(batch)
        for record in records:
            self.replay(record, offset, producer_id)
            offset += 1

    def append(self, batch: bytes) -> int:
        """Appends a batch whose records the caller will replay. Returns its base offset. Raises `refusal` if that fails."""
        try:
            base_offset, replicated = self._append(batch)
        except NotEnoughReplicas as error:  # every request would have a line until replicas return; a metric counts the partition
            raise self.refusal(append_error(error)) from error
        except (LogError, NotLeaderOrFollower, OSError) as error:
            code = append_error(error)
            self.logger.warning("partition %d of %s: %s (%s)", self.partition, self.topic, error, code.name)
            raise self.refusal(code) from error
        if replicated is not None:
            self.await_replication(replicated)
        return base_offset

    # Answers

    def await_replication(self, replicated: Promise[None]) -> None:
        """Lets answers wait for `replicated`, the promise of what was last written to the partition (`Appended` in
        internal_topic.py).
        """
        if not self.is_over:
            self.unreplicated = replicated
            replicated.add_done_callback(self._settle)

    def answer(self, value: T, timeout_ms: int | None = None) -> T | Promise[T]:
        """Returns `value` if everything appended so far is replicated; otherwise a promise of it, which fails with the `refusal`
        for the code that `outcome` promises.
        """

        def refuse(code: ErrorCode) -> T:
            raise self.refusal(code)

        return value if self.unreplicated is None else self.answer_or(value, refuse, timeout_ms)

    def answer_or(self, value: T, refused: Callable[[ErrorCode], T], timeout_ms: int | None = None) -> T | Promise[T]:
        """Does the same for answers that hold an error code: the promise is kept with what `refused` returns for any other code
        than NONE.
        """
        if self.unreplicated is None:
            return value
        return map_answer(self.outcome(timeout_ms), lambda code: refused(code) if code else value)

    def outcome(self, timeout_ms: int | None = None) -> ErrorCode | Promise[ErrorCode]:
        """Returns NONE if everything appended so far is replicated; otherwise a promise of NONE, of NOT_COORDINATOR if this
        broker loses the partition first, or of COORDINATOR_NOT_AVAILABLE if that takes longer than `timeout_ms`, which is this
        shard's limit if it is None.
        """
        if self.unreplicated is None:
            return ErrorCode.NONE
        promise: Promise[ErrorCode] = Promise()

        def settle(code: ErrorCode) -> None:
            if not promise.done():  # otherwise it took too long, or the connection was closed and cancelled it
                promise.set_result(code)

        self.when_replicated(settle)
        if not promise.done():
            self._limit(promise, self._write_timeout_ms if timeout_ms is None else timeout_ms)
        return promise

    def _limit(self, promise: Promise[ErrorCode], timeout_ms: int) -> None:
        if self._deadlines is None:
            from ottla.server.coordination.deadlines import Deadlines  # never needed with one replica

            self._deadlines = Deadlines(self.clock)
        self._deadlines.add(promise, timeout_ms / 1000)

    def when_answerable(self, then: Callable[[ErrorCode], object]) -> None:
        """Calls `then` with the code that `outcome` returns or promises."""
        outcome = self.outcome()
        if isinstance(outcome, Promise):
            outcome.add_done_callback(lambda done: then(done.result()))
        else:
            then(outcome)

    def when_replicated(self, then: Callable[[ErrorCode], object]) -> None:
        """Calls `then(NONE)` when everything appended so far is replicated, which may be now, or `then(NOT_COORDINATOR)` if this
        broker loses the partition first. There is no limit to that: answers wait for `outcome` or `when_answerable`.
        """
        if self.unreplicated is None:
            then(ErrorCode.NONE)
        elif self.unreplicated.done():  # it failed, for a promise that was kept is removed at once
            then(ErrorCode.NOT_COORDINATOR)
        else:
            self._waiting.append((self.unreplicated, then))

    def _settle(self, appended: Promise[None]) -> None:
        if self.is_over:  # this append was answered when the shard ended
            return
        try:
            appended.result()
        except (LogError, NotLeaderOrFollower, OSError) as error:
            self.logger.warning("partition %d of %s was not replicated: %s", self.partition, self.topic, error)
            self.fail()
            return
        if self.unreplicated is appended:
            self.unreplicated = None
        while self._waiting and self._waiting[0][0].done():  # any of these calls may end the shard, and then nothing waits
            self._waiting.popleft()[1](ErrorCode.NONE)

    def fail(self) -> None:
        """Ends the shard, because this broker is no longer the partition's coordinator: requests that wait, and any that still
        come, are answered NOT_COORDINATOR.
        """
        self.is_over = True
        self._append = _refuse_append
        lost: Promise[None] = Promise()
        lost.set_exception(NotLeaderOrFollower(f"partition {self.partition} of {self.topic} is lost"))
        self.unreplicated = lost
        waiting, self._waiting = self._waiting, deque()
        for _, then in waiting:
            then(ErrorCode.NOT_COORDINATOR)
        if self._deadlines is not None:
            self._deadlines.close()

    def unload(self) -> None:
        """Ends the shard when another broker leads the partition or its leader epoch is over. A subclass also ends its
        own work.
        """
        self.fail()

    # Loading

    def load(self, read: Callable[[], Iterator[bytes]], replicated: Callable[[], Promise[None] | None]) -> Iterator[None]:
        """Replays the partition, some records of a batch a step. Raises what `read` and `replicated` raise.

        What `read` yields may end above the high watermark, so the first answers wait for `replicated`, which is asked once
        everything is read: it returns a promise that is kept when all of the partition is replicated, or None if it is already.

        A record that does not follow its schema is logged and skipped, so that no other one is lost with it. That is not damage:
        `read` has compared the bytes with their CRC.
        """
        skipped = 0
        for batch in read():
            for malformed in self._replay_batch(batch):
                if malformed is None:
                    yield
                    continue
                skipped += 1
                if skipped <= _MOST_LINES:
                    self.logger.error("partition %d of %s: skipped a malformed %s", self.partition, self.topic, malformed)
            yield
        if skipped > _MOST_LINES:
            self.logger.error("partition %d of %s: skipped %d in all", self.partition, self.topic, skipped)
        promise = replicated()
        if promise is not None:
            self.await_replication(promise)
        self.loading = False
        yield from self.loaded()

    def _replay_batch(self, batch: bytes) -> Iterator[str | None]:
        """Replays a batch. Yields what is wrong with each record that is malformed, or with the batch if its records cannot even
        be told apart; and None where it may pause.
        """
        header = read_header(batch)
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        try:
            records = decode_records(batch)
        except MALFORMED as error:
            yield f"batch at offset {header.base_offset}: {error!r}"
            return
        size = 0
        for at, record in enumerate(records, 1):
            size += 0 if record.value is None else len(record.value)
            if at % RECORDS_A_STEP == 0 or size > BYTES_A_STEP:
                size = 0
                yield None
            if record.key is None:
                continue
            try:
                if header.is_control:
                    self.end_transaction(header.producer_id, committed=record.key[3] == _COMMIT_MARKER)
                elif (decoded := self.decode(record.key, record.value)) is not None:
                    self.replay(decoded, record.offset, producer_id)
            except MALFORMED as error:
                yield f"record at offset {record.offset}: {error!r}"


def _refuse_append(batch: bytes) -> Appended:
    raise NotLeaderOrFollower("this broker no longer coordinates the partition")
