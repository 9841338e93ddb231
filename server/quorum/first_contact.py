"""Asks the controllers whether a cluster id is theirs, before a broker formats its log directories for that cluster.

A directory is formatted for life, so a mistyped id must not be written into one. A Fetch of the metadata log is refused by the
controllers of another cluster (INCONSISTENT_CLUSTER_ID) before they look at anything else in it, whether they lead or not. This
one is of nobody, since the broker has no directory id to name yet. Any other answer about the log means that the id is right.

Until a controller answers, nothing is written and nothing is served; the log says once in a while what it waits for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.base.clock import sleep
from ottla.server.metadata.cluster import CannotJoin
from ottla.server.metadata.metadata_log import TOPIC_ID
from ottla.server.metadata.names import CLUSTER_METADATA
from ottla.server.peers.outcomes import Disconnected, PeerError, UnsupportedVersion
from ottla.server.peers.peer import Peer, PeerSettings
from ottla.server.quorum.cluster import quorum_addresses
from ottla.server.quorum.controller_outage import ControllerOutage
from ottla.server.quorum.controllers import Controllers
from ottla.server.quorum.finder import Finder
from ottla.server.quorum.metadata_fetcher import OLDEST_FETCH
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

if TYPE_CHECKING:
    from random import Random

    from ottla.server.base.clock import Clock
    from ottla.server.base.network import Network
    from ottla.server.security.client import ClientSecurity
    from ottla.server.settings.broker_config import BrokerConfig

_OF_A_CONTROLLER = frozenset(
    (
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.BROKER_NOT_AVAILABLE,
    )
)
"""The error codes that a controller may answer about the metadata log. A broker's listener answers that it does not know that
topic."""


async def ask_for_cluster(
    config: BrokerConfig,
    cluster_id: str,
    clock: Clock,
    random: Random,
    network: Network,
    security: ClientSecurity | None = None,
) -> None:
    """Returns when a controller has taken the cluster id. Raises CannotJoin if one belongs to another cluster."""
    settings = PeerSettings.from_broker(config.values)
    client_id = f"broker-{config.node_id}-metadata-fetcher"
    controllers = Controllers(
        lambda address: Peer(
            *address, client_id, network=network, clock=clock, random=random, settings=settings, security=security
        )
    )
    timeout_ms = config.values["controller.quorum.request.timeout.ms"]
    retry_ms = config.values["controller.quorum.retry.backoff.ms"]
    try:
        await until_one_agrees(Finder(*quorum_addresses(config), random), controllers, cluster_id, clock, timeout_ms, retry_ms)
    finally:
        await controllers.close()


async def until_one_agrees(
    finder: Finder, controllers: Controllers, cluster_id: str, clock: Clock, timeout_ms: int, retry_ms: int
) -> None:
    """Asks one controller after the other until one answers. Raises CannotJoin if that belongs to another cluster."""
    outage = ControllerOutage(clock)
    partition = FetchPartition(partition=0, current_leader_epoch=0, fetch_offset=0, last_fetched_epoch=0)
    topic = FetchTopic(CLUSTER_METADATA, TOPIC_ID, [partition])
    request = FetchRequest(cluster_id=cluster_id, max_wait_ms=0, topics=[topic])
    while True:
        address = finder.whom_to_ask()
        try:
            answer: FetchResponse = await controllers.at(address).call(request, timeout_ms, min_version=OLDEST_FETCH)
            if answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
                raise CannotJoin(
                    f"--cluster-id: {address} belongs to another cluster than {cluster_id}, so nothing was formatted; give the "
                    "id of that cluster, or check controller.quorum.bootstrap.servers"
                )
            codes = [answer.error_code, *(each.error_code for topic in answer.responses for each in topic.partitions)]
            if _OF_A_CONTROLLER.issuperset(codes):
                return
            outage.go_on(Disconnected(f"{address} is no controller: it answers a Fetch of the metadata with error {codes[-1]}"))
        except UnsupportedVersion as error:
            outage.go_on(error)
        except PeerError as error:
            outage.go_on(error)
            continue  # the peer itself makes pauses
        await sleep(clock, retry_ms / 1000)
