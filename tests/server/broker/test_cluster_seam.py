"""A broker runs with any implementation of Cluster: this one has nothing but the interface, and notes what it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from ottla.log.disk.checkpoint import read_clean_shutdown
from ottla.server.broker import broker as module
from ottla.server.broker import start
from ottla.server.broker.broker import Broker
from ottla.server.metadata.cluster import Cluster, Pass
from ottla.server.metadata.controller import Controller
from ottla.server.metadata.controller_settings import ListenerCheck
from ottla.server.metadata.image import Endpoint, MetadataImage
from tests.server.broker.whole_broker import config, disk, run

MARKER = "/data/.kafka_cleanshutdown"


class NotingCluster(Cluster):
    """A cluster of one node, behind the interface. `refused` is raised where the broker wants to register."""

    def __init__(self, inner: Cluster, asked: list[str], refused: Exception | None) -> None:
        self._inner = inner
        self._asked = asked
        self._refused = refused

    @property
    def image(self) -> MetadataImage:
        return self._inner.image

    @property
    def controller(self) -> Controller:
        return self._inner.controller

    def check_listeners(self, check: ListenerCheck) -> None:
        self._inner.check_listeners(check)

    async def register(self, endpoints: Sequence[Endpoint], *, rack: str | None = None) -> int:
        self._asked.append("register")
        if self._refused is not None:
            raise self._refused
        return await self._inner.register(endpoints, rack=rack)

    async def ready(self) -> None:
        self._asked.append("ready")
        await self._inner.ready()

    async def begin_leaving(self) -> None:
        self._asked.append("begin_leaving")
        await self._inner.begin_leaving()

    async def leave(self) -> None:
        self._asked.append("leave")
        await self._inner.leave()

    async def close(self) -> None:
        self._asked.append("close")
        await self._inner.close()

    def lose_directories(self, failed: Collection[str], lost: Mapping[tuple[str, int], str | None]) -> None:
        self._inner.lose_directories(failed, lost)

    def assign_directories(self, assignments: Sequence[tuple[bytes, int, bytes]]) -> None:
        self._inner.assign_directories(assignments)

    def passes(self) -> Sequence[Pass]:
        self._asked.append("passes")
        return self._inner.passes()


@contextmanager
def clusters_noting(asked: list[str], refused: Exception | None = None) -> Iterator[None]:
    """Gives brokers a cluster that notes in `asked`, where they open theirs."""

    async def opened(*args: Any) -> Cluster:
        asked.append("open")
        return NotingCluster(await start.open_cluster(*args), asked, refused)

    with patch.object(module, "open_cluster", opened):
        yield


def test_a_broker_needs_nothing_but_the_interface_and_uses_it_in_its_order() -> None:
    async def scenario() -> None:
        asked: list[str] = []
        with clusters_noting(asked):
            broker = Broker(config(), disk=disk())
            await broker.start()
            assert asked == ["open", "register", "passes", "ready"]
            await broker.stop()
        assert asked[4:] == ["begin_leaving", "leave", "close"]

    run(scenario)


def test_who_could_not_register_does_not_leave_and_still_closes() -> None:
    async def scenario() -> None:
        asked: list[str] = []
        with clusters_noting(asked, OSError("no controller")), pytest.raises(OSError, match="no controller"):
            await Broker(config(), disk=disk()).start()
        assert asked == ["open", "register", "close"]

    run(scenario)


def test_a_start_that_clients_could_see_already_is_given_up_by_a_clean_stop() -> None:
    """Controllers let clients in before the broker knows it. If it is stopped then, partitions that it leads must not wait for
    the end of its session."""

    async def scenario() -> None:
        asked: list[str] = []
        reached, files = asyncio.Event(), disk()

        async def never_ready(_: NotingCluster) -> None:
            reached.set()
            await asyncio.Event().wait()

        with clusters_noting(asked), patch.object(NotingCluster, "ready", never_ready):
            starting = asyncio.ensure_future(Broker(config(), disk=files).start())
            await reached.wait()
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
        assert asked == ["open", "register", "passes", "begin_leaving", "leave", "close"]
        assert files.exists(MARKER)

    run(scenario)


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("refused", [None, OSError("no controller")])
def test_a_start_that_ends_before_the_registration_leaves_the_directory_as_clean_as_it_was(
    refused: Exception | None, was_clean: bool
) -> None:
    """A broker that was stopped cleanly and waits for the end of its session may be stopped again, or be refused. Kafka's still
    has the marker then, with the epoch of the stop, and stays an eligible leader replica."""

    async def scenario() -> None:
        reached, files = asyncio.Event(), disk()
        before = Broker(config(), disk=files)
        await before.start()
        await (before.stop() if was_clean else before.drop())
        marker = read_clean_shutdown(files, MARKER)
        assert (marker is not None) is was_clean

        async def waits(*_: Any, **__: Any) -> int:
            assert not files.exists(MARKER)
            reached.set()
            if refused is not None:
                raise refused
            await asyncio.Event().wait()
            return 0

        with clusters_noting([]), patch.object(NotingCluster, "register", waits):
            starting = asyncio.ensure_future(Broker(config(), disk=files).start())
            await reached.wait()
            if refused is None:
                starting.cancel()
            with pytest.raises((asyncio.CancelledError, OSError)):
                await starting
        assert read_clean_shutdown(files, MARKER) == marker

    run(scenario)


def test_a_stop_that_is_not_clean_closes_and_says_nothing() -> None:
    async def scenario() -> None:
        asked: list[str] = []
        with clusters_noting(asked):
            broker = Broker(config(), disk=disk())
            await broker.start()
            await broker._close(clean=False)
        assert asked[4:] == ["close"]

    run(scenario)
