"""The internal topics as a coordinator loads them: an input is a partition of groups, of transactions or of share state.

- Every record is read, skipped as malformed, or of a type that is not known. What was read is written and read again as the same.
- Whatever records a partition holds, it is loaded (server/coordination/shard.py: a malformed record is skipped and no other one
  lost with it), and then serves: what time brings about, expiry, deletions and requests are done or refused.
- All state is in the records: another coordinator that loads the partition afterwards, with what was appended, has the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from ottla.server.coordination.shard import CoordinatorShard
from ottla.server.group.coordinator_config import GroupCoordinatorConfig
from ottla.server.group.errors import GroupError
from ottla.server.group.pending_ids import PendingIds
from ottla.server.group.records import GroupRecord, InTransaction, OffsetRecord, encode_batch, offset_tombstone
from ottla.server.group.records import decode as decode_group_record
from ottla.server.group.shard import GroupShard
from ottla.server.share_state.batches import StateBatch
from ottla.server.share_state.errors import ShareStateError
from ottla.server.share_state.records import decode as decode_share_record
from ottla.server.share_state.records import encode as encode_share_record
from ottla.server.share_state.shard import ShareStateShard
from ottla.server.share_state.state import SharePartition, ShareState, ShareUpdate
from ottla.server.txn.records import decode as decode_transaction
from ottla.server.txn.records import encode_tombstones, encode_transaction
from ottla.server.txn.shard import TransactionShard
from ottla.server.txn.state import State, Transaction
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import MALFORMED
from ottla.wire.messages.internal.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.internal.offset_commit_value import OffsetCommitValue
from ottla.wire.records import Record, build_batch, decode_records
from tests.fuzz.draw import Draw, block
from tests.server.coordination.memory import NODE_ID, TOPICS, CoordinatorClock, CoordinatorLog

_MOST_RECORDS: Final = 30
_HOUR: Final = 3600.0
_WEEK: Final = 7 * 24 * _HOUR
_TRANSACTIONAL, _CONTROL, _NO_VALUE = 1, 2, 4


def check(data: bytes) -> None:
    draw = Draw(data)
    _CHECKS[draw.below(len(_CHECKS))](draw)


def _partition(draw: Draw, read: Callable[[bytes, bytes | None], object]) -> CoordinatorLog:
    """Returns the log that the input describes. Each of its records is read alone as well."""
    log = CoordinatorLog(1)
    for _ in range(_MOST_RECORDS):
        if not draw.left:
            break
        kind = draw.byte()
        producer_id = draw.below(3) if kind & (_TRANSACTIONAL | _CONTROL) else -1
        key = draw.block()
        value = None if kind & _NO_VALUE else draw.block()
        if kind & _CONTROL:
            key = bytes((0, 0, 0, kind >> 7))  # the type of the marker
        else:
            with contextlib.suppress(*MALFORMED):
                read(key, value)
        transactional = bool(kind & (_TRANSACTIONAL | _CONTROL))
        log.append(
            0,
            build_batch(
                [Record(0, 1, key, value)],
                producer_id=producer_id,
                producer_epoch=min(producer_id, 0),
                transactional=transactional,
                control=bool(kind & _CONTROL),
            ),
        )
    return log


def _load(shard: CoordinatorShard[Any], log: CoordinatorLog) -> None:
    for _ in shard.load(lambda: log.read(0), lambda: None):
        pass


def _only_record(batch: bytes) -> tuple[bytes, bytes | None]:
    (record,) = decode_records(batch)
    assert record.key is not None
    return record.key, record.value


# Groups


def _cluster() -> Any:
    topics = {
        name: SimpleNamespace(
            name=name, topic_id=topic_id, partitions={index: SimpleNamespace(replicas=(NODE_ID,)) for index in range(count)}
        )
        for name, (topic_id, count) in TOPICS.items()
    }
    return SimpleNamespace(
        topics=topics,
        topics_by_id={topic.topic_id: topic for topic in topics.values()},
        brokers={NODE_ID: SimpleNamespace(rack=None)},
        highest_offset=100,
        config_of=lambda kind, name: {},
    )


def _group_record(key: bytes, value: bytes | None) -> None:
    record = decode_group_record(key, value)
    if record is not None:
        again = decode_group_record(*_only_record(encode_batch([record], 1)))
        assert again == record, f"{record} is read again as {again}"


def _check_groups(draw: Draw) -> None:
    log = _partition(draw, _group_record)
    clock = CoordinatorClock()
    shard = _group_shard(log, clock)
    _load(shard, log)
    _compare_groups(shard, log)
    clock.advance(_HOUR)
    shard.topic_changed("t")
    with contextlib.suppress(GroupError):
        shard.expire()
    _compare_groups(shard, log)
    with contextlib.suppress(GroupError):
        shard.delete_topic("t")
    for group_id, group in list(shard.groups.items()):
        assert isinstance(group.state_name, str)
        operations: tuple[Callable[[], object], ...] = (
            partial(shard.heartbeat, group_id, "m", None, 1),
            partial(shard.delete_offsets, group_id, [("t", [0, 1]), ("u", [0])]),
            partial(shard.delete_group, group_id),
        )
        for operation in operations:
            with contextlib.suppress(GroupError):
                operation()
    clock.advance(_WEEK)
    _compare_groups(shard, log)
    shard.unload()


def _group_shard(log: CoordinatorLog, clock: CoordinatorClock) -> GroupShard:
    return GroupShard(
        0, 3, lambda batch: log.append(0, batch), clock, GroupCoordinatorConfig(), _cluster(), Random(1), PendingIds()
    )


def _compare_groups(shard: GroupShard, log: CoordinatorLog) -> None:
    """Checks that the groups and offsets are those of a shard that loads the partition now, and appends nothing itself."""
    again = _group_shard(CoordinatorLog(1), CoordinatorClock())
    _load(again, log)
    assert {name: group.kind for name, group in again.groups.items()} == {
        name: group.kind for name, group in shard.groups.items()
    }
    assert _held(again) == _held(shard)


def _held(shard: GroupShard) -> list[object]:
    """Returns the offsets that a shard keeps, plain and pending."""
    offsets = shard.offsets
    return [offsets._groups, offsets._pending, offsets._open]


# Transactions


def _transaction_record(key: bytes, value: bytes | None) -> None:
    found = decode_transaction(key, value)
    if found is None:
        return
    name, transaction = found
    batch = encode_tombstones([name], 1) if transaction is None else encode_transaction(transaction, 1, 2)
    again = decode_transaction(*_only_record(batch))
    if transaction is not None and transaction.state is State.EMPTY:
        transaction = transaction._replace(partitions=frozenset())
    assert again == (name, transaction), f"{transaction} is read again as {again}"


def _check_transactions(draw: Draw) -> None:
    log = _partition(draw, _transaction_record)
    clock = CoordinatorClock()
    shard = _transaction_shard(log, clock)
    _load(shard, log)
    assert not shard.rest, "not all transactions were completed"
    shard.overdue(clock.now_ms())
    _compare_transactions(shard, log)
    clock.advance(_WEEK)
    shard.expire(1)
    _compare_transactions(shard, log)
    shard.unload()


def _transaction_shard(log: CoordinatorLog, clock: CoordinatorClock) -> TransactionShard:
    return TransactionShard(
        0, 3, lambda batch: log.append(0, batch), clock, lambda: 2, lambda topic, partition, marker: ErrorCode.NONE
    )


def _compare_transactions(shard: TransactionShard, log: CoordinatorLog) -> None:
    again = _transaction_shard(CoordinatorLog(1), CoordinatorClock())
    _load(again, log)
    # No record holds the epoch before the last.
    kept = {name: transaction._replace(last_producer_epoch=-1) for name, transaction in shard.transactions.items()}
    assert again.transactions == kept


# Share state


def _share_record(key: bytes, value: bytes | None) -> None:
    found = decode_share_record(key, value)
    if found is not None:
        again = decode_share_record(*_only_record(encode_share_record([found], 1)))
        assert again == found, f"{found} is read again as {again}"


def _check_share_state(draw: Draw) -> None:
    log = _partition(draw, _share_record)
    clock = CoordinatorClock()
    shard = _share_shard(log, clock)
    _load(shard, log)
    for name in shard.names():
        operations: tuple[Callable[[], object], ...] = (
            partial(shard.read, name, 2**31 - 1),
            partial(shard.update, name, 2**31 - 1, 2**31 - 1, 5, 1, [StateBatch(3, 9, 1, 2)]),
            partial(shard.summary, name),
            partial(shard.initialize, name, 2**31 - 1, 7),
        )
        for operation in operations:
            with contextlib.suppress(ShareStateError):
                operation()
    _compare_share_state(shard, log)
    clock.advance(_HOUR)
    with contextlib.suppress(ShareStateError):
        shard.snapshot_cold(1)
    shard.redundant_before()
    _compare_share_state(shard, log)
    with contextlib.suppress(ShareStateError):
        shard._exists = lambda topic_id, partition: topic_id != TOPICS["t"][0]
        shard.forget_missing()
    _compare_share_state(shard, log)


def _share_shard(log: CoordinatorLog, clock: CoordinatorClock) -> ShareStateShard:
    return ShareStateShard(0, 3, lambda batch: log.append(0, batch), clock, 3, lambda topic_id, partition: True)


def _compare_share_state(shard: ShareStateShard, log: CoordinatorLog) -> None:
    again = _share_shard(CoordinatorLog(1), CoordinatorClock())
    _load(again, log)
    assert {name: again.find(name) for name in again.names()} == {name: shard.find(name) for name in shard.names()}


_CHECKS: Final[tuple[Callable[[Draw], None], ...]] = (_check_groups, _check_transactions, _check_share_state)


def seeds() -> Iterator[bytes]:
    topic_id = TOPICS["t"][0]
    commit: GroupRecord = _commit("g", 0)
    groups: list[GroupRecord] = [commit, _commit("h", 1), offset_tombstone("g", "t", 0)]
    yield b"\0" + b"".join(_packed(encode_batch([record], 1)) for record in groups)
    pending = encode_batch([commit], 1, transaction=InTransaction(1, 0))
    yield b"\0" + _packed(pending, _TRANSACTIONAL, 1) + bytes((_CONTROL | 128, 1)) + block(b"") + block(b"")
    for kind in (2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23):  # for the fuzzer to fill
        yield b"\0\0" + block(bytes((0, kind)) + b"\0\1g\0\1m") + block(bytes(40))
        yield b"\0\0" + block(bytes((0, kind)) + b"\0\1g\0\1m") + block(bytes(2) + b"\1" * 60)
    begun = Transaction("t", 7, 60_000, 1, State.ONGOING, 0, partitions=frozenset({("t", 0)}), started_ms=1)
    ended = begun._replace(state=State.PREPARE_COMMIT)
    for version in (0, 2):
        yield b"\1" + _packed(encode_transaction(begun, 1, version)) + _packed(encode_transaction(ended, 1, version))
    yield b"\1" + _packed(encode_transaction(begun, 1, 2)) + _packed(encode_tombstones(["t"], 1), _NO_VALUE)
    name = SharePartition("g", topic_id, 0)
    snapshot = ShareState(1, 2, 3, 5, 0, (StateBatch(5, 9, 1, 2), StateBatch(12, 12, 2, 0)), 1, 1)
    update = ShareUpdate(1, 3, 7, 0, (StateBatch(8, 10, 2, 2),))
    yield b"\2" + _packed(encode_share_record([(name, snapshot)], 1)) + _packed(encode_share_record([(name, update)], 1))
    yield b"\2" + _packed(encode_share_record([(name, update)], 1))


def _commit(group: str, partition: int) -> GroupRecord:
    return OffsetRecord(OffsetCommitKey(group, "t", partition), OffsetCommitValue(5, 1, "", 1, -1, TOPICS["t"][0]))


def _packed(batch: bytes, *flags: int) -> bytes:
    """Packs the record of a batch for `_partition`."""
    key, value = _only_record(batch)
    begin = bytes(flags or (0,)) + block(key)
    return begin if value is None else begin + block(value)
