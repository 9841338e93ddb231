"""`Assignments`: tells the controllers in which log directories replicas of this broker lie (AssignReplicasToDirs, KIP-858).

batching.py gathers them and sends them until the controllers take them or say that the partition is not this broker's any more.
Nothing waits for the outcome: a replica serves its clients meanwhile, as in Kafka.

Nothing is sent as long as the cluster's metadata.version has no place for directories: the controllers refuse the request then.
When the level is raised, what has gathered is sent.

Only directories that the broker has registered are sent. An id that the controllers do not know counts there as one of a
directory that has failed, and costs the partition its leader. That is how a damaged replica is withdrawn
(server/metadata/withdrawals.py): it is assigned to such a directory, and from then on only `restore` assigns it elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.server.metadata.directories import SINCE
from ottla.server.metadata.withdrawals import WITHDRAWN
from ottla.server.quorum.batching import Name, PartitionBatches
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.wire.primitives import uuid_to_text

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.quorum.channel import Channel

_FINAL: Final = frozenset(
    (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
)
"""The results that end an assignment: it is done, or the partition is gone from here."""

logger = logging.getLogger("ottla.server.quorum")


class Assignments(PartitionBatches[bytes]):
    """Directory ids that the controllers do not know yet; see the module's docstring. `registered` are the ids of the broker's
    directories, `metadata_version` returns the cluster's level, `assigned` the directory that the metadata have for a replica of
    this broker, and PartitionBatches names the other parameters."""

    max_partitions = 1_000  # which takes about a turn to make and to settle; Kafka's bound is 2,250
    retry_seconds = 0.5
    subject = "the log directories"

    def __init__(
        self,
        node_id: int,
        registered: Collection[bytes],
        channel: Channel,
        clock: Clock,
        broker_epoch: Callable[[], int],
        timeout_ms: int,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        metadata_version: Callable[[], int],
        assigned: Callable[[bytes, int], bytes | None],
    ) -> None:
        super().__init__(node_id, channel, clock, broker_epoch, timeout_ms, spawn)
        self._registered = registered
        self._metadata_version = metadata_version
        self._assigned = assigned

    def assign(self, assignments: Iterable[tuple[bytes, int, bytes]]) -> None:
        """Notes directories of replicas: (topic id, partition, directory id). One that is withdrawn stays so."""
        known: dict[Name, bytes] = {}
        for topic_id, index, directory_id in assignments:
            if self._assigned(topic_id, index) == WITHDRAWN:
                continue
            if directory_id in self._registered:
                known[topic_id, index] = directory_id
            else:
                logger.error(
                    "the directory %s of a replica is not one that this broker has registered", uuid_to_text(directory_id)
                )
        self.gather(known.items())

    def are_possible(self) -> bool:
        """See Withdrawals."""
        return self.may_ask()

    def withdraw(self, topic_id: bytes, partition: int) -> None:
        """See Withdrawals."""
        self.gather([((topic_id, partition), WITHDRAWN)])

    def restore(self, topic_id: bytes, partition: int, directory_id: bytes) -> None:
        """See Withdrawals."""
        self.gather([((topic_id, partition), directory_id)])

    def may_ask(self) -> bool:
        """See PartitionBatches."""
        return self._metadata_version() >= SINCE

    def request(self, broker_epoch: int, batch: Mapping[Name, bytes]) -> AssignReplicasToDirsRequest:
        """See PartitionBatches."""
        return AssignReplicasToDirsRequest(self._node_id, broker_epoch, _grouped(batch))

    def settle(self, answer: AssignReplicasToDirsResponse, batch: dict[Name, bytes]) -> bool:
        """See PartitionBatches."""
        for directory in answer.directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    if partition.error_code in _FINAL:
                        batch.pop((topic.topic_id, partition.partition_index), None)
        return True


def _grouped(batch: Mapping[Name, bytes]) -> list[RequestDirectoryData]:
    """Returns the assignments as the request has them: by directory, then by topic."""
    directories: dict[bytes, dict[bytes, list[RequestPartitionData]]] = {}
    for (topic_id, index), directory_id in batch.items():
        directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(RequestPartitionData(index))
    return [
        RequestDirectoryData(directory_id, [RequestTopicData(topic_id, indexes) for topic_id, indexes in topics.items()])
        for directory_id, topics in directories.items()
    ]
