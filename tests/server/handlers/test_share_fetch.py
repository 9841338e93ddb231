"""ShareFetch at every version: sessions, what is handed out, waiting, limits, acknowledgements with it, and each refusal."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.log.transactions import append_marker
from ottla.server.base.promise import Promise
from ottla.server.requests.session import Session
from ottla.server.share.states import ACCEPT, GAP, REJECT, RELEASE, RENEW
from ottla.wire.batch import iter_batches
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.config_record import ConfigRecord
from tests.fakes import MemoryBroker
from tests.log.support import batch
from tests.server.handlers.data_calls import call, produce, read, versions
from tests.server.handlers.share_calls import GROUP, Member, acquired, errors, parts, share_broker
from tests.server.share.support import LOCK_SECONDS, MemoryPersister

T0, T1, T2 = ((("t"), index) for index in range(3))
WAIT_MS = 1000


def disconnect(connection: object) -> None:
    """Closes the client's connection; the session with the broker then notifies the share sessions opened over it."""
    assert isinstance(connection, Session)
    connection.close()


@pytest.fixture
def share() -> tuple[MemoryBroker, MemoryPersister]:
    return share_broker({"t": 3, "u": 1})


@pytest.fixture
def broker(share: tuple[MemoryBroker, MemoryPersister]) -> MemoryBroker:
    return share[0]


@pytest.fixture
def member(broker: MemoryBroker) -> Member:
    return Member(broker)


def bases(part: Any) -> list[int]:
    return [header.base_offset for header, _ in iter_batches(part.records)]


def group_setting(broker: MemoryBroker, name: str, value: str) -> None:
    broker.image.apply(ConfigRecord(32, GROUP, name, value))


# What is handed out


@pytest.mark.parametrize("version", versions("share_fetch"))
def test_every_version_hands_records_out(broker: MemoryBroker, version: int) -> None:
    for _ in range(3):
        produce(broker, "t", batch(2))
    answer = Member(broker, version=version).fetch([T0])
    assert acquired(answer) == {T0: [(0, 5, 1)]}
    assert bases(parts(answer)[T0]) == [0, 2, 4]
    assert answer.acquisition_lock_timeout_ms == LOCK_SECONDS * 1000


def test_records_come_only_with_what_is_acquired(broker: MemoryBroker, member: Member) -> None:
    for _ in range(4):
        produce(broker, "t", batch(1))
    assert acquired(member.fetch([T0], max_records=2)) == {T0: [(0, 1, 1)]}
    other = Member(broker, "other")
    answer = other.fetch([T0], max_records=1)
    assert acquired(answer) == {T0: [(2, 2, 1)]}
    assert bases(parts(answer)[T0]) == [2]


def test_a_strict_limit_cuts_a_batch(broker: MemoryBroker, member: Member) -> None:
    produce(broker, "t", batch(5))
    assert acquired(member.fetch([T0], max_records=2, strict=True)) == {T0: [(0, 1, 1)]}
    answer = member.fetch(max_records=500, strict=True)
    assert acquired(answer) == {T0: [(2, 4, 1)]}
    assert bases(parts(answer)[T0]) == [0], "the batch is whole"


def test_a_limit_is_of_all_partitions_together(broker: MemoryBroker, member: Member) -> None:
    for index in range(3):
        produce(broker, "t", batch(2), index=index)
    assert acquired(member.fetch([T0, T1, T2], max_records=3)) == {T0: [(0, 1, 1)], T1: [(0, 1, 1)]}


def test_bytes_are_shared_by_the_partitions_and_the_first_gives_a_batch_at_least(broker: MemoryBroker, member: Member) -> None:
    for index in range(2):
        for _ in range(2):
            produce(broker, "t", batch(1, value=b"x" * 1000), index=index)
    answer = member.fetch([T0, T1], max_bytes=2200)
    assert acquired(answer) == {T0: [(0, 0, 1)], T1: [(0, 0, 1)]}
    assert acquired(member.fetch(max_bytes=1)) == {T1: [(1, 1, 1)]}


def test_partitions_take_turns(broker: MemoryBroker, member: Member) -> None:
    for index in range(3):
        for _ in range(3):
            produce(broker, "t", batch(1), index=index)
    member.fetch([T0, T1, T2], max_records=1)
    seen = [next(iter(acquired(member.fetch(max_records=1)))) for _ in range(6)]
    assert set(seen) == {T0, T1, T2}


@pytest.mark.parametrize("limit", ["max_records", "max_bytes"])
def test_nothing_wanted_nothing_given_and_nothing_loaded(broker: MemoryBroker, member: Member, limit: str) -> None:
    produce(broker, "t", batch(1))
    answer = member.fetch([T0], max_wait_ms=WAIT_MS, **{limit: 0})
    assert parts(answer) == {}
    assert len(broker.context.share_partitions()) == 0


def test_records_of_aborted_transactions_are_left_out_for_a_group_that_reads_committed(
    broker: MemoryBroker, member: Member
) -> None:
    group_setting(broker, "share.isolation.level", "read_committed")
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    produce(broker, "t", batch(1))
    replica.append(batch(2, producer=(1, 0, 0), transactional=True))
    assert acquired(member.fetch([T0])) == {T0: [(0, 0, 1)]}, "the transaction is open"
    append_marker(
        replica.log, producer_id=1, producer_epoch=0, commit=False, coordinator_epoch=0, leader_epoch=0, transaction_version=1
    )
    replica.append(batch(1))
    assert acquired(member.fetch()) == {T0: [(3, 4, 1)]}, "the marker is for the member to skip"
    member.fetch((), {T0: [(0, 0, [ACCEPT]), (3, 4, [GAP, ACCEPT])]})
    found = broker.context.share_partitions().get(GROUP, (broker.topic_id("t"), 0))
    assert found is not None
    assert (found.start, found.batches) == (5, [])


def test_a_groups_settings_count_at_once(broker: MemoryBroker, member: Member) -> None:
    produce(broker, "t", batch(1))
    assert member.fetch([T0]).acquisition_lock_timeout_ms == 30_000
    group_setting(broker, "share.record.lock.duration.ms", "15000")
    assert member.fetch().acquisition_lock_timeout_ms == 15_000


def test_uncommitted_readers_get_everything(broker: MemoryBroker, member: Member) -> None:
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    replica.append(batch(2, producer=(1, 0, 0), transactional=True))
    assert acquired(member.fetch([T0])) == {T0: [(0, 1, 1)]}


@pytest.mark.parametrize(
    ("reset", "expected"),
    [
        ("earliest", {T0: [(0, 1, 1)]}),
        ("latest", {}),
        ("by_duration:P1D", {T0: [(0, 1, 1)]}),
        ("by_duration:PT1H", {T0: [(1, 1, 1)]}),
    ],
)
def test_where_a_group_begins(reset: str, expected: Any) -> None:
    broker, persister = share_broker({"t": 1})
    persister.start_offset = -1
    group_setting(broker, "share.auto.offset.reset", reset)
    for ago_ms in (7_200_000, 1000):
        produce(broker, "t", batch(1, timestamp_ms=broker.clock.now_ms() - ago_ms))
    assert acquired(Member(broker).fetch([T0])) == expected


def test_a_group_that_wants_newer_records_than_there_are_begins_when_they_are_there() -> None:
    broker, persister = share_broker({"t": 1})
    persister.start_offset = -1
    group_setting(broker, "share.auto.offset.reset", "by_duration:PT1M")
    produce(broker, "t", batch(1, timestamp_ms=broker.clock.now_ms() - 120_000))
    member = Member(broker)
    assert errors(member.fetch([T0])) == {T0: ErrorCode.OFFSET_NOT_AVAILABLE}
    produce(broker, "t", batch(1, timestamp_ms=broker.clock.now_ms()))
    assert acquired(member.fetch()) == {T0: [(1, 1, 1)]}


def test_a_large_batch_is_searched_for_the_beginning_in_a_thread() -> None:
    broker, persister = share_broker({"t": 1})
    persister.start_offset = -1
    threads = broker.hold_threads()
    group_setting(broker, "share.auto.offset.reset", "by_duration:PT1M")
    records = batch(2, timestamp_ms=broker.clock.now_ms() - 90_000, step_ms=60_000, value=Random(1).randbytes(90_000), codec=1)
    broker.replica("t").append(records)
    member = Member(broker)
    assert errors(member.fetch([T0])) == {T0: ErrorCode.OFFSET_NOT_AVAILABLE}
    threads.end_first()
    broker.clock.advance()
    assert acquired(member.fetch()) == {T0: [(1, 1, 1)]}


# Waiting


def test_who_finds_nothing_waits_and_is_woken_by_records(broker: MemoryBroker, member: Member) -> None:
    promise = member.fetch([T0, T1], max_wait_ms=WAIT_MS)
    assert isinstance(promise, Promise)
    produce(broker, "t", batch(1), index=1)
    broker.clock.advance(0)
    assert acquired(read("share_fetch", 2, promise.result())) == {T1: [(0, 0, 1)]}


def test_the_end_of_the_wait(broker: MemoryBroker, member: Member) -> None:
    promise = member.fetch([T0], max_wait_ms=WAIT_MS)
    broker.clock.advance(WAIT_MS / 1000 - 0.001)
    assert not promise.done()
    broker.clock.advance(0.001)
    answer = read("share_fetch", 2, promise.result())
    assert (answer.error_code, acquired(answer)) == (0, {})


def test_too_little_waits_for_more(broker: MemoryBroker, member: Member) -> None:
    produce(broker, "t", batch(1))
    promise = member.fetch([T0], max_wait_ms=WAIT_MS, min_bytes=500)
    assert isinstance(promise, Promise)
    produce(broker, "t", batch(1, value=b"x" * 500))
    broker.clock.advance(0)
    assert acquired(read("share_fetch", 2, promise.result())) == {T0: [(0, 1, 1)]}


@pytest.mark.parametrize("how", ["release", "leave", "time", "connection"])
def test_what_becomes_available_again_ends_the_wait(broker: MemoryBroker, how: str) -> None:
    produce(broker, "t", batch(3))
    holder, waiter = Member(broker, "holder"), Member(broker, "waiter")
    holder.fetch([T0])
    promise = waiter.fetch([T0], max_wait_ms=60_000)
    if how == "release":
        holder.acknowledge({T0: [(0, 2, [RELEASE])]})
    elif how == "leave":
        holder.acknowledge({}, epoch=-1)
    elif how == "connection":
        (session,) = [
            each for each in broker.context.share_partitions().sessions._sessions.values() if each.key.member_id == "holder"
        ]
        disconnect(session.connection)
    else:
        broker.clock.advance(LOCK_SECONDS)
    broker.clock.advance(0)
    assert acquired(read("share_fetch", 2, promise.result())) == {T0: [(0, 2, 2)]}


def test_room_for_locks_ends_the_wait(broker: MemoryBroker) -> None:
    group_setting(broker, "share.partition.max.record.locks", "100")
    produce(broker, "t", batch(100))
    produce(broker, "t", batch(1))
    holder, waiter = Member(broker, "holder"), Member(broker, "waiter")
    assert acquired(holder.fetch([T0], max_records=1)) == {T0: [(0, 99, 1)]}
    promise = waiter.fetch([T0], max_wait_ms=WAIT_MS)
    assert isinstance(promise, Promise)
    holder.acknowledge({T0: [(0, 9, [ACCEPT])]})
    broker.clock.advance(0)
    assert acquired(read("share_fetch", 2, promise.result())) == {T0: [(100, 100, 1)]}


def test_a_topic_that_is_deleted_meanwhile(broker: MemoryBroker, member: Member) -> None:
    promise = member.fetch([T0], max_wait_ms=WAIT_MS)
    broker.delete_topic("t")
    broker.clock.advance(1)
    assert read("share_fetch", 2, promise.result()).error_code == ErrorCode.NONE
    assert len(broker.context.share_partitions()) == 0
    assert errors(member.fetch()) == {T0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


# Acknowledgements along with it


def test_acknowledgements_are_done_before_more_is_handed_out(broker: MemoryBroker, member: Member) -> None:
    produce(broker, "t", batch(3))
    member.fetch([T0])
    answer = member.fetch((), {T0: [(0, 0, [ACCEPT]), (1, 1, [RELEASE]), (2, 2, [REJECT])]})
    assert acquired(answer) == {T0: [(1, 1, 2)]}
    assert parts(answer)[T0].acknowledge_error_code == ErrorCode.NONE


def test_an_acknowledgement_that_is_refused_is_no_error_of_the_partition(broker: MemoryBroker, member: Member) -> None:
    produce(broker, "t", batch(1))
    member.fetch([T0])
    produce(broker, "t", batch(1))
    answer = member.fetch((), {T0: [(5, 5, [ACCEPT])]})
    part = parts(answer)[T0]
    assert (part.error_code, part.acknowledge_error_code) == (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)
    assert acquired(answer) == {T0: [(1, 1, 1)]}


def test_renewing_fetches_nothing_and_keeps_the_locks(broker: MemoryBroker, member: Member) -> None:
    produce(broker, "t", batch(2))
    member.fetch([T0])
    produce(broker, "t", batch(2))
    broker.clock.advance(20)
    answer = member.renewing({T0: [(0, 1, [RENEW])]})
    assert (acquired(answer), parts(answer)[T0].acknowledge_error_code) == ({}, ErrorCode.NONE)
    broker.clock.advance(20)
    assert acquired(Member(broker, "other").fetch([T0])) == {T0: [(2, 3, 1)]}


@pytest.mark.parametrize("limit", ["max_bytes", "min_bytes", "max_records", "max_wait_ms"])
def test_renewing_has_no_limits(member: Member, limit: str) -> None:
    member.fetch([T0])
    options: dict[str, Any] = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0} | {limit: 1}
    answer = member.fetch((), renews=True, **options)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


# Sessions


def test_only_news_are_answered(broker: MemoryBroker, member: Member) -> None:
    produce(broker, "t", batch(1))
    assert errors(member.fetch([T0, T1])) == {T0: 0, T1: 0}
    assert errors(member.fetch()) == {}
    assert errors(member.fetch([T2])) == {T2: 0}
    produce(broker, "t", batch(1), index=1)
    assert errors(member.fetch()) == {T1: 0}
    assert errors(member.fetch(forgotten=[T0, T1, T2])) == {}
    produce(broker, "t", batch(1), index=1)
    assert errors(member.fetch()) == {}


def test_the_end_of_a_session(broker: MemoryBroker, member: Member) -> None:
    produce(broker, "t", batch(4))
    member.fetch([T0])
    answer = member.fetch((), {T0: [(0, 1, [ACCEPT])]}, epoch=-1)
    assert (answer.error_code, acquired(answer)) == (0, {})
    assert member.fetch(epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert acquired(Member(broker, "other").fetch([T0])) == {T0: [(2, 3, 2)]}


@pytest.mark.parametrize("epoch", [-1, 1, 5])
def test_no_such_session(member: Member, epoch: int) -> None:
    assert member.fetch([T0], epoch=epoch).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize("epoch", [2, 3, -2])
def test_not_the_sessions_epoch(member: Member, epoch: int) -> None:
    member.fetch([T0])
    assert member.fetch(epoch=epoch).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.fetch(epoch=1).error_code == ErrorCode.NONE


def test_a_session_begins_anew_with_epoch_0_and_its_member_keeps_what_it_holds(broker: MemoryBroker, member: Member) -> None:
    produce(broker, "t", batch(1))
    member.fetch([T0])
    assert errors(member.fetch([T1], epoch=0)) == {T1: 0}
    member.epoch = 1
    assert errors(member.acknowledge({T0: [(0, 0, [ACCEPT])]})) == {T0: ErrorCode.NONE}


def test_a_new_session_has_nothing_to_acknowledge(member: Member) -> None:
    assert member.fetch((), {T0: [(0, 0, [ACCEPT])]}).error_code == ErrorCode.INVALID_REQUEST


def test_too_many_sessions_are_refused_when_their_wait_is_over() -> None:
    broker, _ = share_broker({"t": 1}, group_share_max_share_sessions="1", group_share_max_size="1")
    Member(broker, "a").fetch([T0])
    promise = Member(broker, "b").fetch([T0], max_wait_ms=WAIT_MS)
    broker.clock.advance(WAIT_MS / 1000)
    assert read("share_fetch", 2, promise.result()).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_an_answer_that_another_request_overtook(broker: MemoryBroker, member: Member) -> None:
    member.fetch([T0])
    promise = member.fetch(max_wait_ms=WAIT_MS)
    Member.fetch(member, epoch=2)
    broker.clock.advance(WAIT_MS / 1000)
    assert read("share_fetch", 2, promise.result()).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_the_last_connection_of_a_group_takes_its_share_partitions_with_it(broker: MemoryBroker) -> None:
    produce(broker, "t", batch(1))
    shares = broker.context.share_partitions()
    for member_id in ("a", "b"):
        Member(broker, member_id).fetch([T0])
    a, b = (session.connection for session in shares.sessions._sessions.values())
    disconnect(a)
    assert (len(shares), len(shares.sessions)) == (1, 1)
    disconnect(b)
    assert (len(shares), len(shares.sessions)) == (0, 0)


def test_also_where_the_session_ended_before(broker: MemoryBroker, member: Member) -> None:
    member.fetch([T0])
    shares = broker.context.share_partitions()
    (session,) = shares.sessions._sessions.values()
    member.fetch(epoch=-1)
    assert (len(shares), len(shares.sessions)) == (1, 0)
    disconnect(session.connection)
    assert len(shares) == 0


def test_what_happens_to_one_partition_or_topic_looks_at_no_other() -> None:
    class Unsearched(dict[Any, Any]):
        def __iter__(self) -> Any:
            raise AssertionError("all share partitions were looked at")

    broker, _ = share_broker({"t": 3, "u": 2})
    broker.register_broker(2, port=9094)
    shares = broker.context.share_partitions()
    for number, group_id in enumerate(("g", "h")):
        Member(broker, f"m{number}").fetch([*(("t", index) for index in range(3)), ("u", 0)], group_id=group_id)
    shares._partitions = Unsearched(shares._partitions)
    broker.elect("t", leader=2)
    assert len(shares) == 6
    for group_id in ("g", "h"):
        assert shares.get(group_id, (broker.topic_id("t"), 0)) is None
        assert shares.get(group_id, (broker.topic_id("t"), 1)) is not None
    broker.delete_topic("t")
    assert len(shares) == 2
    for session in list(shares.sessions._sessions.values()):
        disconnect(session.connection)
    assert (len(shares), shares._of_partition, shares._of_group) == (0, {}, {})


# Refusals


def test_who_asks(broker: MemoryBroker, member: Member) -> None:
    assert member.fetch([T0], group_id=None).error_code == ErrorCode.INVALID_REQUEST
    assert Member(broker, "").fetch([T0]).error_code == ErrorCode.INVALID_REQUEST
    assert Member(broker, "x" * 37).fetch([T0]).error_code == ErrorCode.INVALID_REQUEST
    assert Member(broker, "x" * 36).fetch([T0]).error_code == ErrorCode.NONE


def test_without_the_feature(broker: MemoryBroker, member: Member) -> None:
    del broker.image.features["share.version"]
    assert member.fetch([T0]).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_partitions_that_are_not_there(broker: MemoryBroker, member: Member) -> None:
    produce(broker, "t", batch(1))
    answer = member.fetch([T0, ("t", 9), ("nix", 0)], max_wait_ms=WAIT_MS)
    assert errors(answer) == {
        T0: ErrorCode.NONE,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nix", 0): ErrorCode.UNKNOWN_TOPIC_ID,
    }


def test_another_leader(broker: MemoryBroker, member: Member) -> None:
    broker.register_broker(2, port=9094)
    member.fetch([T0])
    broker.elect("t", leader=2)
    answer = member.fetch(max_wait_ms=WAIT_MS)
    part = parts(answer)[T0]
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (2, 1)
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(2, 9094)]


def test_the_groups_state_is_not_available(broker: MemoryBroker, share: tuple[MemoryBroker, MemoryPersister]) -> None:
    share[1].refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    member = Member(broker)
    assert errors(member.fetch([T0], max_wait_ms=WAIT_MS)) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    share[1].refusal = None
    produce(broker, "t", batch(1))
    assert acquired(member.fetch()) == {T0: [(0, 0, 1)]}


def test_a_log_that_begins_later_than_the_group_stands(broker: MemoryBroker, member: Member) -> None:
    for _ in range(3):
        produce(broker, "t", batch(1))
    member.fetch([T0], max_records=1)
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    replica.log.delete_records_before(2)
    member.fetch()
    assert acquired(member.fetch()) == {T0: [(2, 2, 1)]}


def test_a_group_that_is_fenced_is_loaded_anew(broker: MemoryBroker, share: tuple[MemoryBroker, MemoryPersister]) -> None:
    produce(broker, "t", batch(2))
    member = Member(broker)
    member.fetch([T0])
    share[1].state_epoch, share[1].start_offset = 1, 1
    answer = member.fetch((), {T0: [(0, 1, [ACCEPT])]})
    assert parts(answer)[T0].acknowledge_error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert acquired(answer) == {T0: [(1, 1, 1)]}


def test_damage_is_answered(broker: MemoryBroker, member: Member) -> None:
    produce(broker, "t", batch(1))
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    replica.log.directory.failed = "gone"
    assert errors(member.fetch([T0])) == {T0: ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_call_goes_through_the_codecs_at_every_version(broker: MemoryBroker) -> None:
    for version in versions("share_fetch"):
        answer = call(broker, "share_fetch", version, Member(broker).request([T0], group_id=None))
        assert answer.error_code == ErrorCode.INVALID_REQUEST
