"""Faults: how often and when they act, in which order, what they hold, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.server.dispatch.chain import Place
from ottla.server.dispatch.route import Waiting
from ottla.server.dispatch.routes import Dispatch
from ottla.server.testkit.fields import Refused
from ottla.wire.messages import alter_client_quotas as quotas
from ottla.wire.messages import create_topics, fetch, heartbeat, list_groups, metadata, produce, share_fetch
from tests.log.support import batch
from tests.server.share.support import MemoryPersister
from tests.server.testkit.under_test import UnderTest, frame_of, sent, under_test

GROUPS = list_groups.ListGroupsRequest()


def run(scenario: Callable[[UnderTest], Awaitable[None]]) -> None:
    async def with_broker() -> None:
        async with under_test() as test:
            await scenario(test)

    asyncio.run(with_broker())


async def codes(test: UnderTest, count: int, client_id: str = "app-1", version: int = 4) -> list[int]:
    return [(await test.ask(list_groups, version, GROUPS, client_id=client_id)).error_code for _ in range(count)]


@pytest.mark.parametrize(
    ("do", "rules", "expected"),
    [
        ({"error": "NOT_COORDINATOR"}, {}, [16, 0, 0, 0]),
        ({"error": "NOT_COORDINATOR"}, {"times": 2}, [16, 16, 0, 0]),
        ({"error": "NOT_COORDINATOR"}, {"times": -1}, [16, 16, 16, 16]),
        ({"error": "NOT_COORDINATOR"}, {"on_call": 3}, [0, 0, 16, 0]),
        ({"error": 16}, {"on_call": 2, "times": 2}, [0, 16, 16, 0]),
        ({"error": ["NOT_COORDINATOR", "NONE", "REQUEST_TIMED_OUT"]}, {}, [16, 0, 7, 0]),
        ({"error": ["NOT_COORDINATOR", "NONE"]}, {"times": 4}, [16, 0, 16, 0]),
    ],
)
def test_how_often_and_when_it_acts(do: dict[str, Any], rules: dict[str, Any], expected: list[int]) -> None:
    async def scenario(test: UnderTest) -> None:
        test.fault({"api": "ListGroups"}, do, **rules)
        assert await codes(test, 4) == expected

    run(scenario)


def test_chances_are_those_of_the_seed() -> None:
    async def with_seed(seed: int) -> list[int]:
        async with under_test(seed) as test:
            test.fault({"api": "ListGroups"}, {"error": "NOT_COORDINATOR"}, times=-1, probability=0.5)
            return await codes(test, 40)

    first, second, other = (asyncio.run(with_seed(seed)) for seed in (1, 1, 2))
    assert first == second != other
    assert {0, 16} == set(first)


def test_the_first_that_matches_acts_and_observers_count_all() -> None:
    async def scenario(test: UnderTest) -> None:
        observer = test.fault({}, {"observe": True})
        test.fault({"api": "ListGroups", "client_id": "app-*"}, {"error": "NOT_COORDINATOR"}, times=-1)
        later = test.fault({"api": "ListGroups"}, {"error": "REQUEST_TIMED_OUT"}, times=-1)
        last = test.fault({}, {"observe": True})
        assert await codes(test, 2) == [16, 16]
        assert await codes(test, 1, client_id="other") == [7]
        assert test.state(later)["hits"] == 1
        for fault in (observer, last):
            seen = test.state(fault)
            assert (seen["hits"], seen["left"], seen["last_hit"]["client_id"]) == (3, -1, "other")

    run(scenario)


def test_without_a_fault_that_may_act_there_is_no_link() -> None:
    async def scenario(test: UnderTest) -> None:
        links = test.broker.chain._links
        test.fault({"api": "ListGroups"}, {"error": "NOT_COORDINATOR"})
        assert Place.FAULTS in links
        await codes(test, 1)
        assert Place.FAULTS not in links
        fault = test.fault({"api": "ListGroups"}, {"error": "NOT_COORDINATOR"})
        test.call("DELETE", f"/v1/faults/{fault['id']}")
        assert Place.FAULTS not in links

    run(scenario)


def test_it_ends_after_its_time() -> None:
    async def scenario(test: UnderTest) -> None:
        fault = test.fault({"api": "ListGroups"}, {"error": "NOT_COORDINATOR"}, times=-1, for_ms=10)
        ended = asyncio.Event()
        test.kit.clock.call_later(0.02, ended.set)
        assert await codes(test, 1) == [16]
        await ended.wait()
        assert await codes(test, 1) == [0]
        assert not test.state(fault)["active"]

    run(scenario)


def test_several_are_installed_together_or_not_at_all() -> None:
    async def scenario(test: UnderTest) -> None:
        good = {"on": {"api": "ListGroups"}, "do": {"error": "NOT_COORDINATOR"}}
        with pytest.raises(Refused, match="is no error"):
            test.call("POST", "/v1/faults", [good, {"do": {"error": "NO_SUCH"}}])
        assert test.call("GET", "/v1/faults") == []
        installed = test.call("POST", "/v1/faults", [good, good])
        assert [each["id"] for each in installed] == ["f1", "f2"]
        assert await codes(test, 3) == [16, 16, 0]
        assert [each["hits"] for each in test.call("DELETE", "/v1/faults")] == [1, 1]

    run(scenario)


@pytest.mark.parametrize("act", ["before", "after"])
def test_a_held_request_goes_on_when_it_is_released(act: str) -> None:
    async def scenario(test: UnderTest) -> None:
        await topic(test)
        fault = test.fault({"api": "Produce"}, {"hold": True}, act=act, times=2)
        waiting: list[Any] = [test.serve(produce, 9, records()) for _ in range(2)]
        assert [each.answer.done() for each in waiting] == [False, False]
        assert end_offset(test) == (2 if act == "after" else 0)
        assert test.state(fault)["held"] == 2
        assert test.call("POST", f"/v1/faults/{fault['id']}/release")["released"] == 2
        assert [each.answer.result().responses[0].partition_responses[0].base_offset for each in waiting] == [0, 1]
        assert test.state(fault)["held"] == 0

    run(scenario)


def test_a_held_request_has_its_own_copy_of_its_records() -> None:
    async def scenario(test: UnderTest) -> None:
        await topic(test)
        fault = test.fault({"api": "Produce"}, {"hold": True})
        frame = bytearray(frame_of(produce, 9, records(), "app"))
        waiting: Any = Dispatch(test.context, test.broker.chain).serve(memoryview(frame), test.session)
        frame[:] = bytes(len(frame))  # the shared buffer has other frames by now
        test.call("POST", f"/v1/faults/{fault['id']}/release")
        assert waiting.answer.result().responses[0].partition_responses[0].error_code == 0

    run(scenario)


def test_removing_a_fault_lets_go_of_what_it_holds() -> None:
    async def scenario(test: UnderTest) -> None:
        fault = test.fault({"api": "ListGroups"}, {"hold": True}, times=-1)
        waiting: Any = test.serve(list_groups, 4, GROUPS)
        test.call("DELETE", f"/v1/faults/{fault['id']}")
        assert waiting.answer.result().error_code == 0

    run(scenario)


def test_what_is_held_or_lost_is_given_up_with_its_client() -> None:
    async def scenario(test: UnderTest) -> None:
        held = test.fault({"api": "ListGroups"}, {"hold": True})
        test.fault({"api": "ListGroups"}, {"blackhole": True})
        waiting: list[Any] = [test.serve(list_groups, 4, GROUPS) for _ in range(2)]
        assert [each.answer.done() for each in waiting] == [False, False]
        test.session.close()
        assert [each.answer.cancelled() for each in waiting] == [True, True]
        assert test.state(held)["held"] == 0

    run(scenario)


def test_a_wait_ends_with_the_hit_or_says_what_is_missing() -> None:
    async def scenario(test: UnderTest) -> None:
        fault = test.fault({"api": "ListGroups"}, {"error": "NOT_COORDINATOR"}, times=2)
        path = f"/v1/faults/{fault['id']}/wait"
        waiting = asyncio.ensure_future(test.call("POST", path, {"hits": 2}))
        await asyncio.sleep(0)
        await codes(test, 1)
        assert not waiting.done()
        await codes(test, 1)
        assert (await waiting)["hits"] == 2
        with pytest.raises(Refused, match="has 2 of 3 hits") as refused:
            await test.call("POST", path, {"hits": 3, "timeout_ms": 1})
        assert refused.value.status == 408

    run(scenario)


def test_a_throttled_client_is_told_and_muted() -> None:
    async def scenario(test: UnderTest) -> None:
        muted: list[int] = []
        test.session._connection = type("Connection", (), {"mute": lambda self, ms: muted.append(ms)})()
        test.fault({"api": ["ListGroups", "Metadata"]}, {"throttle_ms": 70}, times=2)
        assert (await test.ask(list_groups, 4, GROUPS)).throttle_time_ms == 70
        assert (await test.ask(metadata, 12, metadata.MetadataRequest(None))).throttle_time_ms == 70
        assert muted == [70, 70]

    run(scenario)


@pytest.mark.parametrize("fault_first", [True, False])
def test_a_quota_is_inside_of_a_fault_whichever_came_first(fault_first: bool) -> None:
    async def scenario(test: UnderTest) -> None:
        async def set_quota() -> None:
            entity = [quotas.RequestEntityData("client-id", "app-1")]
            entry = quotas.RequestEntryData(entity, [quotas.OpData("request_percentage", 1.0)])
            await test.ask(quotas, 1, quotas.AlterClientQuotasRequest([entry]))

        if not fault_first:
            await set_quota()
        test.fault({"api": "ListGroups"}, {"error": "NOT_COORDINATOR"}, times=5)
        if fault_first:
            await set_quota()
        places = [place for place, _ in sorted(test.broker.chain._links.items())]
        assert places == [Place.QUOTAS, Place.FAULTS]
        assert await codes(test, 5) == [16] * 5
        charged = test.context.quotas
        assert charged is not None
        assert charged.used("request_percentage") == []  # for requests that never reached it

    run(scenario)


def test_a_partition_in_a_fetch_session_matches_although_the_request_does_not_name_it() -> None:
    async def scenario(test: UnderTest) -> None:
        await topic(test)
        await test.ask(produce, 9, records())
        first = await test.ask(fetch, 12, fetching(0, 0, name=True))
        assert first.session_id
        test.fault({"api": "Fetch", "topic": "t", "partition": 0}, {"error": "NOT_LEADER_OR_FOLLOWER"})
        refused = await test.ask(fetch, 12, fetching(first.session_id, 1, name=False))
        assert [each.error_code for each in refused.responses[0].partitions] == [6]
        after = await test.ask(fetch, 12, fetching(first.session_id, 2, name=False))
        assert after.responses[0].partitions[0].records

    run(scenario)


def test_a_fetch_that_is_refused_does_not_wait_and_names_the_leader_where_the_version_does() -> None:
    async def scenario(test: UnderTest) -> None:
        await topic(test)
        named = []
        for version in (12, 16):
            test.fault({"api": "Fetch", "partition": 0}, {"error": "NOT_LEADER_OR_FOLLOWER"})
            request = fetching(0, -1, name=True)
            request.max_wait_ms = 60_000
            request.min_bytes = 1
            request.topics[0].topic_id = test.context.metadata.topics["t"].topic_id
            served = test.serve(fetch, version, request)
            assert not isinstance(served, Waiting)
            answer = fetch.DECODE_RESPONSE[version]((await sent(served)), 5)[0]
            data = answer.responses[0].partitions[0]
            assert data.error_code == 6
            named.append(None if data.current_leader is None else data.current_leader.leader_id)
        assert named[1] == 1
        assert named[0] != 1

    run(scenario)


def test_a_partition_of_a_share_session_is_refused_and_stays_in_the_session() -> None:
    async def scenario(test: UnderTest) -> None:
        await topic(test)
        persister: Any = MemoryPersister()
        test.context.existing_share_persister = persister
        first = await test.ask(share_fetch, 1, sharing(test, 0, name=True))
        assert first.error_code == 0
        await test.ask(produce, 9, records())
        test.fault({"api": "ShareFetch", "topic": "t"}, {"error": "NOT_LEADER_OR_FOLLOWER"})
        refused = await test.ask(share_fetch, 1, sharing(test, 1, name=False))
        data = refused.responses[0].partitions[0]
        assert (data.error_code, data.acquired_records, data.current_leader.leader_id) == (6, [], 1)
        served = await test.ask(share_fetch, 1, sharing(test, 2, name=False))
        data = served.responses[0].partitions[0]
        assert [(each.first_offset, each.delivery_count) for each in data.acquired_records] == [(0, 1)]

    run(scenario)


def test_only_an_answer_with_records_is_a_hit_of_spoiled_records() -> None:
    async def scenario(test: UnderTest) -> None:
        await topic(test)
        fault = test.fault({"api": "Fetch"}, {"corrupt": "crc"})
        await test.ask(fetch, 12, fetching(0, -1, name=True))
        assert test.state(fault)["left"] == 1
        await test.ask(produce, 9, records())
        spoiled = await test.ask(fetch, 12, fetching(0, -1, name=True))
        sound = await test.ask(fetch, 12, fetching(0, -1, name=True))
        a, b = (bytes(each.responses[0].partitions[0].records) for each in (spoiled, sound))
        assert len(a) == len(b)
        assert sum(x != y for x, y in zip(a, b, strict=True)) == 1
        assert a[:61] == b[:61]
        assert test.state(fault)["left"] == 0

    run(scenario)


def test_a_heartbeat_is_left_alone_by_a_fault_for_a_topic() -> None:
    async def scenario(test: UnderTest) -> None:
        fault = test.fault({"topic": "*"}, {"error": "NOT_LEADER_OR_FOLLOWER"}, times=-1)
        answer = await test.ask(heartbeat, 4, heartbeat.HeartbeatRequest("g", 1, "m"))
        assert answer.error_code != 6
        assert test.state(fault)["matches"] == 0

    run(scenario)


async def topic(test: UnderTest) -> None:
    await test.ask(create_topics, 7, create_topics.CreateTopicsRequest([create_topics.CreatableTopic("t", 1, 1)], 1000))


def records() -> produce.ProduceRequest:
    data = [produce.PartitionProduceData(0, batch(1))]
    return produce.ProduceRequest(None, -1, 1000, [produce.TopicProduceData("t", partition_data=data)])


def fetching(session_id: int, epoch: int, *, name: bool) -> fetch.FetchRequest:
    topics = [fetch.FetchTopic("t", partitions=[fetch.FetchPartition(0, partition_max_bytes=1 << 20)])] if name else []
    return fetch.FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_id=session_id, session_epoch=epoch, topics=topics)


def sharing(test: UnderTest, epoch: int, *, name: bool) -> share_fetch.ShareFetchRequest:
    topics = [share_fetch.FetchTopic(test.context.metadata.topics["t"].topic_id, [share_fetch.FetchPartition(0)])] if name else []
    return share_fetch.ShareFetchRequest("s", "m", epoch, 0, 1, 1 << 20, 10, 10, topics=topics)


def end_offset(test: UnderTest) -> int:
    replica = test.context.replicas.get("t", 0)
    assert replica is not None
    return replica.log.log_end_offset


def test_a_fault_is_described_with_all_that_was_given() -> None:
    async def scenario(test: UnderTest) -> None:
        rules = {"on_call": 2, "probability": 0.5, "for_ms": 1000, "act": "before"}
        given = {"on": {"api": "ListGroups"}, "do": {"error": "NOT_COORDINATOR"}}
        installed = test.call("POST", "/v1/faults", {**given, **rules})
        plain = test.call("POST", "/v1/faults", {**given, "act": None})
        assert {name: installed[name] for name in (*given, *rules)} == {**given, **rules}
        assert set(installed) - set(plain) == set(rules)
        assert test.call("GET", "/v1/faults") == [installed, plain]

    run(scenario)
