"""Starts a cluster of one node: `open_standalone` formats an empty directory as `kafka-storage format` would, replays the
metadata log and begins a new epoch of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.log.errors import StorageError
from ottla.server.base.damage import way_out
from ottla.server.metadata import eligible, snapshot
from ottla.server.metadata.controller_settings import ControllerSettings
from ottla.server.metadata.feature_levels import FORMATTED_FEATURES
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.log_settings import metadata_log_config
from ottla.server.metadata.metadata_log import TOPIC_ID, MetadataLog, voter_controls
from ottla.server.metadata.names import CLUSTER_METADATA
from ottla.server.metadata.standalone import StandaloneController
from ottla.server.metadata.standalone_cluster import StandaloneCluster
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.metadata_records import METADATA_VERSION, MetadataError
from ottla.wire.primitives import WireStruct, uuid_from_text

if TYPE_CHECKING:
    from random import Random

    from ottla.log.disk.files import Disk
    from ottla.log.management.manager import LogManager
    from ottla.server.base.clock import Clock
    from ottla.server.base.network import Network
    from ottla.server.settings.broker_config import BrokerConfig


MakeCluster = Callable[..., StandaloneCluster]
"""Makes a cluster of what StandaloneCluster takes."""


def open_standalone(
    logs: LogManager,
    disk: Disk,
    config: BrokerConfig,
    cluster_id: str,
    clock: Clock,
    random: Random,
    network: Network,
    make: MakeCluster | None = None,
) -> StandaloneCluster:
    """Returns the cluster, with its image replayed and a new epoch begun. `logs` must be formatted and have opened what is on
    disk; `make` makes another cluster of the same parts.

    Raises MetadataError or StorageError; then the broker must not start.
    """
    directory_ids = _directory_ids(logs)
    used_ids = {path: directory_ids[path] for path in config.log_dirs if path in directory_ids}
    settings = ControllerSettings(config, used_ids, network)
    _refuse_damaged(logs, config.metadata_log_dir)
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

    controller = StandaloneController(log, image, settings, clock, random, network)
    if is_new:  # the first leader repeats in the log the records with which the directory was formatted
        levels = bootstrap or [FeatureLevelRecord(name, level) for name, level in image.features.items()]
        turned_on = any(isinstance(each, FeatureLevelRecord) and each.name == eligible.FEATURE for each in levels)
        settled = eligible.min_isr_records(image, config.values["min.insync.replicas"]) if turned_on else []
        controller.commit([*levels, *settled])
    return (make or StandaloneCluster)(controller, log, disk, settings, clock, random, holds)


def _bootstrap_records(disk: Disk, directory: str) -> list[WireStruct]:
    """Returns the records that an older `kafka-storage format` left for the first leader. Raises MetadataError or
    StorageError."""
    path = f"{directory}/{snapshot.BOOTSTRAP}"
    try:
        return snapshot.read(disk, path, needs_footer=False).records
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"reading {path}: {error}") from error


def _refuse_damaged(logs: LogManager, directory: str) -> None:
    """Raises MetadataError if the metadata log could not be opened because of what is in it, and not because its directory is
    offline or lacks room."""
    name = (CLUSTER_METADATA, 0)
    offline = any(each.failed is not None for each in logs.directories if each.path == directory)
    if name in logs.unavailable and name not in logs.opening.without_room and not offline:
        raise MetadataError(f"{logs.unavailable[name]}. {way_out(f'{directory}/{CLUSTER_METADATA}-0')}")


def _refuse_orphans(logs: LogManager, path: str) -> None:
    """Raises MetadataError if there are partitions but no metadata about them: it was lost, and a start with empty metadata would
    make every topic disappear.
    """
    held = sum(topic != CLUSTER_METADATA for topic, _ in (*logs.logs, *logs.unavailable))
    if held:
        raise MetadataError(
            f"{path} is empty, but there are {held} partitions beside it; restore it from a copy, or move the data away"
        )


def _directory_ids(logs: LogManager) -> dict[str, bytes]:
    """Returns the id of each log directory by its path."""
    return {path: uuid_from_text(meta.directory_id) for path, meta in logs.meta_properties().items() if meta is not None}


def _bootstrap_features() -> list[FeatureLevelRecord]:
    levels = {"metadata.version": METADATA_VERSION} | FORMATTED_FEATURES
    return [FeatureLevelRecord(name, level) for name, level in levels.items()]
