"""Metadata v0-13 lists the brokers, and the topics that a client asks for with the leaders of their partitions.

- A null list (v1+), or an empty one in v0, asks for all topics; an empty list in v1+ asks for none. Each topic is answered once.
  Topics that exist come first, in the order of the request, and then those that failed.
- Addresses are those of the listener through which the client came; a broker that is fenced or lacks that listener is left out.
- Topics are created (if `auto.create.topics.enable` allows it and, since v4, the request does) after the answer, which says 3
  UNKNOWN_TOPIC_OR_PARTITION; the client asks again. Only topics with legal names are created.
- v5 adds offline replicas, v7 leader epochs, v8 authorized operations (all of them, because there is no authorizer; those of the
  cluster only until v10), v10 topic ids in answers, v12 topic ids in requests (with a null name), and v13 an error for the whole
  answer (never set: it is for brokers that gave up their cluster).
- Errors of a topic: 3 UNKNOWN_TOPIC_OR_PARTITION, 17 INVALID_TOPIC_EXCEPTION, 100 UNKNOWN_TOPIC_ID; 42 INVALID_REQUEST for every
  topic if there is an id or a null name before v12. A topic with neither name nor id is 42 as well, where Kafka 4.4 answers -1 to
  everything.
- Errors of a partition: 5 LEADER_NOT_AVAILABLE; 72 LISTENER_NOT_FOUND (v6+) if its leader lacks the listener; in v0, which has no
  offline replicas, 9 REPLICA_NOT_AVAILABLE with the replicas that are available.

The answer to a null list is kept, encoded, until the metadata changes (server/requests/kept_answers.py), unless it holds an
error.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import partial
from typing import Final

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, call_in_thread, take_steps
from ottla.server.metadata.image import MIGRATING, UNASSIGNED, BrokerImage, MetadataImage, PartitionImage, TopicImage
from ottla.server.metadata.names import INTERNAL_TOPICS, invalid_reason
from ottla.server.requests.kept_answers import Encoded
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, UNASKED
from ottla.server.security.rights import Either, Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.metadata import API_KEY as METADATA
from ottla.wire.messages.metadata import (
    ENCODE_RESPONSE,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.primitives import ZERO_UUID, Parts

TRAITS = Traits(
    Inside(
        Need(Operation.DESCRIBE, Resource.TOPIC),
        Either(Need(Operation.CREATE, Resource.CLUSTER), Need(Operation.CREATE, Resource.TOPIC)),
    ),
    kept_throttle_time_since=3,
)

_NO_LEADER: Final = -1
ENCODED_AT_ONCE: Final = 2_000
"""So many topics and partitions of an answer are encoded on the event loop, in about 5 ms."""
PARTITIONS_A_STEP: Final = 100
"""So many partitions of one topic are described before others may come first: about 0.2 ms."""


def handle(body: MetadataRequest, request: Request) -> MetadataResponse | Encoded | Promise[MetadataResponse | Encoded]:
    return take_steps(_answer_or_repeat(body, request), request.broker.clock)


def _answer_or_repeat(body: MetadataRequest, request: Request) -> Steps[MetadataResponse | Encoded]:
    """Answers with what was answered before if it is about all topics and nothing has changed."""
    if body.topics is not None:
        return (yield from _answer(body, request))
    kept = request.broker.kept_answers
    operations = body.include_topic_authorized_operations, body.include_cluster_authorized_operations
    question = METADATA, request.api_version, request.session.listener, operations
    while True:
        changes = request.broker.metadata.changes
        answer = kept.get(changes, question)
        if answer is not None:
            return answer
        made = kept.promise_of(question)
        if made is None:
            break
        yield made
    with kept.making(question):
        response = yield from _answer(body, request)
        return (yield from _kept_if_right(response, changes, question, request))


def _kept_if_right(
    response: MetadataResponse, changes: int, question: Hashable, request: Request
) -> Steps[MetadataResponse | Encoded]:
    """Makes steps that keep an answer that was begun after so many changes of the metadata, unless it changed meanwhile or it
    holds an error. A long one is encoded in a thread."""
    broker = request.broker
    if changes != broker.metadata.changes or any(each.error_code for topic in response.topics for each in topic.partitions):
        return response
    if sum(1 + len(topic.partitions) for topic in response.topics) <= ENCODED_AT_ONCE:
        return broker.kept_answers.keep(changes, question, _encode(response, request.api_version))
    body = yield from call_in_thread(partial(_encode, response, request.api_version), broker.workers)
    return broker.kept_answers.keep(changes, question, body) if changes == broker.metadata.changes else response


def _encode(response: MetadataResponse, version: int) -> bytes:
    parts: Parts = []
    ENCODE_RESPONSE[version](response, parts)
    return b"".join(parts)


def _answer(body: MetadataRequest, request: Request) -> Steps[MetadataResponse]:
    image, version = request.broker.metadata, request.api_version
    asked = body.topics
    if asked and version < 12 and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in asked):
        return MetadataResponse(
            topics=[MetadataResponseTopic(ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id) for topic in asked]
        )
    brokers = {
        broker.broker_id: broker
        for broker in image.brokers.values()
        if broker.active and request.session.listener in broker.endpoints
    }
    wants_operations = version >= 8 and body.include_topic_authorized_operations
    view = _View(image, brokers, request, TOPIC_OPERATIONS if wants_operations else UNASKED)
    if asked is None or (version == 0 and not asked):
        topics = []
        for topic in tuple(image.topics.values()):
            topics.append((yield from view.topic(topic)))
            yield None
    else:
        topics = yield from _topics_asked_for(asked, body.allow_auto_topic_creation, view, request)
    return MetadataResponse(
        brokers=[view.broker(broker) for broker in brokers.values()],
        cluster_id=image.cluster_id,
        controller_id=next(iter(brokers), -1),
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if 8 <= version <= 10 and body.include_cluster_authorized_operations else UNASKED
        ),
    )


def _topics_asked_for(
    asked: Iterable[MetadataRequestTopic], create: bool, view: _View, request: Request
) -> Steps[list[MetadataResponseTopic]]:
    """Returns each topic once; asks the controller to create those that are missing and may be created."""
    image = view.image
    found: dict[str, MetadataResponseTopic] = {}
    failed: dict[str | bytes, MetadataResponseTopic] = {}
    missing: list[str] = []
    for topic in asked:
        if topic.topic_id != ZERO_UUID:
            known = image.topics_by_id.get(topic.topic_id)
            if known is None:
                failed[topic.topic_id] = MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic.topic_id)
        elif topic.name is None:
            failed[topic.topic_id] = MetadataResponseTopic(ErrorCode.INVALID_REQUEST, None)
            continue
        else:
            known = image.topics.get(topic.name)
            if known is None:
                valid = invalid_reason(topic.name) is None
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION
                failed[topic.name] = view.missing(topic.name, error)
                if valid:
                    missing.append(topic.name)
        if known is not None and known.name not in found:
            found[known.name] = yield from view.topic(known)
        yield None
    if missing and create and request.broker.config.values["auto.create.topics.enable"]:
        request.broker.controller.create_in_background(missing, request.caller(), request.permits(strict_since=0))
    return [*found.values(), *failed.values()]


class _View:
    """Shows the metadata image as a client of one listener and version sees it."""

    def __init__(self, image: MetadataImage, brokers: dict[int, BrokerImage], request: Request, operations: int) -> None:
        self.image = image
        self._brokers = brokers
        self._listener = request.session.listener
        self._version = request.api_version
        self._operations = operations

    def broker(self, broker: BrokerImage) -> MetadataResponseBroker:
        endpoint = broker.endpoints[self._listener]
        return MetadataResponseBroker(broker.broker_id, endpoint.host, endpoint.port, broker.rack)

    def missing(self, name: str, error: ErrorCode) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            error, name, is_internal=name in INTERNAL_TOPICS, topic_authorized_operations=self._operations
        )

    def topic(self, topic: TopicImage) -> Steps[MetadataResponseTopic]:
        partitions = []
        for index, partition in tuple(topic.partitions.items()):
            partitions.append(self._partition(index, partition))
            if len(partitions) % PARTITIONS_A_STEP == 0:
                yield None
        return MetadataResponseTopic(
            ErrorCode.NONE, topic.name, topic.topic_id, topic.name in INTERNAL_TOPICS, partitions, self._operations
        )

    def _partition(self, index: int, partition: PartitionImage) -> MetadataResponsePartition:
        brokers = self._brokers
        replicas, isr, offline = list(partition.replicas), list(partition.isr), []
        error, leader = ErrorCode.NONE, partition.leader
        if leader == _NO_LEADER or not brokers.keys() >= set(partition.replicas):
            offline = [broker_id for at, broker_id in enumerate(replicas) if self._is_offline(partition, at)]
            if self._version == 0 and offline:
                replicas = [broker_id for broker_id in replicas if broker_id not in offline]
                isr = [broker_id for broker_id in isr if broker_id not in offline]
                error = ErrorCode.REPLICA_NOT_AVAILABLE
        if leader not in brokers:
            no_listener = self._version >= 6 and self._is_alive(leader)
            error = ErrorCode.LISTENER_NOT_FOUND if no_listener else ErrorCode.LEADER_NOT_AVAILABLE
            leader = _NO_LEADER
        return MetadataResponsePartition(error, index, leader, partition.leader_epoch, replicas, isr, offline)

    def _is_offline(self, partition: PartitionImage, at: int) -> bool:
        """Returns whether a replica's broker is not alive, or the log directory that holds the replica is offline (KIP-858)."""
        broker_id = partition.replicas[at]
        if not self._is_alive(broker_id):
            return True
        directory = partition.directories[at] if at < len(partition.directories) else UNASSIGNED
        known = self.image.brokers[broker_id].log_dirs
        return directory not in (UNASSIGNED, MIGRATING) and bool(known) and directory not in known

    def _is_alive(self, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced
