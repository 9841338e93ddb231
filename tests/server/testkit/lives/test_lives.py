"""The lives of a broker: what a restart, a reset and a snapshot keep, and that the address is always the same."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import socket
import time
from pathlib import Path

import pytest

from ottla.log.disk.checkpoint import CLEAN_SHUTDOWN
from ottla.log.disk.files import OsDisk
from ottla.server.base.clock import LoopClock
from ottla.server.broker.marked_directories import MARKER
from ottla.server.testkit.fields import Refused
from ottla.server.testkit.lives.homes import Given
from ottla.server.testkit.lives.steered import SteeredClock
from tests.server.broker.whole_broker import disk
from tests.server.testkit.lives_rig import living, run


@pytest.mark.parametrize("how", ["clean", "kill"])
def test_a_restart_keeps_address_cluster_topics_and_records(how: str) -> None:
    async def scenario() -> None:
        async with living() as rig:
            before = rig.port, rig.lives.broker.cluster_id
            await rig.call("PUT", "/v1/topics/orders", {"partitions": 2})
            await rig.produce("orders", count=3)
            ended: list[bool] = []
            was_clean = rig.disk.exists

            def exists(path: str) -> bool:  # the start looks for the marker of a clean stop and removes it
                found = was_clean(path)
                if path.endswith(CLEAN_SHUTDOWN):
                    ended.append(found)
                return found

            rig.disk.exists = exists  # type: ignore[method-assign]  # to see what it is asked
            answer = await rig.call("POST", "/v1/restart", {"how": how})
            assert any(ended) == (how == "clean")
            assert (rig.port, rig.lives.broker.cluster_id) == before
            assert answer == {"bootstrap": f"127.0.0.1:{rig.port}", "cluster_id": before[1]}
            assert await rig.topics() == ["orders"]
            assert await rig.offset("orders", -1) == 3

    run(scenario)


def test_the_clock_goes_on_over_a_restart_and_is_real_again_after_a_reset() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("POST", "/v1/clock/advance", {"ms": 86_400_000})
            frozen = await rig.call("POST", "/v1/clock/freeze")
            await rig.call("POST", "/v1/restart", {"how": "clean"})
            await rig.call("POST", "/v1/restart", {"how": "kill"})
            shown = await rig.call("GET", "/v1/clock")
            assert (shown["now_ms"], shown["frozen"]) == (frozen["now_ms"], True)
            await rig.call("POST", "/v1/reset")
            shown = await rig.call("GET", "/v1/clock")
            assert (shown["offset_ms"], shown["frozen"]) == (0, False)

    run(scenario)


def test_a_reset_leaves_nothing_but_address_and_cluster_id() -> None:
    async def scenario() -> None:
        async with living(num_partitions="3") as rig:
            before = rig.port, rig.lives.broker.cluster_id
            for _ in range(3):
                await rig.call("PUT", "/v1/topics/orders")
                await rig.produce("orders")
                first = rig.lives.broker.config.log_dirs[0]
                await rig.call("POST", "/v1/reset")
                assert (rig.port, rig.lives.broker.cluster_id) == before
                assert await rig.topics() == []
                assert not rig.disk.exists(first)
            made = await rig.call("PUT", "/v1/topics/orders")
            assert made == {"name": "orders", "partitions": 3}

    run(scenario)


def test_descriptors_are_closed_with_the_life_and_not_by_the_collector() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("POST", "/v1/reset")
            before = len(os.listdir("/proc/self/fd"))
            gc.disable()
            try:
                for _ in range(20):
                    await rig.call("POST", "/v1/reset")
                assert len(os.listdir("/proc/self/fd")) <= before + 5
            finally:
                gc.enable()

    run(scenario)


def test_connections_end_with_the_life() -> None:
    async def scenario() -> None:
        async with living() as rig:
            reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
            await rig.call("POST", "/v1/reset")
            assert await reader.read() == b""
            writer.close()

    run(scenario)


def test_while_it_is_down_who_connects_is_refused_and_nobody_gets_the_port() -> None:
    async def scenario() -> None:
        async with living() as rig:
            port, real = rig.port, SteeredClock(LoopClock())
            rig.lives._real_clock = real
            restarting = asyncio.ensure_future(rig.call("POST", "/v1/restart", {"how": "kill", "down_ms": 60_000}))
            refused = False
            while not refused:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                except ConnectionRefusedError:
                    refused = True
                except ConnectionResetError:  # it was about to stop
                    pass
            with pytest.raises(Refused, match="the broker is down: it was stopped"):
                _ = rig.lives.broker
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", port))
            assert not restarting.done()
            await real.advance(60)
            await restarting
            assert rig.port == port
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", port))

    run(scenario)


@pytest.mark.parametrize("waiting", ["restart", "reset"])
def test_who_stops_it_does_not_wait_until_a_restart_is_over(waiting: str) -> None:
    async def scenario() -> None:
        async with living() as rig:
            restarting = asyncio.ensure_future(rig.call("POST", "/v1/restart", {"how": "kill", "down_ms": 600_000}))
            ended = asyncio.Event()
            rig.lives.on_change = ended.set
            await ended.wait()
            other = asyncio.ensure_future(rig.call("POST", f"/v1/{waiting}"))
            await asyncio.sleep(0)
            await asyncio.wait_for(rig.lives.stop(clean=False), 10)
            for each in (restarting, other):
                with pytest.raises(Refused, match=r"the broker is down: it (is being|was) stopped"):
                    await each
            with pytest.raises(Refused, match="the broker is down"):
                _ = rig.lives.broker

    run(scenario)


def test_a_restore_brings_back_what_was_there_and_when_that_was() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/seeded")
            await rig.produce("seeded", count=2)
            taken = await rig.call("POST", "/v1/snapshots", {"name": "mine"})
            assert taken["name"] == "mine"
            assert taken["files"] > 5
            assert await rig.produce("seeded") == 2
            await rig.call("PUT", "/v1/topics/later")
            await rig.call("POST", "/v1/clock/advance", {"ms": 8 * 86_400_000})
            for _ in range(2):
                await rig.call("POST", "/v1/snapshots/mine/restore")
                assert await rig.topics() == ["seeded"]
                assert await rig.offset("seeded", -1) == 2
                assert (await rig.call("GET", "/v1/clock"))["offset_ms"] == 0
                await rig.produce("seeded")

    run(scenario)


def test_snapshots_have_names_and_can_be_deleted() -> None:
    async def scenario() -> None:
        async with living() as rig:
            assert (await rig.call("POST", "/v1/snapshots"))["name"] == "snapshot-1"
            assert (await rig.call("POST", "/v1/snapshots"))["name"] == "snapshot-2"
            with pytest.raises(Refused, match="there is a snapshot 'snapshot-2' already"):
                await rig.call("POST", "/v1/snapshots", {"name": "snapshot-2"})
            await rig.call("DELETE", "/v1/snapshots/snapshot-1")
            listed = await rig.call("GET", "/v1/snapshots")
            assert [each["name"] for each in listed] == ["snapshot-2"]
            assert len(rig.disk.list("/kit/snapshots")) == 1
            with pytest.raises(Refused, match="no snapshot 'snapshot-1'; did you mean snapshot-2"):
                await rig.call("POST", "/v1/snapshots/snapshot-1/restore")
            assert await rig.topics() == []  # and it still runs

    run(scenario)


def test_a_start_that_fails_leaves_it_down_and_says_why() -> None:
    async def scenario() -> None:
        on = disk()
        async with living(on=on) as rig:
            on.fail("list", errno.EIO, path="/kit/data")
            with pytest.raises(Refused, match=r"could not be started: .*Input/output error"):
                await rig.call("POST", "/v1/restart", {"how": "kill"})
            with pytest.raises(Refused, match=r"the broker is down: it could not be started: .*Input/output error"):
                await rig.call("POST", "/v1/clock/advance", {"ms": 1})
            await rig.call("POST", "/v1/reset")
            assert await rig.topics() == []

    run(scenario)


@pytest.mark.parametrize("how", ["clean", "power_cut"])
def test_what_could_not_be_started_is_restarted_once_that_can_be_done(how: str) -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            await rig.call("POST", "/v1/clock/advance", {"ms": 86_400_000})
            frozen = await rig.call("POST", "/v1/clock/freeze")
            rig.lives.disk_faults.install({"fail": "eio"})
            for _ in range(2):
                with pytest.raises(Refused, match="could not be started"):
                    await rig.call("POST", "/v1/restart", {"how": how})
            rig.lives.disk_faults.clear()
            before = rig.lives._cluster_id
            assert (await rig.call("POST", "/v1/restart", {"how": how}))["cluster_id"] == before
            assert await rig.topics() == ["orders"]
            assert (await rig.call("GET", "/v1/clock"))["now_ms"] == frozen["now_ms"]

    run(scenario)


def test_directories_that_could_not_be_filled_are_no_broker_s_to_restart() -> None:
    async def scenario() -> None:
        on = disk()
        async with living(on=on) as rig:
            await rig.call("POST", "/v1/snapshots", {"name": "s"})
            on.fail("open", errno.EIO, path="/kit/data-1-0")
            with pytest.raises(OSError, match="Input/output"):
                await rig.call("POST", "/v1/snapshots/s/restore")
            with pytest.raises(Refused, match="the broker is down"):
                await rig.call("POST", "/v1/restart")
            await rig.call("POST", "/v1/snapshots/s/restore")
            assert await rig.topics() == []

    run(scenario)


def test_directories_that_somebody_named_are_emptied_if_their_data_are_a_test_s() -> None:
    async def scenario() -> None:
        on = disk()
        home = Given(on, ["/data"], "/snapshots")
        async with living(home, on, log_dirs="/data") as rig:
            on.write_bytes(f"/data/{MARKER}", b"")
            await rig.call("PUT", "/v1/topics/orders")
            await rig.call("POST", "/v1/snapshots", {"name": "orders"})
            await rig.call("POST", "/v1/reset")
            assert await rig.topics() == []
            assert "orders-0" not in on.list("/data")
            assert MARKER in on.list("/data")
            await rig.call("POST", "/v1/snapshots/orders/restore")
            assert await rig.topics() == ["orders"]
            assert rig.lives.broker.config.log_dirs == ["/data"]

    run(scenario)


def test_data_that_were_there_before_are_neither_deleted_nor_aged() -> None:
    async def scenario() -> None:
        on = disk()
        async with living(on=on, log_dirs="/data") as rig:
            await rig.call("PUT", "/v1/topics/orders")
        async with living(Given(on, ["/data"], "/snapshots"), on, log_dirs="/data") as rig:
            await rig.call("POST", "/v1/snapshots", {"name": "s"})
            for path, body in (
                ("/v1/reset", None),
                ("/v1/snapshots/s/restore", None),
                ("/v1/clock/advance", {"ms": 1}),
                ("/v1/clock/set", {"at": "2100-01-01"}),
                ("/v1/run", {"what": "retention"}),
            ):
                with pytest.raises(Refused, match="/data held data before the test, which this would delete") as refused:
                    await rig.call("POST", path, body)
                assert refused.value.status == 409
            await rig.call("POST", "/v1/restart", {"how": "kill"})
            assert await rig.topics() == ["orders"]

    run(scenario)


def test_ports_of_all_listeners_and_of_the_metrics_stay() -> None:
    async def scenario() -> None:
        listeners = "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0"
        async with living(
            listeners=listeners, listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            ottla_metrics_port="0",
        ) as rig:  # fmt: skip
            before = [listener.port for listener in rig.lives.broker.listeners], rig.lives.broker.metrics_url
            await rig.call("POST", "/v1/reset")
            assert ([listener.port for listener in rig.lives.broker.listeners], rig.lives.broker.metrics_url) == before

    run(scenario)


def test_two_things_at_once_come_one_after_the_other() -> None:
    async def scenario() -> None:
        async with living() as rig:
            began = time.monotonic()
            await asyncio.gather(
                rig.call("POST", "/v1/restart", {"how": "kill"}),
                rig.call("POST", "/v1/reset"),
                rig.call("POST", "/v1/clock/advance", {"ms": 1000}),
                rig.call("POST", "/v1/restart"),
                rig.call("POST", "/v1/snapshots"),
            )
            assert time.monotonic() - began < 30
            assert await rig.topics() == []

    run(scenario)


@pytest.mark.parametrize("given", [True, False])
def test_in_memory_nothing_is_held_of_earlier_lives_and_snapshots(given: bool) -> None:
    async def scenario() -> None:
        on = disk()
        home = Given(on, ["/kit/data"], "/kit/snapshots") if given else None
        held = []
        async with living(home, on) as rig:
            if given:
                on.write_bytes(f"/kit/data/{MARKER}", b"")
            for _ in range(4):
                await rig.call("PUT", "/v1/topics/orders", {"partitions": 3})
                await rig.produce("orders")
                await rig.call("POST", "/v1/snapshots", {"name": "s"})
                await rig.call("DELETE", "/v1/snapshots/s")
                await rig.call("POST", "/v1/reset")
                held.append(len(on._names._pending))
        assert held[-1] == held[0] < 100, held

    run(scenario)


@pytest.mark.parametrize("synced", [True, False])
def test_a_power_cut_takes_what_was_not_synced(synced: bool) -> None:
    async def scenario() -> None:
        ends = set()
        async with living(log_flush_interval_messages="1" if synced else str(2**63 - 1)) as rig:
            for _ in range(12):
                await rig.call("PUT", "/v1/topics/orders", {"partitions": 1})
                for _ in range(3):
                    await rig.produce("orders")
                await rig.call("POST", "/v1/restart", {"how": "power_cut"})
                assert await rig.topics() == ["orders"]  # metadata are always synced
                ends.add(await rig.offset("orders", -1))
                await rig.call("POST", "/v1/reset")
        assert ends == {3} if synced else min(ends) < 3

    run(scenario)


def test_a_power_cut_leaves_snapshots_and_what_was_restored() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders", {"partitions": 1})
            await rig.produce("orders", count=3)
            await rig.call("POST", "/v1/snapshots", {"name": "seeded"})
            await rig.call("POST", "/v1/restart", {"how": "power_cut"})
            for _ in range(5):
                await rig.call("POST", "/v1/snapshots/seeded/restore")
                assert await rig.offset("orders", -1) == 3
                await rig.call("POST", "/v1/restart", {"how": "power_cut"})
                assert await rig.offset("orders", -1) == 3

    run(scenario)


def test_the_power_of_a_real_disk_cannot_be_cut(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with living(on=OsDisk(), log_dirs=f"{tmp_path}/data") as rig:
            before = rig.lives.broker
            with pytest.raises(Refused, match="--test-disk memory"):
                await rig.call("POST", "/v1/restart", {"how": "power_cut"})
            assert rig.lives.broker is before

    run(scenario)
