"""MetadataFetcher: what each answer of a controller does to the log, the image and the finder."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable

import pytest

from ottla.server.base.randomness import from_seed
from ottla.server.metadata.cluster import CannotJoin
from ottla.server.peers.outcomes import Disconnected, UnsupportedVersion
from ottla.server.quorum.controller_outage import FIRST_SECONDS
from ottla.server.quorum.metadata_fetcher import Fetching, MetadataFetcher
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.wire.metadata_records import MetadataError
from tests.server.metadata.support import CLUSTER_ID
from tests.server.quorum import test_following_log, test_snapshot_fetch
from tests.server.quorum.leaders_log import PATH, Follower, LeadersLog
from tests.server.quorum.played import A, B, Played, run, turns

DIRECTORY = b"d" * 16
SETTINGS = Fetching(7, CLUSTER_ID, DIRECTORY, max_bytes=1000, snapshot_max_bytes=100, request_timeout_ms=2000, retry_ms=20)


class Rig:
    """A fetcher that runs, and the controllers that it asks."""

    def __init__(self, played: Played, follower: Follower | None = None) -> None:
        self.played = played
        self.follower = follower or Follower()
        self.progress = 0
        self.fetcher = MetadataFetcher(
            self.follower.log,
            self.follower.image,
            played.finder,
            played.controllers,
            SETTINGS,
            played.clock,
            from_seed(1),
            self.note_progress,
        )
        self.running = asyncio.ensure_future(self.fetcher.run())

    def note_progress(self) -> None:
        self.progress += 1

    async def answer(self, partition: PartitionData | None = None, error_code: int = 0, *endpoints: NodeEndpoint) -> FetchRequest:
        """Answers what is asked, and gives the fetcher what time it needs for the next question."""
        await turns()
        topics = [] if partition is None else [FetchableTopicResponse(partitions=[partition])]
        asked = self.played.answer(FetchResponse(error_code=error_code, responses=topics, node_endpoints=list(endpoints)))
        assert isinstance(asked, FetchRequest)
        while not self.played.open and not self.running.done():
            await self.played.pass_time(0.02)
            await asyncio.sleep(0.001)  # for the thread that flushes
        return asked


def follows(scenario: Callable[[Rig], Awaitable[object]], follower: Follower | None = None) -> None:
    async def main(played: Played) -> None:
        rig = Rig(played, follower)
        try:
            await turns()
            await scenario(rig)
        finally:
            rig.running.cancel()
            await asyncio.wait([rig.running])

    run(main)


def led(by: int, epoch: int, error_code: int = 0) -> PartitionData:
    return PartitionData(error_code=error_code, high_watermark=-1, current_leader=LeaderIdAndEpoch(by, epoch), records=b"")


def some(leader: LeadersLog, high_watermark: int | None = None, offset: int = 0) -> PartitionData:
    return PartitionData(
        high_watermark=leader.end if high_watermark is None else high_watermark,
        current_leader=LeaderIdAndEpoch(2, 5),
        records=leader.fetched(offset),
    )


def test_who_leads_is_learnt_from_the_first_answer_and_then_asked() -> None:
    async def scenario(rig: Rig) -> None:
        first = rig.played.asked[0].address
        asked = await rig.answer(led(2, 5, ErrorCode.FENCED_LEADER_EPOCH), 0, NodeEndpoint(2, "moved", 1))
        assert asked.topics[0].partitions[0].current_leader_epoch == 0
        assert first in (A, B)
        assert rig.played.asked[1].address == ("moved", 1)
        assert rig.played.open[0].request.topics[0].partitions[0].current_leader_epoch == 5
        assert rig.progress == 1

    follows(scenario)


def test_a_question_says_who_asks_and_how_far_it_is() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.answer(led(2, 5, ErrorCode.FENCED_LEADER_EPOCH))
        await rig.answer(some(test_following_log.begun(), high_watermark=3))
        request: FetchRequest = rig.played.open[0].request
        assert rig.played.open[0].timeout_ms == 2500
        assert request.replica_state is not None
        assert (request.cluster_id, request.replica_state.replica_id, request.max_wait_ms) == (CLUSTER_ID, 7, 500)
        (topic,) = request.topics
        (partition,) = topic.partitions
        assert (topic.topic, topic.topic_id) == ("__cluster_metadata", bytes(15) + b"\1")
        assert (partition.fetch_offset, partition.last_fetched_epoch, partition.high_watermark) == (5, 1, 3)
        assert (partition.replica_directory_id, partition.partition_max_bytes) == (DIRECTORY, 1000)

    follows(scenario)


def test_it_is_caught_up_when_the_image_has_what_the_leader_says_that_counts() -> None:
    async def scenario(rig: Rig) -> None:
        leader = test_following_log.begun()
        await rig.answer(led(2, 5, ErrorCode.FENCED_LEADER_EPOCH))
        await rig.answer(some(leader, high_watermark=7))
        assert rig.follower.topics == ["a", "b"]
        assert not rig.fetcher.caught_up.done()
        leader.topics("c", "d")
        await rig.answer(some(leader, 7, offset=5))
        assert rig.fetcher.caught_up.done()
        assert rig.follower.topics == ["a", "b", "c", "d"]
        assert rig.progress == 3

    follows(scenario)


def test_where_the_logs_part_the_end_is_cut_off() -> None:
    follower, old, new = Follower(), test_following_log.begun(), test_following_log.begun()
    old.topics("lost")
    follower.follow(old, high_watermark=5)
    new.begin(2)

    async def scenario(rig: Rig) -> None:
        await rig.answer(led(2, 5, ErrorCode.FENCED_LEADER_EPOCH))
        asked = await rig.answer(PartitionData(diverging_epoch=EpochEndOffset(1, 5), current_leader=LeaderIdAndEpoch(2, 5)))
        assert asked.topics[0].partitions[0].fetch_offset == 6
        assert rig.played.open[0].request.topics[0].partitions[0].fetch_offset == 5
        await rig.answer(some(new, offset=5))
        assert rig.follower.log.end_offset == 6

    follows(scenario, follower)


def test_a_quorum_that_lost_records_ends_it() -> None:
    follower = Follower()
    follower.follow(test_following_log.begun())

    async def scenario(rig: Rig) -> None:
        await rig.answer(led(2, 5, ErrorCode.FENCED_LEADER_EPOCH))
        await rig.answer(PartitionData(diverging_epoch=EpochEndOffset(1, 2), current_leader=LeaderIdAndEpoch(2, 5)))
        with pytest.raises(MetadataError, match="the quorum has lost records"):
            await rig.running

    follows(scenario, follower)


def test_a_snapshot_takes_the_place_of_the_image() -> None:
    snapshot_id, data = test_snapshot_fetch.made()
    follower, old = Follower(), LeadersLog()
    old.begin()
    old.topics("gone")
    follower.follow(old)
    events: list[object] = []
    follower.image.subscribe(events.append)

    async def scenario(rig: Rig) -> None:
        await rig.answer(led(2, 5, ErrorCode.FENCED_LEADER_EPOCH))
        await rig.answer(PartitionData(snapshot_id=SnapshotId(*snapshot_id), current_leader=LeaderIdAndEpoch(2, 5)))
        while isinstance(rig.played.open[0].request, FetchSnapshotRequest):
            rig.played.answer(test_snapshot_fetch.piece(snapshot_id, data, rig.played.open[0].request))
            while not rig.played.open:
                await turns()
                await asyncio.sleep(0.001)  # for the thread that syncs
        assert rig.follower.topics == ["a", "b"]
        assert [type(each).__name__ for each in events] == ["TopicDeleted", "TopicCreated", "TopicCreated"]
        assert rig.played.open[0].request.topics[0].partitions[0].fetch_offset == snapshot_id.end_offset
        assert follower.disk.read_bytes(f"{PATH}/{snapshot_id.file_name}") == data

    follows(scenario, follower)


@pytest.mark.parametrize("end", [FetchSnapshotResponse(error_code=ErrorCode.NOT_CONTROLLER), Disconnected("gone")])
def test_without_the_snapshot_it_asks_anew(end: object) -> None:
    snapshot_id, _ = test_snapshot_fetch.made()

    async def scenario(rig: Rig) -> None:
        await rig.answer(led(2, 5, ErrorCode.FENCED_LEADER_EPOCH))
        await rig.answer(PartitionData(snapshot_id=SnapshotId(*snapshot_id), current_leader=LeaderIdAndEpoch(2, 5)))
        assert isinstance(rig.played.answer(end), FetchSnapshotRequest)
        await rig.played.pass_time(0.1)
        assert isinstance(rig.played.open[0].request, FetchRequest)
        assert not [name for name in rig.follower.disk.list(PATH) if "checkpoint" in name and not name.startswith("leader")]

    follows(scenario)


def test_controllers_of_another_cluster_end_a_start() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.answer(None, ErrorCode.INCONSISTENT_CLUSTER_ID)
        with pytest.raises(CannotJoin, match=f"another cluster than {CLUSTER_ID}, .*controller.quorum.bootstrap.servers"):
            await rig.running

    follows(scenario)


def test_later_they_are_only_left(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.answer(led(2, 5, ErrorCode.FENCED_LEADER_EPOCH))
        await rig.answer(some(test_following_log.begun()))
        await rig.answer(None, ErrorCode.INCONSISTENT_CLUSTER_ID)
        assert not rig.running.done()
        assert rig.played.finder.leader is None

    follows(scenario)
    assert "another cluster" in caplog.text


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE])
def test_a_leader_that_says_it_is_none_is_left(code: int) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.answer(led(2, 5, ErrorCode.FENCED_LEADER_EPOCH))
        await rig.answer(led(2, 5, code))
        assert rig.played.finder.leader is None
        await rig.answer(led(1, 6, code))
        assert rig.played.finder.leader is not None
        assert rig.played.asked[-1].address == A

    follows(scenario)


def test_batches_that_cannot_be_right_are_fetched_again(caplog: pytest.LogCaptureFixture) -> None:
    leader = test_following_log.begun()

    async def scenario(rig: Rig) -> None:
        await rig.answer(led(2, 5, ErrorCode.FENCED_LEADER_EPOCH))
        bad = some(leader)
        bad.records = leader.fetched(0)[:-1] + b"?"
        await rig.answer(bad)
        assert rig.played.open[0].request.topics[0].partitions[0].fetch_offset == 3
        assert not rig.fetcher.caught_up.done()

    follows(scenario)
    assert "cannot be right" in caplog.text


def test_without_an_answer_the_others_are_asked_and_somebody_is_told_once_a_while(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def scenario(rig: Rig) -> None:
        asked = []
        for _ in range(4):
            asked.append(rig.played.open[0].address)
            rig.played.answer(Disconnected("refused"))
            await turns()
        assert set(asked) == {A, B}
        assert caplog.text == ""
        for _ in range(3):
            rig.played.clock.advance(FIRST_SECONDS)
            rig.played.answer(Disconnected("refused"))
            await turns()
        assert caplog.text.count("no controller has answered for") == 1

    follows(scenario)


def test_controllers_that_are_too_old_are_not_asked_without_a_pause() -> None:
    async def scenario(rig: Rig) -> None:
        rig.played.answer(UnsupportedVersion("it has Fetch 4 to 11"))
        await turns(50)
        assert rig.played.open == []
        await rig.played.pass_time(0.02)
        assert len(rig.played.open) == 1

    follows(scenario)


def test_a_leader_that_does_not_answer_is_looked_for() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.answer(led(2, 5, ErrorCode.FENCED_LEADER_EPOCH))
        before = rig.progress
        rig.played.answer(Disconnected("gone"))
        await turns()
        assert rig.played.finder.leader is None
        assert rig.progress == before + 1

    follows(scenario)


def test_a_full_disk_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.answer(led(2, 5, ErrorCode.FENCED_LEADER_EPOCH))
        rig.follower.disk.fail("append", errno.ENOSPC, path=".log")
        await rig.answer(some(test_following_log.begun()))
        assert not rig.running.done()
        assert rig.played.open[0].request.topics[0].partitions[0].fetch_offset == 0
        await rig.answer(some(test_following_log.begun()))
        assert rig.follower.topics == ["a", "b"]

    follows(scenario)
    assert "until there is room" in caplog.text
