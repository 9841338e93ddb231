"""Guards of the APIs about the offsets of share groups: first the group, then each topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.server.guards.ask import GROUP, TEXTS, TOPIC, mend, without
from ottla.server.requests.link import Handle
from ottla.server.requests.request import Request
from ottla.server.security.authorizer import Ask
from ottla.server.security.rights import Operation
from ottla.wire.messages import alter_share_group_offsets as alter_messages
from ottla.wire.messages import delete_share_group_offsets as delete_messages
from ottla.wire.messages import describe_share_group_offsets as describe_messages

_Group = describe_messages.DescribeShareGroupOffsetsResponseGroup
_Mend = Callable[[_Group], _Group]


def describe_share_group_offsets(
    ask: Ask, handle: Handle, body: describe_messages.DescribeShareGroupOffsetsRequest, request: Request
) -> Any:
    """DESCRIBE on each group, and on each topic. Where all topics are asked for, the others are hidden."""
    names = [group.group_id for group in body.groups]
    mends: list[_Mend | None] = []
    allowed = []
    for group in body.groups:
        if ask.group(Operation.DESCRIBE, group.group_id):
            mends.append(_cut_group(group, ask, request))
            allowed.append(group)
        else:
            mends.append(None)
    body.groups = allowed

    def add(answer: describe_messages.DescribeShareGroupOffsetsResponse) -> describe_messages.DescribeShareGroupOffsetsResponse:
        described = iter(list(answer.groups))
        groups = [
            _Group(name, error_code=GROUP) if change is None else change(next(described))
            for name, change in zip(names, mends, strict=True)
        ]
        answer.groups = request.broker.long_answers.bounded(groups)
        return answer

    return mend(handle(body, request), add)


def _cut_group(group: describe_messages.DescribeShareGroupOffsetsRequestGroup, ask: Ask, request: Request) -> _Mend:
    """Takes the refused topics out of a group's request; returns what puts them into its answer."""
    hides = group.topics is None
    refused = [topic for topic in group.topics or () if not ask.topic(Operation.DESCRIBE, topic.topic_name)]
    if not refused and not hides:
        return lambda answer: answer
    if group.topics is not None:
        group.topics = without(group.topics, refused)

    def change(answer: _Group) -> _Group:
        if answer.error_code:
            return answer
        topics = [each for each in answer.topics if not hides or ask.topic(Operation.DESCRIBE, each.topic_name, quiet=True)]
        for topic in refused:
            partitions = [
                describe_messages.DescribeShareGroupOffsetsResponsePartition(
                    index, start_offset=-1, error_code=TOPIC, error_message=TEXTS[TOPIC]
                )
                for index in topic.partitions
            ]
            topics.append(describe_messages.DescribeShareGroupOffsetsResponseTopic(topic.topic_name, partitions=partitions))
        return _Group(answer.group_id, request.broker.long_answers.bounded(topics), answer.error_code, answer.error_message)

    return change


def alter_share_group_offsets(
    ask: Ask, handle: Handle, body: alter_messages.AlterShareGroupOffsetsRequest, request: Request
) -> Any:
    """READ on the group, and on each topic."""
    if not ask.group(Operation.READ, body.group_id):
        return alter_messages.AlterShareGroupOffsetsResponse(error_code=GROUP, error_message=TEXTS[GROUP])
    refused = [topic for topic in body.topics if not ask.topic(Operation.READ, topic.topic_name)]
    if not refused:
        return handle(body, request)
    body.topics = without(body.topics, refused)

    def add(answer: alter_messages.AlterShareGroupOffsetsResponse) -> alter_messages.AlterShareGroupOffsetsResponse:
        if answer.error_code:
            return answer
        for topic in refused:
            partitions = [
                alter_messages.AlterShareGroupOffsetsResponsePartition(each.partition_index, TOPIC, TEXTS[TOPIC])
                for each in topic.partitions
            ]
            answer.responses.append(alter_messages.AlterShareGroupOffsetsResponseTopic(topic.topic_name, partitions=partitions))
        return answer

    return mend(handle(body, request), add) if body.topics else add(alter_messages.AlterShareGroupOffsetsResponse())


def delete_share_group_offsets(
    ask: Ask, handle: Handle, body: delete_messages.DeleteShareGroupOffsetsRequest, request: Request
) -> Any:
    """DELETE on the group, and READ on each topic."""
    if not ask.group(Operation.DELETE, body.group_id):
        return delete_messages.DeleteShareGroupOffsetsResponse(error_code=GROUP, error_message=TEXTS[GROUP])
    refused = [topic for topic in body.topics if not ask.topic(Operation.READ, topic.topic_name)]
    if not refused:
        return handle(body, request)
    body.topics = without(body.topics, refused)

    def add(answer: delete_messages.DeleteShareGroupOffsetsResponse) -> delete_messages.DeleteShareGroupOffsetsResponse:
        if not answer.error_code:
            answer.responses += [
                delete_messages.DeleteShareGroupOffsetsResponseTopic(
                    topic.topic_name, error_code=TOPIC, error_message=TEXTS[TOPIC]
                )
                for topic in refused
            ]
        return answer

    return mend(handle(body, request), add)
