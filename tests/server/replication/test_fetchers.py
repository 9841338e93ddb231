"""Fetchers: which partition is fetched from whom as the metadata change, and when a fetcher ends."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.server.base.randomness import from_seed
from ottla.server.replication.fetcher import Fetcher
from ottla.server.replication.fetchers import LONGEST_PAUSE_MS, NAMES_LOGGED, Fetchers
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from tests.fakes import LISTENER, NODE_ID, MemoryBroker
from tests.server.peers.node import PlayedNetwork, frame, versions
from tests.server.replication.played import BACKOFF_S, settings, turns

TWO, THREE = 2, 3


class Leaders(PlayedNetwork):
    """The other brokers: every connection is made, and what is sent over each can be looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.hosts: list[str] = []

    async def connect_to(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, context: ssl.SSLContext | None = None
    ) -> None:
        self.hosts.append(host)
        await super().connect_to(factory, "other", 9092)

    def requests(self, at: int) -> list[FetchRequest]:
        """The fetches on one of the connections."""
        return [asked.body for asked in self.connected[at].requests if isinstance(asked.body, FetchRequest)]

    async def let_in(self) -> None:
        """Answers ApiVersions on every new connection."""
        for end in self.connected:
            if end.requests and not end.answered:
                end.answer(versions())
        await turns()

    def answer(self, at: int) -> None:
        """Answers the open fetch on a connection, with nothing."""
        end = self.connected[at]
        header = end.requests[end.answered].header
        end.answered += 1
        end.send(frame(header, FetchResponse(session_id=5)))


class Rig:
    def __init__(self, **changes: Any) -> None:
        self.broker = MemoryBroker({})
        self.network = Leaders()
        for node in (TWO, THREE):
            self.broker.register_broker(node, 9000 + node)
        self.fetchers = Fetchers(settings(**changes), LISTENER, self.broker.image, self.broker.clock, from_seed(1), self.network)
        self.broker.replicas.on_role = self.fetchers.update

    async def turns(self) -> None:
        self.broker.clock.advance()
        await turns()
        await self.network.let_in()


def run(scenario: Callable[[Rig], Awaitable[object]], **changes: Any) -> None:
    async def main() -> None:
        rig = Rig(**changes)
        try:
            await scenario(rig)
        finally:
            await asyncio.wait_for(rig.fetchers.close(), 10)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def topics(request: FetchRequest) -> list[bytes]:
    return [topic.topic_id.rstrip(b".") for topic in request.topics]


def test_what_others_lead_is_fetched_from_them_and_nothing_else() -> None:
    async def scenario(rig: Rig) -> None:
        rig.broker.create_topic("a", leader=TWO, followers=(TWO,))
        rig.broker.create_topic("b", leader=THREE, followers=(TWO, THREE))
        rig.broker.create_topic("c", followers=(TWO,))
        rig.broker.create_topic("d", leader=-1, followers=(TWO,))
        await rig.turns()
        assert len(rig.fetchers) == 2
        assert rig.network.hosts == ["host2", "host3"]
        assert [topics(rig.network.requests(at)[0]) for at in (0, 1)] == [[b"a"], [b"b"]]
        (asked, _) = rig.network.connected[0].requests
        assert asked.header.client_id == f"broker-{NODE_ID}-fetcher-0"
        state = rig.network.requests(0)[0].replica_state
        assert state is not None
        assert (state.replica_id, state.replica_epoch) == (NODE_ID, NODE_ID)

    run(scenario)


def test_only_another_leader_or_epoch_begins_anew() -> None:
    async def scenario(rig: Rig) -> None:
        rig.broker.create_topic("a", leader=TWO, followers=(TWO, THREE))
        await rig.turns()
        following = rig.fetchers._followings[rig.broker.topic_id("a"), 0]
        rig.broker.change_isr("a", [TWO])
        assert rig.fetchers._followings[following.key] is following
        rig.broker.elect("a", TWO)
        again = rig.fetchers._followings[following.key]
        assert again is not following
        assert again.leader_epoch == 1
        await rig.turns()
        rig.network.answer(0)
        await turns()
        assert len(rig.network.connected) == 1, "the connection stays"
        (partition,) = rig.network.requests(0)[1].topics[0].partitions
        assert partition.current_leader_epoch == 1
        rig.broker.elect("a", THREE)
        await rig.turns()
        assert rig.network.hosts == ["host2", "host3"]
        assert not rig.network.connected[0].open, "nothing is left to fetch from there"

    run(scenario)


def test_a_replica_that_was_cut_is_fetched_from_its_end_and_what_was_under_way_is_not_taken() -> None:
    async def scenario(rig: Rig) -> None:
        rig.broker.create_topic("a", leader=TWO, followers=(TWO,))
        rig.broker.create_topic("b", followers=(TWO,))
        await rig.turns()
        before = rig.fetchers._followings[rig.broker.topic_id("a"), 0]
        rig.fetchers.begin_anew(rig.broker.replica("a"))
        after = rig.fetchers._followings[before.key]
        assert after is not before
        rig.fetchers.begin_anew(rig.broker.replica("b"))
        assert len(rig.fetchers) == 1, "what this broker leads is not fetched"
        await rig.turns()
        rig.network.answer(0)
        await turns()
        assert len(rig.network.connected) == 1, "the connection stays"
        (partition,) = rig.network.requests(0)[1].topics[0].partitions
        assert partition.fetch_offset == 0

    run(scenario)


def test_leading_and_losing_a_replica_end_the_fetching() -> None:
    async def scenario(rig: Rig) -> None:
        for name in ("a", "b", "c"):
            rig.broker.create_topic(name, leader=TWO, followers=(TWO,))
        rig.broker.elect("a", NODE_ID)
        rig.broker.delete_topic("b")
        rig.broker.image.apply(PartitionChangeRecord(0, rig.broker.topic_id("c"), replicas=[TWO], isr=[TWO]))
        assert len(rig.fetchers) == 0
        rig.broker.elect("a", TWO)
        assert len(rig.fetchers) == 1
        rig.broker.elect("a", -1)
        assert len(rig.fetchers) == 0

    run(scenario)


def test_a_failed_directory_ends_the_fetching_of_what_was_in_it() -> None:
    async def scenario(rig: Rig) -> None:
        rig.broker.create_topic("a", leader=TWO, followers=(TWO,))
        rig.broker.replica("a").log.directory.failed = "broken"
        rig.broker.replicas.drop_lost()
        assert len(rig.fetchers) == 0

    run(scenario)


def test_several_fetchers_share_the_partitions_of_a_leader() -> None:
    async def scenario(rig: Rig) -> None:
        rig.broker.create_topic("a", 20, leader=TWO, followers=(TWO,))
        await rig.turns()
        found = [[each.partition for each in rig.network.requests(at)[0].topics[0].partitions] for at in range(3)]
        assert len(rig.network.connected) == 3
        assert sorted(each for part in found for each in part) == list(range(20))
        assert min(map(len, found)) > 0
        names = {end.requests[0].header.client_id for end in rig.network.connected}
        assert names == {f"broker-{NODE_ID}-fetcher-{number}" for number in range(3)}

    run(scenario, fetchers_per_leader=3)


def test_another_number_of_fetchers_takes_effect_at_once() -> None:
    async def scenario(rig: Rig) -> None:
        rig.broker.create_topic("a", 20, leader=TWO, followers=(TWO,))
        await rig.turns()
        rig.fetchers.resize(1)
        assert len(rig.network.connected) == 1
        rig.fetchers.resize(3)
        await rig.turns()
        assert len(rig.network.connected) == 3
        assert len(rig.fetchers) == 20
        rig.network.answer(0)
        await turns()
        (forgotten,) = rig.network.requests(0)[1].forgotten_topics_data
        assert 0 < len(forgotten.partitions) < 20
        rig.fetchers.resize(1)
        await rig.turns()
        assert [end.open for end in rig.network.connected] == [True, False, False]

    run(scenario)


def test_a_broker_without_the_listener_of_brokers_is_not_asked() -> None:
    async def scenario(rig: Rig) -> None:
        rig.fetchers._listener = "INTERNAL"
        rig.broker.create_topic("a", leader=TWO, followers=(TWO,))
        await rig.turns()
        assert rig.network.hosts == []

    run(scenario)


def test_figures_are_sums_over_the_fetchers_that_run_and_ran() -> None:
    async def scenario(rig: Rig) -> None:
        rig.broker.create_topic("a", leader=TWO, followers=(TWO,))
        await rig.turns()
        (fetcher,) = rig.fetchers._fetchers.values()
        fetcher.bytes_in = 7
        following = rig.fetchers._followings[rig.broker.topic_id("a"), 0]
        following.lag = 3
        assert (rig.fetchers.bytes_in, rig.fetchers.max_lag(), rig.fetchers.stopped()) == (7, 3, 0)
        following.stop()
        assert rig.fetchers.stopped() == 1
        rig.broker.delete_topic("a")
        await rig.turns()
        assert (rig.fetchers.bytes_in, rig.fetchers.max_lag()) == (7, 0)

    run(scenario)


async def break_fetcher(rig: Rig) -> Fetcher:
    """Lets the one fetcher end because of a bug, and returns it."""
    (fetcher,) = rig.fetchers._fetchers.values()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetcher, "_request", lambda: 1 // 0)
        if rig.network.connected[-1].open:  # the Fetch that is under way
            rig.network.answer(-1)
        await turns()
    return fetcher


@pytest.mark.parametrize("partitions", [2, NAMES_LOGGED + 1])
def test_a_fetcher_that_ends_by_a_bug_is_replaced_after_a_pause(partitions: int, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        rig.broker.create_topic("a", partitions, leader=TWO, followers=(TWO,))
        await rig.turns()
        rig.fetchers._followings[rig.broker.topic_id("a"), 0].stop()
        fetcher = await break_fetcher(rig)
        fetcher.bytes_in = 7
        (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
        text = record.getMessage()
        assert text.startswith("a fetcher from broker 2 ended because of a bug; for ")
        assert "a-0, a-1" in text
        assert text.endswith(" and 1 more") == (partitions > NAMES_LOGGED)
        assert record.exc_info is not None
        assert record.exc_info[0] is ZeroDivisionError
        assert not rig.network.connected[0].open
        rig.broker.clock.advance(0.7 * BACKOFF_S)
        await turns()
        assert len(rig.network.connected) == 1
        rig.broker.clock.advance(BACKOFF_S)
        await turns()
        await rig.network.let_in()
        (topic,) = rig.network.requests(1)[0].topics
        assert [each.partition for each in topic.partitions] == list(range(partitions))
        assert rig.fetchers.stopped() == 0
        assert rig.fetchers.bytes_in == 7

    run(scenario)


def test_the_pause_grows_with_bugs_in_a_row() -> None:
    async def scenario(rig: Rig) -> None:
        rig.broker.create_topic("a", leader=TWO, followers=(TWO,))
        await rig.turns()
        for wait in (1, 2, 4):
            broken = await break_fetcher(rig)
            rig.broker.clock.advance(0.75 * wait * BACKOFF_S)
            assert list(rig.fetchers._fetchers.values()) == [broken]
            rig.broker.clock.advance(0.5 * wait * BACKOFF_S)
            assert list(rig.fetchers._fetchers.values()) != [broken]
            await rig.turns()
        ((name, (times, last)),) = rig.fetchers._bugs.items()
        assert times == 3
        rig.fetchers._bugs[name] = times, last - 2 * LONGEST_PAUSE_MS / 1000
        broken = await break_fetcher(rig)
        rig.broker.clock.advance(1.3 * BACKOFF_S)
        assert list(rig.fetchers._fetchers.values()) != [broken], "it ran for long"

    run(scenario)


def test_what_changes_during_the_pause_counts_after_it() -> None:
    async def scenario(rig: Rig) -> None:
        for name in ("a", "b"):
            rig.broker.create_topic(name, leader=TWO, followers=(TWO, THREE))
        await rig.turns()
        await break_fetcher(rig)
        rig.broker.elect("a", THREE)
        rig.broker.create_topic("c", leader=TWO, followers=(TWO, THREE))
        rig.broker.clock.advance(2 * BACKOFF_S)
        await rig.turns()
        assert rig.network.hosts == ["host2", "host3", "host2"]
        assert sorted(topics(rig.network.requests(2)[0])) == [b"b", b"c"]

    run(scenario)


@pytest.mark.parametrize("closed", [False, True])
def test_a_fetcher_whose_partitions_are_gone_is_not_replaced(closed: bool) -> None:
    async def scenario(rig: Rig) -> None:
        rig.broker.create_topic("a", leader=TWO, followers=(TWO,))
        await rig.turns()
        await break_fetcher(rig)
        if closed:
            await rig.fetchers.close()
        else:
            rig.broker.delete_topic("a")
        rig.broker.clock.advance(2 * BACKOFF_S)
        await rig.turns()
        assert len(rig.network.connected) == 1
        assert not rig.fetchers._tasks

    run(scenario)
