"""The partitions this broker holds, as the rest of the server sees them: a log, who leads it, and who waits for it.

What exists follows from the metadata image alone: `Replicas` creates, deletes and reconfigures logs as the image tells of
topics, and never decides anything itself. So the same code serves a standalone broker and one whose records come from a quorum.

A lone replica's high watermark is its log's end and moves with the append. With followers it moves when they fetch; that is the
place of `Replica.high_watermark_moved`, which wakes whoever is parked, in both cases.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.log.config import LogConfig, legible
from ottla.log.errors import CorruptRecord, FencedLeaderEpoch, InconsistentMetadata, StorageError, UnknownLeaderEpoch
from ottla.log.validate import Origin
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
from ottla.server.metadata.names import CLUSTER_METADATA, INTERNAL_TOPICS
from ottla.server.metadata.settings import cordoned_paths
from ottla.server.settings.broker_config import overlaid
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.log.manager import LogManager
    from ottla.log.partition import AppendInfo, PartitionLog
    from ottla.server.metadata.image import MetadataImage
    from ottla.wire.primitives import Buffer

logger = logging.getLogger("ottla.server.replicas")

_MAX_DAMAGE_LINES: Final = 10


class Traffic:
    """What went in and out of a topic's partitions here since the broker started; plain integers that server/metrics reads.

    `appends` are batches written, those of coordinators included, and `refused` those that the log of a partition refused;
    `fetches` are looks at a partition, of which a parked request takes several, and `failed_fetches` those among them that ended
    in an error. Kafka counts the same.
    """

    __slots__ = ("appends", "bytes_in", "bytes_out", "failed_fetches", "fetches", "messages_in", "refused")

    def __init__(self) -> None:
        self.appends = 0
        self.refused = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.fetches = 0
        self.failed_fetches = 0

    def add(self, other: Traffic) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Replica:
    """One partition on this broker. `traffic` is shared by all partitions of the topic."""

    __slots__ = ("_damage", "is_leader", "leader", "leader_epoch", "log", "parked", "partition", "topic", "topic_id", "traffic")

    def __init__(self, topic: str, topic_id: bytes, partition: int, log: PartitionLog, traffic: Traffic) -> None:
        self.traffic = traffic
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.log = log
        log.flush_inline = topic in INTERNAL_TOPICS  # a coordinator's append is not done before it is as durable as is wanted
        self.leader = -1
        self.leader_epoch = -1
        self.is_leader = False
        self.parked: dict[object, Callable[[], None]] = {}
        """Who waits for this partition's next records, by owner, with what to call: once, after which the owner parks again."""
        self._damage: tuple[str, ...] = ()

    def append(self, records: Buffer | None, *, origin: Origin = Origin.CLIENT, zstd_allowed: bool = True) -> AppendInfo:
        """Write one batch as the leader and wake who waits. Raises the errors of PartitionLog.append_as_leader."""
        info = self.log.append_as_leader(records, leader_epoch=self.leader_epoch, origin=origin, api_version_zstd_ok=zstd_allowed)
        traffic = self.traffic
        traffic.appends += 1
        traffic.bytes_in += len(records)  # type: ignore[arg-type]  # None would have been refused
        traffic.messages_in += info.last_offset - info.base_offset + 1
        if self.parked:
            self.wake()
        return info

    def wake(self) -> None:
        """The high watermark moved, or the partition changed hands: everyone parked looks again."""
        parked, self.parked = self.parked, {}
        for look_again in parked.values():
            look_again()

    def tell_damage(self, error: CorruptRecord) -> None:
        """A reader came upon it, and will come again and again: a line in the log for each of the first few places is enough."""
        what = str(error)
        if what not in self._damage and len(self._damage) < _MAX_DAMAGE_LINES:
            self._damage += (what,)
            logger.error("%s-%d is damaged, and whoever reads there is told so: %s", self.topic, self.partition, what)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """The leader epoch a client believes in (-1: it has none). FencedLeaderEpoch, UnknownLeaderEpoch."""
        if current_leader_epoch in (-1, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(f"epoch {current_leader_epoch} is over, {self.leader_epoch} is current")
        raise UnknownLeaderEpoch(f"epoch {current_leader_epoch} has not begun, {self.leader_epoch} is current")


class Replicas:
    """All replicas of this broker, kept in step with the metadata image. `start` once the image is loaded."""

    def __init__(self, logs: LogManager, image: MetadataImage, node_id: int, broker_values: Mapping[str, Any]) -> None:
        self.logs = logs
        self._image = image
        self._node_id = node_id
        self._broker_values = broker_values
        self._overlay: tuple[Mapping[str, str], Mapping[str, str], Mapping[str, Any]] = ({}, {}, broker_values)
        self._replicas: dict[tuple[str, int], Replica] = {}
        self._by_id: dict[tuple[bytes, int], Replica] = {}
        self.traffic: dict[str, Traffic] = {}
        """By topic."""
        self.past_traffic = Traffic()
        """That of topics which are gone."""

    def get(self, topic: str, partition: int) -> Replica | None:
        return self._replicas.get((topic, partition))

    def get_by_id(self, topic_id: bytes, partition: int) -> Replica | None:
        return self._by_id.get((topic_id, partition))

    def why_missing(self, topic: str, partition: int) -> ErrorCode:
        """What a client is told of a partition that `get` does not have."""
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
        """Take over what the image holds now, and follow it from here on."""
        self._cordon()
        for topic in list(self._image.topics.values()):
            for index, partition in topic.partitions.items():
                self._apply(topic.name, topic.topic_id, index, partition, is_new=False)
        self._set_strays_aside()
        self._image.subscribe(self._on_event)

    def drop_lost(self) -> dict[tuple[str, int], str | None]:
        """Log directories failed: forgets what lay in them; the partitions that are led from here and have no log any more, each
        with its directory as far as that is known.
        """
        dropped: dict[tuple[str, int], str] = {}
        for name, replica in list(self._replicas.items()):
            if replica.log.directory.failed is not None:
                dropped[name] = replica.log.directory.path
                del self._replicas[name], self._by_id[replica.topic_id, replica.partition]
                replica.is_leader = False
                replica.wake()
        return {
            (topic.name, index): dropped.get((topic.name, index))
            for topic in self._image.topics.values()
            for index, partition in topic.partitions.items()
            if partition.leader == self._node_id and (topic.name, index) not in self._replicas
        }

    def _set_strays_aside(self) -> None:
        """A crash can come after a topic is deleted and before its files are."""
        for topic, partition in list(self.logs.logs):
            if topic == CLUSTER_METADATA or self._image.partition(topic, partition) is not None:
                continue
            try:
                self.logs.set_aside(topic, partition)
            except StorageError as error:
                logger.error("%s-%d belongs to no topic and stays: %s", topic, partition, error)

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
        """Make what the image says of one partition true here."""
        if self._node_id not in image.replicas:
            if (topic, index) in self._replicas:
                self._remove(topic, index)
            return
        replica = self._replicas.get((topic, index))
        if replica is None and self._is_elsewhere(topic, index, image):
            logger.error("%s-%d lies in a log directory that is not there; name all of them in log.dirs", topic, index)
            return
        replica = replica or self._open(topic, topic_id, index, is_new=is_new)
        if replica is None:
            return
        replica.leader = image.leader
        replica.leader_epoch = image.leader_epoch
        replica.is_leader = image.leader == self._node_id
        replica.log.sole_replica = replica.is_leader and len(image.isr) <= 1
        if replica.is_leader:
            replica.log.begin_epoch(image.leader_epoch)
        if replica.log.sole_replica:
            replica.log.high_watermark = replica.log.log_end_offset
        replica.wake()

    def _is_elsewhere(self, topic: str, index: int, image: PartitionImage) -> bool:
        """It has no leader, and was in a directory that this broker had once: to make it anew would hide that."""
        if image.leader != NO_LEADER or self.logs.get(topic, index) is not None:
            return False
        directory_id = image.directory_of(self._node_id)
        return directory_id not in (UNASSIGNED, MIGRATING, *self.logs.directory_ids.values())

    def _open(self, topic: str, topic_id: bytes, index: int, *, is_new: bool) -> Replica | None:
        """The log, made where it is missing. None, and a line in the log, where the disk refuses: clients are told 56."""
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
        config = self.config_of(topic)
        try:
            return self.logs.create(topic, index, topic_id, config, is_new=is_new)
        except InconsistentMetadata as error:
            logger.warning("%s-%d was another topic of that name and is deleted: %s", topic, index, error)
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
            logger.error("%s-%d is deleted, but its files stay: %s", topic, index, error)
        replica.is_leader = False
        replica.wake()

    # Settings

    def config_of(self, topic: str) -> LogConfig:
        """The topic's settings: its own, else the dynamic broker ones, else those of the start, else Kafka's defaults."""
        return self._config(topic, self.broker_values())

    def _config(self, topic: str, values: Mapping[str, Any]) -> LogConfig:
        return LogConfig.from_overrides(legible(topic, self._image.config_of(TOPIC, topic)), values)

    def broker_values(self) -> Mapping[str, Any]:
        """Broker settings with the cluster-wide dynamic ones and then this broker's own laid over those of the start.

        Kept while neither changes, which the image tells by other objects: requests ask for it.
        """
        cluster_wide = self._image.config_of(BROKER, "")
        own = self._image.config_of(BROKER, str(self._node_id))
        if self._overlay[0] is not cluster_wide or self._overlay[1] is not own:
            self._overlay = (cluster_wide, own, overlaid(self._broker_values, cluster_wide, own))
        return self._overlay[2]

    def _reconfigure(self, resource_type: int, name: str) -> None:
        if resource_type not in (TOPIC, BROKER):
            return
        if resource_type == BROKER:
            self._cordon()
            names = list(self._image.topics)
        else:
            names = [name] if name in self._image.topics else []
        values = self.broker_values()
        for topic in names:
            config = self._config(topic, values)  # partitions share it
            for index in self._image.topics[topic].partitions:
                replica = self.get(topic, index)
                if replica is not None:
                    replica.log.config = config

    def _cordon(self) -> None:
        """New partitions keep clear of the directories of cordoned.log.dirs."""
        self.logs.cordoned = cordoned_paths(self.broker_values(), [directory.path for directory in self.logs.directories])


class InternalTopicLog:
    """An internal topic as its coordinator sees it: append to a partition, read one from its start, who leads it."""

    def __init__(self, replicas: Replicas, image: MetadataImage, topic: str) -> None:
        self._replicas = replicas
        self._image = image
        self._topic = topic

    def partition_count(self) -> int:
        """0 while the topic does not exist."""
        topic = self._image.topics.get(self._topic)
        return len(topic.partitions) if topic is not None else 0

    def leader(self, partition: int) -> int | None:
        """The leading broker's id; None without one."""
        topic = self._image.topics.get(self._topic)
        image = topic.partitions.get(partition) if topic is not None else None
        return image.leader if image is not None and image.leader >= 0 else None

    def leader_epoch(self, partition: int) -> int:
        """-1 without such a partition."""
        image = self._image.partition(self._topic, partition)
        return image.leader_epoch if image is not None else -1

    def append(self, partition: int, batch: bytes) -> int:
        """Write one batch; its base offset. StorageError where this broker does not hold the partition, and other log errors."""
        return self._replica(partition).append(batch, origin=Origin.COORDINATOR).base_offset

    def read(self, partition: int) -> Iterator[bytes]:
        """All batches from the partition's start to its end. Errors as for `append`."""
        log = self._replica(partition).log
        return log.iterate_batches(log.log_start_offset)

    def delete_before(self, partition: int, offset: int) -> None:
        """Records below `offset` count as gone. Errors as for `append`."""
        self._replica(partition).log.delete_records_before(offset)

    def _replica(self, partition: int) -> Replica:
        replica = self._replicas.get(self._topic, partition)
        if replica is None:
            raise StorageError(f"{self._topic}-{partition} is not on this broker")
        return replica
