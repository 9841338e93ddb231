"""Guards of the APIs about topics as such: who sees them, makes them and deletes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from ottla.server.base.turns import Steps
from ottla.server.guards.ask import (
    NAMES_A_STEP,
    OPERATIONS_A_STEP,
    TEXTS,
    TOPIC,
    answered,
    change_answer,
    in_turns,
    select,
    topic_name,
)
from ottla.server.requests.link import Handle
from ottla.server.requests.request import Request
from ottla.server.security.authorizer import CLUSTER_NAME, Ask
from ottla.server.security.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, UNASKED
from ottla.server.security.rights import Operation, Resource
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from ottla.wire.primitives import ZERO_UUID

_NO_TOPIC: Final = ""
"""A name that no topic has; Metadata v0 has no other way to ask for none."""


def _visible(names: Iterable[str], ask: Ask, *, quiet: bool) -> Steps[list[str]]:
    """Makes steps that return the topics that the client may see."""
    return (yield from select(names, lambda name: ask.topic(Operation.DESCRIBE, name, quiet=quiet)))


# Metadata


@in_turns
def metadata(ask: Ask, handle: Handle, body: MetadataRequest, request: Request) -> Steps[Any]:
    """Asks for DESCRIBE on each topic, and after that, for one that is to be created, for CREATE on the cluster or the topic.

    Where all topics are asked for, the others are hidden. Brokers are always shown.
    """
    if body.topics is None or (request.api_version == 0 and not body.topics):
        return (yield from _all_metadata(ask, handle, body, request))
    refused: list[MetadataResponseTopic] = []
    may_create: list[MetadataResponseTopic] = []
    wanted = []
    for at, topic in enumerate(body.topics, 1):
        if at % NAMES_A_STEP == 0:
            yield None
        name = topic_name(topic.name, topic.topic_id, request)
        if name is not None and not ask.topic(Operation.DESCRIBE, name):
            shown = name if topic.topic_id == ZERO_UUID else None
            refused.append(MetadataResponseTopic(TOPIC, shown, topic.topic_id, topic_authorized_operations=UNASKED))
        elif name is not None and not _may_be_created(name, ask, body, request):
            may_create.append(MetadataResponseTopic(TOPIC, name, topic_authorized_operations=UNASKED))
        else:
            wanted.append(topic)
    body.topics = wanted
    unasked = request.api_version == 0 and not wanted
    if unasked:
        body.topics = [MetadataRequestTopic(name=_NO_TOPIC)]

    named = {(topic.name, topic.topic_id): topic for topic in (*may_create, *refused)}  # each is answered once
    answer: MetadataResponse = yield from answered(handle(body, request))
    if unasked:
        answer.topics = []
    yield from _set_operations(answer, ask)
    answer.topics += named.values()
    return answer


def _may_be_created(name: str, ask: Ask, body: MetadataRequest, request: Request) -> bool:
    """Returns whether a topic exists, is not to be created, or may be."""
    broker = request.broker
    if name in broker.metadata.topics or not body.allow_auto_topic_creation:
        return True
    if not broker.config.values["auto.create.topics.enable"]:
        return True
    return ask.cluster(Operation.CREATE, quiet=True) or ask.topic(Operation.CREATE, name)


def _all_metadata(ask: Ask, handle: Handle, body: MetadataRequest, request: Request) -> Steps[Any]:
    names = yield from _visible(tuple(request.broker.metadata.topics), ask, quiet=True)
    body.allow_auto_topic_creation = False
    body.topics = [MetadataRequestTopic(name=name) for name in names or [_NO_TOPIC]]

    answer: MetadataResponse = yield from answered(handle(body, request))
    answer.topics = [topic for topic in answer.topics if not topic.error_code]
    yield from _set_operations(answer, ask)
    return answer


def _set_operations(answer: MetadataResponse, ask: Ask) -> Steps[None]:
    """Makes steps that put the client's own operations in the place of all, where the client asked for them."""
    for at, topic in enumerate(answer.topics, 1):
        if at % OPERATIONS_A_STEP == 0:
            yield None
        if topic.topic_authorized_operations != UNASKED and topic.name is not None:
            topic.topic_authorized_operations = ask.rights.bits(TOPIC_OPERATIONS, Resource.TOPIC, topic.name)
    if answer.cluster_authorized_operations != UNASKED:
        answer.cluster_authorized_operations = cluster_operations(ask)


def cluster_operations(ask: Ask) -> int:
    """Returns the bit field of what the client may do to the cluster: nothing, for who may not describe it."""
    if not ask.cluster(Operation.DESCRIBE, quiet=True):
        return 0
    return ask.rights.bits(CLUSTER_OPERATIONS, Resource.CLUSTER, CLUSTER_NAME)


@in_turns
def describe_topic_partitions(
    ask: Ask, handle: Handle, body: DescribeTopicPartitionsRequest, request: Request
) -> Steps[DescribeTopicPartitionsResponse]:
    """Asks for DESCRIBE on each topic. Where all topics are asked for, the others are hidden, although not from the audit log."""
    asked = dict.fromkeys(topic.name for topic in body.topics)
    names = yield from _visible(tuple(asked or request.broker.metadata.topics), ask, quiet=False)
    refused = [DescribeTopicPartitionsResponseTopic(TOPIC, name) for name in sorted(asked.keys() - set(names))]
    for topic in refused:
        topic.topic_authorized_operations = UNASKED
    if not names:
        return DescribeTopicPartitionsResponse(topics=refused)
    body.topics = [TopicRequest(name) for name in names]
    answer: DescribeTopicPartitionsResponse = handle(body, request)
    for topic in answer.topics:
        assert topic.name is not None
        topic.topic_authorized_operations = ask.rights.bits(TOPIC_OPERATIONS, Resource.TOPIC, topic.name)
        yield None
    answer.topics += refused
    return answer


# Making and deleting


def _refused_once(times: Counter[str], operation: Operation, ask: Ask) -> Steps[dict[str, None]]:
    """Makes steps that return the refused of the topics that are named once; the handler refuses those named more often."""
    once = [name for name, count in times.items() if count == 1]
    return dict.fromkeys((yield from select(once, lambda name: not ask.topic(operation, name))))


@in_turns
def create_topics(ask: Ask, handle: Handle, body: CreateTopicsRequest, request: Request) -> Steps[Any]:
    """Asks for CREATE on the cluster, or else on each topic. A client that may not DESCRIBE_CONFIGS of a topic is not told its
    settings."""
    times = Counter(topic.name for topic in body.topics)
    refused: dict[str, None] = {}
    if not ask.cluster(Operation.CREATE, quiet=True):
        refused = yield from _refused_once(times, Operation.CREATE, ask)
    hidden = set((yield from select(times, lambda name: not ask.topic(Operation.DESCRIBE_CONFIGS, name, quiet=True))))
    if not refused and not hidden:
        return handle(body, request)
    body.topics = [topic for topic in body.topics if topic.name not in refused]

    def add(answer: CreateTopicsResponse) -> CreateTopicsResponse:
        for result in answer.topics:
            if result.name in hidden and not result.error_code:
                result.topic_config_error_code = TOPIC
                result.num_partitions = result.replication_factor = -1
                result.configs = []
        answer.topics += [CreatableTopicResult(name, error_code=TOPIC, error_message=TEXTS[TOPIC]) for name in refused]
        return answer

    return change_answer(handle(body, request), add)


@in_turns
def delete_topics(ask: Ask, handle: Handle, body: DeleteTopicsRequest, request: Request) -> Steps[Any]:
    """Asks for DELETE on each topic. A client that names a topic by its id is told its name only with DESCRIBE."""
    refused = []
    wanted = []
    for at, topic in enumerate([*body.topics, *(DeleteTopicState(name) for name in body.topic_names)], 1):
        name = topic_name(topic.name, topic.topic_id, request)
        if name is None or ask.topic(Operation.DELETE, name):
            wanted.append(topic)
        else:
            by_name = topic.topic_id == ZERO_UUID
            shown = name if by_name or ask.topic(Operation.DESCRIBE, name, quiet=True) else None
            refused.append(DeletableTopicResult(shown, topic.topic_id, TOPIC, TEXTS[TOPIC]))
        if at % NAMES_A_STEP == 0:
            yield None
    if not refused:
        return handle(body, request)
    names = {topic.name for topic in wanted}
    body.topic_names = [name for name in body.topic_names if name in names]
    listed = set(map(id, body.topics))
    body.topics = [] if body.topic_names else [topic for topic in wanted if id(topic) in listed]

    def add(answer: DeleteTopicsResponse) -> DeleteTopicsResponse:
        answer.responses += refused
        return answer

    return change_answer(handle(body, request), add)


@in_turns
def create_partitions(ask: Ask, handle: Handle, body: CreatePartitionsRequest, request: Request) -> Steps[Any]:
    """Asks for ALTER on each topic."""
    times = Counter(topic.name for topic in body.topics)
    refused = yield from _refused_once(times, Operation.ALTER, ask)
    if not refused:
        return handle(body, request)
    body.topics = [topic for topic in body.topics if topic.name not in refused]

    def add(answer: CreatePartitionsResponse) -> CreatePartitionsResponse:
        answer.results += [CreatePartitionsTopicResult(name, TOPIC, None) for name in refused]
        return answer

    return change_answer(handle(body, request), add)
