"""Holds the parts of the broker that handlers use. They come with each request (server/requests/request.py).

In this way handlers import none of the layers above them, and a handler's test builds a BrokerContext from just the parts that it
needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ottla.server.partitions.purgatory import Purgatory
from ottla.server.requests.kept_answers import KeptAnswers
from ottla.server.requests.long_answers import LongAnswers

if TYPE_CHECKING:
    from random import Random

    from ottla.server.base.clock import Clock
    from ottla.server.base.turns import Workers
    from ottla.server.group.coordinator import GroupCoordinator
    from ottla.server.interbroker.latest_offsets import LatestOffsets
    from ottla.server.interbroker.other_brokers import OtherBrokers
    from ottla.server.interbroker.share_persister import SharePersister
    from ottla.server.metadata.controller import Controller
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.metadata.operation import Permits
    from ottla.server.partitions.fetch_sessions import FetchSessions
    from ottla.server.partitions.flushing import Flushing
    from ottla.server.partitions.log_dirs import LogDirs
    from ottla.server.partitions.replicas import Replicas
    from ottla.server.replication.fetchers import Fetchers
    from ottla.server.replication.leading import Leading
    from ottla.server.replication.read_replicas import RackAware
    from ottla.server.requests.admission import Admission
    from ottla.server.requests.session import Session
    from ottla.server.security.authorizer import Authorizer
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.server.settings.current import CurrentSettings
    from ottla.server.share.group_state import ShareGroupState
    from ottla.server.share.share_partitions import SharePartitions
    from ottla.server.share_state.coordinator import ShareCoordinator
    from ottla.server.telemetry.subscriptions import ClientTelemetry
    from ottla.server.txn.coordinator import TransactionCoordinator
    from ottla.server.txn.producer_ids import ProducerIds
    from ottla.server.txn.verification import Verifier


class ClientQuotas(Protocol):
    """Declares what handlers need of the clients' quotas (server/quotas)."""

    def charge_fetch(self, session: Session, client_id: str | None, size: int) -> int:
        """Counts a Fetch that would be answered with `size` bytes; returns how many ms the client has to wait instead, or 0."""
        ...

    def permits(self, session: Session, client_id: str | None, *, strict: bool) -> Permits:
        """Returns the permits of a request that creates or deletes partitions; a strict one refuses when nothing is left."""
        ...

    def used(self, quota: str) -> list[tuple[tuple[str, str], float]]:
        """Returns, for the metrics, what the clients that share a limit of this quota use per second, or have left of it.

        A share is (user, client id), where "" stands for any.
        """
        ...


class OptionalParts(Protocol):
    """Makes the parts that most brokers never need from those that every broker has (server/broker/optional_parts.py).

    Their code is imported when they are first asked for, so a broker that needs none of them pays for none.
    """

    def group_coordinator(self, broker: BrokerContext, /) -> GroupCoordinator: ...

    def transaction_coordinator(self, broker: BrokerContext, /) -> TransactionCoordinator: ...

    def transaction_verifier(self, broker: BrokerContext, /) -> Verifier: ...

    def share_coordinator(self, broker: BrokerContext, /) -> ShareCoordinator: ...

    def share_persister(self, broker: BrokerContext, /) -> ShareCoordinator | SharePersister: ...

    def latest_offsets(self, broker: BrokerContext, /) -> LatestOffsets | None: ...

    def share_group_state(self, broker: BrokerContext, /) -> ShareGroupState: ...

    def share_partitions(self, broker: BrokerContext, /) -> SharePartitions: ...

    def client_telemetry(self, broker: BrokerContext, /) -> ClientTelemetry: ...

    def flushing(self, broker: BrokerContext, /) -> Flushing: ...

    def workers(self) -> Workers: ...

    def pattern_workers(self) -> Workers: ...


@dataclass(slots=True, eq=False, repr=False)  # each of these methods takes half a millisecond of every start
class BrokerContext:
    """Holds the parts of one running broker.

    A part that most brokers never need, such as the transaction coordinator, is made by the call of its name; the field
    `existing_transaction_coordinator` has it if somebody has called, for those who do nothing without it. Only `groups` is made
    when it is first looked at, because more than a fourth of all handlers name it.
    """

    config: BrokerConfig
    """The settings that the broker was started with."""
    settings: CurrentSettings
    """The settings as they are now."""
    metadata: MetadataImage
    controller: Controller
    replicas: Replicas
    producer_ids: ProducerIds
    fetch_sessions: FetchSessions
    clock: Clock
    random: Random
    """The source of everything random (server/base/randomness.py)."""
    optional_parts: OptionalParts
    kept_answers: KeptAnswers = field(default_factory=KeptAnswers)
    long_answers: LongAnswers = field(init=False)
    purgatory: Purgatory = field(init=False)
    started_ms: int = field(init=False)
    """The time at which the broker started, in ms since 1970 by its clock."""

    def __post_init__(self) -> None:
        self.started_ms = self.clock.now_ms()
        self.long_answers = LongAnswers(self.config.values["ottla.response.max.bytes"])
        self.purgatory = Purgatory(self.clock)

    refused_requests: int = 0
    """The number of requests that had more items than ottla.request.max.items."""
    existing_admission: Admission | None = None
    """None until a request is about thousands of things; see `admission`."""
    existing_client_telemetry: ClientTelemetry | None = None
    """None until a client asks for its subscriptions; see `client_telemetry`."""
    quotas: ClientQuotas | None = None
    """None as long as no client has a quota."""
    read_replicas: RackAware | None = None
    """None without `replica.selector.class`, since then all consumers read from leaders."""
    fetchers: Fetchers | None = None
    """None where this broker is its own controller, since it follows nobody then."""
    other_brokers: OtherBrokers | None = None
    """None where this broker is its own controller, since there are no others then."""
    leading: Leading | None = None
    """None where this broker is its own controller, since nobody follows it then."""
    authorizer: Authorizer | None = None
    """None if everybody may do everything (`authorizer.class.name` is not set)."""
    log_dirs: LogDirs | None = None
    """None if there is only one log directory, since then nothing can be moved."""
    existing_groups: GroupCoordinator | None = None
    """None until a request concerns groups, or `__consumer_offsets` exists; see `groups`."""
    existing_transaction_coordinator: TransactionCoordinator | None = None
    """None until a request concerns transactions; see `transaction_coordinator`."""
    existing_transaction_verifier: Verifier | None = None
    """None until a batch of a transaction is produced; see `transaction_verifier`."""
    existing_share_coordinator: ShareCoordinator | None = None
    """None until a request concerns share groups; see `share_coordinator`."""
    existing_share_persister: ShareCoordinator | SharePersister | None = None
    """None until somebody needs the state of share groups; see `share_persister`."""
    existing_share_group_state: ShareGroupState | None = None
    """None until a share group begins in partitions, or ends in them; see `share_group_state`."""
    existing_latest_offsets: LatestOffsets | None = None
    """None until a share group is described whose partitions other brokers lead; see `latest_offsets`."""
    existing_share_partitions: SharePartitions | None = None
    """None until a member of a share group fetches; see `share_partitions`."""
    existing_flushing: Flushing | None = None
    """None until an answer has to wait for an fsync; see `flushing`."""
    existing_workers: Workers | None = None
    """None until a request asks for more work than fits into a turn; see `workers`."""
    existing_pattern_workers: Workers | None = None
    """None until a client's regular expression meets long texts; see `pattern_workers`."""

    def admission(self) -> Admission:
        """Returns what admits requests about thousands of things; the first call makes it."""
        if self.existing_admission is None:
            from ottla.server.requests.admission import Admission  # not loaded as long as requests are small

            self.existing_admission = Admission(self.clock)
        return self.existing_admission

    @property
    def groups(self) -> GroupCoordinator:
        """Returns the group coordinator of this broker; the first look makes it."""
        if self.existing_groups is None:
            self.existing_groups = self.optional_parts.group_coordinator(self)
        return self.existing_groups

    def close_groups(self) -> None:
        """Closes the group coordinator if it was made."""
        if self.existing_groups is not None:
            self.existing_groups.close()

    def transaction_coordinator(self) -> TransactionCoordinator:
        """Returns the transaction coordinator of this broker; the first call opens it."""
        if self.existing_transaction_coordinator is None:
            self.existing_transaction_coordinator = self.optional_parts.transaction_coordinator(self)
        return self.existing_transaction_coordinator

    def transaction_verifier(self) -> Verifier:
        """Returns what asks the coordinator of a transaction, here or on another broker; the first call makes it."""
        if self.existing_transaction_verifier is None:
            self.existing_transaction_verifier = self.optional_parts.transaction_verifier(self)
        return self.existing_transaction_verifier

    def share_coordinator(self) -> ShareCoordinator:
        """Returns the share coordinator of this broker; the first call opens it."""
        if self.existing_share_coordinator is None:
            self.existing_share_coordinator = self.optional_parts.share_coordinator(self)
        return self.existing_share_coordinator

    def share_persister(self) -> ShareCoordinator | SharePersister:
        """Returns what reads and writes the state of share groups, here or on another broker; the first call makes it."""
        if self.existing_share_persister is None:
            self.existing_share_persister = self.optional_parts.share_persister(self)
        return self.existing_share_persister

    def latest_offsets(self) -> LatestOffsets | None:
        """Returns what asks other brokers how far their partitions go; None if there are no others."""
        if self.existing_latest_offsets is None:
            self.existing_latest_offsets = self.optional_parts.latest_offsets(self)
        return self.existing_latest_offsets

    def share_group_state(self) -> ShareGroupState:
        """Returns what carries out, in the share coordinator, decisions of a group's coordinator; the first call makes it."""
        if self.existing_share_group_state is None:
            self.existing_share_group_state = self.optional_parts.share_group_state(self)
        return self.existing_share_group_state

    def share_partitions(self) -> SharePartitions:
        """Returns the share partitions that this broker leads; the first call makes them."""
        if self.existing_share_partitions is None:
            self.existing_share_partitions = self.optional_parts.share_partitions(self)
        return self.existing_share_partitions

    def client_telemetry(self) -> ClientTelemetry:
        """Returns the telemetry of clients; the first call makes it."""
        if self.existing_client_telemetry is None:
            self.existing_client_telemetry = self.optional_parts.client_telemetry(self)
        return self.existing_client_telemetry

    def flushing(self) -> Flushing:
        """Returns what flushes logs for answers that wait; the first call makes it."""
        if self.existing_flushing is None:
            self.existing_flushing = self.optional_parts.flushing(self)
        return self.existing_flushing

    def workers(self) -> Workers:
        """Returns what does work that is too long for the event loop in threads; the first call makes it."""
        if self.existing_workers is None:
            self.existing_workers = self.optional_parts.workers()
        return self.existing_workers

    def pattern_workers(self) -> Workers:
        """Returns what matches clients' regular expressions in a thread of their own, so that no Produce waits behind them; the
        first call makes it."""
        if self.existing_pattern_workers is None:
            self.existing_pattern_workers = self.optional_parts.pattern_workers()
        return self.existing_pattern_workers
