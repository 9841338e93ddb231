"""Fetch of many partitions: it is answered in turns, and what happens between two of them is not missed."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.server.base.clock import TURN_NS
from ottla.server.base.promise import Promise
from ottla.server.handlers import fetch as handler
from ottla.server.handlers.fetch import PARTITIONS_A_STEP, PARTITIONS_AT_ONCE, UNCOUNTED
from ottla.server.partitions.fetch_sessions import PARTITION_BYTES
from ottla.server.requests.session import Session
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from tests.fakes import NODE_ID, MemoryBroker
from tests.followers import TWO, Keeper, Led
from tests.log.support import batch
from tests.server.handlers.data_calls import call, fetch_request, produce, read
from tests.server.requests.test_session import Network

MANY = PARTITIONS_AT_ONCE + PARTITIONS_A_STEP
ONE = batch(1)


class SlowReplicas:
    """Looks partitions up so slowly that a step of them takes half a turn; counts them."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self.looked_up = 0

    def get(self, topic: str, index: int) -> Any:
        self.looked_up += 1
        self._broker.clock.spend(TURN_NS / 1e9 / 2 / PARTITIONS_A_STEP)
        return self._broker.replicas.get(topic, index)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker.replicas, name)


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"t": 3, "other": 1})


def slow(broker: MemoryBroker) -> SlowReplicas:
    replicas = SlowReplicas(broker)
    broker.context.replicas = cast(Any, replicas)
    return replicas


def many(count: int = MANY, version: int = 12, **options: Any) -> FetchRequest:
    """Asks for `count` partitions of t, which has three."""
    return fetch_request("t", dict.fromkeys(range(count), 0), version, **options)


def begun(broker: MemoryBroker, request: FetchRequest, version: int = 12) -> Promise[Any]:
    answer = call(broker, "fetch", version, request)
    assert isinstance(answer, Promise)
    return answer


def found(answer: Promise[Any], version: int = 12) -> dict[int, int]:
    """Returns the error codes by partition, in the order of the answer; -1 for records."""
    (topic,) = read("fetch", version, answer.result()).responses
    return {each.partition_index: -1 if each.records else each.error_code for each in topic.partitions}


def test_a_turn_reads_no_more_than_it_has_time_for(broker: MemoryBroker) -> None:
    produce(broker, "t", ONE, index=2)
    replicas = slow(broker)
    answer = begun(broker, many())
    seen = [replicas.looked_up]
    while not answer.done():
        broker.clock.advance()
        seen.append(replicas.looked_up)
    most = max(after - before for before, after in zip([0, *seen], seen, strict=False))
    assert most <= 3 * PARTITIONS_A_STEP  # a step, another one, and the one that goes over the time
    assert len(seen) > 2
    expected = dict.fromkeys(range(3, MANY), int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert found(answer) == {0: 0, 1: 0, 2: -1} | expected
    assert list(found(answer)) == list(range(MANY))


def test_few_partitions_are_answered_at_once(broker: MemoryBroker) -> None:
    slow(broker)
    answer = call(broker, "fetch", 12, many(PARTITIONS_AT_ONCE))
    assert len(answer.responses[0].partitions) == PARTITIONS_AT_ONCE


def test_what_is_quick_is_answered_at_once_however_many_it_names(broker: MemoryBroker) -> None:
    answer = call(broker, "fetch", 12, many())
    assert [len(topic.partitions) for topic in answer.responses] == [MANY]


def test_the_client_waits_for_a_partition_to_grow(broker: MemoryBroker) -> None:
    answer = begun(broker, many(max_wait_ms=500))
    broker.clock.advance(0.4)
    assert not answer.done()
    produce(broker, "t", ONE, index=1)
    assert not answer.done()  # not inside the append
    broker.clock.advance()
    assert found(answer)[1] == -1
    assert broker.clock.waiting == 0
    assert all(not broker.replica("t", index).watchers for index in range(3))


def test_it_waits_on_if_too_little_has_come(broker: MemoryBroker) -> None:
    answer = begun(broker, many(max_wait_ms=500, min_bytes=2 * len(ONE)))
    for index in (1, 0):
        produce(broker, "t", ONE, index=index)
        assert not answer.done()
        broker.clock.advance(0.1)
    assert answer.done()
    assert [found(answer)[index] for index in range(3)] == [-1, -1, 0]


def test_it_is_answered_with_what_there_is_when_the_time_is_over(broker: MemoryBroker) -> None:
    answer = begun(broker, many(max_wait_ms=500))
    broker.clock.advance(0.499)
    assert not answer.done()
    broker.clock.advance(0.001)
    assert found(answer)[0] == 0
    assert all(not broker.replica("t", index).watchers for index in range(3))


def test_the_time_may_be_over_in_the_middle_of_an_attempt(broker: MemoryBroker) -> None:
    slow(broker)
    answer = begun(broker, many(max_wait_ms=1))
    for _ in range(20):
        broker.clock.advance()
    assert found(answer)[0] == 0


def test_what_grows_between_two_turns_of_an_attempt_is_not_missed(broker: MemoryBroker) -> None:
    replicas = slow(broker)
    answer = begun(broker, many(max_wait_ms=10_000))
    while replicas.looked_up < MANY + PARTITIONS_A_STEP:  # all are watched, and the first are read
        broker.clock.advance()
    produce(broker, "t", ONE, index=0)
    assert not answer.done()
    for _ in range(20):
        broker.clock.advance()
    assert found(answer)[0] == -1


def test_a_topic_that_is_made_meanwhile_ends_the_waiting(broker: MemoryBroker) -> None:
    topics = many(max_wait_ms=500)
    topics.topics += fetch_request("late", {0: 0}).topics
    answer = begun(broker, topics)
    broker.create_topic("late")
    produce(broker, "t", ONE)
    broker.clock.advance()
    assert answer.done()


def test_nothing_is_left_of_a_client_that_goes(broker: MemoryBroker) -> None:
    answer = begun(broker, many(max_wait_ms=500))
    assert broker.replica("t", 0).watchers
    answer.cancel()
    assert not broker.replica("t", 0).watchers
    assert broker.clock.waiting == 0
    produce(broker, "t", ONE)
    replicas = slow(broker)
    answer = begun(broker, many(max_wait_ms=500))
    answer.cancel()
    looked_up = replicas.looked_up
    broker.clock.advance(1)
    assert replicas.looked_up == looked_up


@pytest.mark.parametrize("version", [12, 13])
def test_a_session_of_many_answers_only_what_is_new(version: int) -> None:
    broker = MemoryBroker({"t": PARTITIONS_AT_ONCE + 10})
    every = PARTITIONS_AT_ONCE + 10
    begin = call(broker, "fetch", version, many(every, version, session=(0, 0)))
    assert begin.session_id > 0
    assert len(begin.responses[0].partitions) == every
    more = fetch_request("t", {}, version, session=(begin.session_id, 1), max_wait_ms=500)
    answer = begun(broker, more, version)
    produce(broker, "t", ONE, index=every - 1)
    broker.clock.advance()
    assert found(answer, version) == {every - 1: -1}
    assert list(broker.context.fetch_sessions._sessions[begin.session_id].partitions)[-1][1] == every - 1
    wrong = call(broker, "fetch", version, many(every, version, session=(begin.session_id, 7)))
    assert (wrong.error_code, wrong.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])


def test_a_request_that_was_overtaken_is_refused() -> None:
    broker = MemoryBroker({"t": PARTITIONS_AT_ONCE + 10})
    begin = call(broker, "fetch", 12, many(PARTITIONS_AT_ONCE + 10, session=(0, 0)))
    answer = begun(broker, fetch_request("t", {}, session=(begin.session_id, 1), max_wait_ms=500))
    call(broker, "fetch", 12, fetch_request("t", {}, session=(begin.session_id, 2)))
    broker.clock.advance(1)
    refused = answer.result()
    assert (refused.error_code, refused.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])


def test_each_leader_elsewhere_is_named_once(broker: MemoryBroker) -> None:
    broker.register_broker(NODE_ID + 1, port=9093)
    elsewhere = [NODE_ID + 1]
    for index in (0, 2):
        change = PartitionChangeRecord(index, broker.topic_id("t"), leader=NODE_ID + 1, replicas=elsewhere, isr=elsewhere)
        broker.image.apply(change)
    answer = call(broker, "fetch", 16, many(version=16))
    assert [(each.node_id, each.host) for each in answer.node_endpoints] == [(NODE_ID + 1, f"host{NODE_ID + 1}")]
    codes = {each.partition_index: each.error_code for each in answer.responses[0].partitions}
    assert [codes[index] for index in range(3)] == [6, 0, 6]


def test_what_went_out_is_counted_by_topic(broker: MemoryBroker) -> None:
    produce(broker, "t", ONE)
    call(broker, "fetch", 12, many())
    assert broker.replica().traffic.bytes_out == len(ONE)


class Quotas:
    """Throttles whoever would get more than `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.sizes: list[int] = []

    def charge_fetch(self, session: Any, client_id: str | None, size: int) -> int:
        self.sizes.append(size)
        return 77 if size > self._most else 0


@pytest.mark.parametrize(("most", "topics"), [(1 << 20, 1), (1000, 0)])
def test_quotas_count_the_whole_answer(broker: MemoryBroker, most: int, topics: int) -> None:
    quotas = Quotas(most)
    broker.context.quotas = cast(Any, quotas)
    produce(broker, "t", ONE)
    threads = broker.hold_threads()
    answer = begun(broker, many())
    threads.end_first()
    broker.clock.advance()
    response = answer.result()
    assert (response.throttle_time_ms, len(response.responses)) == (0 if topics else 77, topics)
    assert quotas.sizes[0] > len(ONE) + MANY * 20
    assert broker.replica().traffic.bytes_out == (len(ONE) if topics else 0)


def test_a_follower_is_counted_once_however_often_it_is_looked_at() -> None:
    led = Led()
    led.append(3)
    request = fetch_request("t", dict.fromkeys(range(MANY), 3), 17, replica_id=TWO, max_wait_ms=500)
    keeper = led.high_watermark.keeper = Keeper()
    answer = handler.handle(request, led.broker.request(17, 1))
    assert isinstance(answer, Promise)
    assert keeper.considered == [TWO]
    led.replica.wake()
    led.broker.clock.advance(1)
    assert answer.done()
    assert keeper.considered == [TWO]


def test_one_that_waits_keeps_no_other_long_request_waiting(broker: MemoryBroker) -> None:
    admission = broker.context.admission()
    request = broker.request(12, 1)
    admission.enter(request)
    answer = handler.handle(many(max_wait_ms=500), request)
    assert isinstance(answer, Promise)
    assert not answer.done()
    assert admission._inside == {}


@pytest.mark.parametrize(("count", "times"), [(UNCOUNTED, 0), (UNCOUNTED + 1, 1), (MANY, 1)])
@pytest.mark.parametrize("epoch", [-1, 0])
def test_what_a_request_of_many_keeps_while_it_waits_counts_whether_or_not_they_exist(
    broker: MemoryBroker, count: int, times: int, epoch: int
) -> None:
    connection = Network()
    session = Session("PLAINTEXT", "127.0.0.1", connection=connection)
    answer = handler.handle(many(count, max_wait_ms=500, session=(0, epoch)), broker.request(12, 1, session))
    assert isinstance(answer, Promise)
    assert connection.held == [count * PARTITION_BYTES] * times
    broker.clock.advance(0.5)
    assert answer.done()
    assert connection.held == [count * PARTITION_BYTES] * times
    handler.handle(many(count, max_wait_ms=0, session=(0, epoch)), broker.request(12, 1, session))
    assert len(connection.held) == times
    assert connection.muted == []


def test_what_a_session_counts_is_not_counted_twice() -> None:
    broker, connection = MemoryBroker({"t": MANY}), Network()
    session = Session("PLAINTEXT", "127.0.0.1", connection=connection)
    begin = call(broker, "fetch", 12, many(session=(0, 0)))
    more = fetch_request("t", {}, session=(begin.session_id, 1), max_wait_ms=500)
    assert isinstance(handler.handle(more, broker.request(12, 1, session)), Promise)
    assert (sum(connection.held), connection.muted) == (0, [])


def test_what_a_follower_of_many_partitions_knows_is_looked_at_once_a_fetch() -> None:
    broker = MemoryBroker({})
    count = PARTITIONS_AT_ONCE + 1
    broker.create_topic("t", count, followers=(TWO,))
    traffic, session = broker.replica("t").traffic, (0, 0)

    def fetched(offsets: dict[int, int], max_wait_ms: int = 0) -> Any:
        request = fetch_request(
            "t", offsets, 17, replica_id=TWO, session=session, max_wait_ms=max_wait_ms, current_leader_epoch=0
        )
        answer = call(broker, "fetch", 17, request)
        return answer if not isinstance(answer, Promise) else finished(answer)

    def finished(answer: Promise[Any]) -> Any:
        for _ in range(20):
            broker.clock.advance()
        return read("fetch", 17, answer.result()) if answer.done() else answer

    session = fetched(dict.fromkeys(range(count), 0)).session_id, 1
    fetches = traffic.fetches
    waiting = fetched({}, max_wait_ms=500)
    assert isinstance(waiting, Promise)
    broker.clock.advance(0.5)
    assert finished(waiting).responses == []
    assert traffic.fetches == fetches + count
    session = session[0], 2
    waiting = fetched({}, max_wait_ms=500)
    broker.replica("t", 3).append(ONE)
    ((data,),) = (topic.partitions for topic in finished(waiting).responses)
    assert (data.partition_index, len(data.records)) == (3, len(ONE))
    session = session[0], 3
    assert [each.high_watermark for each in fetched({3: 1}).responses[0].partitions] == [1]
    session = session[0], 4
    waiting = fetched({}, max_wait_ms=500)
    assert isinstance(waiting, Promise)
    broker.clock.spend(0.5)
    broker.replica("t", 5).append(ONE)  # it is woken, and the time is over
    ((data,),) = (topic.partitions for topic in finished(waiting).responses)
    assert (data.partition_index, len(data.records)) == (5, len(ONE))


def test_in_a_round_whose_time_is_spent_even_few_hundred_are_read_in_turns() -> None:
    """Hundreds of clients may ask for them at the same time, in their sessions by a request of forty bytes."""
    count = 5 * PARTITIONS_A_STEP
    broker = MemoryBroker({"t": count})
    begin = call(broker, "fetch", 12, many(count, session=(0, 0)))
    more = fetch_request("t", {}, session=(begin.session_id, 1))
    broker.clock.advance(1)
    assert not broker.clock.turns.is_spent(broker.clock.ticks_ns())
    replicas = slow(broker)
    broker.clock.spend(TURN_NS / 1e9)
    answer = begun(broker, more)
    assert replicas.looked_up == PARTITIONS_A_STEP
    for _ in range(20):
        broker.clock.advance()
    assert answer.done()
    few = fetch_request("t", dict.fromkeys(range(PARTITIONS_A_STEP), 0))
    broker.clock.turns.is_spent(broker.clock.ticks_ns())
    broker.clock.spend(TURN_NS / 1e9)
    assert len(call(broker, "fetch", 12, few).responses[0].partitions) == PARTITIONS_A_STEP


@pytest.mark.parametrize("count", [UNCOUNTED + 1, MANY])
def test_one_that_waits_may_be_answered_early(broker: MemoryBroker, count: int) -> None:
    connection = Network()
    session = Session("PLAINTEXT", "127.0.0.1", connection=connection)
    answer = handler.handle(many(count, max_wait_ms=500), broker.request(12, 1, session))
    assert isinstance(answer, Promise)
    (expire_early,) = connection.expire_early
    assert expire_early is not None
    expire_early()
    assert not answer.done()
    broker.clock.advance()
    assert len(answer.result().responses[0].partitions) == count
    assert broker.clock.waiting == 0
