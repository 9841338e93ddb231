"""A share coordinator over a log in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.server.share_state.batches import StateBatch
from ottla.server.share_state.coordinator import ShareCoordinator, ShareCoordinatorSettings
from ottla.server.share_state.errors import ShareStateError
from ottla.server.share_state.state import SharePartition, ShareState
from ottla.wire.batch import read_header
from ottla.wire.errors import ErrorCode
from tests.server.coordination.memory import TOPICS, CoordinatorClock, CoordinatorLog

TOPIC_ID, PARTITIONS = TOPICS["t"]
NAME = SharePartition("g", TOPIC_ID, 0)


class ShareLog(CoordinatorLog):
    """The partitions of `__share_group_state` in memory."""

    def __init__(self, partitions: int = 4) -> None:
        super().__init__(partitions)
        self.starts = [0] * partitions

    def delete_before(self, partition: int, offset: int) -> None:
        if self.fail is not None:
            raise self.fail
        self.starts[partition] = offset

    def read(self, partition: int) -> Iterator[bytes]:
        for batch in list(self.batches[partition]):
            header = read_header(batch)
            if header.base_offset + header.records_count > self.starts[partition]:
                yield batch


class Driver:
    """A coordinator under test; `clock` and `log` outlive a restart."""

    def __init__(self, log: ShareLog | None = None, clock: CoordinatorClock | None = None, **settings: int) -> None:
        self.log = log or ShareLog()
        self.clock = clock or CoordinatorClock()
        self.settings = settings
        self.topics = dict(TOPICS.values())
        self.created = 0
        self.coordinator = ShareCoordinator(
            self.log,
            self.clock,
            ShareCoordinatorSettings(**settings),
            exists=lambda topic_id, partition: partition < self.topics.get(topic_id, 0),
            create_topic=self._create,
        )

    def _create(self) -> None:
        self.created += 1

    def restarted(self) -> Driver:
        """Returns another coordinator over the same log."""
        driver = Driver(self.log, self.clock, **self.settings)
        driver.topics = self.topics
        driver.coordinator.refresh()
        return driver

    def begin(self, name: SharePartition = NAME, *, state_epoch: int = 1, start_offset: int = 0) -> None:
        self.coordinator.initialize(*name, state_epoch, start_offset)

    def write(
        self,
        *batches: tuple[int, int, int, int],
        name: SharePartition = NAME,
        state_epoch: int = 1,
        leader_epoch: int = 1,
        start_offset: int = 0,
        complete: int = 0,
    ) -> None:
        """Makes state batches from first offset, last offset, delivery count and delivery state."""
        found = [StateBatch(*each) for each in batches]
        self.coordinator.write(*name, state_epoch, leader_epoch, start_offset, complete, found)

    def now(self, name: SharePartition = NAME) -> ShareState:
        found = self.coordinator.find(name)
        assert found is not None
        return found

    def offsets(self, name: SharePartition = NAME) -> tuple[int, int]:
        """Returns start and end of the partition of `__share_group_state` that has `name`."""
        partition = self.coordinator.partition_for(name)
        return self.log.starts[partition], self.log.end_offset(partition)


def refused(operation: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ShareStateError) as error:
        operation()
    return error.value.code
