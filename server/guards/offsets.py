"""Guards of the APIs about committed offsets: first the group, then each topic.

A topic that is named by an id that no topic has is left to the handler, which answers 100 UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.server.guards.ask import GROUP, TOPIC, TRANSACTION, mend, topic_name, without
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


def _split(topics: Sequence[Any], ask: Ask, operation: Operation, request: Request) -> tuple[list[Any], list[Any]]:
    """Returns the topics that are allowed or unknown by their id, and those that are refused."""
    allowed: list[Any] = []
    refused: list[Any] = []
    for topic in topics:
        name = topic_name(topic.name, topic.topic_id, request)
        (allowed if name is None or ask.topic(operation, name) else refused).append(topic)
    return allowed, refused


def offset_commit(ask: Ask, handle: Handle, body: OffsetCommitRequest, request: Request) -> Any:
    """READ on the group, then on each topic."""
    if not ask.group(Operation.READ, body.group_id):
        return OffsetCommitResponse(topics=_refuse_commits(body.topics, GROUP))
    allowed, refused = _split(body.topics, ask, Operation.READ, request)
    if not refused:
        return handle(body, request)
    responses = _refuse_commits(refused, TOPIC)
    body.topics = allowed

    def add(answer: OffsetCommitResponse) -> OffsetCommitResponse:
        answer.topics = responses + answer.topics
        return answer

    return mend(handle(body, request), add) if allowed else OffsetCommitResponse(topics=responses)


def _refuse_commits(topics: Sequence[Any], code: ErrorCode) -> list[OffsetCommitResponseTopic]:
    return [
        OffsetCommitResponseTopic(
            topic.name, topic.topic_id, [OffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions]
        )
        for topic in topics
    ]


def txn_offset_commit(ask: Ask, handle: Handle, body: TxnOffsetCommitRequest, request: Request) -> Any:
    """WRITE on the transactional id, then READ on the group, then on each topic."""
    if not ask.transaction(Operation.WRITE, body.transactional_id):
        return TxnOffsetCommitResponse(topics=_refuse_txn_commits(body.topics, TRANSACTION))
    if not ask.group(Operation.READ, body.group_id):
        return TxnOffsetCommitResponse(topics=_refuse_txn_commits(body.topics, GROUP))
    allowed, refused = _split(body.topics, ask, Operation.READ, request)
    if not refused:
        return handle(body, request)
    responses = _refuse_txn_commits(refused, TOPIC)
    body.topics = allowed

    def add(answer: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        answer.topics = responses + answer.topics
        return answer

    return mend(handle(body, request), add) if allowed else TxnOffsetCommitResponse(topics=responses)


def _refuse_txn_commits(topics: Sequence[Any], code: ErrorCode) -> list[TxnOffsetCommitResponseTopic]:
    return [
        TxnOffsetCommitResponseTopic(
            topic.name,
            topic.topic_id,
            [TxnOffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions],
        )
        for topic in topics
    ]


def offset_delete(ask: Ask, handle: Handle, body: OffsetDeleteRequest, request: Request) -> Any:
    """DELETE on the group, then READ on each topic."""
    if not ask.group(Operation.DELETE, body.group_id):
        return OffsetDeleteResponse(GROUP)
    names = dict.fromkeys(topic.name for topic in body.topics)
    refused = {name for name in names if not ask.topic(Operation.READ, name)}
    if not refused:
        return handle(body, request)
    responses = [
        OffsetDeleteResponseTopic(
            topic.name, [OffsetDeleteResponsePartition(each.partition_index, TOPIC) for each in topic.partitions]
        )
        for topic in body.topics
        if topic.name in refused
    ]
    body.topics = [topic for topic in body.topics if topic.name not in refused]

    def add(answer: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if not answer.error_code:
            answer.topics = responses + answer.topics
        return answer

    return mend(handle(body, request), add) if body.topics else OffsetDeleteResponse(topics=responses)


# OffsetFetch


def offset_fetch(ask: Ask, handle: Handle, body: OffsetFetchRequest, request: Request) -> Any:
    """DESCRIBE on each group, then on each topic. Where all that is committed is asked for, other topics are hidden."""
    if request.api_version >= _SEVERAL_SINCE:
        return _fetch_groups(ask, handle, body, request)
    topics = body.topics
    if not ask.group(Operation.DESCRIBE, body.group_id):
        if request.api_version >= _ERROR_SINCE:
            return OffsetFetchResponse(error_code=GROUP)
        return OffsetFetchResponse(topics=[_refused_topic(topic, GROUP) for topic in topics or ()])
    if topics is None:
        return mend(handle(body, request), lambda answer: _hide(answer, ask))
    refused = [topic for topic in topics if not ask.topic(Operation.DESCRIBE, topic.name)]
    if not refused:
        return handle(body, request)
    body.topics = without(topics, refused)

    def add(answer: OffsetFetchResponse) -> OffsetFetchResponse:
        if not answer.error_code:
            answer.topics += [_refused_topic(topic, TOPIC) for topic in refused]
        return answer

    return mend(handle(body, request), add)


def _hide(answer: OffsetFetchResponse, ask: Ask) -> OffsetFetchResponse:
    answer.topics = [topic for topic in answer.topics if ask.topic(Operation.DESCRIBE, topic.name, quiet=True)]
    return answer


def _refused_topic(topic: OffsetFetchRequestTopic, code: ErrorCode) -> OffsetFetchResponseTopic:
    partitions = [OffsetFetchResponsePartition(index, _NO_OFFSET, -1, "", code) for index in topic.partition_indexes]
    return OffsetFetchResponseTopic(topic.name, partitions)


_Mend = Callable[[OffsetFetchResponseGroup], OffsetFetchResponseGroup]


def _fetch_groups(ask: Ask, handle: Handle, body: OffsetFetchRequest, request: Request) -> Any:
    """Fetches the groups that the client may see; the answers stand in the order of the request."""
    mends: list[_Mend | None] = []
    names = [group.group_id for group in body.groups]
    allowed = []
    for group in body.groups:
        if ask.group(Operation.DESCRIBE, group.group_id):
            mends.append(_cut_group(group, ask, request))
            allowed.append(group)
        else:
            mends.append(None)
    body.groups = allowed

    def add(answer: OffsetFetchResponse) -> OffsetFetchResponse:
        fetched = iter(list(answer.groups))
        groups = [
            OffsetFetchResponseGroup(name, error_code=GROUP) if change is None else change(next(fetched))
            for name, change in zip(names, mends, strict=True)
        ]
        answer.groups = request.broker.long_answers.bounded(groups)
        return answer

    return mend(handle(body, request), add)


def _cut_group(group: OffsetFetchRequestGroup, ask: Ask, request: Request) -> _Mend:
    """Takes the refused topics out of a group's request; returns what puts them into its answer."""
    refused: list[Any] = []
    if group.topics is not None:
        group.topics, refused = _split(group.topics, ask, Operation.DESCRIBE, request)
        if not refused:
            return lambda answer: answer
    hides = group.topics is None

    def change(answer: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        if answer.error_code:
            return answer
        topics = [each for each in answer.topics if not hides or _may_see(each, ask, request)]
        topics += [
            OffsetFetchResponseTopics(
                topic.name,
                topic.topic_id,
                [OffsetFetchResponsePartitions(index, _NO_OFFSET, -1, "", TOPIC) for index in topic.partition_indexes],
            )
            for topic in refused
        ]
        return OffsetFetchResponseGroup(answer.group_id, request.broker.long_answers.bounded(topics), answer.error_code)

    return change


def _may_see(topic: OffsetFetchResponseTopics, ask: Ask, request: Request) -> bool:
    name = topic.name or topic_name(None, topic.topic_id, request)
    return name is not None and ask.topic(Operation.DESCRIBE, name, quiet=True)
