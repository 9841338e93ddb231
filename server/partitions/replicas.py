"""Keeps the partitions that this broker holds in step with the metadata.

The metadata image alone decides what exists: `Replicas` creates, deletes and reconfigures logs as topics in it change, and never
decides anything itself. So the same code serves a standalone broker and one whose records come from a quorum.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.log.config import LogConfig
from ottla.log.errors import InconsistentMetadata, StorageError
from ottla.server.metadata.controller_settings import cordoned_paths
from ottla.server.metadata.image import (
    BROKER,
    MIGRATING,
    NO_LEADER,
    TOPIC,
    UNASSIGNED,
    ConfigChanged,
    PartitionChanged,
    PartitionImage,
    TopicDeleted,
)
from ottla.server.metadata.names import CLUSTER_METADATA
from ottla.server.partitions.replica import Replica
from ottla.server.partitions.traffic import Traffic
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.log.management.manager import LogManager
    from ottla.log.partition import PartitionLog
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.settings.current import CurrentSettings

logger = logging.getLogger("ottla.server.replicas")


class Replicas:
    """All replicas of this broker, kept in step with the metadata image. Call `start` once the image is loaded."""

    def __init__(self, logs: LogManager, image: MetadataImage, settings: CurrentSettings) -> None:
        self.logs = logs
        self._image = image
        self._node_id = settings.config.node_id
        self._settings = settings
        self._replicas: dict[tuple[str, int], Replica] = {}
        self._by_id: dict[tuple[bytes, int], Replica] = {}
        self.traffic: dict[str, Traffic] = {}
        """The traffic of each topic, by name."""
        self.past_traffic = Traffic()
        """The traffic of topics that were deleted."""

    def get(self, topic: str, partition: int) -> Replica | None:
        return self._replicas.get((topic, partition))

    def get_by_id(self, topic_id: bytes, partition: int) -> Replica | None:
        return self._by_id.get((topic_id, partition))

    def why_missing(self, topic: str, partition: int) -> ErrorCode:
        """Returns the error for a client that asks for a partition which `get` does not have."""
        image = self._image.partition(topic, partition)
        if image is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.KAFKA_STORAGE_ERROR if self._node_id in image.replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def __iter__(self) -> Iterator[Replica]:
        return iter(list(self._replicas.values()))

    def __len__(self) -> int:
        return len(self._replicas)

    # Following the image

    def start(self) -> None:
        """Takes over what the image holds now, and follows it from then on."""
        self._cordon()
        for topic in list(self._image.topics.values()):
            for index, partition in topic.partitions.items():
                self._apply(topic.name, topic.topic_id, index, partition, is_new=False)
        self._set_strays_aside()
        self._image.subscribe(self._on_event)

    def drop_lost(self) -> dict[tuple[str, int], str | None]:
        """Drops the partitions whose log directory has failed. Returns the partitions that this broker leads and that have no log
        any more, each with its directory's path, or None if that is not known.
        """
        dropped: dict[tuple[str, int], str] = {}
        for name, replica in list(self._replicas.items()):
            if replica.log.directory.failed is not None:
                dropped[name] = replica.log.directory.path
                del self._replicas[name], self._by_id[replica.topic_id, replica.partition]
                replica.resign()
        return {
            (topic.name, index): dropped.get((topic.name, index))
            for topic in self._image.topics.values()
            for index, partition in topic.partitions.items()
            if partition.leader == self._node_id and (topic.name, index) not in self._replicas
        }

    def _set_strays_aside(self) -> None:
        """Sets aside logs that belong to no topic: a crash may have come after a topic was deleted and before its files were."""
        for topic, partition in list(self.logs.logs):
            if topic == CLUSTER_METADATA or self._image.partition(topic, partition) is not None:
                continue
            try:
                self.logs.set_aside(topic, partition)
            except StorageError as error:
                logger.error("%s-%d belongs to no topic and is left in place: %s", topic, partition, error)

    def _on_event(self, event: object) -> None:
        match event:
            case PartitionChanged(topic=topic, partition=index, image=partition, previous=previous):
                self._apply(topic.name, topic.topic_id, index, partition, is_new=previous is None)
            case TopicDeleted(topic=topic):
                for index in topic.partitions:
                    self._remove(topic.name, index)
                gone = self.traffic.pop(topic.name, None)
                if gone is not None:
                    self.past_traffic.add(gone)
            case ConfigChanged(resource_type=resource_type, name=name):
                self._reconfigure(resource_type, name)

    def _apply(self, topic: str, topic_id: bytes, index: int, image: PartitionImage, *, is_new: bool) -> None:
        """Brings one partition on this broker in line with the image."""
        if self._node_id not in image.replicas:
            if (topic, index) in self._replicas:
                self._remove(topic, index)
            return
        replica = self._replicas.get((topic, index))
        if replica is None and self._is_elsewhere(topic, index, image):
            logger.error("%s-%d is in a log directory that is missing; list all log directories in log.dirs", topic, index)
            return
        replica = replica or self._open(topic, topic_id, index, is_new=is_new)
        if replica is None:
            return
        replica.take_role(image, self._node_id)

    def _is_elsewhere(self, topic: str, index: int, image: PartitionImage) -> bool:
        """Returns whether the partition has no leader and was in a directory that this broker once had. To create it anew would
        hide its loss.
        """
        if image.leader != NO_LEADER or self.logs.get(topic, index) is not None:
            return False
        directory_id = image.directory_of(self._node_id)
        return directory_id not in (UNASSIGNED, MIGRATING, *self.logs.directory_ids.values())

    def _open(self, topic: str, topic_id: bytes, index: int, *, is_new: bool) -> Replica | None:
        """Opens the partition, and creates its log if there is none. If the disk refuses, logs that and returns None; clients
        then get KAFKA_STORAGE_ERROR.
        """
        try:
            log = self._create(topic, topic_id, index, is_new=is_new)
        except StorageError as error:
            logger.error("%s-%d is not available: %s", topic, index, error)
            return None
        replica = Replica(topic, topic_id, index, log, self.traffic.setdefault(topic, Traffic()))
        self._replicas[topic, index] = replica
        self._by_id[topic_id, index] = replica
        return replica

    def _create(self, topic: str, topic_id: bytes, index: int, *, is_new: bool) -> PartitionLog:
        config = self._config(topic)
        try:
            return self.logs.create(topic, index, topic_id, config, is_new=is_new)
        except InconsistentMetadata as error:
            logger.warning("%s-%d belonged to an earlier topic of the same name and is deleted: %s", topic, index, error)
            self.logs.delete(topic, index)
            return self.logs.create(topic, index, topic_id, config)

    def _remove(self, topic: str, index: int) -> None:
        replica = self._replicas.pop((topic, index), None)
        if replica is None:
            return
        del self._by_id[replica.topic_id, index]
        try:
            self.logs.delete(topic, index)
        except StorageError as error:
            logger.error("%s-%d is deleted, but its files are still there: %s", topic, index, error)
        replica.resign()

    # Settings

    def _config(self, topic: str) -> LogConfig:
        return self._settings.of_topic(topic, self._image.config_of(TOPIC, topic))

    def _reconfigure(self, resource_type: int, name: str) -> None:
        if resource_type not in (TOPIC, BROKER):
            return
        if resource_type == BROKER:
            self._cordon()
            names = list(self._image.topics)
        else:
            names = [name] if name in self._image.topics else []
        for topic in names:
            config = self._config(topic)  # partitions share it
            for index in self._image.topics[topic].partitions:
                replica = self.get(topic, index)
                if replica is not None:
                    replica.configure(config)

    def _cordon(self) -> None:
        """Keeps new partitions out of the directories of `cordoned.log.dirs`."""
        self.logs.cordoned = cordoned_paths(self._settings.values, [directory.path for directory in self.logs.directories])
