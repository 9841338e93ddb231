"""Does the first half of a start: opens directories and partitions, finds out the cluster, makes the parts that handlers use; and
lets these come to rest at the end.

`open_cluster` is the only place in the broker that knows which implementation of Cluster it runs with; a test may hand in one of
its own (`make`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.log.errors import InconsistentMetadata
from ottla.log.management.identity import check_owner, read_identities
from ottla.server.base.randomness import random_uuid
from ottla.server.broker import optional_parts
from ottla.server.metadata.cluster import CannotJoin
from ottla.server.metadata.controller_settings import current_settings
from ottla.server.metadata.image import Endpoint
from ottla.server.metadata.opening import MakeCluster, open_standalone
from ottla.server.partitions.fetch_sessions import UNLIMITED, FetchSessions
from ottla.server.partitions.replicas import Replicas
from ottla.server.requests.context import BrokerContext
from ottla.server.settings.listeners import PROTOCOLS
from ottla.server.txn.producer_ids import ProducerIds
from ottla.wire.primitives import uuid_to_text

if TYPE_CHECKING:
    from random import Random

    from ottla.log.config import LogConfig
    from ottla.log.disk.checkpoint import MetaProperties
    from ottla.log.disk.files import Disk
    from ottla.log.management.manager import LogManager
    from ottla.server.base.clock import Clock
    from ottla.server.base.network import Network
    from ottla.server.metadata.cluster import Cluster
    from ottla.server.network.listener import Listener
    from ottla.server.partitions.replica import Replica
    from ottla.server.replication.fetchers import Fetchers
    from ottla.server.security.client import ClientSecurity
    from ottla.server.settings.broker_config import BrokerConfig


def format_directories(
    logs: LogManager, config: BrokerConfig, wanted_cluster_id: str | None, random: Random, network: Network
) -> str:
    """Checks that the locked log directories belong to this node and one cluster, formats empty ones, returns the cluster's id.

    Raises StorageError and its subclasses. Raises OSError if an address cannot be bound, before anything is formatted, so that
    such a start leaves nothing behind.
    """
    found = logs.meta_properties().values()
    agreed = _agreed_cluster_id([meta for meta in found if meta is not None], config, wanted_cluster_id)
    cluster_id = agreed or uuid_to_text(random_uuid(random))
    if None in found:
        for address in config.listeners:
            network.bind(address.host, address.port).close()
    logs.format(cluster_id, config.node_id)
    return cluster_id


async def check_membership(
    disk: Disk,
    config: BrokerConfig,
    wanted_cluster_id: str | None,
    clock: Clock,
    random: Random,
    network: Network,
    security: ClientSecurity | None = None,
) -> None:
    """Makes sure that a broker whose controllers are others may use its log directories, before anything is written to them: they
    are its own and, if some have to be formatted, a controller of their cluster answers. Waits until one does.

    Raises CannotJoin and InconsistentMetadata.
    """
    found = read_identities(disk, config.all_log_dirs)
    cluster_id = _agreed_cluster_id(found.formatted.values(), config, wanted_cluster_id)
    if cluster_id is None:
        raise CannotJoin(
            f"log.dirs: {', '.join(config.log_dirs)} is not formatted, so its cluster is not known; format it with "
            "`ottla format --cluster-id ID --config FILE` or kafka-storage.sh, or start with --cluster-id"
        )
    check_owner(found.formatted, cluster_id, config.node_id)
    if found.new:
        from ottla.server.quorum.first_contact import ask_for_cluster  # loaded only by such a broker's first start

        await ask_for_cluster(config, cluster_id, clock, random, network, security)


def _agreed_cluster_id(formatted: Iterable[MetaProperties], config: BrokerConfig, wanted_cluster_id: str | None) -> str | None:
    """Returns the cluster id of the formatted directories, or else the one asked for; None if any will do.

    Raises InconsistentMetadata.
    """
    found = {meta.cluster_id for meta in formatted}
    if not found:
        return wanted_cluster_id
    cluster_id = found.pop()
    if found:
        raise InconsistentMetadata(f"the log directories belong to different clusters, {cluster_id} and {found.pop()}")
    if wanted_cluster_id not in (None, cluster_id):
        raise InconsistentMetadata(f"{', '.join(config.log_dirs)} belongs to cluster {cluster_id}, not to {wanted_cluster_id}")
    return cluster_id


def recovery_config(disk: Disk, config: BrokerConfig, topic: str) -> LogConfig:
    """Returns a topic's settings for a log in which recovery has found damage, before the metadata is loaded. Any thread may
    call this."""
    from ottla.server.metadata.recovery_settings import read_topic_settings  # imported here, because damage is rare

    return read_topic_settings(disk, config, topic)


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
    logs: LogManager,
    disk: Disk,
    config: BrokerConfig,
    cluster_id: str,
    clock: Clock,
    random: Random,
    network: Network,
    security: ClientSecurity | None = None,
    make: MakeCluster | None = None,
) -> Cluster:
    """Returns the cluster that the configuration asks for, with its image replayed. `security` is that of connections to the
    controllers, where those are others. Raises MetadataError and StorageError.

    It is a cluster of only this broker, which `make` makes if a test says so, or one whose controllers are others
    (process.roles=broker).
    """
    if config.follows_controllers:
        from ottla.server.quorum.cluster import open_quorum  # loaded only by a broker of such a cluster

        return open_quorum(logs, disk, config, cluster_id, clock, random, network, security)
    return open_standalone(logs, disk, config, cluster_id, clock, random, network, make)


class NodeSecurity(NamedTuple):
    """The security of this broker's connections to other nodes; None is plain text."""

    controllers: ClientSecurity | None = None
    brokers: ClientSecurity | None = None


def secure_connections(config: BrokerConfig, disk: Disk, clock: Clock, random: Random) -> NodeSecurity:
    """Returns how to connect to the other nodes of the cluster. Raises ConfigError. The code for what is not plain text is loaded
    only where it is used."""
    if not config.follows_controllers or {config.controllers_protocol, config.inter_broker_protocol} == {"PLAINTEXT"}:
        return NodeSecurity()
    from ottla.server.broker.node_security import towards_brokers, towards_controllers

    return NodeSecurity(
        towards_controllers(config, disk, clock, random) if config.controllers_protocol != "PLAINTEXT" else None,
        towards_brokers(config, disk, clock, random) if config.inter_broker_protocol != "PLAINTEXT" else None,
    )


class Shares(NamedTuple):
    """The bytes of ottla.client.memory.bytes that each of these may hold."""

    connections: int
    fetch_sessions: int
    """Including share sessions, which may have half of it (optional_parts.py)."""
    producers: int


def share_client_memory(values: Mapping[str, Any]) -> Shares:
    """Returns the shares: half of it is for connections, whose demand jumps."""
    whole = values["ottla.client.memory.bytes"]
    return Shares(UNLIMITED, UNLIMITED, UNLIMITED) if whole < 0 else Shares(whole // 2, whole // 4, whole // 4)


def make_context(
    config: BrokerConfig,
    cluster: Cluster,
    logs: LogManager,
    clock: Clock,
    random: Random,
    nodes: AbstractSet[int] | None = None,
) -> BrokerContext:
    """Makes the parts of the broker; none of them follows the metadata image yet. `nodes` are the broker ids that stand for it,
    if a test has it simulate several."""
    image, values = cluster.image, config.values
    settings = current_settings(config, image)
    replicas = Replicas(logs, image, settings, clock, nodes=nodes)
    return BrokerContext(
        config=config,
        settings=settings,
        metadata=image,
        controller=cluster.controller,
        replicas=replicas,
        producer_ids=ProducerIds(cluster.controller, ahead=config.follows_controllers),
        fetch_sessions=make_fetch_sessions(values, clock, random),
        clock=clock,
        random=random,
        optional_parts=optional_parts,
    )


def make_fetch_sessions(values: Mapping[str, Any], clock: Clock, random: Random) -> FetchSessions:
    """Returns a cache of fetch sessions, as large as the settings say."""
    slots = values["max.incremental.fetch.session.cache.slots"]
    return FetchSessions(slots, clock.now_ms, random, share_client_memory(values).fetch_sessions)


def find_endpoints(config: BrokerConfig, listeners: Iterable[Listener], network: Network) -> list[Endpoint]:
    """Returns what the broker registers: the addresses at which clients reach its listeners, which are open."""
    endpoints = []
    for listener in listeners:
        address = config.advertised_for(listener.name, listener.port, network)
        endpoints.append(Endpoint(address.name, address.host, address.port, PROTOCOLS[address.protocol]))
    return endpoints


def follow_partitions(context: BrokerContext, cluster: Cluster, network: Network, security: ClientSecurity | None = None) -> None:
    """Has the partitions that other brokers lead fetched from them; it is called before the replicas are started. A broker that
    is its own controller does nothing here."""
    if not context.config.follows_controllers:
        return
    from ottla.server.replication.fetchers import Fetchers
    from ottla.server.replication.settings import FetchSettings

    config = context.config
    if security is not None:
        from ottla.server.broker.node_security import follow_settings

        follow_settings(security, context.settings)
    context.fetchers = Fetchers(
        FetchSettings.from_broker(config.node_id, config.values),
        config.inter_broker_listener,
        context.metadata,
        context.clock,
        context.random,
        network,
        security,
    )
    context.replicas.on_role = context.fetchers.update
    _repair_replicas(context, cluster, context.fetchers)


def _repair_replicas(context: BrokerContext, cluster: Cluster, fetchers: Fetchers) -> None:
    """Has damaged replicas of internal topics led by others, and fetched again from them."""
    if cluster.withdrawals is None:
        return
    from ottla.server.replication.repairs import Repairs

    ids = context.replicas.logs.directory_ids
    repairs = Repairs(context.config.node_id, context.metadata, cluster.withdrawals, ids.__getitem__, fetchers.begin_anew)

    def on_role(replica: Replica) -> None:
        repairs.update(replica)  # first, since it may cut the log that is to be fetched
        fetchers.update(replica)

    context.replicas.on_role = on_role
    context.replicas.on_damage = repairs.note_damage


def reach_other_brokers(context: BrokerContext, network: Network, security: ClientSecurity | None = None) -> None:
    """Lets the coordinators of this broker ask other brokers. A broker that is its own controller does nothing here."""
    config = context.config
    if not config.follows_controllers:
        return
    from ottla.server.interbroker.other_brokers import OtherBrokers

    context.other_brokers = OtherBrokers(config, context.metadata, context.clock, context.random, network, security)


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


def lead_partitions(context: BrokerContext, cluster: Cluster) -> None:
    """Has the in-sync replicas of partitions kept that this broker leads and others follow; it is called before the replicas are
    started. A broker that is its own controller does nothing here."""
    if cluster.isr_changes is None:
        return
    from ottla.server.replication.leading import Leading, LeadingSettings
    from ottla.server.replication.read_replicas import RACK_AWARE, RackAware

    node_id, values = context.config.node_id, context.config.values
    leading = Leading(node_id, context.metadata, context.clock, cluster.isr_changes, LeadingSettings.from_broker(values))
    context.leading = leading
    context.replicas.keep_isr = leading.keep_isr
    if values["replica.selector.class"] == RACK_AWARE:
        context.read_replicas = RackAware(node_id, context.metadata)


async def settle(context: BrokerContext) -> None:
    """Waits for what runs in threads, which has to end before the logs are closed: flushes, and openings that came late."""
    await context.replicas.end_reopening()
    if context.existing_flushing is not None:
        await context.existing_flushing.settle()
