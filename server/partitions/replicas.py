"""Keeps the partitions that this broker holds in step with the metadata.

The metadata image alone decides what exists: `Replicas` creates, deletes and reconfigures logs as topics in it change, and never
decides anything itself. So the same code serves a standalone broker and one whose records come from a quorum.

A change of very many partitions takes several turns of the event loop to reach the disk (backlog.py). Deleted ones are gone from
here at once; a new one is here when it has its files, and until then clients are told to come again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from ottla.log.config import LogConfig
from ottla.log.errors import InconsistentMetadata, NoRoom, StorageError
from ottla.server.base.turns import Steps, take_in_background
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
    TopicImage,
)
from ottla.server.metadata.names import CLUSTER_METADATA, INTERNAL_TOPICS
from ottla.server.partitions.backlog import Backlog, TopicIdPartition
from ottla.server.partitions.replica import KeepIsr, Replica
from ottla.server.partitions.roles import Leader
from ottla.server.partitions.traffic import Traffic
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.log.management.manager import LogManager
    from ottla.log.partition import PartitionLog
    from ottla.server.base.clock import Clock
    from ottla.server.base.promise import Promise
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.flushing import Run
    from ottla.server.partitions.reopening import Reopening
    from ottla.server.settings.current import CurrentSettings

logger = logging.getLogger("ottla.server.replicas")

TOPICS_A_STEP: Final = 100
"""So many topics get new settings before others may come first."""
SETTLED_SECONDS: Final = 2.0
"""The longest time that an answer waits, in a cluster, for this broker's part of what was created."""


class Replicas:
    """All replicas of this broker, kept in step with the metadata image. Call `start` once the image is loaded. `run` runs what
    takes long beside the event loop: by default in a thread (flushing.py)."""

    def __init__(
        self,
        logs: LogManager,
        image: MetadataImage,
        settings: CurrentSettings,
        clock: Clock,
        run: Run | None = None,
        nodes: AbstractSet[int] | None = None,
    ) -> None:
        self.logs = logs
        self._image = image
        self.nodes = frozenset((settings.config.node_id,)) if nodes is None else nodes
        """The broker ids that stand for this broker: its own, or several if a test has it simulate a cluster."""
        self._settings = settings
        self._clock = clock
        self._run = run
        self._replicas: dict[tuple[str, int], Replica] = {}
        self._by_id: dict[tuple[bytes, int], Replica] = {}
        self.traffic: dict[str, Traffic] = {}
        """The traffic of each topic, by name."""
        self.past_traffic = Traffic()
        """The traffic of topics that were deleted."""
        self.keep_isr: KeepIsr | None = None
        """Makes the keeper of the in-sync replicas of a partition that others follow, and is to be set before `start`; None if no
        partition has followers."""
        self.on_made: Callable[[Replica], None] | None = None
        """Is called with each replica that comes after the start."""
        self.on_role: Callable[[Replica], object] | None = None
        """Is called with each replica whose role may have changed; None where no other broker ever leads a partition."""
        self.on_configured: Callable[[Replica], object] | None = None
        """Is called with each replica that has got other settings; None if nobody wants to know."""
        self.on_damage: Callable[[Replica, int], str] | None = None
        """Is called with a replica whose bytes are damaged from an offset on, and returns what becomes of it, in words; None
        where no other broker has them."""
        self.in_doubt = False
        """True while this broker does not know what it leads."""
        self._backlog = Backlog(clock, make=self._make, delete=self._delete, sync=logs.sync_deletions)
        self._reopening: Reopening | None = None
        """The work of opening the partitions that the start could not open; None if there are none."""
        self._last_config: tuple[str, int, LogConfig] | None = None
        """A topic, the state of the image by its `changes`, and the topic's settings then."""

    def get(self, topic: str, partition: int) -> Replica | None:
        return self._replicas.get((topic, partition))

    def get_by_id(self, topic_id: bytes, partition: int) -> Replica | None:
        return self._by_id.get((topic_id, partition))

    def why_missing(self, topic: str, partition: int) -> ErrorCode:
        """Returns the error for a client that asks for a partition which `get` does not have."""
        image = self._image.partition(topic, partition)
        if image is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        is_coming = self._image.is_reporting or (self._image.topics[topic].topic_id, partition) in self._backlog
        if is_coming or self.nodes.isdisjoint(image.replicas):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.KAFKA_STORAGE_ERROR

    def settled(self) -> Promise[None] | None:
        """Returns a promise that is kept when all partitions that the metadata names now are here, and the files of all others
        are deleted; None if that is so already. Partitions for which there is no room are not waited for.
        """
        return self._backlog.settled()

    def settled_soon(self) -> Promise[None] | None:
        """Returns what an answer about new partitions waits for: `settled`, but in a cluster for SETTLED_SECONDS at most. Other
        brokers have most of what was created there, and nobody waits for theirs; Kafka's clients give up on an answer after 30 s.
        """
        promise = self.settled()
        if promise is not None and self.keep_isr is not None:
            self._clock.call_later(SETTLED_SECONDS, lambda: None if promise.done() else promise.set_result(None))
        return promise

    def deleted(self) -> Promise[None] | None:
        """Returns a promise that is kept when the files of all partitions that were removed are deleted; None if they are."""
        return self._backlog.deleted()

    def close(self, *, clean: bool) -> None:
        """Stops making partitions; if `clean`, deletes what is still to be deleted. The logs stay open."""
        self._backlog.close(clean=clean)

    async def end_reopening(self) -> None:
        """Ends the attempts to open what the start could not, before the logs are closed."""
        if self._reopening is not None:
            await self._reopening.close()

    def __iter__(self) -> Iterator[Replica]:
        return iter(list(self._replicas.values()))

    def __len__(self) -> int:
        return len(self._replicas)

    # Following the image

    def start(self) -> None:
        """Takes over what the image holds now, and follows it from then on."""
        self._cordon()
        without_room: dict[TopicIdPartition, NoRoom] = {}
        for topic in list(self._image.topics.values()):
            for index in topic.partitions:
                name = topic.topic_id, index
                try:
                    self._make(name, False)
                except NoRoom as error:
                    without_room[name] = error
        if without_room:
            self._backlog.put_off(dict.fromkeys(without_room, False), next(iter(without_room.values())))
        for topic_name, index in list(self.logs.logs):
            self._set_aside_if_stray(topic_name, index)
        if self.logs.opening.without_room:
            from ottla.server.partitions.reopening import Reopening

            self._reopening = Reopening(self.logs, self._clock, self._take_over, self._run)
        self._image.subscribe(self._on_event)

    def drop_lost(self) -> dict[tuple[str, int], str | None]:
        """Drops the partitions whose log directory has failed. Returns the partitions that this broker leads and that have no log
        any more, each with its directory's path, or None if that is not known. Those that are still to be made are not lost.
        """
        dropped: dict[tuple[str, int], str] = {}
        for name, replica in list(self._replicas.items()):
            if replica.log.directory.failed is not None:
                dropped[name] = replica.log.directory.path
                del self._replicas[name], self._by_id[replica.topic_id, replica.partition]
                self._resign(replica)
        return {
            (topic.name, index): dropped.get((topic.name, index))
            for topic in self._image.topics.values()
            for index, partition in topic.partitions.items()
            if partition.leader in self.nodes
            and (topic.name, index) not in self._replicas
            and (topic.topic_id, index) not in self._backlog
            and not self._backlog.waits_for_room((topic.topic_id, index))
            and not (self._reopening is not None and self._reopening.waits(topic.name, index))
        }

    def drop_removed(self) -> Iterator[Callable[[], None] | None]:
        """Drops the partitions whose files somebody has removed, in steps as those of `lose_removed`. As with those that could
        not be opened at the start, the metadata still names this broker as their leader, and clients get KAFKA_STORAGE_ERROR."""
        from ottla.log.management.removed import lose_removed  # imported here, because a start does not need it

        return lose_removed(self.logs, self._lost)

    def _lost(self, name: tuple[str, int]) -> None:
        """Drops a partition whose log is not open any more."""
        replica = self._replicas.pop(name, None)
        if replica is not None:
            del self._by_id[replica.topic_id, replica.partition]
            self._resign(replica)

    def _set_aside_if_stray(self, topic: str, partition: int) -> None:
        """Sets a log aside if it belongs to no topic: a crash may have come after a topic was deleted and before its files
        were."""
        if topic == CLUSTER_METADATA or self._image.partition(topic, partition) is not None:
            return
        try:
            self.logs.set_aside(topic, partition)
        except StorageError as error:
            logger.error("%s-%d belongs to no topic and is left in place: %s", topic, partition, error)

    def _take_over(self, topic: str, index: int) -> None:
        """Takes over a log that could be opened after the start."""
        self._set_aside_if_stray(topic, index)
        image = self._image.topics.get(topic)
        if image is not None:
            self._backlog.make((image.topic_id, index), is_new=False)

    def _on_event(self, event: object) -> None:
        match event:
            case PartitionChanged(topic=topic, partition=index, previous=previous):
                # As it is now: large operations are in the image before their events come, and the backlog may have been first.
                self._apply(topic.name, topic.topic_id, index, topic.partitions[index], is_new=previous is None)
            case TopicDeleted(topic=topic):
                self._remove_all(topic)
                gone = self.traffic.pop(topic.name, None)
                if gone is not None:
                    self.past_traffic.add(gone)
            case ConfigChanged(resource_type=resource_type, name=name):
                self._reconfigure(resource_type, name)

    def _apply(self, topic: str, topic_id: bytes, index: int, image: PartitionImage, *, is_new: bool) -> None:
        """Brings one partition on this broker in line with the image. One that is not here yet is only put into the backlog,
        unless it belongs to an internal topic: these are small, and a coordinator looks for its partition at once.
        """
        replica = self._replicas.get((topic, index))
        if self.nodes.isdisjoint(image.replicas):
            if replica is not None:
                self._remove(topic, index)
        elif replica is not None:
            self._take_role(replica, image)
        elif topic not in INTERNAL_TOPICS:
            self._backlog.make((topic_id, index), is_new=is_new)
        else:
            try:
                self._make((topic_id, index), is_new)
            except NoRoom as error:
                self._backlog.put_off({(topic_id, index): is_new}, error)

    def _make(self, name: TopicIdPartition, is_new: bool) -> bool:
        """Opens a partition as the image has it now, and creates its log if there is none; returns whether it did. Raises
        NoRoom."""
        topic_id, index = name
        topic = self._image.topics_by_id.get(topic_id)
        image = topic.partitions.get(index) if topic is not None else None
        if topic is None or image is None or self.nodes.isdisjoint(image.replicas) or (topic.name, index) in self._replicas:
            return False
        if self._is_elsewhere(topic.name, index, image):
            logger.error("%s-%d is in a log directory that is missing; list all log directories in log.dirs", topic.name, index)
            return False
        replica = self._open(topic.name, topic_id, index, is_new=is_new)
        if replica is None:
            return False
        self._take_role(replica, image)
        if self.on_made is not None:
            self.on_made(replica)
        return True

    def _is_elsewhere(self, topic: str, index: int, image: PartitionImage) -> bool:
        """Returns whether the partition has no leader and was in a directory that this broker once had. To create it anew would
        hide its loss.
        """
        if image.leader != NO_LEADER or self.logs.get(topic, index) is not None:
            return False
        known = (UNASSIGNED, MIGRATING, *self.logs.directory_ids.values())
        return all(image.directory_of(node_id) not in known for node_id in self.nodes if node_id in image.replicas)

    def _open(self, topic: str, topic_id: bytes, index: int, *, is_new: bool) -> Replica | None:
        """Opens the partition, and creates its log if there is none. If the disk refuses, logs that and returns None; clients
        then get KAFKA_STORAGE_ERROR. Raises NoRoom.

        What recovery found is flushed first where `flush.messages` holds appends back: readers are about to see it, and no answer
        waits for its flush.
        """
        try:
            log = self._create(topic, topic_id, index, is_new=is_new)
            if log.awaits_flush(log.log_end_offset):
                log.flush()
        except NoRoom:
            raise
        except StorageError as error:
            logger.error("%s-%d is not available: %s", topic, index, error)
            return None
        traffic = self.traffic.setdefault(topic, Traffic())
        replica = Replica(topic, topic_id, index, log, traffic, self._clock, self.keep_isr)
        self._replicas[topic, index] = replica
        self._by_id[topic_id, index] = replica
        return replica

    def _create(self, topic: str, topic_id: bytes, index: int, *, is_new: bool) -> PartitionLog:
        config = self._config(topic)
        try:
            return self.logs.create(topic, index, topic_id, config, is_new=is_new)
        except InconsistentMetadata as error:
            if self.logs.get(topic, index) is None:  # what is in the way is no log that was opened
                raise
            self.logs.drop_future((topic, index))
            # As in Kafka it is not deleted: a damaged partition.metadata looks the same as a topic that was made anew.
            why = f"is of an earlier topic of this name, or its topic id is damaged ({error}),"
            aside = self.logs.set_aside(topic, index, why)
            logger.warning(
                "%s-%d begins again, empty; if the records in %s are this topic's, stop the broker, remove partition.metadata "
                "from that directory, put it back under its name in the place of the new one, and run ottla log repair",
                topic,
                index,
                aside,
            )
            return self.logs.create(topic, index, topic_id, config)

    def _remove(self, topic: str, index: int) -> None:
        replica = self._replicas.pop((topic, index), None)
        if replica is not None:
            del self._by_id[replica.topic_id, index]
            replica.is_leader = False
            self._backlog.delete([replica])
        elif (topic, index) in self.logs.unavailable:
            self._forget_removed(topic, index)

    def _remove_all(self, topic: TopicImage) -> None:
        """Does what `_remove` does for all partitions of a deleted topic, of which there may be many thousand: nobody finds them
        any more, and the rest is left to the backlog."""
        name, topic_id, removed = topic.name, topic.topic_id, list[Replica]()
        for index in topic.partitions:
            replica = self._replicas.pop((name, index), None)
            if replica is not None:
                del self._by_id[topic_id, index]
                replica.is_leader = False
                removed.append(replica)
            elif (name, index) in self.logs.unavailable:
                self._forget_removed(name, index)
        self._backlog.delete(removed)

    def _forget_removed(self, topic: str, index: int) -> None:
        from ottla.log.management.removed import forget_removed  # not needed if everything is available

        forget_removed(self.logs, (topic, index))

    def doubt(self, in_doubt: bool) -> None:
        """Has this broker lead nothing as long as it is in doubt whether others do (server/quorum/absence.py). Requests are
        answered NOT_LEADER_OR_FOLLOWER; roles stay as they are, and with them what waits for followers."""
        self.in_doubt = in_doubt
        for replica in self._replicas.values():
            replica.is_leader = not in_doubt and isinstance(replica.role, Leader)

    def _take_role(self, replica: Replica, image: PartitionImage) -> None:
        replica.take_role(image, self.nodes)
        if self.in_doubt:
            replica.is_leader = False
        if self.on_role is not None:
            self.on_role(replica)

    def _resign(self, replica: Replica) -> None:
        replica.resign()
        if self.on_role is not None:
            self.on_role(replica)

    def _delete(self, replica: Replica) -> None:
        """Gives up the role of a replica that was removed, and deletes its log."""
        self._resign(replica)
        log = replica.log
        if self.logs.get(log.topic, log.partition) is not log:  # a new topic of the same name came first and took its place
            return
        try:
            self.logs.delete(log.topic, log.partition, synced=False)
        except StorageError as error:
            logger.error("%s-%d is deleted, but its files are still there: %s", log.topic, log.partition, error)

    # Settings

    def _config(self, topic: str) -> LogConfig:
        """Returns the settings of a topic; partitions that are made one after the other share them."""
        last, changes = self._last_config, self._image.changes
        if last is not None and last[:2] == (topic, changes):
            return last[2]
        config = self._settings.of_topic(topic, self._image.config_of(TOPIC, topic))
        self._last_config = topic, changes, config
        return config

    def _reconfigure(self, resource_type: int, name: str) -> None:
        if resource_type not in (TOPIC, BROKER):
            return
        if resource_type == BROKER:
            self._cordon()
            names = list(self._image.topics)
        else:
            names = [name]
        take_in_background(self._configure_each(names), self._clock)

    def _configure_each(self, topics: Iterable[str]) -> Steps[None]:
        """Makes steps that give each topic's partitions its settings, as they are when its turn comes."""
        configs: dict[tuple[tuple[str, str], ...], LogConfig] = {}  # topics with the same settings share one
        changes = -1
        for at, topic in enumerate(topics):
            if at and at % TOPICS_A_STEP == 0:
                yield None
            if changes != self._image.changes:
                changes = self._image.changes
                configs.clear()
            image = self._image.topics.get(topic)
            if image is None:
                continue
            own = tuple(self._image.config_of(TOPIC, topic).items())
            config = configs.get(own)
            if config is None:
                config = configs[own] = self._config(topic)
            for index in image.partitions:
                replica = self.get(topic, index)
                if replica is not None:
                    replica.configure(config)
                    if self.on_configured is not None:
                        self.on_configured(replica)

    def _cordon(self) -> None:
        """Keeps new partitions out of the directories of `cordoned.log.dirs`."""
        self.logs.cordoned = cordoned_paths(self._settings.values, [directory.path for directory in self.logs.directories])
