"""Guards of the APIs about committed offsets: first the group, then each topic.

A topic that is named by an id that no topic has is left to the handler, which answers 100 UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.server.base.turns import Steps
from ottla.server.guards.ask import (
    GROUP,
    NAMES_A_STEP,
    TOPIC,
    TRANSACTION,
    answered,
    in_turns,
    make_each,
    mend,
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


def _split(topics: Sequence[Any], ask: Ask, operation: Operation, request: Request) -> Steps[tuple[list[Any], list[Any]]]:
    """Makes steps that return the topics that are allowed or unknown by their id, and those that are refused."""
    allowed: list[Any] = []
    refused: list[Any] = []
    for at, topic in enumerate(topics, 1):
        name = topic_name(topic.name, topic.topic_id, request)
        (allowed if name is None or ask.topic(operation, name) else refused).append(topic)
        if at % NAMES_A_STEP == 0:
            yield None
    return allowed, refused


@in_turns
def offset_commit(ask: Ask, handle: Handle, body: OffsetCommitRequest, request: Request) -> Steps[Any]:
    """READ on the group, then on each topic."""
    if not ask.group(Operation.READ, body.group_id):
        return OffsetCommitResponse(topics=(yield from _refuse_commits(body.topics, GROUP)))
    allowed, refused = yield from _split(body.topics, ask, Operation.READ, request)
    if not refused:
        return handle(body, request)
    responses = yield from _refuse_commits(refused, TOPIC)
    body.topics = allowed

    def add(answer: OffsetCommitResponse) -> OffsetCommitResponse:
        answer.topics = responses + answer.topics
        return answer

    return mend(handle(body, request), add) if allowed else OffsetCommitResponse(topics=responses)


def _refuse_commits(topics: Sequence[Any], code: ErrorCode) -> Steps[list[OffsetCommitResponseTopic]]:
    def refuse(topic: Any) -> OffsetCommitResponseTopic:
        partitions = [OffsetCommitResponsePartition(partition.partition_index, code) for partition in topic.partitions]
        return OffsetCommitResponseTopic(topic.name, topic.topic_id, partitions)

    return (yield from make_each(topics, refuse))


@in_turns
def txn_offset_commit(ask: Ask, handle: Handle, body: TxnOffsetCommitRequest, request: Request) -> Steps[Any]:
    """WRITE on the transactional id, then READ on the group, then on each topic."""
    if not ask.transaction(Operation.WRITE, body.transactional_id):
        return TxnOffsetCommitResponse(topics=(yield from _refuse_txn_commits(body.topics, TRANSACTION)))
    if not ask.group(Operation.READ, body.group_id):
        return TxnOffsetCommitResponse(topics=(yield from _refuse_txn_commits(body.topics, GROUP)))
    allowed, refused = yield from _split(body.topics, ask, Operation.READ, request)
    if not refused:
        return handle(body, request)
    responses = yield from _refuse_txn_commits(refused, TOPIC)
    body.topics = allowed

    def add(answer: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        answer.topics = responses + answer.topics
        return answer

    return mend(handle(body, request), add) if allowed else TxnOffsetCommitResponse(topics=responses)


def _refuse_txn_commits(topics: Sequence[Any], code: ErrorCode) -> Steps[list[TxnOffsetCommitResponseTopic]]:
    def refuse(topic: Any) -> TxnOffsetCommitResponseTopic:
        partitions = [TxnOffsetCommitResponsePartition(partition.partition_index, code) for partition in topic.partitions]
        return TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, partitions)

    return (yield from make_each(topics, refuse))


@in_turns
def offset_delete(ask: Ask, handle: Handle, body: OffsetDeleteRequest, request: Request) -> Steps[Any]:
    """DELETE on the group, then READ on each topic."""
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

    return mend(handle(body, request), add) if body.topics else OffsetDeleteResponse(topics=responses)


# OffsetFetch


@in_turns
def offset_fetch(ask: Ask, handle: Handle, body: OffsetFetchRequest, request: Request) -> Steps[Any]:
    """DESCRIBE on each group, then on each topic. Where all that is committed is asked for, other topics are hidden."""
    if request.api_version >= _SEVERAL_SINCE:
        return (yield from _fetch_groups(ask, handle, body, request))
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

    return mend(handle(body, request), add)


def _hide(answer: OffsetFetchResponse, ask: Ask) -> Steps[OffsetFetchResponse]:
    answer.topics = yield from select(answer.topics, lambda topic: ask.topic(Operation.DESCRIBE, topic.name, quiet=True))
    return answer


def _refused_topic(topic: OffsetFetchRequestTopic, code: ErrorCode) -> OffsetFetchResponseTopic:
    partitions = [OffsetFetchResponsePartition(index, _NO_OFFSET, -1, "", code) for index in topic.partition_indexes]
    return OffsetFetchResponseTopic(topic.name, partitions)


_Mend = Callable[[OffsetFetchResponseGroup], Steps[OffsetFetchResponseGroup]]


def _fetch_groups(ask: Ask, handle: Handle, body: OffsetFetchRequest, request: Request) -> Steps[Any]:
    """Fetches the groups that the client may see; the answers stand in the order of the request."""
    mends: list[_Mend | None] = []
    names = [group.group_id for group in body.groups]
    allowed = []
    for at, group in enumerate(body.groups, 1):
        if at % NAMES_A_STEP == 0:
            yield None
        if ask.group(Operation.DESCRIBE, group.group_id):
            mends.append((yield from _cut_group(group, ask, request)))
            allowed.append(group)
        else:
            mends.append(None)
    body.groups = allowed

    answer: OffsetFetchResponse = yield from answered(handle(body, request))
    fetched = iter(list(answer.groups))
    groups = []
    for at, (name, change) in enumerate(zip(names, mends, strict=True), 1):
        if change is None:
            groups.append(OffsetFetchResponseGroup(name, error_code=GROUP))
        else:
            groups.append((yield from change(next(fetched))))
        if at % NAMES_A_STEP == 0:
            yield None
    answer.groups = request.broker.long_answers.bounded(groups)
    return answer


def _cut_group(group: OffsetFetchRequestGroup, ask: Ask, request: Request) -> Steps[_Mend]:
    """Makes steps that take the refused topics out of a group's request, and return what puts them into its answer."""
    refused: list[Any] = []
    if group.topics is not None:
        group.topics, refused = yield from _split(group.topics, ask, Operation.DESCRIBE, request)
    hides = group.topics is None

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
