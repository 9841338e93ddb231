"""`Assignments`: tells the controllers in which log directories replicas of this broker lie (AssignReplicasToDirs, KIP-858).

Assignments are gathered, the newest of each partition counts, and one request at a time goes out with at most `MAX_ASSIGNMENTS`
of them. What fails is sent again, until the controllers take it or say that the partition is not this broker's any more. Nothing
waits for the outcome: a replica serves its clients meanwhile, as in Kafka.

Only directories that the broker has registered are sent. An id that the controllers do not know counts there as one of a
directory that has failed, and costs the partition its leader.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.server.base.clock import sleep
from ottla.server.quorum.channel import ControllerUnreachable
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

MAX_ASSIGNMENTS: Final = 2_250
"""How many partitions one request names: the same bound as Kafka's, which keeps it below 64 kB."""
RETRY_SECONDS: Final = 0.5
"""The pause after a request that failed, whole or in part."""
_FINAL: Final = frozenset(
    (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
)
"""What ends an assignment: it is done, or the partition is gone from here."""

logger = logging.getLogger("ottla.server.quorum")

Name = tuple[bytes, int]
"""A partition, by its topic's id and its index."""


class Assignments:
    """What is to be told; see the module's docstring. `registered` are the ids of the broker's directories, and `spawn` runs a
    coroutine whose end nobody waits for."""

    def __init__(
        self,
        node_id: int,
        registered: Collection[bytes],
        channel: Channel,
        clock: Clock,
        broker_epoch: Callable[[], int],
        timeout_ms: int,
        spawn: Callable[[Any], object],
    ) -> None:
        self._node_id = node_id
        self._registered = registered
        self._channel = channel
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._timeout_ms = timeout_ms
        self._spawn = spawn
        self._waiting: dict[Name, bytes] = {}
        self._is_sending = False

    def assign(self, assignments: Iterable[tuple[bytes, int, bytes]]) -> None:
        """Notes directories of replicas: (topic id, partition, directory id)."""
        for topic_id, index, directory_id in assignments:
            if directory_id in self._registered:
                self._waiting[topic_id, index] = directory_id
            else:
                logger.error(
                    "the directory %s of a replica is not one that this broker has registered", uuid_to_text(directory_id)
                )
        if self._waiting and not self._is_sending:
            self._is_sending = True
            self._spawn(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                batch = dict(list(self._waiting.items())[:MAX_ASSIGNMENTS])
                if not await self._send(batch):
                    await sleep(self._clock, RETRY_SECONDS)
        finally:
            self._is_sending = False

    async def _send(self, batch: Mapping[Name, bytes]) -> bool:
        """Sends some assignments; returns whether all of them are settled."""
        request = AssignReplicasToDirsRequest(self._node_id, self._broker_epoch(), _grouped(batch))
        try:
            answer: AssignReplicasToDirsResponse = await self._channel.ask(request, self._timeout_ms)
        except ControllerUnreachable as error:
            logger.info("the log directories of %d partitions are not assigned yet: %s", len(batch), error)
            return False
        if answer.error_code != ErrorCode.NONE:
            logger.info("the log directories of %d partitions are not assigned yet: error %d", len(batch), answer.error_code)
            return False
        for directory in answer.directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    name = topic.topic_id, partition.partition_index
                    if partition.error_code in _FINAL and self._waiting.get(name) == batch.get(name):
                        self._waiting.pop(name, None)
        return not any(name in self._waiting and self._waiting[name] == directory_id for name, directory_id in batch.items())


def _grouped(batch: Mapping[Name, bytes]) -> list[RequestDirectoryData]:
    """Returns the assignments as the request has them: by directory, then by topic."""
    directories: dict[bytes, dict[bytes, list[RequestPartitionData]]] = {}
    for (topic_id, index), directory_id in batch.items():
        directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(RequestPartitionData(index))
    return [
        RequestDirectoryData(directory_id, [RequestTopicData(topic_id, indexes) for topic_id, indexes in topics.items()])
        for directory_id, topics in directories.items()
    ]
