"""Time and lives from Python: from the thread of the test, and awaited in the broker's own loop."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ottla.testing import Broker


def test_methods_have_taken_effect_when_they_return() -> None:
    with Broker() as broker:
        port = broker.port
        broker.create_topic("orders", 2, retention_ms=1000, cleanup_policy=["compact", "delete"])
        assert (broker.data_dir / "orders-1").is_dir()
        seeded = broker.snapshot()
        named = broker.snapshot("named")
        assert (seeded, named) == ("snapshot-1", "named")
        broker.delete_snapshot(named)
        broker.clock.freeze()
        assert broker.clock.frozen
        now_ms = broker.clock.now_ms
        broker.clock.advance(days=1, hours=1, minutes=1, seconds=1, ms=1)
        assert broker.clock.now_ms == now_ms + 86_400_000 + 3_600_000 + 60_000 + 1_001
        broker.clock.set(datetime(2100, 1, 1, tzinfo=UTC))
        assert broker.clock.now_ms == 4_102_444_800_000
        broker.restart("kill")
        assert broker.clock.frozen
        broker.clock.resume()
        assert not broker.clock.frozen
        assert broker.run("retention")["passes"] == ["retention", "delete"]
        broker.reset()
        assert not (broker.data_dir / "orders-1").exists()
        broker.restore(seeded)
        assert (broker.data_dir / "orders-1").is_dir()
        broker.restart()
        assert broker.port == port
        socket.create_connection(("127.0.0.1", port)).close()


def test_what_is_refused_is_a_value_error() -> None:
    with Broker() as broker:
        with pytest.raises(ValueError, match=r"^Fetch must be null, or the lowest and the highest version, .* not 12$"):
            broker.pretend(Fetch=12)  # type: ignore[arg-type]  # which is what is refused
        assert broker.pretend(Fetch=(4, 12))["versions"]["Fetch"] == [4, 12]
        with pytest.raises(ValueError, match="how: there is no 'pull'"):
            broker.restart("pull")
        with pytest.raises(ValueError, match="topic a b: "):
            broker.create_topic("a b")
        with pytest.raises(ValueError, match="there is no snapshot 'mine'"):
            broker.restore("mine")
        with pytest.raises(ValueError, match="it only goes forward"):
            broker.clock.set(0)


def test_a_reset_removes_faults_unless_they_are_kept() -> None:
    with Broker() as broker:
        fault = broker.fault(api="Fetch", hold=True)
        broker.reset(keep=["faults"])
        assert fault.state["active"]
        broker.reset()
        with pytest.raises(ValueError, match=fault.id):
            _ = fault.state


def test_in_the_broker_s_own_loop_they_are_awaited() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            before_ms = await broker.aio.clock.now_ms
            await broker.aio.clock.advance(days=1)
            assert await broker.aio.clock.now_ms >= before_ms + 86_400_000
            await broker.aio.create_topic("orders")
            await broker.aio.restart("kill")
            assert (broker.data_dir / "orders-0").is_dir()
            await broker.aio.reset()
            assert not (broker.data_dir / "orders-0").exists()
            with pytest.raises(RuntimeError, match=r"await it \(broker\.aio\)"):
                broker.reset()

    asyncio.run(scenario())


def test_the_address_stays_where_the_cluster_id_was_given() -> None:
    with Broker(cluster_id="MkU3OEVBNTcwNTJENDM2Qg") as broker:
        port = broker.port
        broker.reset()
        broker.restart()
        assert broker.port == port


def test_a_directory_of_the_metadata_log_that_held_data_is_not_emptied(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "kept").write_text("x")
    with Broker(data_dir=tmp_path / "new", metadata_log_dir=old) as broker:
        with pytest.raises(ValueError, match="old held data before the test"):
            broker.reset()
    assert (old / "kept").read_text() == "x"
