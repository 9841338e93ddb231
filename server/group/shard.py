"""One partition of `__consumer_offsets`: the groups that hash to it and their offsets.

Every operation runs the same way (`run`): its records become one batch, the batch is appended, the records are replayed, and only
then the answer goes out. Loading is the same replay over the whole partition. All of it happens on the event loop without
waiting in between, so no operation ever sees another one's records half done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ottla.log.errors import LogError
from ottla.server.clock import Clock
from ottla.server.errors import append_error
from ottla.server.group import joins, membership
from ottla.server.group.classic import CONSUMER_PROTOCOL_TYPE, ClassicGroup, State, new_group_record
from ottla.server.group.errors import GroupError
from ottla.server.group.joins import Join, JoinAnswer
from ottla.server.group.membership import Leaving, Sync, SyncAnswer
from ottla.server.group.offsets import NO_PRODUCER_ID, Commit, Offsets
from ottla.server.group.rebalance import Rebalance
from ottla.server.group.records import GroupRecord, InTransaction, OffsetRecord, decode, encode_batch, group_tombstone
from ottla.server.group.result import Result
from ottla.server.group.settings import GroupSettings
from ottla.wire.batch import read_header
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import MALFORMED
from ottla.wire.messages.leave_group import LeaveGroupResponse
from ottla.wire.records import decode_records

logger = logging.getLogger("ottla.server.group")

T = TypeVar("T")

PIECE_BYTES = 256 * 1024
TOMBSTONE_BYTES = 300  # the most that one takes beside its group's id: a topic's name of 249 bytes, a partition, a frame
COMMIT_MARKER = 1  # the control record types of a transaction's end: 0 abort, 1 commit


class Shard:
    """`append(batch) -> base offset` writes to this partition; what it raises is turned into a code for clients."""

    def __init__(self, partition: int, append: Callable[[bytes], int], clock: Clock, settings: GroupSettings) -> None:
        self.partition = partition
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()
        self.loading = True
        self._append = append
        self._clock = clock
        self._settings = settings
        self._rebalance = Rebalance(clock, settings, self._run_timer)

    # Append, then replay

    def run(self, result: Result[T]) -> T:
        """Write what an operation asks for and give its answer. GroupError: it could not be written, nothing has changed."""
        step: Result[T] | Result[None] | None = result
        while step is not None:
            error = self._write(step.records, step.transaction) if step.records else ErrorCode.NONE
            if step.on_append is not None:
                step = step.on_append(error)
            elif error is not ErrorCode.NONE:
                raise GroupError(error)
            else:
                break
        return result.response

    def _run_timer(self, result: Result[None]) -> None:
        try:
            self.run(result)
        except GroupError as error:
            logger.warning("partition %d of __consumer_offsets: a timer's records were not written: %s", self.partition, error)

    def _write(self, records: Sequence[GroupRecord], transaction: InTransaction | None) -> ErrorCode:
        batch = encode_batch(records, self._clock.now_ms(), self._settings.offsets_codec, transaction)
        try:
            base_offset = self._append(batch)
        except (LogError, OSError) as error:
            code = append_error(error)
            logger.warning("partition %d of __consumer_offsets: %s (%s)", self.partition, error, code.name)
            return code
        for index, record in enumerate(records):
            self.replay(record, base_offset + index, NO_PRODUCER_ID if transaction is None else transaction.producer_id)
        return ErrorCode.NONE

    def replay(self, record: GroupRecord, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Make a record true: the only way that persistent state changes, while running and while loading."""
        group_id = record.key.group
        if isinstance(record, OffsetRecord):
            if record.value is not None and group_id not in self.groups:
                self.groups[group_id] = ClassicGroup(group_id, record.value.commit_timestamp)
            self.offsets.replay(record, record_offset, producer_id)
        elif record.value is None:
            gone = self.groups.pop(group_id, None)
            if gone is not None:
                self._rebalance.discard(gone, ErrorCode.UNKNOWN_MEMBER_ID)
        elif self.loading or group_id not in self.groups:
            group = ClassicGroup(group_id, record.value.current_state_timestamp)
            group.restore(record.value)
            self.groups[group_id] = group
        else:
            self.groups[group_id].replay(record.value)

    # Loading

    def load(self, read: Callable[[], Iterator[bytes]]) -> Iterator[None]:
        """Replay the partition, one batch a step; what `read` raises comes through.

        A batch that does not follow its schema is left out with a log line, as in Kafka: the others are worth having.
        """
        for batch in read():
            try:
                self._load_batch(batch)
            except MALFORMED as error:
                logger.error("partition %d of __consumer_offsets: a batch was left out: %r", self.partition, error)
            yield
        self.loading = False
        for group in list(self.groups.values()):
            self._run_timer(self._rebalance.loaded(group))

    def _load_batch(self, batch: bytes) -> None:
        header = read_header(batch)
        producer_id = header.producer_id if header.is_transactional else -1
        for record in decode_records(batch):
            if record.key is None:
                continue
            if header.is_control:
                self.offsets.end_transaction(header.producer_id, committed=record.key[3] == COMMIT_MARKER)
                continue
            known = decode(record.key, record.value)
            if known is not None:
                self.replay(known, record.offset, producer_id)

    def unload(self) -> None:
        """The partition went to another broker: whoever waits is to look for the new coordinator."""
        for group in self.groups.values():
            self._rebalance.discard(group, ErrorCode.NOT_COORDINATOR)
        self.groups.clear()

    # Members

    def join(self, group_id: str, request: Join) -> JoinAnswer:
        group = self.groups.get(group_id)
        if group is None:
            if request.member_id:
                return joins.refusal(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID).response
            if not request.protocol_type or not request.protocols:
                return joins.refusal("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL).response
            self.run(Result((new_group_record(group_id, self._clock.now_ms()),), None))
            group = self.groups[group_id]
        return self.run(joins.join(self._rebalance, group, request))

    def sync(self, group_id: str, request: Sync) -> SyncAnswer:
        return self.run(membership.sync(self._rebalance, self._member_group(group_id), request))

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        return membership.heartbeat(self._rebalance, self._member_group(group_id), member_id, instance_id, generation)

    def leave(self, group_id: str, leavers: Sequence[Leaving]) -> LeaveGroupResponse:
        return self.run(membership.leave(self._rebalance, self._member_group(group_id), leavers))

    def _member_group(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    # Offsets

    def commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        commits: Sequence[Commit],
        *,
        retention_ms: int = -1,
        missing_group: ErrorCode = ErrorCode.ILLEGAL_GENERATION,
        transaction: InTransaction | None = None,
    ) -> None:
        """Store offsets of a member, or, without one (generation -1), of a group that has none.

        `missing_group` answers a generation of a group that does not exist. In a `transaction` they count when it is committed,
        and a producer that names no member may commit whatever the group does. GroupError: nothing was stored.
        """
        group = self.groups.get(group_id)
        if group is not None and transaction is not None:
            self._admit_in_transaction(group, member_id, instance_id, generation)
        elif group is not None:
            self._admit_commit(group, member_id, instance_id, generation)
        elif generation >= 0:
            raise GroupError(missing_group)
        if commits:
            records = Offsets.commit(group_id, commits, self._clock.now_ms(), retention_ms)
            self.run(Result(records, None, transaction=transaction))

    def _admit_in_transaction(self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> None:
        if generation < 0 and (group.state is State.EMPTY or (not member_id and instance_id is None)):
            return
        member = group.validate_member(member_id, instance_id)
        if generation != group.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
        self._rebalance.reset_session(group, member)

    def _admit_commit(self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> None:
        if generation < 0 and group.state is State.EMPTY:
            return
        if generation < 0 and not member_id and instance_id is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)  # members own the offsets of a group that has some
        member = group.validate_member(member_id, instance_id)
        if generation != group.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
        if group.state is State.COMPLETING_REBALANCE:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._rebalance.reset_session(group, member)

    def delete_offsets(self, group_id: str, topics: Sequence[tuple[str, Sequence[int]]]) -> list[ErrorCode]:
        """Forget offsets of a group, all of them or none; what each topic comes to: NONE or GROUP_SUBSCRIBED_TO_TOPIC.

        An offset that is not there counts as forgotten. GroupError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, or not written.
        """
        group = self.groups.get(group_id)
        if group is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not State.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)  # what its members read is theirs to know
        records: dict[tuple[str, int], GroupRecord] = {}
        codes = []
        for topic, partitions in topics:
            if group.is_subscribed(topic):
                codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            codes.append(ErrorCode.NONE)
            records |= {
                (topic, tombstone.key.partition): tombstone for tombstone in self.offsets.delete(group_id, topic, partitions)
            }
        if records:
            self.run(Result(list(records.values()), None))
        return codes

    def expire(self) -> None:
        """Drop offsets that are too old, and groups that have neither members nor offsets left."""
        now_ms = self._clock.now_ms()
        records: list[GroupRecord] = []
        for group in self.groups.values():
            tombstones, nothing_left = self.offsets.expire(group, now_ms, self._settings.offsets_retention_ms)
            records.extend(tombstones)
            if nothing_left and group.state is State.EMPTY and not group.pending_joins:
                records.append(group_tombstone(group.group_id))
        if records:
            logger.info("partition %d of __consumer_offsets: %d offsets and groups expired", self.partition, len(records))
            self._run_in_pieces(records)

    def delete_topic(self, topic: str) -> None:
        records = self.offsets.delete_topic(topic)
        if records:
            logger.info("topic %s is deleted, and with it %d committed offsets", topic, len(records))
            self._run_in_pieces(records)

    def _run_in_pieces(self, tombstones: Sequence[GroupRecord]) -> None:
        """For records that need not become true together, and may be more than a batch may hold. GroupError."""
        piece: list[GroupRecord] = []
        size = 0
        for tombstone in tombstones:
            piece.append(tombstone)
            size += TOMBSTONE_BYTES + len(tombstone.key.group.encode())
            if size >= PIECE_BYTES:
                self.run(Result(piece, None))
                piece, size = [], 0
        if piece:
            self.run(Result(piece, None))

    # Groups

    def delete_group(self, group_id: str) -> None:
        """Raises GroupError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
        group = self.groups.get(group_id)
        if group is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not State.EMPTY:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)
        records: list[GroupRecord] = [*self.offsets.delete_group(group_id), group_tombstone(group_id)]
        self.run(Result(records, None))
