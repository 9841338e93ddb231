"""A `GroupShard` is one partition of `__consumer_offsets`: the groups of all kinds (group.py) that hash to it, and their offsets.

Every operation runs in the same way (`run`): its records become one batch, the batch is appended, the records are replayed, and
only then is the operation answered, by its handler and once the batch is replicated (`answer_or`). Loading is the same replay
over the whole partition. An operation runs on the event loop without waiting in between, so no operation ever sees another one
half done.
"""

from __future__ import annotations

import importlib
import logging
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.server.base.clock import Clock
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_in_background, take_steps
from ottla.server.coordination.shard import NO_PRODUCER_ID, CoordinatorShard
from ottla.server.group.classic.group import ClassicGroup
from ottla.server.group.cluster import Cluster
from ottla.server.group.commits import PreparedCommit, prepare
from ottla.server.group.coordinator_config import GroupCoordinatorConfig
from ottla.server.group.errors import GroupError
from ottla.server.group.group import Group
from ottla.server.group.kind import Kind
from ottla.server.group.offsets import Offsets, is_stale
from ottla.server.group.pending_ids import PendingIds
from ottla.server.group.protocol import GroupProtocol
from ottla.server.group.records import GroupRecord, InTransaction, OffsetRecord, decode, encode_batch
from ottla.server.group.requests import Commit, Committer, Join, JoinAnswer, Leaving, Sync, SyncAnswer
from ottla.server.group.result import Result
from ottla.server.metadata.names import CONSUMER_OFFSETS
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupResponse

if TYPE_CHECKING:
    from ottla.server.coordination.internal_topic import Appended
    from ottla.server.group.deletions import Deletion, PreparedDeletion
    from ottla.wire.primitives import Buffer

logger = logging.getLogger("ottla.server.group")

T = TypeVar("T")
P = TypeVar("P", bound=GroupProtocol[Any])

PROTOCOLS: Final[dict[Kind, str]] = {
    Kind.CLASSIC: "ottla.server.group.classic.protocol",
    Kind.CONSUMER: "ottla.server.group.consumer.protocol",
    Kind.SHARE: "ottla.server.group.share.protocol",
    Kind.STREAMS: "ottla.server.group.streams.protocol",
}
"""The module of each kind, which is imported when a shard first needs it. Records of kinds that are missing here are ignored."""

_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
PIECE_BYTES = 256 * 1024
RECORDS_A_PIECE: Final = 500
"""So many tombstones are written before others may come first, or as many more as one group needs."""
GROUPS_A_STEP: Final = 100
"""So many groups are looked at before others may come first."""
RETRY_SECONDS: Final = 1.0
"""The time after which deleting the offsets of a deleted topic is tried again when too few replicas were in sync for that."""
TOMBSTONE_BYTES = 300  # the most that a tombstone takes beside its group id: a topic name of 249 bytes, a partition, framing


class GroupShard(CoordinatorShard[GroupRecord]):
    """The groups of one partition, by id, and the protocols of their kinds."""

    topic = CONSUMER_OFFSETS
    logger = logger

    def __init__(
        self,
        partition: int,
        leader_epoch: int,
        append: Callable[[bytes], Appended],
        clock: Clock,
        settings: GroupCoordinatorConfig,
        cluster: Cluster,
        random: Random,
        pending_ids: PendingIds,
    ) -> None:
        super().__init__(partition, leader_epoch, append, clock, settings.write_timeout_ms)
        self.settings = settings
        self.cluster = cluster
        self.random = random
        self.pending_ids = pending_ids
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self._protocols: dict[Kind, GroupProtocol[Any]] = {}

    # Kinds of groups

    def protocol(self, wanted: type[P]) -> P:
        """Returns the shard's protocol of a class that PROTOCOLS knows."""
        found = self._protocol(wanted.kind)
        assert isinstance(found, wanted)
        return found

    def protocol_of(self, group_id: str) -> GroupProtocol[Any]:
        """Returns the protocol of a group; that of one which does not exist yet is the classic protocol."""
        group = self.groups.get(group_id)
        return self._protocol(Kind.CLASSIC if group is None else group.kind)

    def _protocol(self, kind: Kind) -> GroupProtocol[Any]:
        if kind not in self._protocols:
            opened: GroupProtocol[Any] = importlib.import_module(PROTOCOLS[kind]).open_protocol(self)
            self._protocols[kind] = opened
        return self._protocols[kind]

    def topic_changed(self, topic: str, *, is_new: bool = False) -> None:
        for protocol in self._protocols.values():
            protocol.topic_changed(topic, is_new=is_new)

    # Append, then replay

    def run(self, result: Result[T]) -> T:
        """Writes the records of an operation and returns its answer. Raises GroupError if they cannot be written; nothing has
        changed then.
        """
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

    def run_timer(self, result: Result[None]) -> None:
        """Does the same as `run` for records that no request waits for, and logs a failure."""
        try:
            self.run(result)
        except GroupError as error:
            logger.warning("partition %d of __consumer_offsets: cannot write the records of a timer: %s", self.partition, error)

    def _write(self, records: Sequence[GroupRecord], transaction: InTransaction | None) -> ErrorCode:
        try:
            batch = encode_batch(records, self.clock.now_ms(), self.settings.offsets_codec, transaction)
        except struct.error as error:  # an epoch beyond the greatest, in a group whose records another program wrote
            logger.error("group %s: cannot encode its next records: %s", records[0].group_id, error)
            return ErrorCode.INVALID_REQUEST
        try:
            self.write(batch, records, NO_PRODUCER_ID if transaction is None else transaction.producer_id)
        except GroupError as error:
            return error.code
        return ErrorCode.NONE

    def decode(self, key: Buffer, value: Buffer | None) -> GroupRecord | None:
        return decode(key, value)

    def refusal(self, code: ErrorCode) -> GroupError:
        return GroupError(code)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Ends a transaction: the offsets that it committed count from now on, or are dropped."""
        self.offsets.end_transaction(producer_id, committed=committed)

    def replay(self, record: GroupRecord, offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        if not isinstance(record, OffsetRecord):
            if record.kind in PROTOCOLS:
                self._protocol(record.kind).replay(record)
            return
        group_id = record.key.group
        if record.value is not None and group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id, record.value.commit_timestamp, self.when_answerable)
        self.offsets.replay(record, offset, producer_id)

    # Loading

    def loaded(self) -> Iterator[None]:
        """Begins the sessions of the members of all groups."""
        for group in list(self.groups.values()):
            if self.groups.get(group.group_id) is group:  # else it was deleted, or has become one of another kind, meanwhile
                result = self._protocol(group.kind).loaded(group)
                if result is not None:
                    self.run_timer(result)
            yield

    def unload(self) -> None:
        """Answers the parked requests of members with NOT_COORDINATOR, so that they look for the new coordinator. With many
        groups that takes more than a turn, but nobody finds any of them from now on, nor does a deadline that passes meanwhile.
        """
        super().unload()
        groups = list(self.groups.values())
        self.groups.clear()
        take_in_background(self._discard(groups), self.clock)

    def _discard(self, groups: Sequence[Group]) -> Steps[None]:
        for group in groups:
            self._protocol(group.kind).discard(group, ErrorCode.NOT_COORDINATOR)
            yield None

    # Requests of members of the classic protocol, which some other kinds of groups admit as well

    def join(self, group_id: str, request: Join) -> JoinAnswer:
        return self.protocol_of(group_id).join(group_id, request)

    def sync(self, group_id: str, request: Sync) -> SyncAnswer:
        return self.protocol_of(group_id).sync(self._member_group(group_id), request)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        return self.protocol_of(group_id).heartbeat(self._member_group(group_id), member_id, instance_id, generation)

    def leave(self, group_id: str, leavers: Sequence[Leaving]) -> LeaveGroupResponse:
        return self.protocol_of(group_id).leave(self._member_group(group_id), leavers)

    def _member_group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    # Offsets

    def commit(
        self,
        group_id: str,
        committer: Committer,
        commits: Sequence[Commit],
        *,
        retention_ms: int = -1,
        missing_group: ErrorCode = ErrorCode.ILLEGAL_GENERATION,
        transaction: InTransaction | None = None,
        prepared: PreparedCommit | None = None,
    ) -> None:
        """Stores offsets of a member or, with epoch -1, of a group without members.

        `missing_group` is the error if there is an epoch, but no group. In a `transaction` the offsets count once it is
        committed. `prepared` is what `prepare_commit` returned for the same arguments, if somebody has called it. If it raises
        GroupError, nothing is stored.
        """
        group = self.groups.get(group_id)
        if group is not None and transaction is not None:
            self._protocol(group.kind).admit_commit_in_transaction(group, committer)
        elif group is not None:
            self._protocol(group.kind).admit_commit(group, committer)
        elif committer.epoch >= 0:
            raise GroupError(missing_group)
        if group is not None:
            self._protocol(group.kind).admit_partitions(group, committer, commits)
        if commits:
            records, batch = prepared or self.prepare_commit(group_id, commits, retention_ms, transaction)
            try:
                self.write(batch, records, NO_PRODUCER_ID if transaction is None else transaction.producer_id)
            except GroupError as error:
                if error.code in _TOO_LARGE:  # this API has a code of its own for that
                    raise GroupError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE) from error
                raise

    def prepare_commit(
        self, group_id: str, commits: Sequence[Commit], retention_ms: int = -1, transaction: InTransaction | None = None
    ) -> PreparedCommit:
        """Encodes what `commit` will write. Any thread may call this."""
        return prepare(group_id, commits, self.clock.now_ms(), retention_ms, self.settings.offsets_codec, transaction)

    def admit_fetch(self, group_id: str, committer: Committer) -> None:
        """Checks that the sender may fetch the group's offsets. Raises GroupError if it may not."""
        group = self.groups.get(group_id)
        if group is not None:
            self._protocol(group.kind).admit_fetch(group, committer)

    def delete_offsets(self, group_id: str, topics: Sequence[tuple[str, Sequence[int]]]) -> list[ErrorCode]:
        """Deletes offsets of a group. Returns a code for each topic: NONE or GROUP_SUBSCRIBED_TO_TOPIC.

        An offset that does not exist counts as deleted. Raises GroupError GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP, or the code of a
        failed append; then nothing is deleted.
        """
        group = self.groups.get(group_id)
        if group is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND)
        self._protocol(group.kind).admit_offset_deletion(group)
        wanted: dict[str, list[int]] = {}
        for topic, partitions in topics:
            wanted.setdefault(topic, []).extend(partitions)
        codes: dict[str, ErrorCode] = {}
        records: list[GroupRecord] = []
        for topic, partitions in wanted.items():
            if group.is_subscribed(topic):
                codes[topic] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                codes[topic] = ErrorCode.NONE
                records += self.offsets.delete(group_id, topic, partitions)
        if records:
            self.run(Result(records, None))
        return [codes[topic] for topic, _ in topics]

    def expire(self) -> Promise[None] | None:
        """Removes offsets that are too old, and groups that have neither members nor offsets left.

        Returns a promise if that takes longer than a turn. Raises GroupError, or the promise fails with it.
        """
        return take_steps(self._expire(), self.clock)

    def _expire(self) -> Steps[None]:
        records: list[GroupRecord] = []
        removed = 0
        groups = list(self.groups.values())
        for at, group in enumerate(groups, 1):
            if self.groups.get(group.group_id) is group:  # else it is gone, or is now one of another kind
                tombstones, nothing_left = self.offsets.expire(group, self.clock.now_ms(), self.settings.offsets_retention_ms)
                records.extend(tombstones)
                if nothing_left and group.is_expendable:
                    records.extend(group.tombstones())
            if at % GROUPS_A_STEP == 0 or at == len(groups) or len(records) >= RECORDS_A_PIECE:
                removed += len(records)
                self._run_in_pieces(records)  # before others come, who may commit anew
                records = []
                yield None
        if removed:
            text = "partition %d of __consumer_offsets: removed %d expired offsets and groups"
            logger.info(text, self.partition, removed)

    def delete_topic(self, topic: str, upto: int | None = None) -> Promise[None] | None:
        """Removes the offsets of a deleted topic, as `expire` does: those up to the record at offset `upto`, or all that there
        are. While fewer replicas are in sync than min.insync.replicas, it waits for them: a topic that is made anew under the
        same name must not find these offsets."""
        return take_steps(self._delete_topic(topic, self.offsets.last_record if upto is None else upto), self.clock)

    def _delete_topic(self, topic: str, upto: int) -> Steps[None]:
        groups = self.offsets.group_ids_with(topic)
        removed = yield from self._delete_of_each(groups, lambda group_id: self.offsets.delete_of_topic(group_id, topic, upto))
        if removed:
            logger.info("removed %d committed offsets of the deleted topic %s", removed, topic)

    def delete_missing_topics(self) -> Promise[None] | None:
        """Does the same for all topics that the cluster does not have: they were deleted, and the coordinator before this one had
        no time, or too few replicas in sync, to remove their offsets. Apache Kafka's coordinators keep such offsets.

        The metadata must be as new as the leadership of the partition. No coordinator stores an offset of a topic that is not
        there, so what is missing was deleted.
        """
        return take_steps(self._delete_missing_topics(), self.clock)

    def _delete_missing_topics(self) -> Steps[None]:
        upto = self.offsets.last_record
        gone: set[str] = set()

        def is_missing(topic: str, topic_id: bytes) -> bool:
            image = self.cluster.topics.get(topic)
            if image is None:
                gone.add(topic)  # what is created under this name from now on has no offsets up to `upto`
                return True
            return topic in gone or is_stale(topic_id, image.topic_id)

        groups = self.offsets.group_ids()
        removed = yield from self._delete_of_each(
            groups, lambda group_id: self.offsets.delete_of_missing(group_id, is_missing, upto)
        )
        if removed:
            text = "partition %d of __consumer_offsets: removed %d committed offsets of topics that were deleted earlier"
            logger.info(text, self.partition, removed)

    def _delete_of_each(self, groups: Sequence[str], tombstones: Callable[[str], list[OffsetRecord]]) -> Steps[int]:
        """Writes what `tombstones` returns for each of the groups, and returns how many they were."""
        removed = 0
        some: list[str] = []
        records: list[GroupRecord] = []
        for at, group_id in enumerate(groups, 1):
            some.append(group_id)
            records.extend(tombstones(group_id))
            if at % GROUPS_A_STEP == 0 or at == len(groups) or len(records) >= RECORDS_A_PIECE:
                while not self._run_if_in_sync(records):
                    pause: Promise[None] = Promise()
                    self.clock.call_later(RETRY_SECONDS, partial(pause.set_result, None))
                    yield pause
                    if self.is_over:  # the next coordinator finds these offsets when it loads them
                        return removed
                    records = [each for group_id in some for each in tombstones(group_id)]
                removed += len(records)
                some, records = [], []
                yield None
        return removed

    def _run_if_in_sync(self, tombstones: Sequence[GroupRecord]) -> bool:
        """Runs tombstones in pieces; returns False if some could not be written because too few replicas are in sync. Raises
        GroupError for other reasons."""
        try:
            self._run_in_pieces(tombstones)
        except GroupError as error:
            if error.code is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
                raise
            return False
        return True

    def _run_in_pieces(self, tombstones: Sequence[GroupRecord]) -> None:
        """Writes records in several batches. They need not take effect together, and may be too many for one batch. Raises
        GroupError.
        """
        piece: list[GroupRecord] = []
        size = 0
        for tombstone in tombstones:
            piece.append(tombstone)
            size += TOMBSTONE_BYTES + len(tombstone.group_id.encode())
            if size >= PIECE_BYTES:
                self.run(Result(piece, None))
                piece, size = [], 0
        if piece:
            self.run(Result(piece, None))

    # Groups

    def delete_group(self, group_id: str, prepared: PreparedDeletion | None = None) -> None:
        """Deletes a group and its offsets. Raises GroupError GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP, or the code of a failed
        append; then nothing is deleted. What was `prepared` is written if it is still all that the group has.
        """
        group = self._deletable(group_id)
        if prepared is not None:
            deletion, (records, batch) = prepared
            if self._deletion_of(group) == deletion:
                self.write(batch, records)
                return
        self.run(Result([*self.offsets.delete_group(group_id), *group.tombstones()], None))

    def deletion(self, group_id: str) -> Deletion:
        """Returns what there is to delete of a group, to prepare it in a thread if that is much. Raises GroupError as
        `delete_group` does.
        """
        return self._deletion_of(self._deletable(group_id))

    def _deletion_of(self, group: Group) -> Deletion:
        from ottla.server.group.deletions import Deletion  # not loaded as long as groups have few offsets

        return Deletion(group.group_id, self.offsets.keys_of_group(group.group_id), group.tombstones())

    def _deletable(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND)
        self._protocol(group.kind).admit_deletion(group)
        return group
