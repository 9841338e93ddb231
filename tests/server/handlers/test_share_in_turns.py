"""ShareFetch and ShareAcknowledge about much: they are answered in turns, as short ones are, and sessions have limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import pytest

from ottla.server.base.clock import TURN_NS
from ottla.server.base.promise import Promise
from ottla.server.partitions.fetch_sessions import UNKNOWN_KEPT
from ottla.server.requests.session import Session
from ottla.server.share import acknowledging
from ottla.server.share.acknowledging import AT_ONCE, CARRIED_OUT_AT_ONCE
from ottla.server.share.fetching import ShareFetch
from ottla.server.share.sessions import PARTITION_BYTES, ShareSessions
from ottla.server.share.share_partitions import SharePartitions
from ottla.server.share.states import ACCEPT, REJECT, RELEASE
from ottla.wire.errors import ErrorCode
from tests.fakes import MemoryBroker
from tests.log.support import batch
from tests.server.handlers.data_calls import produce, read
from tests.server.handlers.share_calls import Member, Partition, acquired, errors, share_broker

MANY = 3 * AT_ONCE
STEPS_A_TURN = 20
ALL = [("t", index) for index in range(MANY)]
WAIT_MS = 1000


class SlowPartitions:
    """Looks share partitions up so slowly that a turn is over after STEPS_A_TURN of them; counts them."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._found = SharePartitions.get
        self.looked_up = 0

    def bound(self) -> Any:
        """Returns what stands for the method."""

        def get(shares: SharePartitions, *arguments: Any) -> Any:
            self.looked_up += 1
            self._broker.clock.spend(TURN_NS / 1e9 / STEPS_A_TURN)
            return self._found(shares, *arguments)

        return get


@pytest.fixture
def broker() -> MemoryBroker:
    return share_broker({"t": MANY})[0]


@pytest.fixture
def member(broker: MemoryBroker) -> Member:
    member = Member(broker)
    answer = member.fetch(ALL)
    assert errors(answer) == dict.fromkeys(ALL, 0)
    return member


@pytest.fixture
def slow(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> SlowPartitions:
    slow = SlowPartitions(broker)
    monkeypatch.setattr(SharePartitions, "get", slow.bound())
    return slow


def in_turns(broker: MemoryBroker, slow: SlowPartitions, ask: Callable[[], Any], api: str = "share_fetch") -> Any:
    """Returns the answer, promised by `ask`, when its last turn is over; no turn looks up much more than it has time for."""
    slow.looked_up = 0
    answer = ask()
    assert isinstance(answer, Promise)
    turns = [slow.looked_up]
    slow.looked_up = 0
    while not answer.done() and len(turns) < MANY:
        broker.clock.advance()
        turns.append(slow.looked_up)
        slow.looked_up = 0
    assert max(turns) <= 2 * STEPS_A_TURN
    assert sum(map(bool, turns)) >= MANY // (2 * STEPS_A_TURN)
    return read(api, 2, answer.result())


def test_a_session_of_many_partitions_is_read_in_turns(broker: MemoryBroker, member: Member, slow: SlowPartitions) -> None:
    for index in (2, MANY - 1):
        produce(broker, "t", batch(2), index=index)
    answer = in_turns(broker, slow, member.fetch)
    assert acquired(answer) == {("t", index): [(0, 1, 1)] for index in (2, MANY - 1)}
    assert errors(answer) == {("t", index): 0 for index in (2, MANY - 1)}, "only news"


def test_it_waits_for_records(broker: MemoryBroker, member: Member) -> None:
    answer = member.fetch(max_wait_ms=WAIT_MS)
    assert isinstance(answer, Promise)
    broker.clock.advance()
    assert not answer.done()
    produce(broker, "t", batch(1), index=7)
    broker.clock.advance()
    assert acquired(read("share_fetch", 2, answer.result())) == {("t", 7): [(0, 0, 1)]}
    assert not broker.replica("t", 7).watchers
    assert broker.clock.waiting == 1, "the lock's timer"


def test_what_comes_between_two_turns_ends_the_wait(broker: MemoryBroker, member: Member, slow: SlowPartitions) -> None:
    answer = member.fetch(max_wait_ms=60_000)
    produce(broker, "t", batch(1), index=0)  # it has been looked at, and watched before that
    for _ in range(100):
        broker.clock.advance()
    assert acquired(read("share_fetch", 2, answer.result())) == {("t", 0): [(0, 0, 1)]}


def test_the_wait_ends(broker: MemoryBroker, member: Member) -> None:
    answer = member.fetch(max_wait_ms=WAIT_MS)
    broker.clock.advance(WAIT_MS / 1000)
    assert errors(read("share_fetch", 2, answer.result())) == {}
    assert broker.clock.waiting == 0


def test_nothing_is_left_of_a_client_that_goes(broker: MemoryBroker, member: Member) -> None:
    answer = member.fetch(max_wait_ms=WAIT_MS)
    assert broker.replica("t", 0).watchers
    answer.cancel()
    assert not broker.replica("t", 0).watchers
    assert broker.clock.waiting == 0


def test_another_member_may_take_what_was_read(broker: MemoryBroker, member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    read_to: list[int] = []

    def read_slowly(fetch: ShareFetch, source: Any) -> int:
        broker.clock.spend(TURN_NS / 1e9)
        read_to.append(source.replica.log.high_watermark)
        return read_to[-1]

    monkeypatch.setattr(ShareFetch, "_upto", read_slowly)
    produce(broker, "t", batch(1))
    answer = member.fetch()
    while 1 not in read_to:
        broker.clock.advance()
    assert acquired(Member(broker, "other").fetch([("t", 0)])) == {("t", 0): [(0, 0, 1)]}
    assert acquired(finished(broker, answer)) == {}


def test_a_request_on_another_connection_may_overtake_it(broker: MemoryBroker, member: Member, slow: SlowPartitions) -> None:
    answer = member.fetch()
    other = Member(broker)
    other.epoch = member.epoch
    assert isinstance(other.fetch(), Promise)
    for _ in range(200):
        broker.clock.advance()
    assert read("share_fetch", 2, answer.result()).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_acknowledgements_of_many_partitions(broker: MemoryBroker, slow: SlowPartitions) -> None:
    member = holding_all(broker)
    member.epoch = 1
    accept = [(0, 0, [ACCEPT])]
    answer = in_turns(broker, slow, lambda: member.acknowledge(dict.fromkeys(ALL, accept)), "share_acknowledge")
    assert errors(answer) == dict.fromkeys(ALL, 0)
    assert acquired(finished(broker, Member(broker, "other").fetch(ALL))) == {}


def test_acknowledgements_of_many_partitions_in_a_fetch(broker: MemoryBroker, slow: SlowPartitions) -> None:
    member = holding_all(broker)
    member.epoch = 1
    answer = in_turns(broker, slow, lambda: member.fetch((), {name: [(0, 0, [RELEASE])] for name in ALL}))
    assert acquired(answer) == {name: [(0, 0, 2)] for name in ALL}
    assert {part.acknowledge_error_code for topic in answer.responses for part in topic.partitions} == {0}


@pytest.mark.parametrize("api", ["share_fetch", "share_acknowledge"])
def test_the_end_of_a_session_of_many_partitions(broker: MemoryBroker, slow: SlowPartitions, api: str) -> None:
    member = holding_all(broker)
    end = partial(member.fetch, epoch=-1) if api == "share_fetch" else partial(member.acknowledge, {}, epoch=-1)
    assert in_turns(broker, slow, end, api).error_code == 0
    assert len(broker.context.share_partitions().sessions) == 0
    assert acquired(finished(broker, Member(broker, "other").fetch(ALL))) == {name: [(0, 0, 2)] for name in ALL}


def test_the_end_of_a_connection_with_many_partitions(broker: MemoryBroker, slow: SlowPartitions) -> None:
    holding_all(broker)
    shares = broker.context.share_partitions()
    (session,) = shares.sessions._sessions.values()
    slow.looked_up = 0
    cast(Session, session.connection).close()
    assert slow.looked_up <= 2 * STEPS_A_TURN
    assert (len(shares.sessions), shares.sessions.partition_count) == (0, 0)
    for _ in range(MANY):
        slow.looked_up = 0
        broker.clock.advance()
        assert slow.looked_up <= 2 * STEPS_A_TURN
    assert len(shares) == 0


def test_who_comes_back_meanwhile_keeps_what_it_holds(broker: MemoryBroker, slow: SlowPartitions) -> None:
    member = holding_all(broker)
    ended = member.fetch(epoch=-1)
    assert not ended.done()
    again = Member(broker)
    assert again.fetch([("t", MANY - 1)]).error_code == 0
    finished(broker, ended)
    assert errors(again.acknowledge({("t", MANY - 1): [(0, 0, [ACCEPT])]})) == {("t", MANY - 1): 0}


def test_many_acknowledgements_of_one_partition(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    most: list[int] = []
    carried_out = SharePartitions.acknowledge

    def acknowledge(shares: SharePartitions, key: Any, partition: Any, batches: Sequence[Any]) -> Any:
        most.append(sum(len(each.types) for each in batches))
        broker.clock.spend(TURN_NS / 1e9)
        return carried_out(shares, key, partition, batches)

    monkeypatch.setattr(SharePartitions, "acknowledge", acknowledge)
    count = 2 * CARRIED_OUT_AT_ONCE + 10
    produce(broker, "t", batch(count))
    one = ("t", 0)
    member = Member(broker)
    assert acquired(member.fetch([one], max_records=count)) == {one: [(0, count - 1, 1)]}
    types = [REJECT if offset % 2 else RELEASE for offset in range(count - 2)]
    last = [(count - 2, count - 2, [RELEASE]), (count - 1, count - 1, [ACCEPT])]
    answer = finished(broker, member.acknowledge({one: [(0, count - 3, types), *last]}), "share_acknowledge")
    assert errors(answer) == {one: 0}
    assert most == [CARRIED_OUT_AT_ONCE, CARRIED_OUT_AT_ONCE, 10]
    again = finished(broker, member.fetch(max_records=count))
    assert acquired(again) == {one: [(offset, offset, 2) for offset in range(0, count, 2)]}


def test_many_acknowledgements_are_carried_out_together_or_not_at_all(broker: MemoryBroker) -> None:
    count = 2 * CARRIED_OUT_AT_ONCE
    produce(broker, "t", batch(count - 1))
    one = ("t", 0)
    member = Member(broker)
    member.fetch([one], max_records=count)
    answer = finished(broker, member.acknowledge({one: [(0, count - 1, [ACCEPT] * count)]}), "share_acknowledge")
    assert errors(answer) == {one: ErrorCode.INVALID_REQUEST}
    assert errors(member.acknowledge({one: [(0, count - 2, [ACCEPT])]})) == {one: 0}


def test_what_consumers_do_by_default_is_carried_out_at_once(broker: MemoryBroker, slow: SlowPartitions) -> None:
    some = ALL[:10]
    member = Member(broker)
    assert not isinstance(member.fetch(some), Promise)
    for index in range(10):
        produce(broker, "t", batch(50), index=index)
    assert len(acquired(member.fetch())) == 10
    acknowledged = {name: [(0, 49, [ACCEPT, RELEASE] * 25)] for name in some}
    assert not isinstance(member.fetch((), acknowledged), Promise)
    assert acknowledging.CARRIED_OUT_AT_ONCE >= 500


# How much sessions hold


def bounded(partitions: int) -> tuple[MemoryBroker, SharePartitions]:
    broker, _ = share_broker({"t": MANY})
    shares = broker.context.share_partitions()
    shares._keep_sessions(ShareSessions(partitions * PARTITION_BYTES))
    return broker, shares


def limit_reached(broker: MemoryBroker, answer: Any) -> bool:
    """Returns whether the answer is that refusal, and came when the time was over."""
    assert isinstance(answer, Promise)
    broker.clock.advance(WAIT_MS / 1000 - 0.001)
    assert not answer.done()
    broker.clock.advance(0.001)
    return bool(read("share_fetch", 2, answer.result()).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED)


@pytest.mark.parametrize("count", [UNKNOWN_KEPT, UNKNOWN_KEPT + 1, 200 * UNKNOWN_KEPT])
def test_a_session_is_opened_for_few_partitions_that_do_not_exist(count: int) -> None:
    broker, shares = bounded(10 * UNKNOWN_KEPT)
    names: list[Partition] = [("nix", index) for index in range(count // 2)] + [
        ("t", -1 - index) for index in range(-(-count // 2))
    ]
    answer = Member(broker).fetch(names, max_wait_ms=WAIT_MS)
    if count == UNKNOWN_KEPT:
        assert len(errors(answer)) == UNKNOWN_KEPT
        assert shares.sessions.partition_count == UNKNOWN_KEPT
    else:
        assert limit_reached(broker, answer)
        assert (len(shares.sessions), shares.sessions.partition_count) == (0, 0)


def test_a_session_grows_by_few_partitions_that_do_not_exist() -> None:
    broker, shares = bounded(10 * UNKNOWN_KEPT)
    member = Member(broker)
    member.fetch([("t", 0), *(("nix", index) for index in range(UNKNOWN_KEPT))])
    produce(broker, "t", batch(1))
    assert limit_reached(broker, member.fetch([("nix", UNKNOWN_KEPT)], max_wait_ms=WAIT_MS))
    assert shares.sessions.partition_count == UNKNOWN_KEPT + 1, "it stays as it is"
    member.epoch = 2
    assert acquired(finished(broker, member.fetch(forgotten=[("nix", 0)]))) == {("t", 0): [(0, 0, 1)]}
    assert errors(finished(broker, member.fetch([("nix", UNKNOWN_KEPT)])))["nix", UNKNOWN_KEPT] == ErrorCode.UNKNOWN_TOPIC_ID
    assert shares.sessions.partition_count == UNKNOWN_KEPT + 1


def test_sessions_are_bounded_by_their_partitions() -> None:
    broker, shares = bounded(10)
    first, second = Member(broker, "a"), Member(broker, "b")
    first.fetch(ALL[:5])
    second.fetch(ALL[:5])
    assert limit_reached(broker, Member(broker, "c").fetch(ALL[:5], max_wait_ms=WAIT_MS))
    assert limit_reached(broker, second.fetch(ALL[5:6], max_wait_ms=WAIT_MS))
    assert shares.sessions.held_bytes == 10 * PARTITION_BYTES
    first.fetch(epoch=-1)
    second.epoch = 2
    assert errors(second.fetch(ALL[5:6])) == {ALL[5]: 0}
    assert shares.sessions.partition_count == 6


def test_an_evicted_session_leaves_its_records_to_others() -> None:
    broker, shares = bounded(10)
    produce(broker, "t", batch(1))
    greedy = Member(broker, "a")
    assert acquired(greedy.fetch(ALL[:8])) == {ALL[0]: [(0, 0, 1)]}
    assert acquired(Member(broker, "b").fetch(ALL[:3])) == {ALL[0]: [(0, 0, 2)]}
    assert greedy.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert (shares.sessions.evictions, shares.sessions.partition_count) == (1, 3)


def finished(broker: MemoryBroker, answer: Any, api: str = "share_fetch") -> Any:
    if not isinstance(answer, Promise):
        return answer
    for _ in range(MANY):
        broker.clock.advance()
    return read(api, 2, answer.result())


def holding_all(broker: MemoryBroker) -> Member:
    """A member that holds a record of every partition."""
    for index in range(MANY):
        produce(broker, "t", batch(1), index=index)
    member = Member(broker)
    assert len(acquired(finished(broker, member.fetch(ALL)))) == MANY
    return member
