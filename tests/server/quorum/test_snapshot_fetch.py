"""Fetching a snapshot: in pieces, whole or not at all."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import pytest

from ottla.log.errors import StorageError
from ottla.server.base.randomness import from_seed
from ottla.server.metadata import snapshot
from ottla.server.metadata.snapshot import SnapshotId
from ottla.server.quorum.snapshot_fetch import SnapshotGone, fetch_snapshot
from ottla.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ResponsePartitionSnapshot,
    ResponseSnapshotId,
    ResponseTopicSnapshot,
)
from tests.server.quorum import test_following_log
from tests.server.quorum.leaders_log import PATH, Follower, LeadersLog

PIECE = 100


def made() -> tuple[SnapshotId, bytes]:
    """A snapshot with two topics."""
    source = Follower()
    source.follow(test_following_log.begun())
    snapshot_id = test_following_log.write_snapshot(source)
    return snapshot_id, source.disk.read_bytes(f"{PATH}/{snapshot_id.file_name}")


def piece(snapshot_id: SnapshotId, data: bytes, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """Returns what a leader answers."""
    asked = request.topics[0].partitions[0]
    assert (asked.snapshot_id.end_offset, asked.snapshot_id.epoch) == snapshot_id
    found = ResponsePartitionSnapshot(
        0,
        0,
        ResponseSnapshotId(*snapshot_id),
        size=len(data),
        position=asked.position,
        unaligned_records=data[asked.position : asked.position + request.max_bytes],
    )
    return FetchSnapshotResponse(topics=[ResponseTopicSnapshot(request.topics[0].name, [found])])


Answer = Callable[[FetchSnapshotRequest], FetchSnapshotResponse]


def fetch(follower: Follower, snapshot_id: SnapshotId, answer: Answer) -> list[FetchSnapshotRequest]:
    asked: list[FetchSnapshotRequest] = []

    async def ask(request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        asked.append(request)
        return answer(request)

    asyncio.run(
        fetch_snapshot(
            ask,
            follower.log.partition_log.directory,
            PATH,
            snapshot_id,
            cluster_id="c",
            node_id=7,
            leader_epoch=5,
            max_bytes=PIECE,
            random=from_seed(1),
        )
    )
    return asked


def checkpoints(follower: Follower) -> list[str]:
    return [name for name in follower.disk.list(PATH) if ".checkpoint" in name]


def test_it_comes_in_pieces_and_is_durable_under_its_name() -> None:
    follower, leader = Follower(), LeadersLog()
    leader.begin()
    follower.follow(leader)
    snapshot_id, data = made()
    asked = fetch(follower, snapshot_id, lambda request: piece(snapshot_id, data, request))
    positions = [each.topics[0].partitions[0].position for each in asked]
    assert positions == list(range(0, len(data), PIECE))
    assert len(positions) > 2
    assert {(each.cluster_id, each.replica_id, each.topics[0].partitions[0].current_leader_epoch) for each in asked} == {
        ("c", 7, 5)
    }
    follower.disk.crash()
    assert checkpoints(follower) == [snapshot_id.file_name]
    records: list[Any] = snapshot.read(follower.disk, f"{PATH}/{snapshot_id.file_name}").records
    assert [each.name for each in records[-2:]] == ["a", "b"]


def change(**values: object) -> Callable[[FetchSnapshotResponse], None]:
    def apply(answer: FetchSnapshotResponse) -> None:
        for name, value in values.items():
            setattr(answer.topics[0].partitions[0], name, value)

    return apply


def without_topics(answer: FetchSnapshotResponse) -> None:
    answer.topics = []


def with_error(answer: FetchSnapshotResponse) -> None:
    answer.error_code = 104


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (change(error_code=98), "SNAPSHOT_NOT_FOUND"),
        (change(error_code=9999), "9999"),
        (change(position=7), "at 7"),
        (change(snapshot_id=ResponseSnapshotId(1, 1)), "of 00000000000000000001-0000000001"),
        (change(unaligned_records=b""), "has 0 of"),
        (without_topics, "has 0 partitions"),
        (with_error, "INCONSISTENT_CLUSTER_ID"),
    ],
)
def test_anything_else_ends_it_and_leaves_nothing(spoil: Callable[[FetchSnapshotResponse], None], said: str) -> None:
    follower = Follower()
    snapshot_id, data = made()

    def answer(request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        found = piece(snapshot_id, data, request)
        if request.topics[0].partitions[0].position > 0:
            spoil(found)
        return found

    with pytest.raises(SnapshotGone, match=said):
        fetch(follower, snapshot_id, answer)
    assert checkpoints(follower) == []


def test_a_full_disk_leaves_nothing_either() -> None:
    follower = Follower()
    snapshot_id, data = made()
    follower.disk.fail("append", errno.ENOSPC, path=".part", skip=1, written=3)
    with pytest.raises(StorageError):
        fetch(follower, snapshot_id, lambda request: piece(snapshot_id, data, request))
    assert checkpoints(follower) == []
