"""OffsetForLeaderEpoch at every version, through the codecs (docs/kafka-behaviour.md, rows OLE and R5b)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.log.errors import FencedLeaderEpoch, StorageError, UnknownLeaderEpoch
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.fakes import ManualClock
from tests.server.handlers.group_calls import call, versions

CURRENT = 2
ENDS = {0: (0, 10), 1: (0, 10), 2: (2, 15)}  # epoch 1 wrote nothing


class Replica:
    """Leader of a log that epochs 0 and 2 wrote to."""

    is_leader = True
    broken = False

    def __init__(self) -> None:
        self.log = self

    def check_epoch(self, epoch: int) -> None:
        if epoch in (-1, CURRENT):
            return
        raise FencedLeaderEpoch("old") if epoch < CURRENT else UnknownLeaderEpoch("new")

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        if self.broken:
            raise StorageError("offline")
        return ENDS.get(epoch, (-1, -1))


class Cluster:
    def __init__(self) -> None:
        self.replica = Replica()
        self.replicas = self
        self.clock = ManualClock()

    def get(self, topic: str, partition: int) -> Replica | None:
        return self.replica if (topic, partition) == ("t", 0) else None

    def why_missing(self, topic: str, partition: int) -> ErrorCode:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def context(self, version: int) -> Any:
        return SimpleNamespace(broker=self, api_version=version)

    def ask(self, version: int, epoch: int, current: int = -1, partition: int = 0) -> tuple[int, int, int]:
        asked = OffsetForLeaderTopic("t", [OffsetForLeaderPartition(partition, current, epoch)])
        itself: Any = self  # a broker to the handler
        answer = call(itself, "offset_for_leader_epoch", version, OffsetForLeaderEpochRequest(topics=[asked]))
        ((result,),) = [topic.partitions for topic in answer.topics]
        assert result.partition == partition
        return result.error_code, result.leader_epoch, result.end_offset


@pytest.mark.parametrize("version", versions("offset_for_leader_epoch"))
def test_ends_of_epochs_at_every_version(version: int) -> None:
    cluster = Cluster()
    assert cluster.ask(version, 0, CURRENT) == (ErrorCode.NONE, 0, 10)
    assert cluster.ask(version, 1) == (ErrorCode.NONE, 0, 10), "an epoch that wrote nothing: the one before it"
    assert cluster.ask(version, CURRENT, CURRENT) == (ErrorCode.NONE, CURRENT, 15)
    assert cluster.ask(version, 7) == (ErrorCode.NONE, -1, -1)


@pytest.mark.parametrize("version", versions("offset_for_leader_epoch"))
def test_refusals_at_every_version(version: int) -> None:
    cluster = Cluster()
    assert cluster.ask(version, 0, current=0) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert cluster.ask(version, 0, current=7) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert cluster.ask(version, 0, partition=9) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    cluster.replica.broken = True
    assert cluster.ask(version, 0) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1)
    cluster.replica.is_leader = False
    assert cluster.ask(version, 0) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)
