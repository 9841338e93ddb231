"""Tests of what a fault is for: what matches, what cannot, and what is said about that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.server.testkit.faults.actions import read_action
from ottla.server.testkit.faults.selectors import On
from ottla.server.testkit.fields import Fields, Refused
from ottla.wire.messages import find_coordinator, list_groups, produce
from tests.log.support import batch
from tests.server.testkit.under_test import UnderTest, under_test


def on(**given: Any) -> On:
    return On(Fields(given, "on"), {1})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"api": "Produc"}, r"on.api: 'Produc' is no API that is served; did you mean Produce\?"),
        ({"api": 4711}, "on.api: 4711 is no API"),
        ({"api": []}, "on.api: this can never match, because the list is empty"),
        ({"apy": "Produce"}, r"on.apy is no field here; did you mean api\?"),
        (
            {"api": "Heartbeat", "topic": "t"},
            "on.topic: this can never match, because requests of Heartbeat cannot be selected by topic",
        ),
        ({"api": ["Heartbeat", "Produce"], "topic": "t", "group": "g"}, "on: this can never match"),
        ({"api": "Produce", "version": ">=14"}, "on.version: this can never match, because Produce is served in v3 to v13"),
        ({"version": "new"}, 'on.version must be like 9, ">=12"'),
        ({"version": "1" * 5000}, 'on.version must be like 9, ">=12"'),
        ({"node": 2}, "on.node: this can never match, because the only node is 1"),
        ({"api": "Produce", "where": {"ack": 1}}, r"on.where.ack: no request of Produce has ack; did you mean acks\?"),
        ({"api": "Produce", "where": {"index": 1}}, "on.where.index: no request of Produce has index"),
        ({"api": "Produce", "where": {"topic_data.nam": "t"}}, r"on.where.topic_data.nam: .* did you mean name\?"),
        ({"api": "Produce", "where": {"acks": {}}}, "on.where.acks must be a value or a list of values"),
        ({"topic": 1}, "on.topic must be a text or a list of texts, not 1"),
        ({"partition": "0"}, "on.partition must be a whole number or a list of them, not '0'"),
        ({"partition": True}, "on.partition must be a whole number or a list of them, not True"),
    ],
)
def test_what_can_never_match_is_refused_with_what_would(given: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        on(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"eror": "NONE"}, r"do.eror is no field here; did you mean error\?"),
        ({}, "do must have exactly one of error, throttle_ms"),
        ({"error": "NONE", "hold": True}, "do must have exactly one of"),
        ({"error": "NOT_LEADER"}, r"do.error: 'NOT_LEADER' is no error; did you mean NOT_LEADER_OR_FOLLOWER\?"),
        ({"error": []}, "do.error must have at least one error"),
        ({"hold": False}, "do.hold must be true"),
        ({"disconnect": "rest"}, r"do.disconnect: there is no 'rest'; did you mean reset\?"),
        ({"corrupt": "crcs"}, r"did you mean crc\?"),
        ({"delay_ms": -1}, "do.delay_ms must be between 0 and"),
        ({"delay_ms": 1.5}, "do.delay_ms must be a whole number, not 1.5"),
        ({"drip": {"bytes": 0, "every_ms": 1}}, "do.drip.bytes must be between 1 and"),
        ({"drip": {"bytes": 1}}, "do.drip.every_ms is missing; it must be a whole number"),
        ({"throttle_ms": 10, "jitter_ms": 1}, "do.jitter_ms is no field here"),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_could(given: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        read_action(Fields(given, "do"))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], None),
        ("x", "the body must be an object, not 'x'"),
        ({}, "do is missing; it must be an object"),
        ({"do": {"hold": True}, "tims": 1}, r"tims is no field here; did you mean times\?"),
        ({"api": "Fetch", "do": {"hold": True}}, "^api is no field here; it belongs in on$"),
        ({"error": "NONE"}, "^error is no field here; it belongs in do$"),
        ({"on": {"hold": True}, "do": {}}, "^on.hold is no field here; it belongs in do$"),
        ({"do": {"hold": True, "topic": "t"}}, "^do.topic is no field here; it belongs in on$"),
        ({"do": {"hold": True, "times": 2}}, "^do.times is no field here; it belongs beside on and do$"),
        ({"do": {"hold": True}, "times": 0}, "times must be at least 1, or -1 for ever, not 0"),
        ({"do": {"hold": True}, "times": -2}, "times must be between -1 and"),
        ({"do": {"hold": True}, "probability": 2}, "probability must be more than 0 and at most 1, not 2"),
        ({"do": {"hold": True}, "act": "later"}, "act must be before or after, not 'later'"),
        ({"do": {"observe": True}, "act": "after"}, "act means nothing for this fault"),
        ({"do": {"corrupt": "crc"}, "on": {"api": "Produce"}}, "only answers to Fetch and ShareFetch have records"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(body: Any, said: str | None) -> None:
    async def scenario() -> None:
        async with under_test() as test:
            if said is None:
                assert test.call("POST", "/v1/faults", body) == []
                return
            with pytest.raises(Refused, match=said):
                test.call("POST", "/v1/faults", body)

    asyncio.run(scenario())


def produce_to(name: str, acks: int = -1) -> produce.ProduceRequest:
    data = [produce.PartitionProduceData(0, batch(1))]
    return produce.ProduceRequest(None, acks, 1000, [produce.TopicProduceData(name, partition_data=data)])


MATCHES: list[tuple[dict[str, Any], bool]] = [
    ({"api": "Produce"}, True),
    ({"api": 0}, True),
    ({"api": ["Fetch", "Produce"]}, True),
    ({"api": "Fetch"}, False),
    ({}, True),
    ({"client_id": "app-*"}, True),
    ({"client_id": ["other", "app-?"]}, True),
    ({"client_id": "app"}, False),
    ({"client_host": "127.0.0.1"}, True),
    ({"client_host": "10.*"}, False),
    ({"version": 9}, True),
    ({"version": ">=9"}, True),
    ({"version": ">9"}, False),
    ({"version": ">=3,<9"}, False),
    ({"node": [1]}, True),
    ({"topic": "ord*"}, True),
    ({"topic": ["x", "orders"], "partition": 0}, True),
    ({"topic": "orders", "partition": [1, 2]}, False),
    ({"topic": "other"}, False),
    ({"api": "Produce", "where": {"acks": -1}}, True),
    ({"api": "Produce", "where": {"acks": [0, 1]}}, False),
    ({"api": "Produce", "where": {"acks": True}}, False),
    ({"api": "Produce", "where": {"topic_data.name": "o*s"}}, True),
    ({"api": "Produce", "where": {"topic_data.partition_data.index": 1}}, False),
    ({"api": "Produce", "where": {"transactional_id": None}}, True),
    ({"api": "Produce", "transactional_id": "*"}, False),
]


def test_all_that_is_given_has_to_hold() -> None:
    async def scenario() -> None:
        async with under_test() as test:
            for given, matches in MATCHES:
                fault = test.fault(given, {"observe": True})
                await test.ask(produce, 9, produce_to("orders"))
                assert test.state(fault)["hits"] == matches, given
                test.call("DELETE", "/v1/faults")

    asyncio.run(scenario())


async def coordinator_hits(test: UnderTest, given: dict[str, Any], version: int, key_type: int) -> int:
    fault = test.fault({"api": "FindCoordinator", **given}, {"error": "COORDINATOR_NOT_AVAILABLE"})
    request = find_coordinator.FindCoordinatorRequest("billing", key_type, ["billing"])
    await test.ask(find_coordinator, version, request)
    hits: int = test.state(fault)["hits"]
    test.call("DELETE", "/v1/faults")
    return hits


@pytest.mark.parametrize("version", [2, 4])
def test_a_coordinator_is_looked_for_by_what_its_key_is(version: int) -> None:
    async def scenario() -> None:
        async with under_test() as test:
            assert await coordinator_hits(test, {"group": "billing"}, version, 0) == 1
            assert await coordinator_hits(test, {"group": "billing"}, version, 1) == 0
            assert await coordinator_hits(test, {"transactional_id": "bill*"}, version, 1) == 1

    asyncio.run(scenario())


def test_a_request_with_many_entities_that_match_is_one_hit() -> None:
    async def scenario() -> None:
        async with under_test() as test:
            fault = test.fault({"topic": "*"}, {"error": "NOT_LEADER_OR_FOLLOWER"}, times=5)
            request = produce_to("a")
            request.topic_data += produce_to("b").topic_data
            answer = await test.ask(produce, 9, request)
            assert [each.partition_responses[0].error_code for each in answer.responses] == [6, 6]
            assert test.state(fault)["hits"] == 1
            await test.ask(list_groups, 4, list_groups.ListGroupsRequest())
            assert test.state(fault)["hits"] == 1

    asyncio.run(scenario())
