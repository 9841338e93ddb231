"""The controller of a broker that is its own quorum: the only voter of `__cluster_metadata-0`.

`open_standalone` makes it: it formats an empty directory as `kafka-storage format` would, replays the metadata log and begins a
new epoch. Once the listeners are bound, `register_broker` writes where this broker can be reached, and elects it leader of its
partitions. From then on every operation is the same four steps: a rule looks at the image and makes records, the records become
one batch on disk, the image applies them, the caller gets the answer. There is no await between them, so operations cannot mix.

The rules (topics.py, partitions.py, configs.py) are imported with the first operation: they and their messages would be a tenth
of the time that a start may take, and a start needs none of them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.log.config import LogConfig
from ottla.log.errors import StorageError
from ottla.log.settings import LONG_MAX
from ottla.server.base.randomness import random_uuid
from ottla.server.metadata import eligible, snapshot
from ottla.server.metadata.administration import SUPPORTED_FEATURES, Administration
from ottla.server.metadata.elections import elect, resign
from ottla.server.metadata.image import BROKER, MIGRATING, UNASSIGNED, ConfigChanged, Endpoint, MetadataError, MetadataImage
from ottla.server.metadata.metadata_log import TOPIC_ID, MetadataLog, voter_controls
from ottla.server.metadata.names import CLUSTER_METADATA, INTERNAL_TOPICS
from ottla.server.metadata.operation import NO_LIMIT, Outcome, Permits, Refused
from ottla.server.metadata.records import METADATA_VERSION
from ottla.server.metadata.settings import BrokerSettings
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal import register_broker_record as broker_record
from ottla.wire.messages.internal import register_controller_record as controller_record
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.primitives import WireStruct, uuid_from_text

if TYPE_CHECKING:
    from ottla.log.disk.files import Disk
    from ottla.log.manager import LogManager
    from ottla.server.base.clock import Clock
    from ottla.server.metadata.snapshot_keeper import SnapshotKeeper
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
    from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
    from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

PRODUCER_IDS_BLOCK: Final = 1000
FORMATTED_FEATURES: Final = {
    "group.version": 1,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
    eligible.FEATURE: 1,
}
"""What else a directory is formatted with, as `kafka-storage format` of 4.4 does."""
_SEGMENT_SETTINGS: Final = {
    "metadata.log.segment.bytes": "segment.bytes",
    "metadata.log.segment.ms": "segment.ms",
    "internal.metadata.log.segment.bytes": "internal.segment.bytes",
}
CONTROLLERS_REGISTER: Final = 15  # metadata.version 3.7-IV0

logger = logging.getLogger("ottla.server.metadata")
_Answer = TypeVar("_Answer")


class StandaloneController(Administration):
    """Made by `open_standalone`. `image` is the cluster as it is now."""

    def __init__(
        self,
        log: MetadataLog,
        image: MetadataImage,
        disk: Disk,
        settings: BrokerSettings,
        clock: Clock,
        random: Random,
        holds: Callable[[str, int], bool],
    ) -> None:
        """`holds`: whether a partition's log is on this broker, in whichever directory."""
        self.image = image
        self._holds = holds
        self._log = log
        self._disk = disk
        self._settings = settings
        self._clock = clock
        self._random = random
        self._keeper: SnapshotKeeper | None = None
        self._wanted: dict[str, None] = {}  # topics to create in the background, in the order asked for

    @property
    def epoch(self) -> int:
        """Epoch of this leader of the metadata log."""
        return self._log.epoch

    # Starting

    def register_broker(self, endpoints: Sequence[Endpoint], *, rack: str | None = None) -> int:
        """This broker can be reached at `endpoints` (advertised listeners) and leads its partitions; returns its new epoch.

        Call it once a start, when the ports are known and before the first request. StorageError.
        """
        node_id = self._settings.node_id
        incarnation = random_uuid(self._random)
        records: list[WireStruct] = []
        if self.image.metadata_version >= CONTROLLERS_REGISTER:
            controller = controller_record.RegisterControllerRecord(node_id, incarnation)
            addresses = self._settings.controller_endpoints
            controller.end_points = [controller_record.ControllerEndpoint(*address) for address in addresses]
            controller.features = [
                controller_record.ControllerFeature(name, *levels) for name, levels in SUPPORTED_FEATURES.items()
            ]
            records.append(controller)
        broker = broker_record.RegisterBrokerRecord(
            broker_id=node_id,
            incarnation_id=incarnation,
            broker_epoch=self._log.end_offset + len(records),  # the offset of this very record
            end_points=[broker_record.BrokerEndpoint(*endpoint) for endpoint in endpoints],
            features=[broker_record.BrokerFeature(name, *levels) for name, levels in SUPPORTED_FEATURES.items()],
            rack=rack,
            fenced=False,
            log_dirs=list(self._settings.directory_ids),
            cordoned_log_dirs=list(self._settings.cordoned_ids(self.image)) or None,
        )
        self._commit([*records, broker, *elect(self.image, node_id, self._is_here)])
        self.image.subscribe(self._follow)
        return broker.broker_epoch

    def leave(self) -> None:
        """The broker has stopped serving: it leads nothing and is fenced, as after Kafka's controlled shutdown. A broker that the
        metadata shows as alive would keep an Apache Kafka that takes the directory over waiting for its session's end (9 s).
        StorageError; without a directory to write it to, nothing happens.
        """
        from ottla.wire.messages.internal.broker_registration_change_record import BrokerRegistrationChangeRecord

        if self._log.is_offline:
            return
        broker = self.image.brokers[self._settings.node_id]
        gone = BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, fenced=1, in_controlled_shutdown=1)
        self._commit([*resign(self.image, broker.broker_id), gone])

    def _is_here(self, topic: str, index: int, directory_id: bytes) -> bool:
        """Whether this broker can have the partition: it does, or its log directory is there, or nobody knows where it was."""
        known = (*self._settings.directory_ids, UNASSIGNED, MIGRATING)
        return directory_id in known or self._holds(topic, index)

    def _follow(self, event: object) -> None:
        """What is registered may have changed with a setting: in the next turn, for this one is in the middle of an operation."""
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
            self._commit([BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, cordoned_log_dirs=ids)])
        except StorageError as error:
            logger.error("cordoned.log.dirs has no effect on new topics yet: %s", error)

    # Operations

    def _commit(self, records: Sequence[WireStruct]) -> None:
        """Durable, then visible. StorageError, with the image unchanged."""
        if records:
            last_offset = self._log.append(records, self.image.metadata_version)
            self.image.apply_all(records, last_offset)

    def _carry_out(self, outcome: Outcome[_Answer]) -> _Answer:
        self._commit(outcome.records)
        return outcome.answer

    async def create_topics(self, request: CreateTopicsRequest, permits: Permits = NO_LIMIT) -> CreateTopicsResponse:
        return self._create_topics(request, permits)

    def _create_topics(self, request: CreateTopicsRequest, permits: Permits = NO_LIMIT) -> CreateTopicsResponse:
        from ottla.server.metadata import topics

        return self._carry_out(topics.create(self.image, self._settings, self._random, request, permits))

    async def delete_topics(self, request: DeleteTopicsRequest, permits: Permits = NO_LIMIT) -> DeleteTopicsResponse:
        from ottla.server.metadata import topics

        return self._carry_out(topics.delete(self.image, request, permits))

    async def create_partitions(self, request: CreatePartitionsRequest, permits: Permits = NO_LIMIT) -> CreatePartitionsResponse:
        from ottla.server.metadata import partitions

        return self._carry_out(partitions.create(self.image, self._settings, self._random, request, permits))

    async def incremental_alter_configs(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        from ottla.server.metadata import configs

        return self._carry_out(configs.alter(self.image, self._settings, request))

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        from ottla.server.metadata import replace_configs

        return self._carry_out(replace_configs.replace(self.image, self._settings, request))

    async def alter_client_quotas(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        from ottla.server.metadata import quotas

        unknown = await quotas.unknown_hosts(request)
        return self._carry_out(quotas.alter(self.image, request, unknown))

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        from ottla.server.metadata import elect_leaders

        return self._carry_out(elect_leaders.elect_leaders(self.image, frozenset((self._settings.node_id,)), request))

    async def allocate_producer_ids(self) -> range:
        from ottla.wire.messages.internal.producer_ids_record import ProducerIdsRecord

        first = self.image.next_producer_id
        broker = self.image.brokers[self._settings.node_id]
        block = range(first, first + PRODUCER_IDS_BLOCK)
        self._commit([ProducerIdsRecord(broker.broker_id, broker.epoch, block.stop)])
        return block

    def lose_directories(self, failed: Collection[str], lost: Mapping[tuple[str, int], str | None]) -> None:
        from ottla.server.metadata import lost_directories

        ids = self._settings.ids_by_path
        online = [directory_id for path, directory_id in ids.items() if path not in failed]
        placed = {name: ids.get(path) if path is not None else None for name, path in lost.items()}
        self._commit(lost_directories.lose(self.image, self._settings.node_id, online, placed))

    def assign_directories(self, assignments: Sequence[tuple[bytes, int, bytes]]) -> None:
        """(topic id, partition, directory id) of replicas of this broker; what is gone is left out. StorageError."""
        from ottla.server.metadata.directories import assign

        self._commit(assign(self.image, self._settings.node_id, assignments))

    # In the background

    def snapshot_pass(self) -> Awaitable[None] | None:
        """Writes a snapshot of the metadata and cleans behind it, if it is time to; to be called every second. StorageError."""
        if self._keeper is None:
            from ottla.server.metadata.snapshot_keeper import SnapshotKeeper

            self._keeper = SnapshotKeeper(
                self._log, self.image, self._disk, self._settings.broker_values, self._clock, self._random
            )
        return self._keeper.run()

    def create_in_background(self, names: Iterable[str], permits: Permits = NO_LIMIT) -> None:
        unknown = [name for name in names if name not in self.image.topics and name not in self._wanted]
        new = list(self._permitted(unknown, permits))
        is_first = not self._wanted
        self._wanted.update(dict.fromkeys(new))
        if new and is_first:
            self._clock.call_later(0, self._create_wanted)

    def _permitted(self, names: Iterable[str], permits: Permits) -> Iterator[str]:
        for name in names:
            try:
                permits.take(self._settings.num_partitions)
            except Refused:
                logger.debug("topic %s is not created now: who asked for it is over its quota of changes", name)
            else:
                yield name

    def _create_wanted(self) -> None:
        from ottla.wire.messages.create_topics import CreateTopicsRequest

        names, self._wanted = [name for name in self._wanted if name not in self.image.topics], {}
        try:
            response = self._create_topics(CreateTopicsRequest([self._default_topic(name) for name in names]))
        except StorageError as error:
            logger.error("topics %s are not created: %s", ", ".join(names), error)
            return
        for result in response.topics:
            if result.error_code:
                logger.warning(
                    "topic %s is not created: %s %s", result.name, ErrorCode(result.error_code).name, result.error_message
                )
            else:
                logger.info("topic %s created with %d partitions", result.name, result.num_partitions)

    def _default_topic(self, name: str) -> CreatableTopic:
        """As nobody asked for anything special. Internal topics may have more replicas configured than there are brokers: a
        lone broker, for which Kafka's defaults do not fit, makes what it can.
        """
        from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

        if name not in INTERNAL_TOPICS:
            return CreatableTopic(name, num_partitions=-1, replication_factor=-1)
        internal = self._settings.internal_topic(name)
        return CreatableTopic(
            name,
            internal.partition_count,
            min(internal.replication_factor, max(1, len(self.image.brokers))),
            configs=[CreatableTopicConfig(key, value) for key, value in internal.configs.items()],
        )


# Opening


def open_standalone(
    logs: LogManager,
    disk: Disk,
    config: BrokerConfig,
    cluster_id: str,
    clock: Clock,
    random: Random,
) -> StandaloneController:
    """The controller, with the image replayed and a new epoch begun. `logs` is formatted and has opened what is on disk.

    MetadataError, StorageError: the broker must not start.
    """
    directory_ids = _directory_ids(logs)
    settings = BrokerSettings(config, {path: directory_ids[path] for path in config.log_dirs if path in directory_ids})
    partition_log = logs.create(CLUSTER_METADATA, 0, TOPIC_ID, metadata_log_config(config.values), is_new=False)
    directory_id = directory_ids[partition_log.directory.path]
    log = MetadataLog(partition_log, disk, settings.node_id, clock.now_ms, directory_id)
    if log.is_new:
        _refuse_orphans(logs, partition_log.path)
    bootstrap = _bootstrap_records(disk, partition_log.directory.path) if log.is_new else []
    if log.is_new and not bootstrap and not snapshot.find(disk, partition_log.path):
        controls = (
            voter_controls(settings.node_id, directory_id, settings.controller_endpoints) if settings.names_voters_in_log else []
        )
        try:
            snapshot.write_bootstrap(disk, partition_log.path, _bootstrap_features(), controls=controls, now_ms=clock.now_ms())
        except OSError as error:
            raise partition_log.directory.fail(f"formatting {partition_log.path}", error) from error
    image = MetadataImage(cluster_id)
    log.load(image)
    is_new = log.is_new
    log.begin_epoch()

    def holds(topic: str, index: int) -> bool:
        return (topic, index) in logs.logs or (topic, index) in logs.unavailable

    controller = StandaloneController(log, image, disk, settings, clock, random, holds)
    if is_new:  # the first leader repeats in the log what the directory was formatted with
        levels = bootstrap or [FeatureLevelRecord(name, level) for name, level in image.features.items()]
        turned_on = any(isinstance(each, FeatureLevelRecord) and each.name == eligible.FEATURE for each in levels)
        settled = eligible.written_down(image, config.values["min.insync.replicas"]) if turned_on else []
        controller._commit([*levels, *settled])
    return controller


def _bootstrap_records(disk: Disk, directory: str) -> list[WireStruct]:
    """What an older `kafka-storage format` wrote down for the first leader. MetadataError, StorageError."""
    path = f"{directory}/{snapshot.BOOTSTRAP}"
    try:
        return snapshot.read(disk, path, needs_footer=False).records
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"reading {path}: {error}") from error


def _refuse_orphans(logs: LogManager, path: str) -> None:
    """MetadataError where there are partitions and no metadata that says what they are: somebody lost it, and a start on empty
    metadata would make every topic disappear.
    """
    held = sum(topic != CLUSTER_METADATA for topic, _ in (*logs.logs, *logs.unavailable))
    if held:
        raise MetadataError(
            f"{path} is empty, but {held} partitions lie beside it; restore it from a copy, or move the data away"
        )


def metadata_log_config(values: Mapping[str, object]) -> LogConfig:
    """Settings of the metadata log's segments: only snapshots may end what it keeps."""
    overrides = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "message.timestamp.after.max.ms": str(LONG_MAX),
    }
    for name, ours in _SEGMENT_SETTINGS.items():
        value = values.get(name)
        if value is not None:
            overrides[ours] = str(value)
    return LogConfig.from_overrides(overrides)


def _directory_ids(logs: LogManager) -> dict[str, bytes]:
    """Path of each log directory -> its id."""
    return {path: uuid_from_text(meta.directory_id) for path, meta in logs.meta_properties().items() if meta is not None}


def _bootstrap_features() -> list[FeatureLevelRecord]:
    levels = {"metadata.version": METADATA_VERSION} | FORMATTED_FEATURES
    return [FeatureLevelRecord(name, level) for name, level in levels.items()]
