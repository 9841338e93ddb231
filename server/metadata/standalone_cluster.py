"""The cluster of a broker that is its own quorum: its registration, its stop, its directories, its recurring work.

`open_standalone` (opening.py) makes it. Once the listeners are bound, `register` writes where this broker can be reached, and
elects it leader of its partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.log.errors import StorageError
from ottla.server.base.randomness import random_uuid
from ottla.server.metadata.cluster import Cluster, Pass
from ottla.server.metadata.feature_levels import CONTROLLERS_REGISTER, SUPPORTED_FEATURES
from ottla.server.metadata.image import BROKER, MIGRATING, UNASSIGNED, ConfigChanged, Endpoint, MetadataImage
from ottla.server.metadata.standalone_elections import elect, resign
from ottla.wire.messages.internal import register_broker_record as broker_record
from ottla.wire.messages.internal import register_controller_record as controller_record
from ottla.wire.primitives import WireStruct

if TYPE_CHECKING:
    from random import Random

    from ottla.log.disk.files import Disk
    from ottla.server.base.clock import Clock
    from ottla.server.metadata.controller_settings import ControllerSettings, ListenerCheck
    from ottla.server.metadata.metadata_log import MetadataLog
    from ottla.server.metadata.snapshot_keeper import SnapshotKeeper
    from ottla.server.metadata.standalone import StandaloneController

SNAPSHOT_PASS_INTERVAL_MS: Final = 1_000
"""The time between the broker's checks of whether the metadata log needs a snapshot."""

logger = logging.getLogger("ottla.server.metadata")


class StandaloneCluster(Cluster):
    """A cluster whose only node is this one."""

    def __init__(
        self,
        controller: StandaloneController,
        log: MetadataLog,
        disk: Disk,
        settings: ControllerSettings,
        clock: Clock,
        random: Random,
        holds: Callable[[str, int], bool],
    ) -> None:
        """Makes the cluster. `holds` returns whether a partition's log is on this broker, in any directory."""
        self._controller = controller
        self._log = log
        self._disk = disk
        self._settings = settings
        self._clock = clock
        self._random = random
        self._holds = holds
        self._keeper: SnapshotKeeper | None = None

    @property
    def image(self) -> MetadataImage:
        return self._controller.image

    def check_listeners(self, check: ListenerCheck) -> None:
        self._settings.check_listeners = check

    @property
    def controller(self) -> StandaloneController:
        return self._controller

    @property
    def epoch(self) -> int:
        """The epoch of the metadata log that this node leads."""
        return self._log.epoch

    # Registration

    async def register(self, endpoints: Sequence[Endpoint], *, rack: str | None = None) -> int:
        node_id = self._settings.node_id
        incarnation = random_uuid(self._random)
        records = self._controller_registration(incarnation)
        broker = self._broker_registration(node_id, incarnation, endpoints, rack, at=len(records))
        self._controller.commit([*records, broker, *elect(self.image, node_id, self._is_here)])
        self.image.subscribe(self._follow)
        return broker.broker_epoch

    def _controller_registration(self, incarnation: bytes) -> list[WireStruct]:
        """Returns the record that registers this node as a controller, if controllers are registered."""
        if self.image.metadata_version < CONTROLLERS_REGISTER:
            return []
        controller = controller_record.RegisterControllerRecord(self._settings.node_id, incarnation)
        addresses = self._settings.controller_endpoints
        controller.end_points = [controller_record.ControllerEndpoint(*address) for address in addresses]
        controller.features = [controller_record.ControllerFeature(name, *levels) for name, levels in SUPPORTED_FEATURES.items()]
        return [controller]

    def _broker_registration(
        self, node_id: int, incarnation: bytes, endpoints: Sequence[Endpoint], rack: str | None, *, at: int
    ) -> broker_record.RegisterBrokerRecord:
        """Returns the record that registers a broker. There are `at` records before it in what is committed."""
        return broker_record.RegisterBrokerRecord(
            broker_id=node_id,
            incarnation_id=incarnation,
            broker_epoch=self._log.end_offset + at,  # the offset that this record gets
            end_points=[broker_record.BrokerEndpoint(*endpoint) for endpoint in endpoints],
            features=[broker_record.BrokerFeature(name, *levels) for name, levels in SUPPORTED_FEATURES.items()],
            rack=rack,
            fenced=False,
            log_dirs=list(self._settings.directory_ids),
            cordoned_log_dirs=list(self._settings.cordoned_ids(self.image)) or None,
        )

    async def ready(self) -> None:
        """Does nothing, because the registration has unfenced the broker already."""

    async def begin_leaving(self) -> None:
        """Does nothing, because nobody else could lead the partitions."""

    async def leave(self) -> None:
        from ottla.wire.messages.internal.broker_registration_change_record import BrokerRegistrationChangeRecord

        if self._log.is_offline:
            return
        records: list[WireStruct] = []
        for node_id in self._settings.nodes:
            broker = self.image.brokers[node_id]
            gone = BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, fenced=1, in_controlled_shutdown=1)
            records += [*resign(self.image, broker.broker_id), gone]
        self._controller.commit(records)

    async def close(self) -> None:
        """Does nothing, because nothing runs but the passes, which the broker's scheduler ends."""

    def _is_here(self, topic: str, index: int, directory_id: bytes) -> bool:
        """Returns whether this broker can have the partition: it has it, or has its log directory, or the directory is not
        known."""
        known = (*self._settings.directory_ids, UNASSIGNED, MIGRATING)
        return directory_id in known or self._holds(topic, index)

    def _follow(self, event: object) -> None:
        """Schedules a look at whether a changed setting changes the registration. It happens in the next turn of the event loop,
        because an operation is in progress."""
        if isinstance(event, ConfigChanged) and event.resource_type == BROKER and self._is_registered_otherwise():
            self._clock.call_later(0, self._register_cordoned)

    def _is_registered_otherwise(self) -> bool:
        registered = self.image.brokers[self._settings.node_id].cordoned_log_dirs
        return set(registered) != set(self._settings.cordoned_ids(self.image))

    def _register_cordoned(self) -> None:
        if not self._is_registered_otherwise():
            return
        from ottla.wire.messages.internal.broker_registration_change_record import BrokerRegistrationChangeRecord

        broker = self.image.brokers[self._settings.node_id]
        ids = list(self._settings.cordoned_ids(self.image))
        try:
            self._controller.commit([BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, cordoned_log_dirs=ids)])
        except StorageError as error:
            logger.error("the change of cordoned.log.dirs does not affect new topics yet: %s", error)

    # Directories

    def lose_directories(self, failed: Collection[str], lost: Mapping[tuple[str, int], str | None]) -> None:
        from ottla.server.metadata import lost_directories

        ids = self._settings.ids_by_path
        online = [directory_id for path, directory_id in ids.items() if path not in failed]
        placed = {name: ids.get(path) if path is not None else None for name, path in lost.items()}
        self._controller.commit(lost_directories.lose(self.image, self._settings.node_id, online, placed))

    def assign_directories(self, assignments: Sequence[tuple[bytes, int, bytes]]) -> None:
        from ottla.server.metadata.directories import assign

        self._controller.commit(assign(self.image, self._settings.node_id, assignments))

    # Recurring work

    def passes(self) -> Sequence[Pass]:
        snapshots = Pass("metadata snapshot", SNAPSHOT_PASS_INTERVAL_MS, self._snapshot_pass)
        values = self._settings.broker_values
        if not values["delegation.token.secret.key"]:
            return (snapshots,)
        interval_ms = values["delegation.token.expiry.check.interval.ms"]
        return Pass("token expiration", interval_ms, self._controller.expire_tokens), snapshots

    def _snapshot_pass(self) -> Awaitable[None] | None:
        """Makes a snapshot of the metadata and deletes what it replaces, if either is due. Raises StorageError."""
        if self._keeper is None:
            from ottla.server.metadata.snapshot_keeper import SnapshotKeeper

            self._keeper = SnapshotKeeper(
                self._log, self.image, self._disk, self._settings.broker_values, self._clock, self._random
            )
        return self._keeper.run()
