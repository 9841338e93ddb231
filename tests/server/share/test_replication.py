"""Share partitions over a coordinator whose followers lag: nothing is acknowledged before its state is replicated."""

from __future__ import annotations

import pytest

from ottla.server.base.promise import Promise
from ottla.server.share.acknowledgement import Acknowledgement
from ottla.server.share.persister import ShareError
from ottla.server.share.share_partition import SharePartition
from ottla.server.share.states import ACCEPT, RecordState
from ottla.server.share_state.coordinator import ReadState, ShareCoordinator, ShareCoordinatorSettings
from ottla.server.share_state.errors import ShareStateError
from ottla.wire.errors import ErrorCode
from tests.fakes import ManualClock
from tests.server.coordination.fakes import LaggingLog
from tests.server.coordination.memory import CoordinatorClock
from tests.server.share.support import KEY, SETTINGS, Partition


class ShareLog(LaggingLog):
    """`__share_group_state` whose followers lag."""

    def delete_before(self, partition: int, offset: int) -> None:
        raise AssertionError("nothing is pruned here")


def coordinator(log: ShareLog) -> ShareCoordinator:
    return ShareCoordinator(
        log,
        CoordinatorClock(),
        ShareCoordinatorSettings(),
        exists=lambda topic_id, partition: True,
        create_topic=lambda: None,
    )


def test_every_operation_of_the_share_coordinator_waits() -> None:
    log = ShareLog()
    shares = coordinator(log)
    begin = shares.initialize(*KEY, 0, 5)
    read, summary = shares.read(*KEY, 0), shares.read_summary(*KEY)
    write = shares.write(*KEY, 0, 0, 7, 0, [])
    delete = shares.delete(*KEY)
    for answer in (begin, read, summary, write, delete):
        assert isinstance(answer, Promise)
        assert not answer.done()
    log.replicate()
    assert isinstance(begin, Promise)
    assert isinstance(read, Promise)
    assert isinstance(summary, Promise)
    assert isinstance(write, Promise)
    assert isinstance(delete, Promise)
    assert begin.done()
    assert (read.result().start_offset, summary.result().start_offset) == (5, 5)
    assert (write.done(), delete.done()) == (False, False)
    shares.close()
    for lost in (write, delete):
        with pytest.raises(ShareStateError) as error:
            lost.result()
        assert error.value.code is ErrorCode.NOT_COORDINATOR


class LatePersister:
    """Promises everything, and keeps its promises when the test says so."""

    def __init__(self) -> None:
        self.reads: list[Promise[ReadState]] = []
        self.writes: list[Promise[None]] = []

    def read(self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int) -> Promise[ReadState]:
        self.reads.append(Promise())
        return self.reads[-1]

    def write(self, *state: object) -> Promise[None]:
        self.writes.append(Promise())
        return self.writes[-1]


def late() -> tuple[Partition, LatePersister, list[SharePartition]]:
    """A share partition with ten records, of a persister that promises; the third value is where it goes if it is lost."""
    partition, persister, lost = Partition([(0, 9)]), LatePersister(), list[SharePartition]()
    partition.share = SharePartition(KEY, 0, persister, ManualClock(), lambda: SETTINGS, lost=lost.append)
    loaded = partition.share.load(lambda: 0, 10)
    assert isinstance(loaded, Promise)
    persister.reads[0].set_result(ReadState(3, 0, 0, ()))
    assert loaded.done()
    assert partition.share.state_epoch == 3
    partition.acquire()
    return partition, persister, lost


def test_an_acknowledgement_is_true_at_once_and_answered_when_it_is_written() -> None:
    partition, persister, lost = late()
    answer = partition.share.acknowledge("m", [Acknowledgement(0, 4, [ACCEPT])])
    assert isinstance(answer, Promise)
    assert not answer.done()
    assert [row[2] for row in partition.states()] == [RecordState.ACKNOWLEDGED, RecordState.ACQUIRED]
    persister.writes[0].set_result(None)
    answer.result()
    assert lost == []


def test_an_acknowledgement_that_is_lost_takes_the_share_partition_with_it() -> None:
    partition, persister, lost = late()
    answer = partition.share.acknowledge("m", [Acknowledgement(0, 4, [ACCEPT])])
    assert isinstance(answer, Promise)
    persister.writes[0].set_exception(ShareStateError(ErrorCode.NOT_COORDINATOR))
    with pytest.raises(ShareError) as error:
        answer.result()
    assert error.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert lost == [partition.share]


def test_a_state_that_cannot_be_read_later_is_refused_as_one_that_cannot_be_read_now() -> None:
    persister = LatePersister()
    share = SharePartition(KEY, 0, persister, ManualClock(), lambda: SETTINGS)
    loaded = share.load(lambda: 0, 10)
    assert isinstance(loaded, Promise)
    persister.reads[0].set_exception(ShareStateError(ErrorCode.FENCED_LEADER_EPOCH))
    with pytest.raises(ShareError) as error:
        loaded.result()
    assert error.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
