"""Deletes what a group has committed in a topic, over a connection of our own, since librdkafka has no function for it in Python.

A group that reads the topic at the time keeps its offsets there; groups of some kinds keep all while they have members.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.commands.clients import direct
from ottla.commands.clients.brokers import Brokers, check
from ottla.commands.clients.partition import Partition
from ottla.commands.groups.kinds import SHARE, Listed
from ottla.commands.output import Failure
from ottla.wire.messages import delete_share_group_offsets as of_share
from ottla.wire.messages import offset_delete


def delete_offsets(brokers: Brokers, group: Listed, topic: str, numbers: Sequence[int]) -> None:
    """Has the group forget its offsets in these partitions; if it is a share group, in all of the topic. Raises Failure if the
    group is refused, or for the first partition that is."""
    if group.broker is None:
        raise Failure(f"group {group.name}: its coordinator is not known")
    coordinator = brokers.at(group.broker)
    if group.kind == SHARE:
        request = of_share.DeleteShareGroupOffsetsRequest(group.name, [of_share.DeleteShareGroupOffsetsRequestTopic(topic)])
        answer = coordinator.call(request)
        check(answer.error_code, answer.error_message)
        for one in answer.responses:
            check(one.error_code, one.error_message)
        return
    partitions = [offset_delete.OffsetDeleteRequestPartition(number) for number in numbers]
    asked = offset_delete.OffsetDeleteRequest(group.name, [offset_delete.OffsetDeleteRequestTopic(topic, partitions)])
    answer = coordinator.call(asked)
    check(answer.error_code)
    for of_topic in answer.topics:
        for one in of_topic.partitions:
            if one.error_code:
                raise Failure(f"{Partition(of_topic.name, one.partition_index)}: {direct.words(one.error_code)}")
