"""ElectLeaders: the rules, as functions of the image. An administrator asks for elections; what the
start of a standalone broker elects is in standalone_elections.py.

There are two kinds, by Kafka's numbers. A *preferred* election (0) makes the first replica of a partition leader again, if it is
alive and has all that was committed; otherwise the leader stays or, if there is none, any replica with all that was committed
takes over. An *unclean* election (1) is for a partition without a leader: any replica that is alive becomes leader, and what only
the others had is lost.

The in-sync replicas have all that was committed; if there are none any more, the eligible leader replicas have it (KIP-966).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.server.base.turns import in_runs
from ottla.server.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from ottla.server.metadata.names import MAX_LENGTH
from ottla.server.metadata.operation import Outcome, Planning, Refused, check_size, check_time
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.primitives import WireStruct

PREFERRED: Final = 0
UNCLEAN: Final = 1
PARTITIONS_A_STEP: Final = 100
"""So many elections are planned before others may come first: about 0.2 ms."""
_NOT_ELECTED: Final = {
    PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


class Winner(NamedTuple):
    """The winner of an election. `clean` is False if committed records may be lost."""

    broker_id: int
    clean: bool


def elect_leaders(image: MetadataImage, alive: Container[int], request: ElectLeadersRequest) -> Planning[ElectLeadersResponse]:
    """Plans the elections of a request, each partition on its own; `alive` are the brokers that may lead. If the request has no
    topics (null), all partitions are meant, and those that need no election are not in the answer.
    """
    if request.topic_partitions is not None and not request.topic_partitions:
        return Outcome([], ElectLeadersResponse())
    try:
        check_time(request.timeout_ms)
        if request.election_type not in _NOT_ELECTED:
            raise Refused(ErrorCode.INVALID_REQUEST, f"There is no election of type {request.election_type}.")
        return (yield from _elect_all(image, alive, request))
    except Refused as refused:
        return Outcome([], refused_whole(request, refused.code, refused.message))


def refused_whole(request: ElectLeadersRequest, code: ErrorCode, message: str | None) -> ElectLeadersResponse:
    """Returns an answer with the same error for every partition of the request; version 0 has no other way to refuse it as a
    whole."""
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(topic.topic, [PartitionResult(index, code, message) for index in topic.partitions])
            for topic in request.topic_partitions or ()
        ],
    )


def _elect_all(image: MetadataImage, alive: Container[int], request: ElectLeadersRequest) -> Planning[ElectLeadersResponse]:
    everything = request.topic_partitions is None
    elected: dict[tuple[str, int], tuple[PartitionImage | None, WireStruct]] = {}
    results = []
    for name, indexes in _wanted(image, request):
        partition_results: list[PartitionResult] = []
        for run in in_runs(indexes, PARTITIONS_A_STEP):
            topic = image.topics.get(name)
            for index in run:
                code, message = ErrorCode.NONE, None
                if (name, index) not in elected:
                    try:
                        record = _elect(topic, alive, request.election_type, name, index)
                        elected[name, index] = image.partition(name, index), record
                    except Refused as refused:
                        if everything and (topic is None or refused.code is ErrorCode.ELECTION_NOT_NEEDED):
                            continue
                        code, message = refused.code, refused.message
                partition_results.append(PartitionResult(index, code, message))
            check_size(len(elected))
            yield None
        yield None
        results.append(ReplicaElectionResult(name, partition_results))

    def holds() -> bool:
        return all(image.partition(*name) is partition for name, (partition, _) in elected.items())

    records = [record for _, record in elected.values()]
    return Outcome(records, ElectLeadersResponse(replica_election_results=results), holds)


def _wanted(image: MetadataImage, request: ElectLeadersRequest) -> Iterator[tuple[str, Sequence[int]]]:
    """Yields the topics of a request, or all that there are when their turn comes, with the partitions that are meant."""
    if request.topic_partitions is not None:
        for each in request.topic_partitions:
            yield each.topic, each.partitions
        return
    for name in list(image.topics):
        topic = image.topics.get(name)
        if topic is not None:
            yield name, list(topic.partitions)


def _elect(topic: TopicImage | None, alive: Container[int], kind: int, name: str, index: int) -> PartitionChangeRecord:
    """Returns the record of one partition's election; `topic` is the topic of this name. Raises Refused with 3
    UNKNOWN_TOPIC_OR_PARTITION, 80 PREFERRED_LEADER_NOT_AVAILABLE, 83 ELIGIBLE_LEADERS_NOT_AVAILABLE or 84 ELECTION_NOT_NEEDED.
    """
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name[:MAX_LENGTH]}.")
    if index not in topic.partitions:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name} has no partition {index}.")
    partition = topic.partitions[index]
    if partition.leader == partition.replicas[0] if kind == PREFERRED else partition.leader != NO_LEADER:
        raise Refused(ErrorCode.ELECTION_NOT_NEEDED, "The partition has such a leader already.")
    winner = _winner(partition, alive, kind)
    if winner is None or winner.broker_id == partition.leader:
        raise Refused(_NOT_ELECTED[kind], "No replica that could take over is alive.")
    return _record(topic.topic_id, index, partition, winner)


def _winner(partition: PartitionImage, alive: Container[int], kind: int) -> Winner | None:
    complete = partition.isr or partition.elr
    candidates = [partition.leader, *partition.replicas]
    if kind == PREFERRED:
        candidates.insert(0, partition.replicas[0])
    for broker_id in candidates:
        if broker_id in complete and broker_id in alive:
            return Winner(broker_id, True)
    if not complete and len(partition.last_known_elr) == 1 and partition.last_known_elr[0] in alive:
        return Winner(partition.last_known_elr[0], False)
    if kind == UNCLEAN:
        for broker_id in partition.replicas:
            if broker_id in alive:
                return Winner(broker_id, False)
    return None


def _record(topic_id: bytes, index: int, partition: PartitionImage, winner: Winner) -> PartitionChangeRecord:
    """Returns the record that makes the winner leader. After an unclean election it is the only in-sync replica. Kafka then marks
    the partition as recovering until its leader reports that it has checked its log; ottla's leader has nothing to check and is
    not marked.
    """
    record = PartitionChangeRecord(index, topic_id, leader=winner.broker_id)
    if not winner.clean or winner.broker_id not in partition.isr:
        record.isr = [winner.broker_id]
    elr = [broker_id for broker_id in partition.elr if winner.clean and broker_id != winner.broker_id]
    if elr != list(partition.elr):
        record.eligible_leader_replicas = elr
    if partition.last_known_elr:
        record.last_known_elr = []
    return record
