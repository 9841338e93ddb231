"""Guards of the APIs about the offsets of share groups: first the group, then each topic."""

from __future__ import annotations

from typing import Any

from ottla.server.base.turns import Steps
from ottla.server.guards.ask import (
    GROUP,
    TEXTS,
    TOPIC,
    Change,
    change_answer,
    guard_each_group,
    in_turns,
    make_each,
    select,
    without,
)
from ottla.server.requests.link import Handle
from ottla.server.requests.request import Request
from ottla.server.security.authorizer import Ask
from ottla.server.security.rights import Operation
from ottla.wire.messages import alter_share_group_offsets as alter_messages
from ottla.wire.messages import delete_share_group_offsets as delete_messages
from ottla.wire.messages import describe_share_group_offsets as describe_messages

_Group = describe_messages.DescribeShareGroupOffsetsResponseGroup


@in_turns
def describe_share_group_offsets(
    ask: Ask, handle: Handle, body: describe_messages.DescribeShareGroupOffsetsRequest, request: Request
) -> Steps[Any]:
    """Asks for DESCRIBE on each group, and on each topic. Where all topics are asked for, the others are hidden."""
    return (
        yield from guard_each_group(
            ask,
            handle,
            body,
            request,
            lambda group: _cut_group(group, ask, request),
            lambda name: _Group(name, error_code=GROUP),
        )
    )


def _cut_group(group: describe_messages.DescribeShareGroupOffsetsRequestGroup, ask: Ask, request: Request) -> Steps[Change]:
    """Makes steps that take the refused topics out of a group's request, and return what puts them into its answer."""
    hides = group.topics is None
    refused = yield from select(group.topics or (), lambda topic: not ask.topic(Operation.DESCRIBE, topic.topic_name))
    if group.topics is not None:
        group.topics = without(group.topics, refused)

    def refuse(
        topic: describe_messages.DescribeShareGroupOffsetsRequestTopic,
    ) -> describe_messages.DescribeShareGroupOffsetsResponseTopic:
        partitions = [
            describe_messages.DescribeShareGroupOffsetsResponsePartition(
                index, start_offset=-1, error_code=TOPIC, error_message=TEXTS[TOPIC]
            )
            for index in topic.partitions
        ]
        return describe_messages.DescribeShareGroupOffsetsResponseTopic(topic.topic_name, partitions=partitions)

    def change(answer: _Group) -> Steps[_Group]:
        if answer.error_code or (not hides and not refused):
            return answer
        topics = yield from select(
            answer.topics, lambda topic: not hides or ask.topic(Operation.DESCRIBE, topic.topic_name, quiet=True)
        )
        topics += yield from make_each(refused, refuse)
        return _Group(answer.group_id, request.broker.long_answers.bounded(topics), answer.error_code, answer.error_message)

    return change


@in_turns
def alter_share_group_offsets(
    ask: Ask, handle: Handle, body: alter_messages.AlterShareGroupOffsetsRequest, request: Request
) -> Steps[Any]:
    """Asks for READ on the group, and on each topic."""
    if not ask.group(Operation.READ, body.group_id):
        return alter_messages.AlterShareGroupOffsetsResponse(error_code=GROUP, error_message=TEXTS[GROUP])
    refused = yield from select(body.topics, lambda topic: not ask.topic(Operation.READ, topic.topic_name))
    if not refused:
        return handle(body, request)
    body.topics = without(body.topics, refused)

    def add(answer: alter_messages.AlterShareGroupOffsetsResponse) -> alter_messages.AlterShareGroupOffsetsResponse:
        if answer.error_code:
            return answer
        for topic in refused:
            partitions = [
                alter_messages.AlterShareGroupOffsetsResponsePartition(partition.partition_index, TOPIC, TEXTS[TOPIC])
                for partition in topic.partitions
            ]
            answer.responses.append(alter_messages.AlterShareGroupOffsetsResponseTopic(topic.topic_name, partitions=partitions))
        return answer

    return change_answer(handle(body, request), add) if body.topics else add(alter_messages.AlterShareGroupOffsetsResponse())


@in_turns
def delete_share_group_offsets(
    ask: Ask, handle: Handle, body: delete_messages.DeleteShareGroupOffsetsRequest, request: Request
) -> Steps[Any]:
    """Asks for DELETE on the group, and READ on each topic."""
    if not ask.group(Operation.DELETE, body.group_id):
        return delete_messages.DeleteShareGroupOffsetsResponse(error_code=GROUP, error_message=TEXTS[GROUP])
    refused = yield from select(body.topics, lambda topic: not ask.topic(Operation.READ, topic.topic_name))
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

    return change_answer(handle(body, request), add)
