"""StreamsGroupHeartbeat v0-1 is the only request of a streams group's member: with it a member joins, stays and leaves
(KIP-1071).

- Epoch 0 joins and brings the topology, -1 leaves, -2 means that a static member leaves and will return, and any higher epoch
  stays. A null field, or -1 for the rebalance timeout, means that nothing has changed.
- The answer has tasks if they have changed, endpoints if the member does not know the latest, and statuses: what is wrong with
  the topology or its topics, that the first or the next assignment is delayed, that a member wants the application to shut down.
- Internal topics that the topology needs and that do not exist are created before the answer goes out, which still calls them
  missing. If a topic cannot be created, the broker tries again after two heartbeats; until then the status says why.
- v1 adds the status 6 MISSING_CLIENT_TAGS, and whether the broker wants a description of the topology: it never does, since
  keeping one needs a plugin (KIP-1331).
- A topology that is too large (topology.py has the limits) is answered 130 STREAMS_INVALID_TOPOLOGY; Kafka has none.
- Without the feature streams.version, or without the protocol in `group.coordinator.rebalance.protocols`, everything is answered
  35 UNSUPPORTED_VERSION.
- Errors, with a message: 42 INVALID_REQUEST; 24 INVALID_GROUP_ID for a name that no record can hold; 69 GROUP_ID_NOT_FOUND; 25
  UNKNOWN_MEMBER_ID; 110 FENCED_MEMBER_EPOCH; 111 UNRELEASED_INSTANCE_ID; 82 FENCED_INSTANCE_ID; 81 GROUP_MAX_SIZE_REACHED; 130
  STREAMS_INVALID_TOPOLOGY; and the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and 16
  NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from ottla.log.errors import StorageError
from ottla.server.base.answers import wait_for
from ottla.server.base.promise import Promise
from ottla.server.base.turns import answer_in_turns, take_steps
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.epochs import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_STATIC_EPOCH
from ottla.server.group.requests import Client
from ottla.server.group.streams.ahead import Ahead
from ottla.server.group.streams.answers import NOT_SERVED, is_served
from ottla.server.group.streams.protocol import StreamsProtocol
from ottla.server.group.streams.topology import MOST_NAMED, InternalTopic, Status, first_few
from ottla.server.metadata.names import INTERNAL_TOPICS, MAX_LENGTH, invalid_reason
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Either, Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from ottla.wire.primitives import LONGEST_STRING

TRAITS = Traits(
    Inside(
        Need(Operation.READ, Resource.GROUP),
        Need(Operation.DESCRIBE, Resource.TOPIC),
        Either(Need(Operation.CREATE, Resource.CLUSTER), Need(Operation.CREATE, Resource.TOPIC)),
    )
)

CREATE_TIMEOUT_MS: Final = 30_000


async def handle(body: StreamsGroupHeartbeatRequest, request: Request) -> StreamsGroupHeartbeatResponse:
    try:
        if not is_served(request.broker.metadata.features, request.broker.config.values):
            raise GroupError(ErrorCode.UNSUPPORTED_VERSION, NOT_SERVED)
        _check(body)
        shard = request.broker.groups.member_shard(body.group_id)
        protocol = shard.protocol(StreamsProtocol)
        missing: Mapping[str, InternalTopic] = {}
        if body.member_epoch in (LEAVING_EPOCH, LEAVING_STATIC_EPOCH):
            response = protocol.group_leave(body).response
        else:
            client = Client(request.client_id or "", f"/{request.session.client_host}")
            steps, ahead = protocol.look_ahead(body), Ahead()
            if steps is not None:
                ahead = await wait_for(take_steps(steps, request.broker.clock))
                shard = request.broker.groups.member_shard(body.group_id)  # this broker may have lost it meanwhile
                protocol = shard.protocol(StreamsProtocol)
            answer = protocol.group_heartbeat(body, client, request.api_version, ahead)
            response, missing = answer.response, answer.missing
            if answer.endpoints is not None:
                endpoints = wait_for(take_steps(answer.endpoints, request.broker.clock))
                response.partitions_by_user_endpoint = await endpoints
    except GroupError as error:
        return _refusal(error.code, error.message)
    answered = shard.answer_or(response, _refusal)
    if isinstance(answered, Promise):
        answered = await answered
    if missing and answered is response:
        await _create_missing(body.group_id, response, missing, protocol, request)
    return answered


def _refusal(code: ErrorCode, text: str | None = None) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=code, error_message=text or code.name)


# Requests that are wrong whatever the group is


def _check(body: StreamsGroupHeartbeatRequest) -> None:
    """Raises GroupError with INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY if the request is wrong whatever the group is."""
    epoch, topology = body.member_epoch, body.topology
    if topology is not None:
        _check_topics(topology)
    for text, what in (
        (body.member_id, "member id"),
        (body.group_id, "group id"),
        (body.instance_id, "instance id"),
        (body.rack_id, "rack"),
    ):
        if text == "":
            raise _invalid(f"The {what} is empty.")
        if text is not None and len(text.encode()) > LONGEST_STRING and what != "group id":
            raise _invalid(f"The {what} is longer than a record can hold.")
    roles = (body.active_tasks, body.standby_tasks, body.warmup_tasks)
    if epoch == JOINING_EPOCH:
        _check_join(body)
    elif epoch == LEAVING_STATIC_EPOCH and body.instance_id is None:
        raise _invalid("Only a static member can leave and return.")
    elif epoch < LEAVING_STATIC_EPOCH:
        raise _invalid(f"{epoch} is not a valid epoch.")
    if None in roles and any(role is not None for role in roles):
        raise _invalid("A member that lists its tasks has to list all three kinds.")
    if epoch != JOINING_EPOCH and topology is not None:
        raise _invalid("Only a joining member brings a topology.")


def _check_join(body: StreamsGroupHeartbeatRequest) -> None:
    if body.rebalance_timeout_ms == -1:
        raise _invalid("A joining member has to give its rebalance timeout.")
    if any(tasks != [] for tasks in (body.active_tasks, body.standby_tasks, body.warmup_tasks)):
        raise _invalid("A joining member has to send empty lists of tasks.")
    if body.topology is None:
        raise _invalid("A joining member has to bring a topology.")
    for each in body.topology.subtopologies:
        for topic in each.state_changelog_topics:
            if topic.partitions:
                text = f"The broker sets the number of partitions of changelog topic {topic.name}, not the member."
                raise GroupError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def _check_topics(topology: Topology) -> None:
    """Raises GroupError if the topology is too large, or names topics that it cannot have, or a subtopology twice."""
    named = sum(map(_named_in, topology.subtopologies))
    if named > MOST_NAMED:
        text = f"The topology names {named} subtopologies, topics and settings, and may name {MOST_NAMED} at most."
        raise GroupError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    if any(len(each.subtopology_id) > MAX_LENGTH for each in topology.subtopologies):
        text = f"The id of a subtopology has more than {MAX_LENGTH} characters."
        raise GroupError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    names = {
        name
        for each in topology.subtopologies
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    }
    broker_owned = sorted(names & INTERNAL_TOPICS)
    if broker_owned:
        text = f"The topology uses internal topics of the broker: {first_few(broker_owned)}."
        raise GroupError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    illegal = sorted(name for name in names if invalid_reason(name) is not None)
    if illegal:
        raise GroupError(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"These are not legal topic names: {first_few(illegal)}.")
    if any(each.source_topic_regex for each in topology.subtopologies):
        raise _invalid("Source topics have to be named; regular expressions are not supported.")
    ids = [each.subtopology_id for each in topology.subtopologies]
    if len(set(ids)) < len(ids):
        raise GroupError(ErrorCode.STREAMS_INVALID_TOPOLOGY, "Two subtopologies have the same id.")


def _named_in(subtopology: Subtopology) -> int:
    """Returns how much a subtopology names, as MOST_NAMED counts it."""
    internal = (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics)
    together = sum(len(group.source_topics) + len(group.repartition_source_topics) for group in subtopology.copartition_groups)
    sources = len(subtopology.source_topics) + len(subtopology.repartition_sink_topics)
    return 1 + sources + sum(1 + len(topic.topic_configs) for topic in internal) + len(subtopology.copartition_groups) + together


def _invalid(text: str) -> GroupError:
    return GroupError(ErrorCode.INVALID_REQUEST, text)


# Internal topics


async def _create_missing(
    group_id: str,
    response: StreamsGroupHeartbeatResponse,
    missing: Mapping[str, InternalTopic],
    protocol: StreamsProtocol,
    request: Request,
) -> None:
    """Creates the internal topics that are missing. Recent failures are added to the status that lists the missing topics."""
    ask = request.ask()
    if ask is not None and not ask.cluster(Operation.CREATE, quiet=True):
        names = sorted(missing)
        may = await wait_for(answer_in_turns(names, partial(ask.topic, Operation.CREATE), request.broker.clock))
        refused = [name for name, allowed in zip(names, may, strict=True) if not allowed]
        if refused:
            for status in response.status or ():
                if status.status_code == Status.MISSING_INTERNAL_TOPICS:
                    status.status_detail += f" The client has no right to create {first_few(refused)}."
            return
    wanted = protocol.topics_to_create(missing)
    failures = protocol.failures(missing)
    if failures:
        reasons = ", ".join(f"{name} ({failures[name]})" for name in sorted(failures)[:3])
        for status in response.status or ():
            if status.status_code == Status.MISSING_INTERNAL_TOPICS:
                status.status_detail += f" They could not be created: {reasons}."
    if wanted:
        for name, why in (await _create_topics({name: missing[name] for name in wanted}, request)).items():
            protocol.creation_failed(group_id, name, why)


async def _create_topics(topics: Mapping[str, InternalTopic], request: Request) -> dict[str, str]:
    """Creates topics; returns, by name, why some of them could not be created."""
    wanted = [
        CreatableTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor or -1,
            configs=[CreatableTopicConfig(key, value) for key, value in topic.configs.items()],
        )
        for topic in topics.values()
    ]
    try:
        response = await request.broker.controller.create_topics(CreateTopicsRequest(wanted, CREATE_TIMEOUT_MS), request.caller())
    except StorageError as error:
        return dict.fromkeys(topics, str(error))
    return {
        result.name: result.error_message or ErrorCode(result.error_code).name
        for result in response.topics
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }
