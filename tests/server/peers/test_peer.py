"""Peer: its table of states, edge by edge, and what becomes of requests in each, with a node that does everything wrong."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from ottla.server.base.promise import Promise
from ottla.server.peers.backoff import JITTER
from ottla.server.peers.outcomes import Closed, Disconnected, TimedOut, UnsupportedVersion
from ottla.server.peers.peer import TRANSITIONS, PeerSettings, State
from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.settings.broker_settings import BROKER_SETTINGS
from ottla.wire.messages import api_versions, fetch, metadata
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.server.peers.node import ALL, Rig, refuse, turns, versions
from tests.server.peers.states import (
    EDGES,
    LONG_MS,
    PAUSE_S,
    REACH,
    SETUP_S,
    SURE,
    ask,
    connecting,
    outcome,
    ready,
    run,
    wait_too_long_for_it,
)


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge[0].value} to {edge[1].value}")
def test_every_edge(edge: tuple[State, State]) -> None:
    before, after = edge

    async def scenario(rig: Rig) -> None:
        await REACH[before](rig)
        assert rig.peer.state is before
        await EDGES[edge](rig)
        await turns()
        assert rig.peer.state is after

    run(scenario)


def test_the_edges_tested_are_those_of_the_table() -> None:
    assert set(EDGES) == {(before, after) for before, afters in TRANSITIONS.items() for after in afters}


# Requests


def test_the_first_request_connects_and_goes_out_when_the_versions_are_known() -> None:
    async def scenario(rig: Rig) -> None:
        first, second = ask(rig), ask(rig)
        await turns()
        assert [asked.header.api_key for asked in rig.node.requests] == [api_versions.API_KEY]
        node = await rig.ready({metadata.API_KEY: (0, 7), api_versions.API_KEY: (0, 3)})
        assert [asked.header for asked in node.requests[1:]] == [(metadata.API_KEY, 7, at, "broker-1-test") for at in (1, 2)]
        third = ask(rig)
        assert len(node.requests) == 4
        for name in "abc":
            node.answer(MetadataResponse(cluster_id=name))
        assert [outcome(each) for each in (first, second, third)] == ["a", "b", "c"]
        assert rig.network.attempts == 1

    run(scenario)


def test_an_answer_can_be_awaited() -> None:
    async def scenario(rig: Rig) -> None:
        await ready(rig)
        asked = asyncio.ensure_future(_await(ask(rig)))
        await turns()
        rig.node.answer(MetadataResponse(cluster_id="first"))
        rig.node.answer(MetadataResponse(cluster_id="second"))
        assert (await asked).cluster_id == "second"

    run(scenario)


async def _await(promise: Promise[Any]) -> Any:
    return await promise


def test_what_the_other_node_does_not_have_is_not_sent_and_the_rest_is() -> None:
    async def scenario(rig: Rig) -> None:
        too_new = rig.peer.call(FetchRequest(), LONG_MS, min_version=13)
        unknown, fine = ask(rig), rig.peer.call(FetchRequest(), LONG_MS)
        await turns()
        node = await rig.ready({fetch.API_KEY: (4, 12)})
        assert [outcome(each) for each in (too_new, unknown, fine)] == [UnsupportedVersion, UnsupportedVersion, None]
        assert outcome(rig.peer.call(FetchRequest(), LONG_MS, min_version=13)) is UnsupportedVersion
        assert [asked.header[:2] for asked in node.requests[1:]] == [(fetch.API_KEY, 12)]
        assert rig.peer.state is State.READY

    run(scenario)


def test_a_request_that_cannot_be_encoded_fails_alone() -> None:
    async def scenario(rig: Rig) -> None:
        wrong: Any = MetadataRequest([metadata.MetadataRequestTopic(name=5)])  # type: ignore[arg-type]  # that is what is wrong
        early, fine = rig.peer.call(wrong, LONG_MS), ask(rig)
        await turns()
        node = await rig.ready()
        late = rig.peer.call(wrong, LONG_MS)
        assert [outcome(each) for each in (early, late)] == [AttributeError, AttributeError]
        node.answer(MetadataResponse(cluster_id="c"))
        assert outcome(fine) == "c"

    run(scenario)


def test_a_request_after_the_close() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.peer.close()
        assert outcome(ask(rig)) is Closed
        await rig.peer.close()
        assert rig.network.attempts == 0

    run(scenario)


@pytest.mark.parametrize("state", REACH)
def test_a_close_fails_what_waits_and_what_is_under_way(state: State) -> None:
    async def scenario(rig: Rig) -> None:
        await REACH[state](rig)
        asked = [ask(rig), ask(rig)]
        await rig.peer.close()
        assert [outcome(each) for each in asked] == [Closed, Closed]

    run(scenario)


# Time


@pytest.mark.parametrize("state", [State.CONNECTING, State.NEGOTIATING, State.PAUSED])
def test_the_time_of_a_request_that_waits_ends_only_that_request(state: State) -> None:
    async def scenario(rig: Rig) -> None:
        await REACH[state](rig)
        short, long = ask(rig, 20), ask(rig)
        rig.clock.advance(0.0199)
        assert outcome(short) is None
        rig.clock.advance(0.0001)
        assert [outcome(short), outcome(long)] == [TimedOut, None]
        assert rig.peer.state is state

    run(scenario)


def test_a_node_that_never_answers() -> None:
    async def scenario(rig: Rig) -> None:
        await ready(rig)
        rig.node.answer(MetadataResponse(cluster_id="of the first"))
        asked = [ask(rig, 300), ask(rig)]
        rig.clock.advance(0.3)
        assert [outcome(each) for each in asked] == [TimedOut, Disconnected]
        with pytest.raises(TimedOut, match="other:9092 did not answer Metadata within 300 ms"):
            asked[0].result()
        assert rig.peer.state is State.PAUSED
        assert not rig.node.open

    run(scenario)


def test_an_answer_that_comes_after_its_time_reaches_nobody() -> None:
    async def scenario(rig: Rig) -> None:
        await ready(rig)
        late, node = ask(rig, 300), rig.node
        rig.clock.advance(0.3)
        node.answer(MetadataResponse(cluster_id="late"))
        assert outcome(late) is TimedOut
        again = ask(rig)
        rig.clock.advance(PAUSE_S * SURE)
        node = await rig.ready()
        node.answer(MetadataResponse(cluster_id="new"))
        assert outcome(again) == "new"

    run(scenario)


def test_a_node_that_accepts_and_says_nothing_is_given_up_with_the_time_for_the_setup() -> None:
    async def scenario(rig: Rig) -> None:
        asked = ask(rig)
        await turns()
        rig.clock.advance(SETUP_S * (1 - JITTER) - 0.01)
        assert outcome(asked) is None
        rig.clock.advance(SETUP_S * 2 * JITTER + 0.02)
        assert outcome(asked) is Disconnected
        with pytest.raises(Disconnected, match="other:9092 did not get ready in"):
            asked.result()

    run(scenario)


def test_the_time_for_the_setup_grows_with_failures_and_begins_anew_after_success() -> None:
    async def scenario(rig: Rig) -> None:
        times = []
        for _ in range(4):
            asked = ask(rig)
            rig.clock.advance(SURE)  # longer than any pause
            await turns()
            began = rig.clock.monotonic()
            while outcome(asked) is None:
                rig.clock.advance(0.1)
            times.append(rig.clock.monotonic() - began)
        for time, expected in zip(times, [10, 20, 30, 30], strict=True):
            assert expected * (1 - JITTER) - 0.1 - SURE <= time <= min(expected * SURE, 30) + 0.2
        ask(rig)
        rig.clock.advance(SURE)
        await turns()
        await rig.ready()
        rig.node.close()
        asked = ask(rig)
        rig.clock.advance(PAUSE_S * SURE)
        await turns()
        rig.clock.advance(SETUP_S * SURE)
        assert outcome(asked) is Disconnected

    run(scenario)


def test_the_pause_grows_with_failures_and_a_request_waits_for_its_end() -> None:
    async def scenario(rig: Rig) -> None:
        rig.network.on_connect = refuse
        assert outcome(await _failed(rig)) is Disconnected
        for at, expected in enumerate([50, 100, 200, 400, 800, 1000, 1000]):
            asked = ask(rig)
            rig.clock.advance(expected * (1 - JITTER) / 1000 - 0.001)
            await turns()
            assert (outcome(asked), rig.network.attempts) == (None, at + 1)
            rig.clock.advance(expected * 2 * JITTER / 1000 + 0.002)
            await turns()
            assert (outcome(asked), rig.network.attempts) == (Disconnected, at + 2)
        rig.network.on_connect = lambda: None
        asked = ask(rig)
        rig.clock.advance(SURE)
        await turns()
        await rig.ready()
        rig.node.close()
        again = ask(rig)
        rig.clock.advance(PAUSE_S * SURE)
        await turns()
        await rig.ready()
        rig.node.answer(MetadataResponse(cluster_id="c"))
        assert (outcome(asked), outcome(again)) == (Disconnected, "c")

    run(scenario)


async def _failed(rig: Rig) -> Promise[Any]:
    asked = ask(rig)
    await turns()
    return asked


def test_asking_again_at_once_is_no_busy_loop() -> None:
    async def scenario(rig: Rig) -> None:
        rig.network.on_connect = refuse
        count = 0

        def again(_: object) -> None:
            nonlocal count
            count += 1
            if rig.peer.state is not State.CLOSED:
                ask(rig).add_done_callback(again)

        again(None)
        await turns(200)
        assert count == 2
        for _ in range(10):
            rig.clock.advance(SURE)
            await turns()
        assert count == 12

    run(scenario)


# Failures


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), TimeoutError("the system's"), UnicodeError("no name")])
def test_an_address_that_cannot_be_reached(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        def fail() -> None:
            raise error

        rig.network.on_connect = fail
        asked = [ask(rig), ask(rig)]
        await turns()
        assert [outcome(each) for each in asked] == [Disconnected, Disconnected]
        with pytest.raises(Disconnected, match=r"cannot connect to other:9092: .*(refused|system|name)"):
            asked[0].result()

    with caplog.at_level(logging.INFO):
        run(scenario)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_many_failures_in_a_row_are_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        rig.network.on_connect = refuse
        for _ in range(5):
            ask(rig)
            rig.clock.advance(SURE)
            await turns()
        rig.network.on_connect = lambda: None
        ask(rig)
        rig.clock.advance(SURE)
        await turns()
        await rig.ready()
        rig.node.close()

    with caplog.at_level(logging.INFO):
        run(scenario)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "cannot connect to other:9092: [Errno 111] refused"),
        ("INFO", "other:9092 closed the connection"),
    ]


def test_a_fault_of_ours_while_connecting_is_logged_and_ends_the_attempt(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        def fail() -> None:
            raise RuntimeError("a bug")

        rig.network.on_connect = fail
        asked = ask(rig)
        await turns()
        assert outcome(asked) is Disconnected
        assert rig.peer.state is State.PAUSED

    run(scenario)
    assert "RuntimeError: a bug" in caplog.text


@pytest.mark.parametrize("what", ["closes", "wrong id", "too large", "half and then nothing", "refuses ApiVersions"])
def test_a_node_that_does_not_get_through_the_first_exchange(what: str) -> None:
    async def scenario(rig: Rig) -> None:
        asked = ask(rig)
        await turns()
        match what:
            case "closes":
                rig.node.close()
            case "wrong id":
                rig.node.answer(versions(), correlation_id=7)
            case "too large":
                rig.node.send(b"\x7f\xff\xff\xff")
            case "half and then nothing":
                rig.node.send(b"\0\0\0\x40\0\0\0\0")
                await wait_too_long_for_it(rig)
            case _:
                rig.node.answer(versions({api_versions.API_KEY: (70, 80)}, 35), version=0)
        await turns()
        assert outcome(asked) is (UnsupportedVersion if what == "refuses ApiVersions" else Disconnected)
        assert rig.peer.state is State.PAUSED
        again = ask(rig)
        rig.clock.advance(PAUSE_S * SURE)
        await turns()
        await rig.ready()
        rig.node.answer(MetadataResponse(cluster_id="c"))
        assert outcome(again) == "c"

    run(scenario)


@pytest.mark.parametrize("what", ["closes", "wrong id", "too large", "half and closes"])
def test_a_node_that_fails_later_is_asked_again_on_a_new_connection(what: str) -> None:
    async def scenario(rig: Rig) -> None:
        await ready(rig)
        rig.node.answer(MetadataResponse(cluster_id="of the first"))
        asked = ask(rig)
        match what:
            case "closes":
                rig.node.close(ConnectionResetError("reset"))
            case "wrong id":
                rig.node.answer(MetadataResponse(), correlation_id=99)
            case "too large":
                rig.node.send(b"\x7f\xff\xff\xff")
            case _:
                rig.node.send(b"\0\0\0\x40\0\0\0\2")
                rig.node.close()
        assert outcome(asked) is Disconnected
        again = ask(rig)
        assert rig.network.attempts == 1
        rig.clock.advance(PAUSE_S * SURE)
        await turns()
        node = await rig.ready()
        assert node.requests[0].header.correlation_id == 0
        node.answer(MetadataResponse(cluster_id="c"))
        assert outcome(again) == "c"
        assert rig.network.attempts == 2

    run(scenario)


def test_versions_are_those_of_the_new_connection() -> None:
    async def scenario(rig: Rig) -> None:
        await ready(rig)
        rig.node.close()
        ask(rig)
        rig.clock.advance(PAUSE_S * SURE)
        await turns()
        node = await rig.ready({**ALL, metadata.API_KEY: (0, 9)})
        assert node.requests[-1].header[:2] == (metadata.API_KEY, 9)

    run(scenario)


def test_a_connection_that_is_made_although_it_was_given_up_is_not_used() -> None:
    async def scenario(rig: Rig) -> None:
        await connecting(rig)
        await wait_too_long_for_it(rig)
        assert rig.network.hold is not None
        rig.network.hold.set()
        await turns()
        assert rig.peer.state is State.PAUSED
        assert not any(connection.open for connection in rig.network.connected)

    run(scenario)


# Settings


def test_the_settings_of_a_broker() -> None:
    values = BrokerConfig.from_mapping(
        {"socket.connection.setup.timeout.ms": "7", "socket.connection.setup.timeout.max.ms": "70"}
    )
    assert PeerSettings.from_broker(values[0].values) == PeerSettings(7, 70)
    assert PeerSettings.from_broker(BrokerConfig.from_mapping({})[0].values) == PeerSettings()


def test_what_no_setting_says_is_as_in_kafka() -> None:
    """The largest answer is as large as the largest request that a broker takes by default."""
    assert PeerSettings().max_answer_bytes == BROKER_SETTINGS["socket.request.max.bytes"].default
    assert (PeerSettings().reconnect_backoff_ms, PeerSettings().reconnect_backoff_max_ms) == (50, 1000)  # Kafka's clients


def test_an_answer_beyond_the_bound_of_the_settings() -> None:
    async def scenario(rig: Rig) -> None:
        asked = ask(rig)
        await turns()
        rig.node.answer(versions())
        await turns()
        assert outcome(asked) is Disconnected

    run(scenario, max_answer_bytes=100)
