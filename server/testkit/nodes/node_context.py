"""The parts of the broker from which the requests at one simulated node are served, except for what a real node has of its own,
which are its id, its sessions, and the share partitions that it leads.

A copy of the context would make the parts a second time that are made when they are first used, so everything else is looked up
in the broker's context, and set there. It is a BrokerContext, because compiled handlers insist on that. A test fails if a part
that the broker has is neither here nor a node's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from ottla.server.requests.context import BrokerContext

if TYPE_CHECKING:
    from ottla.server.partitions.fetch_sessions import FetchSessions
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.server.share.share_partitions import SharePartitions
    from ottla.server.testkit.nodes.near_replicas import NearReplicas

OWN: Final = frozenset({"config", "fetch_sessions", "read_replicas"})
"""The fields that a node has of its own."""


class _Shared:
    """Stands for a field, property or method of the broker's context, by the name that this has in the class."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, context: NodeContext, owner: type) -> Any:
        return getattr(context.shared, self._name)

    def __set__(self, context: NodeContext, value: object) -> None:
        setattr(context.shared, self._name, value)


def _shared() -> Any:
    return _Shared()


class NodeContext(BrokerContext):
    """The context of one node. `shared` is the broker's."""

    __slots__ = ("_share_partitions", "shared")

    def __init__(
        self, shared: BrokerContext, config: BrokerConfig, fetch_sessions: FetchSessions, read_replicas: NearReplicas | None
    ) -> None:
        self.shared = shared
        self.config = config
        self.fetch_sessions = fetch_sessions
        self.read_replicas = cast(Any, read_replicas)  # which chooses as RackAware does
        self._share_partitions: SharePartitions | None = None

    def share_partitions(self) -> SharePartitions:
        """Returns the share partitions that this node leads."""
        if self._share_partitions is None:
            # not loaded as long as nobody uses share groups
            from ottla.server.testkit.nodes.node_share import NodeSharePartitions

            self._share_partitions = NodeSharePartitions(self.shared.share_partitions(), self.config.node_id)
        return self._share_partitions

    # What every broker has

    settings = _shared()
    metadata = _shared()
    controller = _shared()
    replicas = _shared()
    producer_ids = _shared()
    clock = _shared()
    random = _shared()
    optional_parts = _shared()
    kept_answers = _shared()
    long_answers = _shared()
    purgatory = _shared()
    started_ms = _shared()
    refused_requests = _shared()

    # What a broker may have

    quotas = _shared()
    fetchers = _shared()
    other_brokers = _shared()
    leading = _shared()
    authorizer = _shared()
    log_dirs = _shared()

    # What is made when it is first needed, and what has been made

    admission = _shared()
    groups = _shared()
    close_groups = _shared()
    transaction_coordinator = _shared()
    transaction_verifier = _shared()
    share_coordinator = _shared()
    share_persister = _shared()
    latest_offsets = _shared()
    share_group_state = _shared()
    client_telemetry = _shared()
    flushing = _shared()
    workers = _shared()
    pattern_workers = _shared()
    existing_admission = _shared()
    existing_client_telemetry = _shared()
    existing_groups = _shared()
    existing_transaction_coordinator = _shared()
    existing_transaction_verifier = _shared()
    existing_share_coordinator = _shared()
    existing_share_persister = _shared()
    existing_share_group_state = _shared()
    existing_latest_offsets = _shared()
    existing_share_partitions = _shared()
    existing_flushing = _shared()
    existing_workers = _shared()
    existing_pattern_workers = _shared()
