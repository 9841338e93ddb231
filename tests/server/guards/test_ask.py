"""Guards of requests about many names ask in turns; those of requests about few answer as if there were no turns."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.server.base import answers
from ottla.server.base.clock import TURN_NS
from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Acknowledgement, InTurns, Promise
from ottla.server.guards import ask, configs, groups, members, offsets, records, share_offsets, topics, transactions
from ottla.server.guards.ask import NAMES_A_STEP
from ottla.server.requests.long_answers import LongAnswers
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.fakes import ManualClock

MANY = 10 * NAMES_A_STEP
NAMES = [f"n{number}" for number in range(MANY)]


class SlowAsk:
    """Allows what its `allowed` names, so slowly that a step of questions takes half a turn; counts the questions."""

    def __init__(self, clock: ManualClock, allowed: set[str]) -> None:
        self._clock = clock
        self._allowed = allowed
        self.asked = 0
        self.rights = SimpleNamespace(bits=lambda *resource: self.group(None, "") or 7)

    def _answer(self, name: str) -> bool:
        self.asked += 1
        self._clock.spend(TURN_NS / 1e9 / 2 / NAMES_A_STEP)
        return name in self._allowed

    def may(self, operation: Any, resource: Any, name: str, *, quiet: bool = False) -> bool:
        return self._answer(name)

    def topic(self, operation: Any, name: str, *, quiet: bool = False) -> bool:
        return self._answer(name)

    group = transaction = topic

    def cluster(self, operation: Any, *, quiet: bool = False) -> bool:
        return self._answer("cluster")


class Rig:
    """A guard's surroundings; the handler answers with `answer` and notes the `bodies` that it gets."""

    def __init__(self, *allowed: str, version: int = 9) -> None:
        self.clock = ManualClock()
        self.ask = SlowAsk(self.clock, set(allowed))
        self.bodies: list[Any] = []
        self.answer: Any = None
        metadata = SimpleNamespace(topics={}, topics_by_id={}, partition=lambda topic, index: None)
        broker = SimpleNamespace(
            clock=self.clock,
            metadata=metadata,
            long_answers=LongAnswers(1 << 26),
            config=SimpleNamespace(values={"auto.create.topics.enable": True}),
        )
        self.request: Any = SimpleNamespace(api_version=version, broker=broker, failed=False)

    def handle(self, body: Any, request: Any) -> Any:
        self.bodies.append(body)
        return self.answer

    def guard(self, guard: Any, body: Any) -> Any:
        return guard(cast(Any, self.ask), self.handle, body, self.request)


CASES: list[tuple[Any, Any, Any, tuple[str, ...], int]] = [
    (records.list_offsets, ListOffsetsRequest(topics=[ListOffsetsTopic(name) for name in NAMES]), ListOffsetsResponse(), (), 9),
    (
        records.produce,
        ProduceRequest(None, 1, 1000, [TopicProduceData(name, partition_data=[]) for name in NAMES]),
        ProduceResponse(),
        (),
        9,
    ),
    (topics.delete_topics, DeleteTopicsRequest([DeleteTopicState(name) for name in NAMES]), DeleteTopicsResponse(), (), 6),
    (topics.create_topics, CreateTopicsRequest([CreatableTopic(name) for name in NAMES]), CreateTopicsResponse(), (), 7),
    (topics.metadata, MetadataRequest([MetadataRequestTopic(name=name) for name in NAMES]), MetadataResponse(), (), 12),
    (
        configs.describe_configs,
        DescribeConfigsRequest([DescribeConfigsResource(2, name) for name in NAMES]),
        DescribeConfigsResponse(),
        (),
        4,
    ),
    (groups.find_coordinator, FindCoordinatorRequest(coordinator_keys=NAMES), FindCoordinatorResponse(), (), 6),
    (groups.delete_groups, DeleteGroupsRequest(NAMES), DeleteGroupsResponse(), (), 2),
    (groups.list_groups, ListGroupsRequest(), ListGroupsResponse(groups=[ListedGroup(name) for name in NAMES]), (), 5),
    (
        groups.describe_groups,
        DescribeGroupsRequest(["all"], True),
        DescribeGroupsResponse(groups=[DescribedGroup(0, name) for name in NAMES]),
        ("all",),
        6,
    ),
    (members.consumer_group_heartbeat, ConsumerGroupHeartbeatRequest("g", subscribed_topic_names=NAMES), None, ("g",), 1),
    (
        offsets.offset_commit,
        OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(name, partitions=[]) for name in NAMES]),
        None,
        ("g",),
        8,
    ),
    (
        offsets.offset_fetch,
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name) for name in NAMES]),
        OffsetFetchResponse(),
        (),
        9,
    ),
    (
        share_offsets.alter_share_group_offsets,
        AlterShareGroupOffsetsRequest("g", [AlterShareGroupOffsetsRequestTopic(name, []) for name in NAMES]),
        AlterShareGroupOffsetsResponse(),
        ("g",),
        0,
    ),
    (
        transactions.add_partitions_to_txn,
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x", v3_and_below_topics=[AddPartitionsToTxnTopic(name, []) for name in NAMES]
        ),
        None,
        ("x",),
        3,
    ),
    (transactions.describe_transactions, DescribeTransactionsRequest(NAMES), DescribeTransactionsResponse(), (), 0),
]


@pytest.mark.parametrize(("guard", "body", "answer", "allowed", "version"), CASES, ids=[case[0].__name__ for case in CASES])
def test_many_names_are_asked_about_in_turns(guard: Any, body: Any, answer: Any, allowed: tuple[str, ...], version: int) -> None:
    rig = Rig(*allowed, version=version)
    rig.answer = answer
    promise = rig.guard(guard, body)
    assert type(promise) is InTurns, "so that a long answer is encoded in a thread"
    asked = [0, rig.ask.asked]
    while not promise.done():
        rig.clock.advance()
        asked.append(rig.ask.asked)
    assert asked[-1] >= MANY
    assert max(after - before for before, after in itertools.pairwise(asked)) <= 5 * NAMES_A_STEP
    assert promise.result() is not None


def list_offsets(count: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name) for name in NAMES[:count]])


def test_what_is_allowed_reaches_the_handler_and_what_is_refused_the_answer() -> None:
    rig = Rig(*NAMES[::2])
    rig.answer = ListOffsetsResponse()
    promise = rig.guard(records.list_offsets, list_offsets(MANY))
    rig.clock.advance()
    while not promise.done():
        rig.clock.advance()
    assert [topic.name for topic in rig.bodies[0].topics] == NAMES[::2]
    assert [topic.name for topic in promise.result().topics] == NAMES[1::2]


def test_few_names_are_asked_about_at_once_and_the_handlers_promise_stays_what_it_is() -> None:
    rig = Rig(*NAMES)
    rig.answer = promise = Acknowledgement[Any]()
    few = [TopicProduceData(name, partition_data=[]) for name in NAMES[: NAMES_A_STEP - 1]]
    assert rig.guard(records.produce, ProduceRequest(None, 1, 1000, few)) is promise


def test_names_that_are_quickly_asked_about_need_no_second_turn() -> None:
    rig = Rig(*NAMES)
    rig.answer = promise = Acknowledgement[Any]()
    rig.ask._clock = ManualClock()
    some = [TopicProduceData(name, partition_data=[]) for name in NAMES]
    assert rig.guard(records.produce, ProduceRequest(None, 1, 1000, some)) is promise


def test_records_are_copied_before_the_frame_is_gone() -> None:
    rig = Rig(*NAMES)
    frame = bytearray(b"batch")
    some = [TopicProduceData(name, partition_data=[PartitionProduceData(0, memoryview(frame))]) for name in NAMES]
    promise = rig.guard(records.produce, ProduceRequest(None, 1, 1000, some))
    frame[:] = b"other"
    while not promise.done():
        rig.clock.advance()
    (body,) = rig.bodies
    assert {bytes(topic.partition_data[0].records) for topic in body.topic_data} == {b"batch"}


def test_a_handler_may_answer_later_in_any_form() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        gate = loop.create_future()

        async def later() -> ListOffsetsResponse:
            await gate
            return ListOffsetsResponse()

        promised: Promise[Any] = Promise()
        for answer in (later(), promised):
            rig = Rig(*NAMES)
            rig.answer = answer
            promise = rig.guard(records.list_offsets, list_offsets(MANY))
            for _ in range(20):
                rig.clock.advance()
            assert len(rig.bodies) == 1
            assert not promise.done()
            if answer is promised:
                promised.set_result(ListOffsetsResponse())
            else:
                gate.set_result(None)
            for _ in range(5):
                await asyncio.sleep(0)
                rig.clock.advance()
            assert isinstance(promise.result(), ListOffsetsResponse)

    asyncio.run(scenario())


def test_a_coroutine_is_kept_until_it_is_done() -> None:
    async def later(gate: asyncio.Event) -> None:
        await gate.wait()

    async def scenario() -> None:
        gate = asyncio.Event()
        waiting = next(ask.answered(later(gate)))
        assert len(answers._under_way) == 1
        gate.set()
        await cast(Any, waiting)
        assert not answers._under_way

    asyncio.run(scenario())


def test_an_answer_that_is_given_up_closes_the_connection() -> None:
    rig = Rig()
    rig.answer = given_up = Promise[Any]()
    promise = rig.guard(groups.list_groups, ListGroupsRequest())
    given_up.cancel()
    rig.clock.advance()
    with pytest.raises(CloseConnection):
        promise.result()


def test_nothing_is_asked_for_a_client_that_has_gone() -> None:
    rig = Rig(*NAMES)
    promise = rig.guard(records.list_offsets, list_offsets(MANY))
    asked = rig.ask.asked
    promise.cancel()
    rig.clock.advance(1)
    assert (rig.ask.asked, rig.bodies) == (asked, [])
