"""Guards of the APIs about committed offsets: first the group, then each topic.

A topic that is named by an id that no topic has is left to the handler, which answers 100 UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ottla.server.base.turns import Steps
from ottla.server.guards.ask import (
    GROUP,
    TOPIC,
    TRANSACTION,
    Change,
    answered,
    change_answer,
    guard_each_group,
    in_turns,
    make_each,
    select,
    topic_name,
    without,
)
from ottla.server.requests.link import Handle
from ottla.server.requests.request import Request
from ottla.server.security.authorizer import Ask
from ottla.server.security.rights import Operation
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_SEVERAL_SINCE: Final = 8
"""The version since which OffsetFetch is about several groups."""
_ERROR_SINCE: Final = 2
"""The version since which OffsetFetch has a place for the error of a group."""
_NO_OFFSET: Final = -1


def _find_refused(topics: Sequence[Any], ask: Ask, operation: Operation, request: Request) -> Steps[list[Any]]:
    """Makes steps that return the topics that are refused; one that is unknown by its id is not."""

    def is_refused(topic: Any) -> bool:
        name = topic_name(topic.name, topic.topic_id, request)
        return name is not None and not ask.topic(operation, name)

    return (yield from select(topics, is_refused))


@in_turns
def offset_commit(ask: Ask, handle: Handle, body: OffsetCommitRequest, request: Request) -> Steps[Any]:
    """Asks for READ on the group, then on each topic."""
    if not ask.group(Operation.READ, body.group_id):
        return OffsetCommitResponse(topics=(yield from _refuse_commits(body.topics, GROUP)))
    refused = yield from _find_refused(body.topics, ask, Operation.READ, request)
    if not refused:
        return handle(body, request)
    responses = yield from _refuse_commits(refused, TOPIC)
    body.topics = without(body.topics, refused)

    def add(answer: OffsetCommitResponse) -> OffsetCommitResponse:
        answer.topics = responses + answer.topics
        return answer

    return change_answer(handle(body, request), add) if body.topics else OffsetCommitResponse(topics=responses)


def _refuse_commits(topics: Sequence[Any], code: ErrorCode) -> Steps[list[OffsetCommitResponseTopic]]:
    def refuse(topic: Any) -> OffsetCommitResponseTopic:
        partitions = [OffsetCommitResponsePartition(partition.partition_index, code) for partition in topic.partitions]
        return OffsetCommitResponseTopic(topic.name, topic.topic_id, partitions)

    return (yield from make_each(topics, refuse))


@in_turns
def txn_offset_commit(ask: Ask, handle: Handle, body: TxnOffsetCommitRequest, request: Request) -> Steps[Any]:
    """Asks for WRITE on the transactional id, then READ on the group, then on each topic."""
    if not ask.transaction(Operation.WRITE, body.transactional_id):
        return TxnOffsetCommitResponse(topics=(yield from _refuse_txn_commits(body.topics, TRANSACTION)))
    if not ask.group(Operation.READ, body.group_id):
        return TxnOffsetCommitResponse(topics=(yield from _refuse_txn_commits(body.topics, GROUP)))
    refused = yield from _find_refused(body.topics, ask, Operation.READ, request)
    if not refused:
        return handle(body, request)
    responses = yield from _refuse_txn_commits(refused, TOPIC)
    body.topics = without(body.topics, refused)

    def add(answer: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        answer.topics = responses + answer.topics
        return answer

    return change_answer(handle(body, request), add) if body.topics else TxnOffsetCommitResponse(topics=responses)


def _refuse_txn_commits(topics: Sequence[Any], code: ErrorCode) -> Steps[list[TxnOffsetCommitResponseTopic]]:
    def refuse(topic: Any) -> TxnOffsetCommitResponseTopic:
        partitions = [TxnOffsetCommitResponsePartition(partition.partition_index, code) for partition in topic.partitions]
        return TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, partitions)

    return (yield from make_each(topics, refuse))


@in_turns
def offset_delete(ask: Ask, handle: Handle, body: OffsetDeleteRequest, request: Request) -> Steps[Any]:
    """Asks for DELETE on the group, then READ on each topic."""
    if not ask.group(Operation.DELETE, body.group_id):
        return OffsetDeleteResponse(GROUP)
    names = dict.fromkeys(topic.name for topic in body.topics)
    refused = set((yield from select(names, lambda name: not ask.topic(Operation.READ, name))))
    if not refused:
        return handle(body, request)
    responses = [
        OffsetDeleteResponseTopic(
            topic.name, [OffsetDeleteResponsePartition(partition.partition_index, TOPIC) for partition in topic.partitions]
        )
        for topic in body.topics
        if topic.name in refused
    ]
    body.topics = [topic for topic in body.topics if topic.name not in refused]

    def add(answer: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if not answer.error_code:
            answer.topics = responses + answer.topics
        return answer

    return change_answer(handle(body, request), add) if body.topics else OffsetDeleteResponse(topics=responses)


# OffsetFetch


@in_turns
def offset_fetch(ask: Ask, handle: Handle, body: OffsetFetchRequest, request: Request) -> Steps[Any]:
    """Asks for DESCRIBE on each group, then on each topic. Where all that is committed is asked for, other topics are hidden."""
    if request.api_version >= _SEVERAL_SINCE:
        return (
            yield from guard_each_group(
                ask,
                handle,
                body,
                request,
                lambda group: _cut_group(group, ask, request),
                lambda name: OffsetFetchResponseGroup(name, error_code=GROUP),
            )
        )
    topics = body.topics
    if not ask.group(Operation.DESCRIBE, body.group_id):
        if request.api_version >= _ERROR_SINCE:
            return OffsetFetchResponse(error_code=GROUP)
        return OffsetFetchResponse(topics=[_refused_topic(topic, GROUP) for topic in topics or ()])
    if topics is None:
        return (yield from _hide((yield from answered(handle(body, request))), ask))
    refused = yield from select(topics, lambda topic: not ask.topic(Operation.DESCRIBE, topic.name))
    if not refused:
        return handle(body, request)
    body.topics = without(topics, refused)
    responses = yield from make_each(refused, lambda topic: _refused_topic(topic, TOPIC))

    def add(answer: OffsetFetchResponse) -> OffsetFetchResponse:
        if not answer.error_code:
            answer.topics += responses
        return answer

    return change_answer(handle(body, request), add)


def _hide(answer: OffsetFetchResponse, ask: Ask) -> Steps[OffsetFetchResponse]:
    answer.topics = yield from select(answer.topics, lambda topic: ask.topic(Operation.DESCRIBE, topic.name, quiet=True))
    return answer


def _refused_topic(topic: OffsetFetchRequestTopic, code: ErrorCode) -> OffsetFetchResponseTopic:
    partitions = [OffsetFetchResponsePartition(index, _NO_OFFSET, -1, "", code) for index in topic.partition_indexes]
    return OffsetFetchResponseTopic(topic.name, partitions)


def _cut_group(group: OffsetFetchRequestGroup, ask: Ask, request: Request) -> Steps[Change]:
    """Makes steps that take the refused topics out of a group's request, and return what puts them into its answer."""
    hides = group.topics is None
    refused = yield from _find_refused(group.topics or (), ask, Operation.DESCRIBE, request)
    if group.topics is not None:
        group.topics = without(group.topics, refused)

    def refuse(topic: Any) -> OffsetFetchResponseTopics:
        partitions = [OffsetFetchResponsePartitions(index, _NO_OFFSET, -1, "", TOPIC) for index in topic.partition_indexes]
        return OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions)

    def change(answer: OffsetFetchResponseGroup) -> Steps[OffsetFetchResponseGroup]:
        if answer.error_code or (not hides and not refused):
            return answer
        topics = yield from select(answer.topics, lambda topic: not hides or _may_see(topic, ask, request))
        topics += yield from make_each(refused, refuse)
        return OffsetFetchResponseGroup(answer.group_id, request.broker.long_answers.bounded(topics), answer.error_code)

    return change


def _may_see(topic: OffsetFetchResponseTopics, ask: Ask, request: Request) -> bool:
    name = topic.name or topic_name(None, topic.topic_id, request)
    return name is not None and ask.topic(Operation.DESCRIBE, name, quiet=True)
