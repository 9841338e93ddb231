"""QuorumController: what goes in an envelope, what goes plainly, and what an answer waits for."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.server.base.clock import LoopClock
from ottla.server.base.network import OsNetwork
from ottla.server.base.turns import Workers
from ottla.server.metadata.controller import Controller
from ottla.server.metadata.controller_settings import ControllerSettings
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.names import CONSUMER_OFFSETS
from ottla.server.metadata.operation import Caller, Refused
from ottla.server.quorum.channel import ControllerUnreachable
from ottla.server.quorum.envelope import Enveloped
from ottla.server.quorum.forwarding import CREATION_PAUSE_SECONDS, IMAGE_SECONDS, QuorumController
from ottla.server.quorum.waiting import ImageWaits
from ottla.server.requests.long_answers import LongAnswers
from ottla.server.settings.broker_config import BrokerConfig
from ottla.wire.api import APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.header import decode_request_header, encode_response_header
from ottla.wire.messages import delete_topics
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.remove_topic_record import RemoveTopicRecord
from ottla.wire.messages.internal.topic_record import TopicRecord
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerResponse
from ottla.wire.messages.unregister_controller import UnregisterControllerResponse
from ottla.wire.primitives import WireStruct
from tests.fakes import Threads, work_at_once
from tests.server.quorum.played import ALL, A, Played, run, turns

ALICE = Caller("User:alice", "10.1.2.3", "the client", 2)
T = b"t" * 16
TIMEOUT_MS = 5_000
CONFIG = {"node.id": "7", "num.partitions": "3", "default.replication.factor": "2", "offsets.topic.num.partitions": "5"}
IN_OTHER_WAYS = {"create_in_background", "allocate_producer_ids", "unregister_broker", "unregister_controller"}


class Rig:
    def __init__(self, played: Played, config_of: Mapping[str, str] = CONFIG) -> None:
        self.played = played
        self.image = MetadataImage("cluster")
        self.waits = ImageWaits(played.clock, self.image)
        self.tasks: list[asyncio.Future[None]] = []
        self.threads: Threads | None = None
        """The threads, if jobs do not end at once."""
        config, _ = BrokerConfig.from_mapping(config_of)
        self.controller = QuorumController(
            played.channel,
            self.image,
            ControllerSettings(config, {"/data": b"d" * 16}, OsNetwork()),
            played.clock,
            self.waits,
            lambda: 70,
            TIMEOUT_MS,
            lambda work: self.tasks.append(asyncio.ensure_future(work)),
            Workers(self._run),
        )
        played.finder.learn(3, 1)

    def _run(self, job: Callable[[], Any], done: Callable[[asyncio.Future[Any]], object]) -> None:
        (work_at_once if self.threads is None else self.threads.run)(job, done)

    def apply(self, *records: WireStruct) -> None:
        self.image.apply_all(records)
        self.waits.look()

    def answer(self, response: WireStruct) -> Any:
        """Answers the request inside the envelope, and returns that."""
        envelope: EnvelopeRequest = self.played.open[0].request
        assert isinstance(envelope, EnvelopeRequest)
        header, pos = decode_request_header(envelope.request_data, 0)
        assert header.client_id == "the client"
        module = __import__(f"ottla.wire.messages.{APIS[header.api_key].module}", fromlist=[""])
        parts: list[bytes] = [encode_response_header(header.api_key, header.api_version, header.correlation_id)]
        module.ENCODE_RESPONSE[header.api_version](response, parts)
        self.played.answer(EnvelopeResponse(b"".join(parts)))
        return module.DECODE_REQUEST[header.api_version](envelope.request_data, pos)[0]


def forwards(scenario: Callable[[Rig], Awaitable[object]], config: Mapping[str, str] = CONFIG) -> None:
    async def main(played: Played) -> None:
        rig = Rig(played, config)
        await scenario(rig)
        await turns()
        assert all(task.done() for task in rig.tasks)

    run(main)


def operations() -> list[tuple[str, str]]:
    """The operations that pass a request on as it is, each with the module of its messages."""
    names = [name for name in Controller.__abstractmethods__ if name not in IN_OTHER_WAYS]
    return sorted((name, inspect.signature(getattr(Controller, name)).parameters["request"].annotation) for name in names)


@pytest.mark.parametrize(("name", "message"), operations())
def test_every_operation_goes_in_an_envelope_and_its_answer_comes_back(name: str, message: str) -> None:
    module: Any = __import__(f"ottla.wire.messages.{name}", fromlist=[""])
    request, response = getattr(module, message)(), getattr(module, message.replace("Request", "Response"))()

    async def scenario(rig: Rig) -> None:
        asking = asyncio.ensure_future(getattr(rig.controller, name)(request, ALICE))
        await turns()
        assert type(rig.answer(response)) is type(request)
        assert type(await asking) is type(response)

    forwards(scenario)


def test_each_operation_has_an_implementation_for_either_kind_of_controller() -> None:
    public = {name for name, value in vars(Controller).items() if callable(value) and not name.startswith("_")}
    assert public == Controller.__abstractmethods__


FORWARDED: dict[str, Any] = {
    "alter_partition_reassignments": AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic("t", [ReassignablePartition(0, [1, 2])])]
    ),
    "list_partition_reassignments": ListPartitionReassignmentsRequest(),
    "create_acls": CreateAclsRequest([AclCreation(2, "t", 3, "User:u", "*", 3, 3)]),
    "delete_acls": DeleteAclsRequest([DeleteAclsFilter(1, None, 3, None, None, 1, 1)]),
}


@pytest.mark.parametrize("name", FORWARDED)
def test_what_a_node_of_its_own_refuses_or_has_none_of_goes_there_too(name: str) -> None:
    handler = importlib.import_module(f"ottla.server.handlers.{name}")
    request = FORWARDED[name]
    response = getattr(
        importlib.import_module(f"ottla.wire.messages.{name}"), type(request).__name__.replace("Request", "Response")
    )()

    async def scenario(rig: Rig) -> None:
        answers = LongAnswers(1 << 20)
        broker = SimpleNamespace(controller=rig.controller, authorizer=None, clock=LoopClock(), long_answers=answers)
        asked = cast(Any, SimpleNamespace(broker=broker, caller=lambda: ALICE))
        asking = asyncio.ensure_future(handler.handle(request, asked))
        await turns()
        assert rig.answer(response) == request
        assert await asking == response
        unanswered = asyncio.ensure_future(handler.handle(request, asked))
        await turns()
        rig.played.answer(EnvelopeResponse(None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        assert ErrorCode.KAFKA_STORAGE_ERROR in codes(await unanswered)

    forwards(scenario)


def codes(answer: Any) -> list[int]:
    """Returns the error codes of an answer, or of the elements of its first list."""
    if hasattr(answer, "error_code"):
        return [answer.error_code]
    return [each.error_code for each in getattr(answer, "results", None) or answer.filter_results]


def test_threads_encode_requests_once_and_decode_their_answers() -> None:
    async def scenario(rig: Rig) -> None:
        threads = rig.threads = Threads()
        asking = asyncio.ensure_future(rig.controller.delete_topics(DeleteTopicsRequest(), ALICE))
        await turns()
        assert (len(threads.jobs), rig.played.asked) == (1, [])
        threads.end_first()
        await turns()
        rig.played.answer(EnvelopeResponse(None, ErrorCode.NOT_CONTROLLER))
        await rig.played.pass_time(0.1)
        rig.played.finder.learn(4, 2)
        await rig.played.pass_time(0.1)
        assert len(rig.played.open) == 1
        assert not threads.jobs, "the second controller gets the same bytes"
        rig.answer(DeleteTopicsResponse())
        await turns()
        assert (len(threads.jobs), asking.done()) == (1, False)
        threads.end_first()
        assert await asking == DeleteTopicsResponse()

    forwards(scenario)


def test_a_controller_that_is_older_gets_it_in_its_version() -> None:
    async def scenario(rig: Rig) -> None:
        rig.played.at(A).versions = {**ALL, delete_topics.API_KEY: (1, 5)}
        threads = rig.threads = Threads()
        asking = asyncio.ensure_future(rig.controller.delete_topics(DeleteTopicsRequest(topic_names=["t"]), ALICE))
        for _ in range(2):
            await turns()
            threads.end_first()
        await turns()
        assert rig.answer(DeleteTopicsResponse()).topic_names == ["t"]
        await turns()
        threads.end_first()
        await asking

    forwards(scenario)


def test_no_more_than_so_much_waits_for_the_controllers(monkeypatch: pytest.MonkeyPatch) -> None:
    def request(names: int) -> DeleteTopicsRequest:
        return DeleteTopicsRequest([DeleteTopicState(f"t{number}") for number in range(names)])

    size = Enveloped(request(10), ALICE).encode(delete_topics.MAX_VERSION)
    monkeypatch.setattr("ottla.server.quorum.forwarding.MOST_WAITING_BYTES", 2 * size)

    async def scenario(rig: Rig) -> None:
        delete = rig.controller.delete_topics
        first, second = (asyncio.ensure_future(delete(request(10), ALICE)) for _ in range(2))
        await turns()
        with pytest.raises(ControllerUnreachable, match=f"{2 * size} bytes of requests wait"):
            await delete(request(1), ALICE)
        rig.answer(DeleteTopicsResponse())
        await first
        third = asyncio.ensure_future(delete(request(1), ALICE))
        await turns()
        second.cancel()
        rig.played.answer(EnvelopeResponse(None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        rig.answer(DeleteTopicsResponse())
        await third
        large = asyncio.ensure_future(delete(request(1_000), ALICE))
        await turns()
        rig.answer(DeleteTopicsResponse())
        assert await large == DeleteTopicsResponse(), "one alone may be larger"
        assert rig.controller._waiting_bytes == 0

    forwards(scenario)


def test_a_topic_that_was_made_is_in_the_image_when_the_answer_comes() -> None:
    async def scenario(rig: Rig) -> None:
        asking = asyncio.ensure_future(
            rig.controller.create_topics(CreateTopicsRequest([CreatableTopic("t", 1, 1), CreatableTopic("bad", 1, 1)]), ALICE)
        )
        await turns()
        rig.answer(CreateTopicsResponse(topics=[CreatableTopicResult("t"), CreatableTopicResult("bad", error_code=42)]))
        await turns()
        assert not asking.done()
        rig.apply(TopicRecord("t", T))
        assert [each.error_code for each in (await asking).topics] == [0, 42]

    forwards(scenario)


def test_partitions_and_deletions_are_waited_for_too_but_not_for_ever() -> None:
    async def scenario(rig: Rig) -> None:
        rig.apply(TopicRecord("t", T), PartitionRecord(0, T, [7], [7], leader=7))
        adding = asyncio.ensure_future(
            rig.controller.create_partitions(CreatePartitionsRequest([CreatePartitionsTopic("t", 2)]), ALICE)
        )
        await turns()
        rig.answer(CreatePartitionsResponse(results=[CreatePartitionsTopicResult("t")]))
        await turns()
        assert not adding.done()
        rig.apply(PartitionRecord(1, T, [7], [7], leader=7))
        await adding
        deleting = asyncio.ensure_future(rig.controller.delete_topics(DeleteTopicsRequest([DeleteTopicState(None, T)]), ALICE))
        await turns()
        rig.answer(DeleteTopicsResponse(responses=[DeletableTopicResult("t", T)]))
        await turns()
        assert not deleting.done()
        rig.apply(RemoveTopicRecord(T))
        await deleting
        late = asyncio.ensure_future(rig.controller.create_topics(CreateTopicsRequest([CreatableTopic("u", 1, 1)]), ALICE))
        await turns()
        rig.answer(CreateTopicsResponse(topics=[CreatableTopicResult("u")]))
        await rig.played.pass_time(IMAGE_SECONDS + 0.1)
        assert (await late).topics[0].name == "u"

    forwards(scenario)


def test_what_is_only_validated_is_not_waited_for() -> None:
    async def scenario(rig: Rig) -> None:
        request = CreateTopicsRequest([CreatableTopic("t", 1, 1)], validate_only=True)
        asking = asyncio.ensure_future(rig.controller.create_topics(request, ALICE))
        await turns()
        rig.answer(CreateTopicsResponse(topics=[CreatableTopicResult("t")]))
        await asking

    forwards(scenario)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (EnvelopeResponse(None, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE), "PRINCIPAL_DESERIALIZATION_FAILURE"),
        (EnvelopeResponse(None, 9999), "with 9999"),
        (EnvelopeResponse(None), "with NONE"),
        (EnvelopeResponse(b"?"), "not hold an answer to DescribeQuorum"),
    ],
)
def test_an_envelope_that_is_refused(answer: EnvelopeResponse, said: str) -> None:
    from ottla.wire.messages.describe_quorum import DescribeQuorumRequest

    async def scenario(rig: Rig) -> None:
        asking = asyncio.ensure_future(rig.controller.describe_quorum(DescribeQuorumRequest(), ALICE))
        await turns()
        rig.played.answer(answer)
        with pytest.raises(ControllerUnreachable, match=said):
            await asking

    forwards(scenario)


def test_unregistering_is_refused_as_the_controllers_refuse_it() -> None:
    async def scenario(rig: Rig) -> None:
        for unregister, response in (
            (rig.controller.unregister_broker, UnregisterBrokerResponse),
            (rig.controller.unregister_controller, UnregisterControllerResponse),
        ):
            asking = asyncio.ensure_future(unregister(9, ALICE))
            await turns()
            rig.answer(response(0, ErrorCode.BROKER_ID_NOT_REGISTERED, "no such node"))
            with pytest.raises(Refused, match="no such node"):
                await asking
            asking = asyncio.ensure_future(unregister(9, ALICE))
            await turns()
            rig.answer(response())
            await asking

    forwards(scenario)


def test_blocks_of_producer_ids() -> None:
    async def scenario(rig: Rig) -> None:
        asking = asyncio.ensure_future(rig.controller.allocate_producer_ids())
        await turns()
        asked = rig.played.answer(AllocateProducerIdsResponse(producer_id_start=5000, producer_id_len=1000))
        assert isinstance(asked, AllocateProducerIdsRequest)
        assert (asked.broker_id, asked.broker_epoch) == (7, 70)
        assert await asking == range(5000, 6000)
        asking = asyncio.ensure_future(rig.controller.allocate_producer_ids())
        await turns()
        rig.played.answer(AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
        with pytest.raises(ControllerUnreachable, match="no producer ids"):
            await asking

    forwards(scenario)


def test_topics_on_demand_are_asked_for_once_with_the_broker_s_defaults() -> None:
    async def scenario(rig: Rig) -> None:
        rig.apply(TopicRecord("old", T))
        for _ in range(2):
            rig.controller.create_in_background(["old", "new", CONSUMER_OFFSETS], None)
        await turns()
        assert len(rig.played.open) == 1
        answer = CreateTopicsResponse(topics=[CreatableTopicResult("new"), CreatableTopicResult(CONSUMER_OFFSETS)])
        request: CreateTopicsRequest = rig.played.answer(answer)
        made = {each.name: (each.num_partitions, each.replication_factor) for each in request.topics}
        assert made == {"new": (3, 2), CONSUMER_OFFSETS: (5, 3)}
        assert {each.name for each in request.topics[1].configs} >= {"cleanup.policy"}
        rig.apply(TopicRecord("new", b"n" * 16), TopicRecord(CONSUMER_OFFSETS, b"c" * 16))
        await turns()
        rig.controller.create_in_background(["new"], None)
        await turns()
        assert rig.played.open == []

    forwards(scenario)


@pytest.mark.parametrize(
    ("texts", "asked"),
    [
        ({"num.partitions": "3"}, (3, -1)),
        ({"default.replication.factor": "2"}, (-1, 2)),
        ({"num.partitions": "1", "default.replication.factor": "1"}, (1, 1)),
        ({}, (-1, -1)),
    ],
)
def test_what_the_configuration_does_not_say_is_left_to_the_controller(texts: dict[str, str], asked: tuple[int, int]) -> None:
    async def scenario(rig: Rig) -> None:
        rig.controller.create_in_background(["new"], None)
        await turns()
        request: CreateTopicsRequest = rig.played.answer(CreateTopicsResponse(topics=[CreatableTopicResult("new")]))
        assert [(each.num_partitions, each.replication_factor) for each in request.topics] == [asked]
        rig.apply(TopicRecord("new", b"n" * 16))
        await turns()

    forwards(scenario, {"node.id": "7"} | texts)


def test_on_behalf_of_a_client_they_go_in_an_envelope() -> None:
    async def scenario(rig: Rig) -> None:
        rig.controller.create_in_background(["new"], ALICE)
        await turns()
        rig.answer(CreateTopicsResponse(topics=[CreatableTopicResult("new", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)]))

    forwards(scenario)


@pytest.mark.parametrize(
    "end",
    [
        CreateTopicsResponse(topics=[CreatableTopicResult("new", error_code=ErrorCode.INVALID_REPLICATION_FACTOR)]),
        "no answer",
    ],
)
def test_after_a_failure_there_is_a_pause(end: CreateTopicsResponse | str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        rig.controller.create_in_background(["new"], None)
        await turns()
        if isinstance(end, str):
            rig.played.finder.learn(4, -1)
            rig.played.answer(CreateTopicsResponse(topics=[CreatableTopicResult("new", error_code=ErrorCode.NOT_CONTROLLER)]))
            await rig.played.pass_time(TIMEOUT_MS / 1000 + 0.1)
        else:
            rig.played.answer(end)
            await turns()
        assert "not created" in caplog.text
        rig.played.finder.learn(5, 1)
        rig.controller.create_in_background(["new"], None)
        await turns()
        assert rig.played.open == []
        await rig.played.pass_time(CREATION_PAUSE_SECONDS + 0.1)
        rig.controller.create_in_background(["new"], None)
        await turns()
        rig.played.answer(CreateTopicsResponse(topics=[]))

    forwards(scenario)
