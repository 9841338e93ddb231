"""The first exchange: what is asked, what an older node does with it, and which version follows from the answer."""

from __future__ import annotations

import asyncio

import pytest

from ottla import __version__
from ottla.server.peers.call import Call
from ottla.server.peers.connection import Connection
from ottla.server.peers.handshake import Versions, common_version, negotiate
from ottla.server.peers.outcomes import Disconnected, UnsupportedVersion
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import api_versions, fetch
from ottla.wire.messages.api_versions import ApiVersionsResponse
from tests.server.peers.node import ALL, OtherEnd, turns, versions


class Begun:
    """A connection on which the versions are being asked."""

    def __init__(self) -> None:
        connection = Connection("other:9092", "c", 100_000, lambda reason: None)
        self.node = OtherEnd(connection)
        connection.connection_made(self.node)
        self.result: asyncio.Task[Versions] = asyncio.ensure_future(negotiate(connection))


def test_it_asks_in_the_newest_version_and_says_who_asks() -> None:
    async def scenario() -> None:
        begun = Begun()
        await turns()
        (asked,) = begun.node.requests
        assert asked.header[:2] == (api_versions.API_KEY, api_versions.MAX_VERSION)
        assert (asked.body.client_software_name, asked.body.client_software_version) == ("ottla", __version__)
        assert (asked.body.cluster_id, asked.body.node_id) == (None, -1)
        begun.node.answer(versions())
        assert await begun.result == ALL

    asyncio.run(scenario())


@pytest.mark.parametrize("has", [(0, 2), (0, 3), (1, 4)])
def test_an_older_node_is_asked_again_in_the_newest_version_that_it_has(has: tuple[int, int]) -> None:
    async def scenario() -> None:
        begun = Begun()
        await turns()
        begun.node.answer(versions({api_versions.API_KEY: has}, ErrorCode.UNSUPPORTED_VERSION), version=0)
        await turns()
        assert [asked.header.api_version for asked in begun.node.requests] == [api_versions.MAX_VERSION, has[1]]
        begun.node.answer(versions({3: (0, 5)}))
        assert await begun.result == {3: (0, 5)}

    asyncio.run(scenario())


def test_a_node_that_refuses_and_names_nothing_is_asked_in_version_0() -> None:
    async def scenario() -> None:
        begun = Begun()
        await turns()
        begun.node.answer(versions({}, ErrorCode.UNSUPPORTED_VERSION), version=0)
        await turns()
        assert begun.node.requests[-1].header.api_version == 0
        begun.node.answer(versions({}, ErrorCode.UNSUPPORTED_VERSION))
        with pytest.raises(Disconnected, match="UNSUPPORTED_VERSION"):
            await begun.result
        assert len(begun.node.requests) == 2

    asyncio.run(scenario())


def test_a_node_without_a_common_version_of_this_exchange() -> None:
    async def scenario() -> None:
        begun = Begun()
        await turns()
        newer = {api_versions.API_KEY: (90, 99)}
        begun.node.answer(versions(newer, ErrorCode.UNSUPPORTED_VERSION), version=0)
        with pytest.raises(UnsupportedVersion, match="versions 90 to 99 of ApiVersions"):
            await begun.result

    asyncio.run(scenario())


@pytest.mark.parametrize(("code", "name"), [(ErrorCode.INVALID_REQUEST, "INVALID_REQUEST"), (9999, "9999")])
def test_an_error_is_said(code: int, name: str) -> None:
    async def scenario() -> None:
        begun = Begun()
        await turns()
        begun.node.answer(ApiVersionsResponse(code))
        with pytest.raises(Disconnected, match=f"ApiVersions with the error {name}"):
            await begun.result

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("theirs", "at_least", "expected"),
    [
        ((4, 18), 0, 18),
        ((4, 17), 0, 17),
        ((4, 99), 0, 18),
        ((18, 99), 0, 18),
        ((0, 4), 0, 4),
        ((4, 17), 13, 17),
        ((4, 13), 13, 13),
        ((4, 12), 13, None),
        ((0, 3), 0, None),
        ((19, 99), 0, None),
    ],
)
def test_the_newest_version_of_both(theirs: tuple[int, int], at_least: int, expected: int | None) -> None:
    call = Call(fetch.FetchRequest(), at_least)
    if expected is not None:
        assert common_version(call, {1: theirs}, "it") == expected
        return
    with pytest.raises(UnsupportedVersion, match=f"it has versions {theirs[0]} to {theirs[1]} of Fetch"):
        common_version(call, {1: theirs}, "it")


def test_an_api_that_the_other_node_does_not_know() -> None:
    with pytest.raises(UnsupportedVersion, match="it does not know Fetch, and ottla needs one of 4 to 18"):
        common_version(Call(fetch.FetchRequest()), {3: (0, 13)}, "it")
