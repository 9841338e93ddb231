"""These tests cover Fetch by brokers that follow a partition, and by consumers that read from one."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.server.handlers import fetch as handler
from ottla.server.partitions.roles import Leader
from ottla.server.requests.session import Session
from ottla.server.security.authorizer import Authorizer
from ottla.wire.batch import iter_batches
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import DECODE_REQUEST, ENCODE_REQUEST, FetchResponse, ReplicaState
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from tests.fakes import LISTENER, NODE_ID, MemoryBroker
from tests.followers import THREE, TWO, Led
from tests.leader import Cluster
from tests.log.support import batch
from tests.server.handlers.data_calls import call, fetch, fetch_request, over_the_wire, read


def follow(led: Led, offset: int, follower: int = TWO, version: int = 17, **options: Any) -> Any:
    return fetch(led.broker, "t", offset, version, replica_id=follower, **options)


def offsets(data: Any) -> list[int]:
    """Returns the base offsets of the whole batches."""
    return [header.base_offset for header, _ in iter_batches(bytes(data.records))]


def ends(led: Led) -> list[int]:
    return [led.high_watermark.followers[follower].end_offset for follower in (TWO, THREE)]


@pytest.mark.parametrize("version", [12, 14, 15, 17])
def test_a_follower_reads_to_the_end_of_the_log(version: int) -> None:
    led = Led()
    led.append(3)
    data = follow(led, 0, version=version)
    assert (data.error_code, data.high_watermark, data.last_stable_offset, data.log_start_offset) == (0, 0, 0, 0)
    assert offsets(data) == [0]
    assert ends(led) == [0, -1]


def test_broker_0_is_a_follower_like_any_other() -> None:
    broker = MemoryBroker({})
    broker.create_topic("t", followers=(0,))
    broker.replica().append(batch(3))
    data = fetch(broker, "t", 0, 17, replica_id=0)
    assert (data.error_code, data.high_watermark, offsets(data)) == (0, 0, [0])


def test_its_offset_moves_the_high_watermark_that_the_same_answer_has() -> None:
    led = Led()
    led.append(3)
    assert follow(led, 3).high_watermark == 0
    data = follow(led, 2, THREE)
    assert (data.high_watermark, led.offset) == (2, 2)


def test_what_it_says_of_itself_is_noted() -> None:
    led = Led()
    led.append(3)
    request = fetch_request("t", {0: 2}, 17, replica_id=TWO, log_start_offset=1)
    request.replica_state = ReplicaState(TWO, 77)
    call(led.broker, "fetch", 17, request)
    state = led.high_watermark.followers[TWO]
    assert (state.end_offset, state.log_start_offset, state.broker_epoch) == (2, 1, 77)


def test_an_offset_that_is_not_in_the_log_says_nothing() -> None:
    led = Led()
    led.append(3)
    assert follow(led, 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert ends(led) == [-1, -1]
    assert follow(led, 3).error_code == 0


def test_nor_does_one_where_the_logs_part() -> None:
    led = Led()
    led.append(3)
    led.broker.elect("t", NODE_ID)
    led.append(1)
    data = follow(led, 4, last_fetched_epoch=0)
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 3)
    assert (bytes(data.records), ends(led)) == (b"", [-1, -1])
    assert follow(led, 3, last_fetched_epoch=0).diverging_epoch is None
    assert ends(led) == [3, -1]


@pytest.mark.parametrize(("epoch", "wanted"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_another_leader_epoch(epoch: int, wanted: ErrorCode) -> None:
    led = Led()
    led.broker.elect("t", NODE_ID)
    led.append(1)
    assert follow(led, 1, current_leader_epoch=epoch).error_code == wanted
    assert ends(led) == [-1, -1]


def test_a_broker_that_is_no_replica() -> None:
    led = Led()
    assert follow(led, 0, 9).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert follow(led, 0, 9, current_leader_epoch=0).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_follower_does_not_serve_followers() -> None:
    led = Led()
    led.broker.elect("t", THREE)
    assert follow(led, 0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_in_doubt_serves_no_followers_and_notes_nothing() -> None:
    led = Led()
    led.append(2)
    led.broker.replicas.doubt(True)
    assert follow(led, 2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    led.broker.replicas.doubt(False)
    assert ends(led) == [-1, -1]


def test_a_fetch_that_waits_says_once_how_far_its_follower_has_come() -> None:
    led = Led()
    led.append(1)
    waiting = call(led.broker, "fetch", 17, fetch_request("t", {0: 1}, 17, replica_id=TWO, max_wait_ms=500))
    led.high_watermark.on_fetch(TWO, 1)
    fetched_at = led.high_watermark.followers[TWO].caught_up_at
    led.broker.clock.advance(0.1)
    led.append(1)
    led.broker.clock.advance()
    ((data,),) = (topic.partitions for topic in read("fetch", 17, waiting.result()).responses)
    assert offsets(data) == [1]
    assert led.high_watermark.followers[TWO].caught_up_at == fetched_at


# Of partitions about which there is nothing to say


class Settled:
    """The fetch session of a follower that has all of `t-0`: the first request named it, and nothing has changed since."""

    def __init__(self, led: Led, offset: int, follower: int = TWO) -> None:
        self.led = led
        self.follower = follower
        self.epoch = 0
        self.session_id = 0
        self.session_id = self.again(offset).session_id
        assert [data.error_code for data in self.news()] == []

    def again(self, offset: int | None = None, max_wait_ms: int = 0) -> Any:
        """The next request, which names the partition only if an offset is given."""
        named = {} if offset is None else {0: offset}
        fields = {} if offset is None else {"current_leader_epoch": 0}
        session = self.session_id, self.epoch
        self.epoch += 1
        request = fetch_request("t", named, 17, replica_id=self.follower, session=session, max_wait_ms=max_wait_ms, **fields)
        return call(self.led.broker, "fetch", 17, request)

    def news(self) -> list[Any]:
        """Returns what the next answer has about the partition."""
        return [data for topic in self.again().responses for data in topic.partitions]


def test_a_follower_that_knows_all_is_noted_all_the_same() -> None:
    led = Led()
    led.append(3)
    settled = Settled(led, 3)
    led.broker.clock.advance(5.0)
    fetches = led.replica.traffic.fetches
    assert settled.news() == []
    assert led.high_watermark.followers[TWO].caught_up_at == led.broker.clock.monotonic()
    assert led.replica.traffic.fetches == fetches + 1


def test_it_is_told_what_changes() -> None:
    led = Led()
    led.append(3)
    settled = Settled(led, 3)
    led.fetched(three=3)
    (data,) = settled.news()
    assert (data.high_watermark, bytes(data.records)) == (3, b"")
    assert settled.news() == []
    led.replica.delete_records_before(2)
    (data,) = settled.news()
    assert data.log_start_offset == 2
    assert settled.news() == []
    led.append(1)
    (data,) = settled.news()
    assert offsets(data) == [3]


def test_the_high_watermark_that_its_own_fetch_moves() -> None:
    led = Led()
    led.append(1)
    settled = Settled(led, 1)
    led.high_watermark.followers[TWO].end_offset = -1  # as in a new epoch, before it has fetched
    led.high_watermark.followers[THREE].end_offset = 1
    (data,) = settled.news()
    assert data.high_watermark == led.offset == 1


def test_it_is_refused_when_there_is_a_reason() -> None:
    led = Led()
    led.append(1)
    settled = Settled(led, 1)
    led.broker.replicas.doubt(True)
    (data,) = settled.news()
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    led.broker.replicas.doubt(False)
    assert [data.error_code for data in settled.news()] == [0], "after an error the follower has to hear that it is over"
    assert settled.news() == []
    del led.high_watermark.followers[TWO]
    (data,) = settled.news()
    assert data.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_new_epoch_ends_it() -> None:
    led = Led()
    led.append(1)
    settled = Settled(led, 1)
    led.broker.elect("t", NODE_ID)
    (data,) = settled.news()
    assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_it_waits_for_records() -> None:
    led = Led()
    led.append(1)
    settled = Settled(led, 1)
    waiting = settled.again(max_wait_ms=500)
    assert not waiting.done()
    led.broker.clock.advance(0.1)
    led.append(1)
    led.broker.clock.advance()
    ((data,),) = (topic.partitions for topic in read("fetch", 17, waiting.result()).responses)
    assert offsets(data) == [1]
    settled = Settled(led, 2)
    waiting = settled.again(max_wait_ms=500)
    led.broker.clock.advance(0.5)
    assert read("fetch", 17, waiting.result()).responses == []
    waiting = settled.again(max_wait_ms=500)
    led.fetched(three=2)
    led.broker.clock.advance(0.1)
    assert not waiting.done(), "that is no reason to answer at once"
    led.broker.clock.advance(0.4)
    ((data,),) = (topic.partitions for topic in read("fetch", 17, waiting.result()).responses)
    assert data.high_watermark == 2


# From followers


def follower() -> MemoryBroker:
    """A broker with a replica of t-0 that has 3 records, 2 of which are below the high watermark; broker 2 leads."""
    led = Led()
    led.append(2)
    led.append(1)
    led.fetched(two=2, three=3)
    led.broker.elect("t", TWO)
    return led.broker


@pytest.mark.parametrize("version", [11, 13, 17])
def test_consumers_read_from_a_follower_up_to_its_high_watermark(version: int) -> None:
    broker = follower()
    data = fetch(broker, "t", 0, version)
    assert (data.error_code, data.high_watermark) == (0, 2)
    assert offsets(data) == [0]
    assert fetch(broker, "t", 2, version).error_code == 0
    assert fetch(broker, "t", 4, version).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_consumers_that_know_no_followers_do_not() -> None:
    broker = follower()
    assert fetch(broker, "t", 0, 10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetch(broker, "t", 0, 10, replica_id=-2).error_code == 0


def test_nobody_leads() -> None:
    broker = follower()
    broker.elect("t", -1)
    assert fetch(broker, "t", 0, 17).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


class OneChoice:
    """Sends consumers of rack `far` to broker 3 for the offsets below 2."""

    def choose(self, replica: Any, offset: int, rack: str) -> int | None:
        return THREE if rack == "far" and offset < 2 else None


def test_a_consumer_is_sent_to_the_replica_near_it() -> None:
    led = Led()
    led.append(3)
    led.fetched(two=3, three=3)
    led.broker.context.read_replicas = cast(Any, OneChoice())

    def ask(rack: str, offset: int = 0) -> tuple[int, int, bytes, int]:
        request = fetch_request("t", {0: offset}, 17, max_wait_ms=500)
        request.rack_id = rack
        ((data,),) = (topic.partitions for topic in call(led.broker, "fetch", 17, request).responses)
        return data.error_code, data.preferred_read_replica, bytes(data.records), data.high_watermark

    assert ask("far") == (0, THREE, b"", 3)
    for rack, offset in (("near", 0), ("", 0), ("far", 2)):
        assert ask(rack, offset)[:2] == (0, -1)
        assert ask(rack, offset)[2] != b""


def test_a_partition_that_lost_its_followers_serves_none() -> None:
    led = Led()
    led.broker.image.apply(PartitionChangeRecord(0, led.broker.topic_id("t"), replicas=[NODE_ID], isr=[NODE_ID]))
    assert isinstance(led.replica.role, Leader)
    assert led.replica.append(batch(1)).last_offset == 0
    assert follow(led, 1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_in_a_cluster_followers_are_served_on_the_listener_of_brokers_only() -> None:
    cluster = Cluster(TWO)
    cluster.append(1)
    request = fetch_request("t", {0: 1}, 17, replica_id=TWO)

    def error(listener: str) -> int:
        received = over_the_wire(ENCODE_REQUEST[17], DECODE_REQUEST[17], request)
        ((data,),) = (topic.partitions for topic in handle_on(cluster.broker, listener, received).responses)
        return int(data.error_code)

    assert error("CLIENTS") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert cluster.high_watermark.followers[TWO].end_offset == -1
    assert error(LISTENER) == ErrorCode.NONE
    assert cluster.high_watermark.followers[TWO].end_offset == 1


@pytest.mark.parametrize(
    ("of_a_cluster", "listener", "user", "evicts"),
    [
        (True, LISTENER, None, True),
        (True, LISTENER, "User:broker", True),
        (True, LISTENER, "User:stranger", False),
        (True, "CLIENTS", None, False),
        (False, LISTENER, None, False),
    ],
)
def test_only_followers_of_the_cluster_take_the_session_of_a_consumer(
    of_a_cluster: bool, listener: str, user: str | None, evicts: bool
) -> None:
    """Kafka believes whoever gives a replica id, so that any client may end the sessions of all consumers."""
    broker = Cluster(TWO).broker if of_a_cluster else Led().broker
    begin = fetch_request("t", {0: 0}, 17, session=(0, 0))
    consumers = [call(broker, "fetch", 17, begin).session_id for _ in range(2)]
    if user is not None:
        broker.context.authorizer = Authorizer(["User:broker"])
    claims = fetch_request("t", {0: 0}, 17, replica_id=TWO, session=(0, 0))
    received = over_the_wire(ENCODE_REQUEST[17], DECODE_REQUEST[17], claims)
    session = Session(listener, "127.0.0.1", principal=user or "User:ANONYMOUS")
    answer = handler.handle(received, broker.request(17, 1, session))
    assert isinstance(answer, FetchResponse)
    assert (answer.session_id > 0) == evicts
    left = [broker.context.fetch_sessions.find(session_id) is not None for session_id in consumers]
    assert left == [not evicts, True]


def handle_on(broker: MemoryBroker, listener: str, received: Any) -> Any:
    answer = handler.handle(received, broker.request(17, session=Session(listener, "127.0.0.1")))
    assert isinstance(answer, FetchResponse)
    return answer


@pytest.mark.parametrize("selects", [True, False])
def test_where_consumers_read_from_followers_these_learn_of_a_new_high_watermark_at_once(selects: bool) -> None:
    led = Led()
    led.broker.context.read_replicas = cast(Any, OneChoice()) if selects else None
    led.append(1)
    first = call(led.broker, "fetch", 17, fetch_request("t", {0: 0}, 17, replica_id=TWO, session=(0, 0)))
    later: dict[str, Any] = {"replica_id": TWO, "max_wait_ms": 500, "session": (first.session_id, 1)}
    waiting = call(led.broker, "fetch", 17, fetch_request("t", {0: 1}, 17, **later))
    led.broker.clock.advance(0.1)
    assert not waiting.done()
    led.fetched(three=1)
    led.broker.clock.advance(0.1)
    assert led.offset == 1
    assert waiting.done() == selects
    led.broker.clock.advance(0.3)
    ((data,),) = (topic.partitions for topic in read("fetch", 17, waiting.result()).responses)
    assert (data.high_watermark, bytes(data.records)) == (1, b"")
