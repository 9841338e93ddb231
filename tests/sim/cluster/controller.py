"""A model of the controllers: what they decide about brokers and partitions, as plain rules over plain state.

It is one controller that leads a quorum nobody else votes in; what it writes down counts at once. Each decision is one batch of
the metadata log. The rules are those of Kafka's ClusterControlManager and ReplicationControlManager, without what a simulation
does not use: no eligible leader replicas, no unclean elections, no features to raise, no reassignment.

Every in-sync set that was ever in force is kept by partition epoch, for the checker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.server.metadata.image import TOPIC, UNASSIGNED
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import allocate_producer_ids, alter_partition, assign_replicas_to_dirs
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.messages.internal.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.producer_ids_record import ProducerIdsRecord
from ottla.wire.messages.internal.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ottla.wire.messages.internal.topic_record import TopicRecord
from ottla.wire.primitives import WireStruct
from tests.server.quorum.leaders_log import LeadersLog

NOBODY: Final = -1
SESSION_S: Final = 3.0
BLOCK: Final = 1000
_METADATA_VERSION: Final = 33


@dataclass
class BrokerState:
    """A registered broker, as the controllers know it."""

    broker_id: int
    epoch: int
    incarnation: bytes
    heard_at: float
    directories: list[bytes]
    fenced: bool = True
    leaving: bool = False

    @property
    def active(self) -> bool:
        """Returns whether it may lead and be in sync."""
        return not self.fenced and not self.leaving


@dataclass
class PartitionState:
    """A partition, as the controllers know it."""

    topic: str
    topic_id: bytes
    index: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int = 0
    epoch: int = 0
    directories: list[bytes] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"{self.topic}-{self.index}"


class Controller:
    """See the module's docstring. `now` is its clock, and `changed` is called after whatever it has written."""

    def __init__(self, now: Callable[[], float], changed: Callable[[], None]) -> None:
        self.epoch = 1
        self.log = LeadersLog()
        self.log.begin(self.epoch)
        self.log.name_voters(self.epoch)
        self.log.write(FeatureLevelRecord("metadata.version", _METADATA_VERSION), epoch=self.epoch)
        self.brokers: dict[int, BrokerState] = {}
        self.partitions: dict[tuple[bytes, int], PartitionState] = {}
        self.isrs: dict[tuple[str, int], frozenset[int]] = {}
        """The in-sync replicas by (key of the partition, partition epoch)."""
        self.claims: list[tuple[int, int]] = []
        """(node id, broker epoch) of stops that brokers called clean when they registered."""
        self.on_change: list[Callable[[PartitionState], object]] = []
        """Called with each partition that was made or changed, before anybody else knows."""
        self._now = now
        self._changed = changed
        self._next_producer_id = 0
        self._topics = 0

    def fail_over(self) -> None:
        """Another controller becomes the leader; sessions begin anew."""
        self.epoch += 1
        self.log.begin(self.epoch)
        for broker in self.brokers.values():
            broker.heard_at = self._now()
        self._changed()

    def answer(self, request: Any) -> WireStruct:
        """Returns the answer to a request of a broker."""
        return _ANSWERS[type(request)](self, request)

    def _write(self, *records: WireStruct) -> None:
        if records:
            self.log.write(*records, epoch=self.epoch)
            self._changed()

    # Brokers

    def register(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        """A new incarnation waits for the end of the old one's session. Its replicas may have lost what was not flushed, so it is
        in sync nowhere if others are."""
        known = self.brokers.get(request.broker_id)
        if known is not None and known.incarnation == request.incarnation_id:
            return BrokerRegistrationResponse(0, ErrorCode.NONE, known.epoch)
        if known is not None and self._now() - known.heard_at < SESSION_S and not known.fenced:
            return BrokerRegistrationResponse(0, ErrorCode.DUPLICATE_BROKER_REGISTRATION, -1)
        if request.previous_broker_epoch >= 0:
            self.claims.append((request.broker_id, request.previous_broker_epoch))
        epoch = self.log.end
        broker = BrokerState(request.broker_id, epoch, request.incarnation_id, self._now(), request.log_dirs)
        self.brokers[request.broker_id] = broker
        record = RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=epoch,
            end_points=[BrokerEndpoint(each.name, each.host, each.port, each.security_protocol) for each in request.listeners],
            features=[
                BrokerFeature(each.name, each.min_supported_version, each.max_supported_version) for each in request.features
            ],
            rack=request.rack,
            fenced=True,
            log_dirs=request.log_dirs,
        )
        self._write(record, *self._without(request.broker_id))
        return BrokerRegistrationResponse(0, ErrorCode.NONE, epoch)

    def beat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        """Keeps a session, unfences who is ready, lets go who wants to stop."""
        broker = self._current(request.broker_id, request.broker_epoch)
        if broker is None:
            return BrokerHeartbeatResponse(0, ErrorCode.STALE_BROKER_EPOCH)
        broker.heard_at = self._now()
        caught_up = request.current_metadata_offset >= broker.epoch
        if request.want_shut_down and not broker.leaving:
            broker.leaving = True
            change = BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, in_controlled_shutdown=1)
            self._write(change, *self._without(broker.broker_id))
        elif broker.fenced and not request.want_fence and not broker.leaving and caught_up:
            broker.fenced = False
            change = BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, fenced=-1)
            self._write(change, *self._elections())
        lets_go = broker.leaving and request.current_metadata_offset >= self.log.end - 1
        if lets_go:
            self.fence(broker)
        return BrokerHeartbeatResponse(0, ErrorCode.NONE, caught_up, broker.fenced, lets_go)

    def end_sessions(self) -> None:
        """Fences who was silent for too long."""
        for broker in list(self.brokers.values()):
            if not broker.fenced and self._now() - broker.heard_at > SESSION_S:
                self.fence(broker)

    def fence(self, broker: BrokerState) -> None:
        """Takes a broker out of all that it leads and is in sync with."""
        if not broker.fenced:
            broker.fenced = True
            change = BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, fenced=1)
            self._write(change, *self._without(broker.broker_id))

    def _current(self, broker_id: int, epoch: int) -> BrokerState | None:
        broker = self.brokers.get(broker_id)
        return broker if broker is not None and broker.epoch == epoch else None

    def _is_active(self, broker_id: int) -> bool:
        return broker_id in self.brokers and self.brokers[broker_id].active

    # Partitions

    def create_topic(self, name: str, partitions: Iterable[list[int]], **settings: str) -> None:
        """Makes a topic, with the replicas of each partition, and with _ for . in the names of its settings."""
        self._topics += 1
        topic_id = f"topic {self._topics}".encode().ljust(16, b".")
        records: list[WireStruct] = [TopicRecord(name, topic_id)]
        for index, replicas in enumerate(partitions):
            state = PartitionState(name, topic_id, index, replicas, list(replicas), replicas[0])
            state.directories = [self._only_directory(each) for each in replicas]
            self.partitions[topic_id, index] = state
            self._note(state)
            records.append(
                PartitionRecord(
                    index, topic_id, replicas, list(replicas), [], [], state.leader, 0, 0, 0, directories=list(state.directories)
                )
            )
        records += [ConfigRecord(TOPIC, name, key.replace("_", "."), value) for key, value in settings.items()]
        self._write(*records)

    def _only_directory(self, broker_id: int) -> bytes:
        """Returns the directory of a broker that has no other; a broker with several says itself which it takes (KIP-858)."""
        directories = self.brokers[broker_id].directories
        return directories[0] if len(directories) == 1 else UNASSIGNED

    def alter(self, request: alter_partition.AlterPartitionRequest) -> alter_partition.AlterPartitionResponse:
        """Takes in-sync replicas that leaders propose, each if the leader knows what counts now (KIP-497, KIP-841, KIP-903)."""
        if self._current(request.broker_id, request.broker_epoch) is None:
            return alter_partition.AlterPartitionResponse(0, ErrorCode.STALE_BROKER_EPOCH)
        topics = []
        for topic in request.topics:
            answers = [self._alter_one(request.broker_id, topic.topic_id, data) for data in topic.partitions]
            topics.append(alter_partition.ResponseTopicData(topic.topic_id, answers))
        return alter_partition.AlterPartitionResponse(0, ErrorCode.NONE, topics)

    def _alter_one(
        self, broker_id: int, topic_id: bytes, data: alter_partition.RequestPartitionData
    ) -> alter_partition.ResponsePartitionData:
        state = self.partitions.get((topic_id, data.partition_index))
        if state is None:
            return alter_partition.ResponsePartitionData(data.partition_index, ErrorCode.UNKNOWN_TOPIC_ID)
        isr = [each.broker_id for each in data.new_isr_with_epochs]
        code = self._why_not(state, broker_id, data)
        if code:
            return alter_partition.ResponsePartitionData(data.partition_index, code)
        if set(isr) != set(state.isr):
            self._write(self._change(state, isr=isr))
        return alter_partition.ResponsePartitionData(
            state.index, ErrorCode.NONE, state.leader, state.leader_epoch, list(state.isr), 0, state.epoch
        )

    def _why_not(self, state: PartitionState, broker_id: int, data: alter_partition.RequestPartitionData) -> ErrorCode:
        isr = data.new_isr_with_epochs
        ids = {each.broker_id for each in isr}
        if data.leader_epoch > state.leader_epoch or data.partition_epoch > state.epoch:
            return ErrorCode.NOT_CONTROLLER
        if data.leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if state.leader != broker_id or not ids <= set(state.replicas) or broker_id not in ids:
            return ErrorCode.INVALID_REQUEST
        if data.partition_epoch < state.epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for each in isr:
            known = each.broker_epoch in (-1, self.brokers[each.broker_id].epoch) if each.broker_id in self.brokers else False
            if not known or not self._is_active(each.broker_id):
                return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE

    def prefer(self, state: PartitionState) -> None:
        """Elects the preferred leader of a partition, if it is in sync."""
        preferred = state.replicas[0]
        if preferred in state.isr and preferred != state.leader and self._is_active(preferred):
            self._write(self._change(state, leader=preferred))

    def _without(self, broker_id: int) -> list[WireStruct]:
        """Takes a broker that is not active out of in-sync replicas, unless it is the last, and lets others lead."""
        records: list[WireStruct] = []
        for state in self.partitions.values():
            isr = [each for each in state.isr if each != broker_id] or state.isr
            leader = self._elect(state, isr) if state.leader == broker_id else None
            if isr != state.isr or leader is not None:
                records.append(self._change(state, isr=isr if isr != state.isr else None, leader=leader))
        return records

    def _elections(self) -> list[WireStruct]:
        """Elects leaders where there are none and one is in sync."""
        leaderless = [state for state in self.partitions.values() if state.leader == NOBODY]
        elected = [(state, self._elect(state, state.isr)) for state in leaderless]
        return [self._change(state, leader=leader) for state, leader in elected if leader != NOBODY]

    def _elect(self, state: PartitionState, isr: list[int]) -> int:
        return next((each for each in state.replicas if each in isr and self._is_active(each)), NOBODY)

    def _change(
        self,
        state: PartitionState,
        *,
        isr: list[int] | None = None,
        leader: int | None = None,
        directories: list[bytes] | None = None,
    ) -> PartitionChangeRecord:
        """Changes a partition and returns the record that says so."""
        record = PartitionChangeRecord(state.index, state.topic_id, isr, directories=directories)
        state.isr, state.directories = isr or state.isr, directories or state.directories
        state.epoch += 1
        if leader is not None:
            record.leader = state.leader = leader
            state.leader_epoch += 1
        self._note(state)
        return record

    def _note(self, state: PartitionState) -> None:
        self.isrs[state.key, state.epoch] = frozenset(state.isr)
        for call in self.on_change:
            call(state)

    # The rest

    def assign(
        self, request: assign_replicas_to_dirs.AssignReplicasToDirsRequest
    ) -> assign_replicas_to_dirs.AssignReplicasToDirsResponse:
        """Notes in which directories replicas lie."""
        if self._current(request.broker_id, request.broker_epoch) is None:
            return assign_replicas_to_dirs.AssignReplicasToDirsResponse(0, ErrorCode.STALE_BROKER_EPOCH)
        directories = []
        for directory in request.directories:
            topics = []
            for topic in directory.topics:
                answers = []
                for data in topic.partitions:
                    state = self.partitions[topic.topic_id, data.partition_index]
                    at = state.replicas.index(request.broker_id)
                    ids = [directory.id if place == at else each for place, each in enumerate(state.directories)]
                    if ids != state.directories:
                        self._write(self._change(state, directories=ids))
                    answers.append(assign_replicas_to_dirs.ResponsePartitionData(data.partition_index))
                topics.append(assign_replicas_to_dirs.ResponseTopicData(topic.topic_id, answers))
            directories.append(assign_replicas_to_dirs.ResponseDirectoryData(directory.id, topics))
        return assign_replicas_to_dirs.AssignReplicasToDirsResponse(directories=directories)

    def allocate(
        self, request: allocate_producer_ids.AllocateProducerIdsRequest
    ) -> allocate_producer_ids.AllocateProducerIdsResponse:
        """Gives a block of producer ids."""
        if self._current(request.broker_id, request.broker_epoch) is None:
            return allocate_producer_ids.AllocateProducerIdsResponse(0, ErrorCode.STALE_BROKER_EPOCH)
        first, self._next_producer_id = self._next_producer_id, self._next_producer_id + BLOCK
        self._write(ProducerIdsRecord(request.broker_id, request.broker_epoch, self._next_producer_id))
        return allocate_producer_ids.AllocateProducerIdsResponse(0, ErrorCode.NONE, first, BLOCK)


_ANSWERS: Final[dict[type, Callable[[Controller, Any], WireStruct]]] = {
    BrokerRegistrationRequest: Controller.register,
    BrokerHeartbeatRequest: Controller.beat,
    alter_partition.AlterPartitionRequest: Controller.alter,
    assign_replicas_to_dirs.AssignReplicasToDirsRequest: Controller.assign,
    allocate_producer_ids.AllocateProducerIdsRequest: Controller.allocate,
}
