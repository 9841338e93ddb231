"""Looking, seeding and waiting from Python: from the thread of the test, and awaited in the broker's own loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ottla.server.testkit.python.looking import Record, wait_body
from ottla.testing import Broker
from ottla.wire.messages import list_groups
from tests.asking import ask


def test_a_test_seeds_a_topic_and_reads_it() -> None:
    with Broker() as broker:
        broker.create_topic("orders", 2)
        assert broker.produce("orders", b"\xff", key="k", headers={"h": b"v"}, timestamp=5, partition=1) == {
            "partition": 1,
            "offset": 0,
            "timestamp": 5,
        }
        broker.produce("orders", None, headers=[("h", None)], timestamp=6)
        deleted = Record(0, 0, 6, "CreateTime", None, None, [("h", None)], None)
        assert broker.records("orders") == [deleted, Record(1, 0, 5, "CreateTime", b"k", b"\xff", [("h", b"v")], None)]
        assert [record.offset for record in broker.records("orders", partition=0, start=0, isolation="read_committed")] == [0]
        assert [each["topic"] for each in broker.topics()] == ["orders"]
        assert broker.topic("orders")["records"] == 2
        assert broker.state()["bootstrap"] == broker.bootstrap
        assert (broker.groups(), broker.transactions(), broker.connections()) == ([], [], [])
        assert (broker.producers(), broker.producers("orders")) == ([], [])
        broker.delete_topic("orders")
        assert broker.topics() == []


def test_what_is_not_there_or_does_not_come_is_said() -> None:
    with Broker() as broker:
        for look in (broker.group, broker.transaction, broker.topic):
            with pytest.raises(ValueError, match=r"^there is no .* 'g', nor any other$"):
                look("g")
        with pytest.raises(TimeoutError, match=r"^after 10 ms: there is no topic orders, nor any other$"):
            broker.wait(topic="orders", timeout=0.01)
        with pytest.raises(ValueError, match=r"^until\.grup is no field here; did you mean group\?$"):
            broker.wait(grup="g")
        with pytest.raises(ValueError, match=r"^value must be str, bytes or None, not \[1\]$"):
            broker.produce("orders", [1])  # type: ignore[arg-type]  # which is what is refused


def test_a_wait_in_one_thread_ends_with_what_another_does() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        came = threading.Event()

        def produce() -> None:
            asyncio.run(ask(broker.port, list_groups, 2, list_groups.ListGroupsRequest()))
            came.wait()
            broker.produce("orders", "v")

        other = threading.Thread(target=produce)
        other.start()
        assert broker.wait(connections=0) == {"connections": 0}
        came.set()
        assert broker.wait(topic="orders", partition=0, end_offset=1)["end_offset"] == 1
        other.join()


def test_in_the_broker_s_own_loop_they_are_awaited() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            await broker.aio.create_topic("orders")
            waits = [asyncio.ensure_future(broker.aio.wait(topic="orders", end_offset=number)) for number in range(1, 21)]
            for _ in waits:
                await broker.aio.produce("orders", "v")
            assert [found["end_offset"] >= number for number, found in enumerate(await asyncio.gather(*waits), 1)] == [True] * 20
            assert len(await broker.aio.records("orders")) == 20
            assert (await broker.aio.topic("orders"))["records"] == 20
            with pytest.raises(RuntimeError, match=r"await it \(broker\.aio\)"):
                broker.wait(topic="orders")
            with pytest.raises(TimeoutError):
                await broker.aio.wait(topic="audit", timeout=0.01)

    asyncio.run(scenario())


def test_what_is_sent_for_a_wait() -> None:
    assert wait_body({"group": "g"}, 0.5) == {"until": {"group": "g"}, "timeout_ms": 500}
