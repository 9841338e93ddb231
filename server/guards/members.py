"""Guards of the requests of members of consumer, share and streams groups.

Three things are asked in the handlers instead: which topics a pattern may match, which partitions of a share session are served
now, and whether internal topics may be created.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.server.base.turns import Steps
from ottla.server.guards.ask import GROUP, TOPIC, change_answer, in_turns, make_each, select, topic_name, without
from ottla.server.requests.link import Handle
from ottla.server.requests.request import Request
from ottla.server.security.authorizer import Ask
from ottla.server.security.rights import Operation
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.messages.share_acknowledge import (
    AcknowledgeTopic,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from ottla.wire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, Topology
from ottla.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)


def _may_see_all(ask: Ask, names: Iterable[str]) -> Steps[bool]:
    """Makes steps that return whether the client may see all these topics. All of them are asked about, for the audit log."""
    hidden = yield from select(dict.fromkeys(names), lambda name: not ask.topic(Operation.DESCRIBE, name))
    return not hidden


@in_turns
def consumer_group_heartbeat(ask: Ask, handle: Handle, body: ConsumerGroupHeartbeatRequest, request: Request) -> Steps[Any]:
    """Asks for READ on the group, and DESCRIBE on every topic that the member names."""
    if not ask.group(Operation.READ, body.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=GROUP)
    if not (yield from _may_see_all(ask, body.subscribed_topic_names or ())):
        return ConsumerGroupHeartbeatResponse(error_code=TOPIC)
    return handle(body, request)


@in_turns
def share_group_heartbeat(ask: Ask, handle: Handle, body: ShareGroupHeartbeatRequest, request: Request) -> Steps[Any]:
    """Asks for READ on the group, and DESCRIBE on every topic that the member names."""
    if not ask.group(Operation.READ, body.group_id):
        return ShareGroupHeartbeatResponse(error_code=GROUP)
    if not (yield from _may_see_all(ask, body.subscribed_topic_names or ())):
        return ShareGroupHeartbeatResponse(error_code=TOPIC)
    return handle(body, request)


@in_turns
def streams_group_heartbeat(ask: Ask, handle: Handle, body: StreamsGroupHeartbeatRequest, request: Request) -> Steps[Any]:
    """Asks for READ on the group, and DESCRIBE on every topic of the member's topology."""
    if not ask.group(Operation.READ, body.group_id):
        return StreamsGroupHeartbeatResponse(error_code=GROUP)
    if body.topology is not None and not (yield from _may_see_all(ask, _topics_of(body.topology))):
        return StreamsGroupHeartbeatResponse(error_code=TOPIC)
    return handle(body, request)


def _topics_of(topology: Topology) -> Iterable[str]:
    for part in topology.subtopologies:
        yield from part.source_topics
        yield from part.repartition_sink_topics
        yield from (topic.name for topic in part.repartition_source_topics)
        yield from (topic.name for topic in part.state_changelog_topics)


def streams_group_topology_description_update(
    ask: Ask, handle: Handle, body: StreamsGroupTopologyDescriptionUpdateRequest, request: Request
) -> Any:
    """Asks for READ on the group."""
    if ask.group(Operation.READ, body.group_id):
        return handle(body, request)
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=GROUP)


def share_fetch(ask: Ask, handle: Handle, body: ShareFetchRequest, request: Request) -> Any:
    """Asks for READ on the group; the handler asks about the topics."""
    if body.group_id is None or ask.group(Operation.READ, body.group_id):
        return handle(body, request)
    return ShareFetchResponse(error_code=GROUP)


@in_turns
def share_acknowledge(ask: Ask, handle: Handle, body: ShareAcknowledgeRequest, request: Request) -> Steps[Any]:
    """Asks for READ on the group, and on each topic. The session goes on whatever is refused."""
    if body.group_id is not None and not ask.group(Operation.READ, body.group_id):
        return ShareAcknowledgeResponse(error_code=GROUP)

    def may_not_read(topic: AcknowledgeTopic) -> bool:
        name = topic_name("", topic.topic_id, request)
        return name is not None and not ask.topic(Operation.READ, name)

    refused = yield from select(body.topics, may_not_read)
    if not refused:
        return handle(body, request)
    body.topics = without(body.topics, refused)

    responses = yield from make_each(refused, _refused_acknowledgements)

    def add(answer: ShareAcknowledgeResponse) -> ShareAcknowledgeResponse:
        if not answer.error_code:
            answer.responses += responses
        return answer

    return change_answer(handle(body, request), add)


def _refused_acknowledgements(topic: AcknowledgeTopic) -> ShareAcknowledgeTopicResponse:
    partitions = [PartitionData(partition.partition_index, TOPIC, None) for partition in topic.partitions]
    return ShareAcknowledgeTopicResponse(topic.topic_id, partitions)
