"""Refusals: of each API, in each version, one entity is refused and the other served, or the whole; so say two codecs."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from kio.serial import entity_reader

from ottla.server.base.errors import CloseConnection
from ottla.server.handlers import BROKER, CONTROLLER, served
from ottla.server.testkit.refusals.entities import Place, Role, Shape, named_in, names_of, shape_of, top_names
from ottla.wire.api import Api
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import alter_user_scram_credentials as scram
from ottla.wire.messages import api_versions, create_acls, create_topics, metadata, offset_fetch, produce
from ottla.wire.primitives import WireStruct
from tests.log.support import batch
from tests.odd_requests import Maker
from tests.server.testkit.under_test import UnderTest, answer_header, under_test
from tests.wire.test_messages_kio import kio_entity

CODE = ErrorCode.THROTTLING_QUOTA_EXCEEDED
"""An error that no request here gets otherwise."""
CODES = ("error_code", "partition_error_code")
TOPIC_ID = bytes(range(16))


def codes_in(answer: Any) -> Iterator[int]:
    """All error codes in an answer as our codec decodes it."""
    if isinstance(answer, list):
        for each in answer:
            yield from codes_in(each)
    elif isinstance(answer, WireStruct):
        for name in type(answer).__slots__:
            value = getattr(answer, name)
            if name in CODES:
                yield value
            else:
                yield from codes_in(value)


def codes_in_kio(answer: Any) -> Iterator[int]:
    """The same in an answer as kio decodes it."""
    if isinstance(answer, tuple):
        for each in answer:
            yield from codes_in_kio(each)
    elif dataclasses.is_dataclass(answer):
        for field in dataclasses.fields(answer):
            value = getattr(answer, field.name)
            if field.name in CODES:
                yield int(value)
            else:
                yield from codes_in_kio(value)


def request_of(api: Api, version: int) -> Any:
    """A usual request, with nothing in it that the version has not."""
    messages = importlib.import_module(f"ottla.wire.messages.{api.module}")
    request = Maker(api.module, "t", TOPIC_ID, 1).request(api)
    if api.module == "fetch":
        request.forgotten_topics_data = []
        request.session_epoch = -1
    if api.module == "share_fetch":  # as a first one, without acknowledgements
        request.forgotten_topics_data = []
        request.member_id = "AAAAAAAAAAAAAAAAAAAAAQ"
        for topic in request.topics:
            for partition in topic.partitions:
                partition.acknowledgement_batches = []
    if api.module == "delete_acls":  # a filter that names its resource, by which a fault selects it
        for each in request.filters:
            each.resource_name_filter = "t"
    if api.module == "sasl_handshake":
        request.mechanism = "PLAIN"
    parts: list[Any] = []
    messages.ENCODE_REQUEST[version](request, parts)
    return messages.DECODE_REQUEST[version](b"".join(parts), 0)[0]


def double(body: Any, way: tuple[Place, ...]) -> None:
    """Has a request name two entities at the deepest level of a way."""
    container = body
    for place in way[:-1]:
        container = getattr(container, place.level.asked)[0]
    entities = getattr(container, way[-1].level.asked)
    other: Any = 1 if isinstance(entities[0], int) else "other"
    if isinstance(entities[0], WireStruct):
        kind: Any = type(entities[0])
        other = kind(*(getattr(entities[0], name) for name in kind.__slots__))
        for name in kind.__slots__:
            value = getattr(other, name)
            if name == "topic_id":
                setattr(other, name, TOPIC_ID[::-1])
            elif name in ("name", "topic", "topic_name", "resource_name", "resource_name_filter", "feature", "group_id"):
                setattr(other, name, "other")
            elif name in ("index", "partition", "partition_index"):
                setattr(other, name, 1)
            elif name == "entity":
                setattr(other, name, [type(each)("client-id", "other") for each in value])
    entities.append(other)


def selector(body: Any, shape: Shape, way: tuple[Place, ...], topics_by_id: Any) -> dict[str, Any] | None:
    """Returns what a fault selects the first entity by; None if nothing tells it from the other."""
    named = list(named_in(body, way))
    first, second = (
        [
            *top_names(body, shape),
            *(
                name
                for place, element in zip(way, entity.elements, strict=True)
                for name in names_of(element, place.level.role, body, topics_by_id)
            ),
        ]
        for entity in (named[0], named[-1])
    )
    on = {str(role): name for role, name in first}
    return on if first != second and on.keys() <= {str(role) for role in Role} else None


def role_of(api: Api) -> str:
    return BROKER if api.key in served(BROKER) else CONTROLLER


async def check(test: UnderTest, api: Api, version: int, on: dict[str, Any], body: Any) -> tuple[list[int], str]:
    """Sends a request that a fault is for; returns the codes in its answer, on which both codecs agree."""
    messages = importlib.import_module(f"ottla.wire.messages.{api.module}")
    what = f"{api.name} v{version} {on}"
    fault = test.fault({"api": api.name, **on}, {"error": CODE.name})
    raw = await test.send(messages, version, body, role_of(api))
    assert test.state(fault)["hits"] == 1, what
    test.call("DELETE", "/v1/faults")
    start = answer_header(messages, version)
    answer, end = messages.DECODE_RESPONSE[version](raw, start)
    assert end == len(raw), what
    codes = list(codes_in(answer))
    entity = kio_entity(api.module, version, "response")
    if entity is not None:
        read, _ = entity_reader(entity)(raw, start)
        assert [code for code in codes_in_kio(read) if code] == [code for code in codes if code], what
    return codes, what


def every_version() -> Iterator[tuple[Api, int]]:
    for api in {**served(BROKER), **served(CONTROLLER)}.values():
        for version in range(api.min_version, api.max_version + 1):
            yield api, version


async def with_topic(test: UnderTest) -> None:
    """Makes a topic of the id that requests name."""
    await test.ask(create_topics, 7, create_topics.CreateTopicsRequest([create_topics.CreatableTopic("t", 2, 1)], 1000))
    image = test.context.metadata
    topic = image.topics["t"]
    image.topics_by_id[TOPIC_ID] = topic


def test_every_api_in_every_version_refuses_one_entity_and_serves_the_other() -> None:
    async def scenario() -> None:
        tried = set()
        async with under_test() as test:
            await with_topic(test)
            for api, version in every_version():
                shape = shape_of(api.key, version)
                for way in shape.ways:
                    body = request_of(api, version)
                    if not list(named_in(body, way)):
                        continue
                    double(body, way)
                    on = selector(body, shape, way, test.context.metadata.topics_by_id)
                    if on is None:
                        continue
                    codes, what = await check(test, api, version, on, body)
                    refused = [code for code in codes if code == CODE]
                    assert len(refused) == 1, (what, codes)
                    assert len(codes) > 1 or not any(place.code for place in way), (what, codes)
                    tried.add((api.module, version))
        assert len(tried) > 150, len(tried)
        assert len({module for module, _ in tried}) >= 40, sorted({module for module, _ in tried})

    asyncio.run(scenario())


def test_every_api_in_every_version_refuses_the_whole() -> None:
    async def scenario() -> None:
        async with under_test() as test:
            await with_topic(test)
            for api, version in every_version():
                codes, what = await check(test, api, version, {}, request_of(api, version))
                assert CODE in codes, (
                    f"a fault for all of {what} is answered {codes}, without {CODE!r}: does `LEVELS` in"
                    f" server/testkit/refusals/entities.py have what {api.module} names and answers one by one?"
                )
                assert len({code for code in codes if code}) == 1, (what, codes)

    asyncio.run(scenario())


def produce_to(*partitions: int, acks: int = -1, topic: str = "t") -> produce.ProduceRequest:
    data = [produce.PartitionProduceData(index, batch(1)) for index in partitions]
    return produce.ProduceRequest(None, acks, 1000, [produce.TopicProduceData(topic, partition_data=data)])


def end_offsets(test: UnderTest) -> list[int]:
    found = [test.context.replicas.get("t", index) for index in range(2)]
    return [0 if replica is None else replica.log.log_end_offset for replica in found]


def run(scenario: Callable[[UnderTest], Awaitable[None]]) -> None:
    async def with_broker() -> None:
        async with under_test() as test:
            await with_topic(test)
            await scenario(test)

    asyncio.run(with_broker())


def test_what_is_refused_is_not_done_and_the_rest_is() -> None:
    async def scenario(test: UnderTest) -> None:
        test.fault({"api": "Produce", "partition": 0}, {"error": "NOT_LEADER_OR_FOLLOWER"})
        answer = await test.ask(produce, 9, produce_to(0, 1))
        refused, served = answer.responses[0].partition_responses
        assert (refused.index, refused.error_code, refused.base_offset) == (0, 6, -1)
        assert "f1" in refused.error_message
        assert (served.index, served.error_code, served.base_offset) == (1, 0, 0)
        assert end_offsets(test) == [0, 1]

    run(scenario)


@pytest.mark.parametrize(
    ("error", "act", "acted"),
    [
        ("REQUEST_TIMED_OUT", None, 1),
        ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", None, 1),
        ("REQUEST_TIMED_OUT", "before", 0),
        ("NOT_LEADER_OR_FOLLOWER", "after", 1),
        ("NOT_LEADER_OR_FOLLOWER", None, 0),
    ],
)
def test_the_code_says_whether_the_broker_acted_unless_the_test_does(error: str, act: str | None, acted: int) -> None:
    async def scenario(test: UnderTest) -> None:
        test.fault({"api": "Produce", "topic": "t"}, {"error": error}, **({"act": act} if act else {}))
        answer = await test.ask(produce, 9, produce_to(0))
        assert [each.error_code for each in answer.responses[0].partition_responses] == [ErrorCode[error]]
        assert end_offsets(test) == [acted, 0]

    run(scenario)


def test_who_wants_no_answer_is_disconnected_by_an_error() -> None:
    async def scenario(test: UnderTest) -> None:
        for act in ("before", "after"):
            test.fault({"api": "Produce"}, {"error": "NOT_LEADER_OR_FOLLOWER"}, act=act)
            with pytest.raises(CloseConnection, match="acks is 0"):
                await test.send(produce, 9, produce_to(0, acks=0))
        assert end_offsets(test) == [1, 0]

    run(scenario)


def test_the_leader_is_named_where_the_version_has_a_place_for_it() -> None:
    async def scenario(test: UnderTest) -> None:
        test.fault({"api": "Produce", "topic": "t"}, {"error": "NOT_LEADER_OR_FOLLOWER"}, times=2)
        old = await test.ask(produce, 9, produce_to(0))
        assert old.responses[0].partition_responses[0].current_leader is None
        new = await test.ask(produce, 10, produce_to(0))
        assert new.responses[0].partition_responses[0].current_leader.leader_id == test.broker.config.node_id
        assert [each.port for each in new.node_endpoints] == [test.broker.port]

    run(scenario)


def test_metadata_names_its_brokers_beside_refused_topics() -> None:
    async def scenario(test: UnderTest) -> None:
        for version in (0, 1, 12):
            fault = test.fault({"api": "Metadata", "topic": "t"}, {"error": "LEADER_NOT_AVAILABLE"})
            asked = metadata.MetadataRequest([metadata.MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
            answer = await test.ask(metadata, version, asked)
            assert [(each.name, each.error_code, each.partitions) for each in answer.topics] == [("t", 5, [])]
            assert len(answer.brokers) == 1
            assert test.state(fault)["hits"] == 1

    run(scenario)


def test_metadata_of_all_topics_are_refused_topic_by_topic() -> None:
    async def scenario(test: UnderTest) -> None:
        for _ in range(2):  # the second answer is one that is kept encoded
            test.fault({"api": "Metadata"}, {"error": "LEADER_NOT_AVAILABLE"})
            answer = await test.ask(metadata, 12, metadata.MetadataRequest(None))
            assert [(each.name, each.error_code) for each in answer.topics] == [("t", 5)]
        answer = await test.ask(metadata, 12, metadata.MetadataRequest(None))
        assert [(each.name, each.error_code) for each in answer.topics] == [("t", 0)]

    run(scenario)


def test_answers_by_position_keep_their_order() -> None:
    async def scenario(test: UnderTest) -> None:
        test.fault({"api": "CreateAcls", "resource": "mid*"}, {"error": "INVALID_REQUEST"})
        asked = [create_acls.AclCreation(2, name, 3, "User:a", "*", 3, 3) for name in ("first", "middle", "last")]
        answer = await test.ask(create_acls, 3, create_acls.CreateAclsRequest(asked))
        codes = [each.error_code for each in answer.results]
        assert codes[1] == ErrorCode.INVALID_REQUEST
        assert codes[0] == codes[2] != ErrorCode.INVALID_REQUEST

    run(scenario)


def test_a_version_that_is_refused_is_answered_in_the_oldest() -> None:
    async def scenario(test: UnderTest) -> None:
        test.fault({"api": "ApiVersions"}, {"error": "UNSUPPORTED_VERSION"})
        raw = await test.send(api_versions, 4, api_versions.ApiVersionsRequest("library", "1"))
        answer, end = api_versions.DECODE_RESPONSE[0](raw, 4)
        assert (answer.error_code, end) == (35, len(raw))

    run(scenario)


def test_a_group_is_refused_where_it_stands_or_as_a_whole() -> None:
    async def scenario(test: UnderTest) -> None:
        test.fault({"api": "OffsetFetch", "group": "b*"}, {"error": "NOT_COORDINATOR"})
        groups = [offset_fetch.OffsetFetchRequestGroup(name, topics=None) for name in ("a", "b")]
        answer = await test.ask(offset_fetch, 8, offset_fetch.OffsetFetchRequest(groups=groups))
        assert {each.group_id: each.error_code for each in answer.groups} == {"a": ErrorCode.COORDINATOR_NOT_AVAILABLE, "b": 16}
        test.fault({"api": "OffsetFetch", "group": "b"}, {"error": "NOT_COORDINATOR"})
        answer = await test.ask(offset_fetch, 5, offset_fetch.OffsetFetchRequest("b", []))
        assert answer.error_code == 16

    run(scenario)


def test_top_level_refuses_the_whole_although_an_entity_is_selected() -> None:
    async def scenario(test: UnderTest) -> None:
        test.fault({"api": "OffsetFetch", "topic": "t"}, {"error": "NOT_COORDINATOR", "top_level": True})
        asked = offset_fetch.OffsetFetchRequest("g", [offset_fetch.OffsetFetchRequestTopic("t", [0])])
        answer = await test.ask(offset_fetch, 5, asked)
        assert (answer.error_code, answer.topics) == (16, [])

    run(scenario)


def test_what_one_list_names_is_served_though_all_of_another_is_refused() -> None:
    """AlterUserScramCredentials has two lists."""

    async def scenario() -> None:
        async with under_test() as test:
            test.fault({"api": "AlterUserScramCredentials", "resource": "alice"}, {"error": "NOT_CONTROLLER"})
            deletions = [scram.ScramCredentialDeletion("alice", 1)]
            upsertions = [scram.ScramCredentialUpsertion("bob", 1, 4096, b"salt" * 4, b"p" * 32)]
            answer = await test.ask(scram, 0, scram.AlterUserScramCredentialsRequest(deletions, upsertions))
            assert {each.user: each.error_code for each in answer.results} == {"alice": 41, "bob": 0}

    asyncio.run(scenario())
