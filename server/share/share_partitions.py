"""`SharePartitions` holds all share partitions and share sessions of this broker (KIP-932).

A share partition is loaded when a member first fetches from it. It is dropped when its topic is deleted or another broker leads
the partition, when the share coordinator fences it, and when the connections of all members of its group are closed. Only locks
are lost by that, and their members are gone; if dead letters of it are still being written, it is dropped after that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.log.errors import LogError
from ottla.log.timestamps import search_timestamp
from ottla.server.base.answers import map_answer
from ottla.server.base.errors import code_of
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, Workers, in_threads, take_steps
from ottla.server.metadata.image import BROKER, GROUP, ConfigChanged, PartitionChanged, TopicDeleted
from ottla.server.partitions.replica import Replica
from ottla.server.share.acknowledgement import Acknowledgement
from ottla.server.share.persister import FENCING, Persister, ShareError
from ottla.server.share.sessions import Named, SessionKey, ShareSession, ShareSessions, TopicIdPartition
from ottla.server.share.share_group_config import EARLIEST, LATEST, ShareGroupConfig, duration_ms
from ottla.server.share.share_partition import SharePartition
from ottla.server.share_state.state import SharePartition as SharePartitionKey
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog
    from ottla.server.base.clock import Clock
    from ottla.server.base.closing import Closes
    from ottla.server.metadata.controller import Controller
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.replicas import Replicas
    from ottla.server.settings.current import CurrentSettings
    from ottla.server.share.dead_letters import DeadLetters
    from ottla.server.share.states import GivingUp

MANY_GROUPS: Final = 1_000
"""The settings of at most this many groups are cached, since clients can name any number of groups."""

logger = logging.getLogger("ottla.server.share.share_partitions")
K = TypeVar("K", bound=Hashable)


class SharePartitions:
    """The share partitions and sessions of this broker. `persister` keeps the state of share partitions; `controller` creates
    topics for dead letters; `workers` returns what does long work in threads.
    """

    def __init__(
        self,
        persister: Persister,
        settings: CurrentSettings,
        image: MetadataImage,
        replicas: Replicas,
        clock: Clock,
        controller: Controller,
        workers: Callable[[], Workers],
        sessions: ShareSessions | None = None,
    ) -> None:
        self._keep_sessions(ShareSessions() if sessions is None else sessions)
        self._persister = persister
        self._settings = settings
        self._image = image
        self._replicas = replicas
        self._clock = clock
        self._controller = controller
        self._workers = workers
        self._partitions: dict[SharePartitionKey, SharePartition] = {}
        self._loading: dict[SharePartitionKey, SharePartition] = {}
        """The share partitions whose state is not replicated yet."""
        self._of_partition: dict[TopicIdPartition, dict[SharePartitionKey, None]] = {}
        """The share partitions above, of all groups, by the partition that they are of, so that nobody has to look at all."""
        self._of_group: dict[str, dict[SharePartitionKey, None]] = {}
        self._group_settings: dict[str, ShareGroupConfig] = {}
        self._letters: DeadLetters | None = None
        image.subscribe(self._follow)

    def __len__(self) -> int:
        return len(self._partitions)

    def _keep_sessions(self, sessions: ShareSessions) -> None:
        self.sessions = sessions
        sessions.released = self.release

    def settings(self, group_id: str) -> ShareGroupConfig:
        found = self._group_settings.get(group_id)
        if found is None:
            if len(self._group_settings) >= MANY_GROUPS:
                self._group_settings.clear()
            own = self._image.config_of(GROUP, group_id)
            found = self._group_settings[group_id] = ShareGroupConfig.of_group(own, self._settings.values)
        return found

    @property
    def session_limit(self) -> int:
        limit: int = self._settings["group.share.max.share.sessions"]
        return limit

    def _dead_letters(self) -> DeadLetters:
        if self._letters is None:
            from ottla.server.share.dead_letters import DeadLetters

            self._letters = DeadLetters(self._settings, self._image, self._replicas, self._clock, self._controller, self._workers)
        return self._letters

    # Partitions

    def get(self, group_id: str, partition: TopicIdPartition) -> SharePartition | None:
        return self._partitions.get(SharePartitionKey(group_id, *partition))

    def load(self, group_id: str, replica: Replica) -> SharePartition:
        """Returns the share partition over a replica, and loads it from the share coordinator if necessary. Raises ShareError,
        with OFFSET_NOT_AVAILABLE while its state is not replicated.
        """
        key = SharePartitionKey(group_id, replica.topic_id, replica.partition)
        if not replica.is_leader:
            raise ShareError(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
        found = self._partitions.get(key)
        if found is not None:
            return found

        def settings() -> ShareGroupConfig:
            return self.settings(group_id)

        def give_up(giving_up: GivingUp) -> Promise[None] | None:
            if not settings().dead_letter_topic:
                return None
            return self._dead_letters().send(group_id, settings(), replica, giving_up)

        if key not in self._loading:
            callbacks = give_up, self._drop, self._archived
            found = SharePartition(key, replica.leader_epoch, self._persister, self._clock, settings, *callbacks)
            loaded = found.load(lambda: self._first_offset(group_id, replica), replica.log.log_end_offset)
            if loaded is None or loaded.done():
                if loaded is not None:
                    loaded.result()
                self._partitions[key] = found
                self._list(key)
                return found
            self._loading[key] = found
            self._list(key)
            loaded.add_done_callback(partial(self._loaded, found))
        raise ShareError(ErrorCode.OFFSET_NOT_AVAILABLE, "The state of the group in this partition is being read.")

    def _loaded(self, partition: SharePartition, loaded: Promise[None]) -> None:
        """Keeps a share partition whose state came later, unless it is no longer this broker's."""
        if self._loading.get(partition.key) is not partition:
            return
        del self._loading[partition.key]
        try:
            loaded.result()
        except ShareError as error:
            self._unlist(partition.key)
            logger.warning("%r cannot be loaded: %s", partition, error)
        else:
            self._partitions[partition.key] = partition

    def _drop(self, partition: SharePartition) -> None:
        if self._partitions.get(partition.key) is partition:
            self.forget(partition.key)

    def _archived(self, partition: SharePartition) -> None:
        """Drops a share partition that was kept only until its dead letters were written."""
        if not self.sessions.has_group(partition.key.group_id):
            self._drop(partition)

    def _first_offset(self, group_id: str, replica: Replica) -> int | Promise[int]:
        """Returns where a group without stored state begins, or promises to. Raises ShareError, and so the promise fails."""
        reset, log = self.settings(group_id).offset_reset, replica.log
        if reset == EARLIEST:
            return log.log_start_offset
        if reset == LATEST:
            return log.high_watermark
        return take_steps(self._find_newer(reset, log), self._clock)

    def _find_newer(self, reset: str, log: PartitionLog) -> Steps[int]:
        """Finds the first record that is as new as `reset`, a duration, wants it. Raises ShareError."""
        search = search_timestamp(log, self._clock.now_ms() - duration_ms(reset))
        try:
            found = yield from in_threads(search, self._workers)
        except (LogError, OSError) as error:
            raise ShareError(code_of(error), None) from error
        if found is None or found.offset >= log.high_watermark:
            raise ShareError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"The partition has no record as new as {reset} requires; the group begins with the first such record.",
            )
        return found.offset

    def _list(self, key: SharePartitionKey) -> None:
        self._of_partition.setdefault((key.topic_id, key.partition), {})[key] = None
        self._of_group.setdefault(key.group_id, {})[key] = None

    def _unlist(self, key: SharePartitionKey) -> None:
        _remove(self._of_partition, (key.topic_id, key.partition), key)
        _remove(self._of_group, key.group_id, key)

    def forget(self, key: SharePartitionKey) -> None:
        self._unlist(key)
        self._loading.pop(key, None)
        found = self._partitions.pop(key, None)
        if found is not None:
            found.close()

    def forget_partition(self, topic_id: bytes, index: int) -> None:
        """Drops what all groups have of a partition, because its leader changed, or because it is deleted."""
        for key in self._own(self._of_partition.get((topic_id, index), ())):
            self.forget(key)

    def _own(self, keys: Iterable[SharePartitionKey]) -> list[SharePartitionKey]:
        """Returns those of the keys that belong to this broker."""
        return list(keys)

    def handle_error(self, partition: SharePartition, error: ShareError) -> None:
        """Handles an error of a share partition: drops the partition if the error means that it is no longer this broker's."""
        if error.code in FENCING:
            logger.info("%r is fenced: %s", partition, error)
            if self._partitions.get(partition.key) is partition:
                self.forget(partition.key)

    def _follow(self, event: object) -> None:
        match event:
            case TopicDeleted(topic=topic):
                for index in topic.partitions:
                    self.forget_partition(topic.topic_id, index)
            case PartitionChanged(topic=topic, partition=index, previous=previous) if previous is not None:
                replica = self._replicas.get_by_id(topic.topic_id, index)
                if replica is None or not replica.is_leader:
                    self.forget_partition(topic.topic_id, index)
            case ConfigChanged(resource_type=kind) if kind in (BROKER, GROUP):
                self._group_settings.clear()

    # Members

    def acknowledge(
        self, key: SessionKey, partition: TopicIdPartition, batches: Sequence[Acknowledgement]
    ) -> Promise[None] | None:
        """Carries out a member's acknowledgements of one partition. If it raises ShareError, nothing is acknowledged. Returns a
        promise that may fail with ShareError if they are written later.
        """
        found = self._acknowledged(key, partition)
        try:
            return found.acknowledge(key.member_id, batches)
        except ShareError as error:
            self.handle_error(found, error)
            raise

    def check_acknowledged(self, key: SessionKey, partition: TopicIdPartition, batches: Sequence[Acknowledgement]) -> None:
        """Raises ShareError if these acknowledgements would be refused now."""
        self._acknowledged(key, partition).check_acknowledged(key.member_id, batches)

    def _acknowledged(self, key: SessionKey, partition: TopicIdPartition) -> SharePartition:
        found = self.get(key.group_id, partition)
        if found is None:
            raise ShareError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The group has no records of this partition in flight.")
        return found

    def open_session(
        self, key: SessionKey, partitions: Named, connection: Closes, unknown: Collection[TopicIdPartition] = ()
    ) -> ShareSession:
        """Opens a member's session, which ends with its connection. `unknown` are those of the partitions that do not exist.
        Raises ShareError if there is no room for it.
        """
        is_known = self.sessions.knows(connection)
        session = self.sessions.open(key, partitions, connection, self.session_limit, unknown)
        if not is_known:
            connection.on_close(self.connection_lost)
        return session

    def release(self, session: ShareSession) -> Promise[None] | None:
        """Ends a session, if it has not been closed, and with it the locks of its member. Returns a promise that is kept when
        none is left, if that takes longer than a turn; whoever waits for it may give up.
        """
        if self.sessions.is_open(session):
            self.sessions.close(session.key)
        released: Promise[None] | None = take_steps(self._release_all(session), self._clock)
        return map_answer(released, lambda _: None)

    def _release_all(self, session: ShareSession) -> Steps[None]:
        """Makes steps that end the locks of a member whose session is closed."""
        yield from self._release_locks(session)
        group_id = session.key.group_id
        if group_id not in self._of_group:
            self.sessions.forget_group(session.connection, group_id)

    def _release_locks(self, session: ShareSession) -> Steps[None]:
        group_id, member_id = session.key
        for partition in list(session.partitions):
            if self.sessions.has_member(session.key):
                return  # the member has come back, and keeps what it holds
            found = self.get(group_id, partition)
            if found is not None:
                try:
                    found.release(member_id)
                except ShareError as error:
                    logger.warning("%r: the records of member %s stay locked: %s", found, member_id, error)
                    self.handle_error(found, error)
            yield None

    def connection_lost(self, connection: object) -> None:
        """Ends the sessions that a closed connection had opened."""
        sessions = self.sessions.of_connection(connection)
        for session in sessions:
            self.sessions.close(session.key)
        take_steps(self._release_connection(connection, sessions), self._clock)

    def _release_connection(self, connection: object, sessions: Iterable[ShareSession]) -> Steps[None]:
        for session in sessions:
            yield from self._release_locks(session)
        empty = self.sessions.empty_groups(connection)
        if not empty:
            return
        for key in self._own(key for group_id in sorted(empty) for key in self._of_group.get(group_id, ())):
            found = self._partitions.get(key)
            if not self.sessions.has_group(key.group_id) and not (found is not None and found.is_archiving):
                self.forget(key)  # else somebody has come meanwhile, or it is dropped when its letters are written
            yield None
        for group_id in empty:
            self._group_settings.pop(group_id, None)


def _remove(lists: dict[K, dict[SharePartitionKey, None]], place: K, key: SharePartitionKey) -> None:
    listed = lists.get(place)
    if listed is not None:
        listed.pop(key, None)
        if not listed:
            del lists[place]
