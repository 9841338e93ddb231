"""Does the first half of a start: opens directories and partitions, finds out the cluster, makes the parts that handlers use.

`open_cluster` is the only place that knows which implementation of Cluster a broker runs with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.log.errors import InconsistentMetadata
from ottla.server.base.randomness import random_uuid
from ottla.server.broker import optional_parts
from ottla.server.coordination.internal_topic import InternalTopicLog
from ottla.server.group.coordinator import GroupCoordinator
from ottla.server.group.coordinator_config import GroupCoordinatorConfig
from ottla.server.metadata.controller_settings import current_settings
from ottla.server.metadata.names import CONSUMER_OFFSETS
from ottla.server.metadata.opening import open_standalone
from ottla.server.partitions.fetch_sessions import UNLIMITED, FetchSessions
from ottla.server.partitions.replicas import Replicas
from ottla.server.requests.context import BrokerContext
from ottla.server.txn.producer_ids import ProducerIds
from ottla.wire.primitives import uuid_to_text

if TYPE_CHECKING:
    from random import Random

    from ottla.log.disk.files import Disk
    from ottla.log.management.manager import LogManager
    from ottla.server.base.clock import Clock
    from ottla.server.base.network import Network
    from ottla.server.metadata.cluster import Cluster
    from ottla.server.settings.broker_config import BrokerConfig


def format_directories(
    logs: LogManager, config: BrokerConfig, wanted_cluster_id: str | None, random: Random, network: Network
) -> str:
    """Checks that the locked log directories belong to this node and one cluster, formats empty ones, returns the cluster's id.

    Raises StorageError and its subclasses. Raises OSError if an address cannot be bound, before anything is formatted, so that
    such a start leaves nothing behind.
    """
    cluster_id = _agreed_cluster_id(logs, config, wanted_cluster_id) or uuid_to_text(random_uuid(random))
    if None in logs.meta_properties().values():
        for address in config.listeners:
            network.bind(address.host, address.port).close()
    logs.format(cluster_id, config.node_id)
    return cluster_id


def _agreed_cluster_id(logs: LogManager, config: BrokerConfig, wanted_cluster_id: str | None) -> str | None:
    """Returns the cluster id of the formatted directories, or else the one asked for; None if any will do.

    Raises InconsistentMetadata.
    """
    found = {meta.cluster_id for meta in logs.meta_properties().values() if meta is not None}
    if not found:
        return wanted_cluster_id
    cluster_id = found.pop()
    if found:
        raise InconsistentMetadata(f"the log directories belong to different clusters, {cluster_id} and {found.pop()}")
    if wanted_cluster_id not in (None, cluster_id):
        raise InconsistentMetadata(f"{', '.join(config.log_dirs)} belongs to cluster {cluster_id}, not to {wanted_cluster_id}")
    return cluster_id


async def open_partitions(logs: LogManager) -> None:
    """Opens every partition on disk. Raises StorageError.

    Recovery runs in a thread, because it may take minutes; if the start is cancelled meanwhile, by a signal, it ends at once.
    """
    if not logs.needs_recovery:
        logs.open_all()
        return
    opening = asyncio.get_running_loop().run_in_executor(None, logs.open_all)
    try:
        await asyncio.shield(opening)
    except asyncio.CancelledError:
        logs.stop_opening()
        await asyncio.wait([opening])
        opening.exception()  # retrieves the error that it may have met before it stopped
        raise


async def open_cluster(
    logs: LogManager, disk: Disk, config: BrokerConfig, cluster_id: str, clock: Clock, random: Random, network: Network
) -> Cluster:
    """Returns the cluster that the configuration asks for, with its image replayed. Raises MetadataError and StorageError.

    It is a cluster of only this broker; BrokerConfig refuses all others.
    """
    return open_standalone(logs, disk, config, cluster_id, clock, random, network)


def share_client_memory(values: Mapping[str, Any]) -> tuple[int, int]:
    """Returns how many bytes fetch sessions may hold, and how many connections, of ottla.client.memory.bytes."""
    whole = values["ottla.client.memory.bytes"]
    if whole < 0:
        return UNLIMITED, UNLIMITED
    return whole // 4, whole - whole // 4


def make_context(config: BrokerConfig, cluster: Cluster, logs: LogManager, clock: Clock, random: Random) -> BrokerContext:
    """Makes the parts of the broker; none of them follows the metadata image yet."""
    image, values = cluster.image, config.values
    settings = current_settings(config, image)
    replicas = Replicas(logs, image, settings, clock)
    offsets = InternalTopicLog(replicas, image, CONSUMER_OFFSETS)
    return BrokerContext(
        config=config,
        settings=settings,
        metadata=image,
        controller=cluster.controller,
        replicas=replicas,
        groups=GroupCoordinator(offsets, clock, GroupCoordinatorConfig.from_broker(values), config.node_id, image, random),
        producer_ids=ProducerIds(cluster.controller),
        fetch_sessions=FetchSessions(
            values["max.incremental.fetch.session.cache.slots"],
            clock.now_ms,
            random,
            share_client_memory(values)[0],
        ),
        clock=clock,
        random=random,
        optional_parts=optional_parts,
    )


def start_replicas(context: BrokerContext, cluster: Cluster, logs: LogManager) -> None:
    """Brings the logs in step with the metadata image.

    If there are several log directories, partitions may be moving between them; the code for that is loaded only then.
    """
    if len(context.config.log_dirs) == 1:
        context.replicas.start()
        return
    from ottla.server.partitions.log_dirs import LogDirs, promote

    promote(logs, context.metadata, context.config.node_id)
    context.replicas.start()
    context.log_dirs = LogDirs(logs, context.replicas, cluster, context.metadata, context.clock, context.settings)
    context.log_dirs.start()
