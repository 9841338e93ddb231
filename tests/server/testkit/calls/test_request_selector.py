"""Tests of which recorded requests are selected by what."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.requests.session import Session
from ottla.server.testkit.calls.request_selector import RequestSelector, from_query
from ottla.server.testkit.fields import Refused
from ottla.wire.messages import create_topics, fetch, heartbeat, metadata, produce
from tests.in_loop import in_loop
from tests.log.support import batch
from tests.server.testkit.under_test import UnderTest, frame_of, under_test


async def recorded(tested: UnderTest) -> None:
    """Records a Produce (1), a Fetch by topic id (2), a Heartbeat (3) of another client and host, and a Metadata (4)."""
    await tested.ask(create_topics, 7, create_topics.CreateTopicsRequest([create_topics.CreatableTopic("t", 2, 1)]))
    tested.kit.record(100, records=False)
    data = [produce.TopicProduceData("t", partition_data=[produce.PartitionProduceData(1, batch())])]
    topic = fetch.FetchTopic(topic_id=tested.context.metadata.topics["t"].topic_id, partitions=[fetch.FetchPartition(0)])
    other = Session("PLAINTEXT", "10.0.0.9")
    for frame, session in (
        (frame_of(produce, 9, produce.ProduceRequest("tx", -1, 1000, data), "app-1"), tested.session),
        (frame_of(fetch, 13, fetch.FetchRequest(topics=[topic], session_epoch=-1), "app-2"), tested.session),
        (frame_of(heartbeat, 3, heartbeat.HeartbeatRequest("g", 1, "m"), None), other),
        (frame_of(metadata, 12, metadata.MetadataRequest([]), "app-1"), tested.session),
    ):
        tested.kit._frames[0].serve(memoryview(frame), session)


SELECTED: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [1, 2, 3, 4]),
    ({"api": "Produce"}, [1]),
    ({"api": ["Produce", 12]}, [1, 3]),
    ({"api": "JoinGroup"}, []),
    ({"client_id": "app-*"}, [1, 2, 4]),
    ({"client_id": ["app-2"]}, [2]),
    ({"client_host": "10.*"}, [3]),
    ({"node": 1}, [1, 2, 3, 4]),
    ({"topic": "t"}, [1, 2]),
    ({"topic": "t", "partition": 1}, [1]),
    ({"topic": "u*"}, []),
    ({"group": "g"}, [3]),
    ({"transactional_id": "tx"}, [1]),
    ({"api": ["Produce", "Fetch"], "version": ">9"}, [2]),
    ({"api": "Produce", "where": {"acks": -1}}, [1]),
    ({"api": "Produce", "where": {"acks": 1}}, []),
]


@in_loop
async def test_what_faults_are_selected_by() -> None:
    async with under_test() as tested:
        await recorded(tested)
        assert tested.kit.recorder is not None
        for values, wanted in SELECTED:
            selector = RequestSelector(values, tested.kit)
            assert [entry.seq for entry in tested.kit.recorder if selector(entry)] == wanted, values


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"api": "Fetsh"}, "api: 'Fetsh' is no API that is served; did you mean Fetch?"),
        ({"api": "Heartbeat", "topic": "t"}, "topic: this can never match"),
        ({"node": 7}, "node: this can never match, because the only node is 1"),
        ({"version": "x"}, 'version must be like 9, ">=12" or ">=3,<9", not \'x\''),
        ({"api": "Produce", "version": 99}, "version: this can never match, because Produce is served in"),
        ({"topic": "t", "transactional_id": "t", "resource": "t"}, "this can never match, because no request of any API"),
        ({"where": {"ack": 1}}, "where.ack: no request of any API has ack; did you mean acks?"),
        ({"where": {"acks": [[1]]}}, "where.acks must be a value or a list of values"),
    ],
)
@in_loop
async def test_what_can_never_match_is_refused_by_the_name_that_was_given(values: dict[str, Any], said: str) -> None:
    async with under_test() as tested:
        with pytest.raises(Refused) as refused:
            RequestSelector(values, tested.kit)
        assert str(refused.value).startswith(said)


@in_loop
async def test_a_request_whose_body_is_not_kept_matches_only_by_its_header() -> None:
    async with under_test() as tested:
        await recorded(tested)
        assert tested.kit.recorder is not None
        entry = next(iter(tested.kit.recorder))
        entry.frame = entry.frame[:15]
        assert RequestSelector({"api": "Produce", "client_id": "app-1"}, tested.kit)(entry)
        assert not RequestSelector({"topic": "t"}, tested.kit)(entry)
        assert not RequestSelector({"api": "Produce", "where": {"acks": -1}}, tested.kit)(entry)


def test_a_query_is_texts() -> None:
    query = {"api": "Produce,1", "partition": "0,3", "client_id": "app-1,5", "version": ">=3,<9", "where": {"a": "1,2"}}
    assert from_query(query) == {
        "api": ["Produce", 1],
        "partition": [0, 3],
        "client_id": ["app-1", "5"],
        "version": ">=3,<9",
        "where": {"a": "1,2"},
    }
    assert from_query({"api": 3, "topic": ["a,b"]}) == {"api": 3, "topic": ["a,b"]}
