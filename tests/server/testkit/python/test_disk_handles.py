"""The disk from Python: from the thread of the test, awaited, and what is refused."""

from __future__ import annotations

import asyncio

import pytest

from ottla.log.config_def import ConfigError
from ottla.testing import Broker


def test_a_fault_of_the_disk_ends_with_its_block() -> None:
    with Broker() as broker:
        with broker.disk.fail("enospc", path="orders-*", after_bytes=10, times=3) as full:
            assert full.state == {
                "id": full.id,
                "fail": "enospc",
                "path": "orders-*",
                "times": 3,
                "hits": 0,
                "left_bytes": 10,
            }
            with broker.disk.slow(fsync_ms=1) as slow:
                broker.create_topic("prices")
                assert slow.hits > 0
        with pytest.raises(ValueError, match=f"the disk fault {full.id} is removed"):
            _ = full.hits
        broker.disk.fail("eio", path="orders-*", operations=["read"])
        broker.disk.clear()
        with pytest.raises(ValueError, match="did you mean eio"):
            broker.disk.fail("eoi")
        with broker.disk.fail("eio", path="orders-*"):
            broker.reset()


def test_a_call_that_the_broken_disk_refuses_says_so() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        with broker.disk.fail("enospc", path="__cluster_metadata-*"):
            with pytest.raises(ValueError, match="No space left"):
                broker.delete_topic("orders")
        broker.delete_topic("orders")


def test_the_same_is_awaited_in_the_loop_of_the_broker() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            fault = await broker.aio.disk.fail("enospc", path="__cluster_metadata-*")
            with pytest.raises(ValueError, match="orders: "):
                await broker.aio.create_topic("orders")
            assert await asyncio.to_thread(lambda: fault.hits) > 0
            await broker.aio.disk.clear()
            await broker.aio.create_topic("orders")

    asyncio.run(scenario())


def test_a_broker_in_memory_has_no_directory_and_can_lose_its_power() -> None:
    with Broker(disk="memory") as broker:
        broker.create_topic("orders", 2, cleanup_policy="compact")
        with pytest.raises(RuntimeError, match="the files of this broker are in memory"):
            _ = broker.data_dir
        seeded = broker.snapshot()
        broker.run("compaction")
        broker.restart("power_cut")
        broker.restore(seeded)
        broker.restart("power_cut")
        broker.reset()
    with Broker(disk="memory", log_dirs=["/a", "/b"]) as broker:
        broker.create_topic("orders", 2)
        broker.restart("power_cut")
        broker.reset()
    with pytest.raises(ConfigError, match="disk: there is no 'ram'"):
        Broker(disk="ram")
    with pytest.raises(ConfigError, match="disk: nothing of a disk in memory is kept"):
        Broker(disk="memory", data_dir="/somewhere")


def test_versions_and_resets_from_python() -> None:
    with Broker() as broker:
        told = broker.pretend(as_="3.5", Produce=[3, 5], Fetch=None)
        assert (told["versions"]["Produce"], told["versions"]["Fetch"], told["as"]) == ([3, 5], None, "3.5")
        broker.reset(keep=["versions"])
        assert broker.pretend()["as"] is None
        broker.create_topic("orders", 200)
        directory = broker.data_dir
        broker.reset(connections="keep")
        assert broker.data_dir == directory
        assert [path for path in directory.glob("orders-*") if not path.name.endswith("-delete")] == []
