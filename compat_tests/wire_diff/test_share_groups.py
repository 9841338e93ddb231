"""Share groups: heartbeats in sequence, description, offsets, and what every other group API says of a share group.

Who of several members gets which partitions depends on the topic's id, so only how many are compared here;
tests/server/group/share/test_assignor_oracle.py asks Kafka's own assignor. The share coordinator is asked for state after the
answer to a heartbeat, so a scenario sends heartbeats until what it waits for is there, and returns the last answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.group_settings import see_a_later_change
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.members import Member
from compat_tests.wire_diff.same import check
from compat_tests.wire_diff.test_share_state import ShareState
from compat_tests.wire_diff.test_transaction_coordinator import Client
from ottla.wire.messages import alter_share_group_offsets as altering
from ottla.wire.messages import consumer_group_heartbeat as consumer
from ottla.wire.messages import delete_share_group_offsets as deleting
from ottla.wire.messages import describe_share_group_offsets as describing
from ottla.wire.messages import incremental_alter_configs as configs
from ottla.wire.messages import offset_commit, offset_delete, offset_fetch
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.wire.messages.sync_group import SyncGroupRequest
from ottla.wire.primitives import ZERO_UUID

GROUP_RESOURCE = 32
PATIENCE_S = 20.0


class ShareGroup:
    """A share group without the usual second between assignments, topics, and members by their names."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.state = ShareState(wire)
        self.topic, self.topic_id = self.state.topic, self.state.topic_id
        self.group = wire.name("g")
        self.epochs: dict[str, int] = {}
        self.configure(self.group, share_assignment_interval_ms="0")
        self.wait_for_coordinator(self.topic)

    def wait_for_coordinator(self, topic: str) -> None:
        """Kafka's coordinator hears of a topic some time after its metadata name it."""

        def knows() -> bool:
            return bool(self.offsets((topic, [0]), group="nobody").groups[0].topics[0].topic_id != ZERO_UUID)

        wait_for(knows, f"the coordinator knows {topic}")

    def create(self, stem: str) -> str:
        """Another topic, of one partition."""
        name = self.wire.create(stem)
        self.wait_for_coordinator(name)
        return name

    def configure(self, group: str, **settings: str) -> Any:
        """The answer, once what is not refused holds."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        altered = [configs.AlterableConfig(name, 0, value) for name, value in named.items()]
        resource = configs.AlterConfigsResource(GROUP_RESOURCE, group, altered)
        answer = self.wire.call(configs.IncrementalAlterConfigsRequest([resource]), 1)
        asked = DescribeConfigsRequest([DescribeConfigsResource(GROUP_RESOURCE, group, list(named))])

        def holds() -> bool:
            return {each.name: each.value for each in self.wire.call(asked, 4).results[0].configs} == named

        if not answer.responses[0].error_code:
            wait_for(holds, f"{group} has its settings")
            see_a_later_change(self.wire, group)
        return answer

    def beat(
        self,
        member: str = "m",
        epoch: int | None = None,
        topics: list[str] | None = None,
        *,
        group: str | None = None,
        rack: str | None = None,
    ) -> Any:
        """In the member's epoch, unless another is given."""
        epoch = self.epochs.get(member, 0) if epoch is None else epoch
        request = ShareGroupHeartbeatRequest(self.group if group is None else group, member, epoch, rack, topics)
        answer = self.wire.call(request, 1)
        if answer.error_code == 0:
            self.epochs[member] = answer.member_epoch
        return answer

    def join(self, member: str = "m", *topics: str) -> Any:
        return self.beat(member, 0, list(topics or [self.topic]))

    def beat_until(self, member: str, wanted: Callable[[Any], bool]) -> Any:
        """Heartbeats until an answer is as wanted: that answer."""
        answers: list[Any] = []

        def heard() -> bool:
            answers.append(self.beat(member))
            return wanted(answers[-1])

        wait_for(heard, f"{self.wire.kind}: {member} hears it", PATIENCE_S)
        return answers[-1]

    def assigned(self, member: str = "m") -> Any:
        return self.beat_until(member, lambda answer: bool(answer.assignment and answer.assignment.topic_partitions))

    def enter(self, member: str = "m", *topics: str) -> Any:
        """Joined, and in possession of partitions."""
        answer = self.join(member, *topics)
        return answer if answer.assignment.topic_partitions else [answer, self.assigned(member)]

    def describe(self, *groups: str, operations: bool = False) -> Any:
        answer = self.wire.call(ShareGroupDescribeRequest(list(groups or [self.group]), operations), 1)
        for group in answer.groups:
            for member in group.members:
                member.subscribed_topic_names.sort()
        return answer

    def offsets(self, *topics: tuple[str, list[int]], group: str | None = None, version: int = 1) -> Any:
        """Of these topics, or of all."""
        asked = [describing.DescribeShareGroupOffsetsRequestTopic(*topic) for topic in topics] if topics else None
        wanted = describing.DescribeShareGroupOffsetsRequestGroup(self.group if group is None else group, asked)
        return self.wire.call(describing.DescribeShareGroupOffsetsRequest([wanted]), version)

    def alter(self, *topics: tuple[str, dict[int, int]], group: str | None = None) -> Any:
        asked = [
            altering.AlterShareGroupOffsetsRequestTopic(
                name, [altering.AlterShareGroupOffsetsRequestPartition(*each) for each in partitions.items()]
            )
            for name, partitions in topics
        ]
        return self.wire.call(altering.AlterShareGroupOffsetsRequest(self.group if group is None else group, asked), 0)

    def forget(self, *topics: str, group: str | None = None) -> Any:
        asked = [deleting.DeleteShareGroupOffsetsRequestTopic(name) for name in topics]
        return self.wire.call(deleting.DeleteShareGroupOffsetsRequest(self.group if group is None else group, asked), 0)

    def delete(self, *groups: str) -> Any:
        return self.wire.call(DeleteGroupsRequest(list(groups or [self.group])), 2)

    def listed(self, version: int = 5, /, **filters: list[str]) -> Any:
        found = self.wire.call(ListGroupsRequest(**filters), version)
        return [group for group in found.groups if group.group_id == self.group]


def life_of_a_member(group: ShareGroup) -> Any:
    answers = [group.listed(), group.join(), group.listed(), group.assigned(), group.describe(operations=True)]
    answers += [group.beat(), group.beat(), group.beat(topics=[group.topic])]
    for filters in ({"states_filter": ["stable"]}, {"types_filter": ["Share"]}, {"types_filter": ["classic"]}):
        answers.append(group.listed(**filters))
    answers += [group.beat(epoch=-1), group.describe(), group.listed(), group.beat(epoch=-1), group.beat(epoch=2)]
    answers += [group.enter(), group.describe()]
    return answers


def epochs(group: ShareGroup) -> Any:
    group.enter()
    epoch = group.epochs["m"]
    answers: list[Any] = [group.beat(epoch=epoch - 1), group.beat(epoch=epoch - 2), group.beat(epoch=epoch + 1)]
    answers += [group.beat(epoch=epoch), group.beat(epoch=0, topics=[group.topic]), group.beat("other", epoch)]
    return [*answers, group.beat("other", -1), group.describe()]


def refusals(group: ShareGroup) -> Any:
    topics, nobody = [group.topic], group.wire.name("nobody")
    answers = [
        group.beat("", 0, topics),
        group.beat("x" * 36, 0, topics),
        group.beat("x" * 37, 0, topics),
        group.beat("m", 0, topics, group=""),
        group.beat("m", 0, topics, group=" "),
        group.beat(" ", 0, topics),
        group.beat("m", 0, topics, rack=""),
        group.beat("m", 0),
        group.beat("m", 0, []),
        group.beat("m", -2),
        group.beat("m", -(2**31)),
        group.beat("m", 3, group=nobody),
        group.beat("m", -1, group=nobody),
        group.describe(group.group, nobody, "", operations=True),
        group.delete(nobody),
    ]
    return [*answers, group.describe()]


def subscriptions(group: ShareGroup) -> Any:
    other, missing = group.create("other"), group.wire.name("missing")
    answers = [group.enter("m", group.topic)]
    answers += [group.beat(topics=[group.topic, missing]), group.describe()]
    answers += [group.beat(topics=[other]), group.assigned(), group.describe()]
    answers += [group.beat(topics=[other, group.topic]), group.describe()]
    answers += [group.beat(topics=[missing]), group.describe(), group.beat(topics=[]), group.describe()]
    return [*answers, group.beat(topics=[group.topic], rack="r"), group.beat(rack="s"), group.describe()]


def shares(answer: Any) -> Any:
    """Epochs, members, and how many partitions somebody has, for that is the same for both."""
    (group,) = answer.groups
    counts = [sum(len(topic.partitions) for topic in member.assignment.topic_partitions) for member in group.members]
    return [group.group_epoch, group.assignment_epoch, sorted(member.member_id for member in group.members), sorted(counts)]


def several_members(group: ShareGroup) -> Any:
    answers = [group.enter("a")]
    for member in ("b", "c", "d"):
        group.join(member)
        for each in list(group.epochs):
            group.beat(each)
        answers += [shares(group.describe()), dict(group.epochs)]
    for member in ("a", "c"):
        group.beat(member, -1)
        del group.epochs[member]
        for each in list(group.epochs):
            group.beat(each)
        answers += [shares(group.describe()), dict(group.epochs)]
    return answers


def settings_of_the_group(group: ShareGroup) -> Any:
    answers = [group.configure(group.group, share_heartbeat_interval_ms="7000"), group.enter()]
    answers += [group.configure(group.group, share_heartbeat_interval_ms="1"), group.beat()]
    return [*answers, group.configure(group.group, share_session_timeout_ms="50000"), group.beat()]


def offsets(group: ShareGroup) -> Any:
    name, nobody = group.topic, group.wire.name("nobody")
    answers = [group.offsets(), group.offsets((name, [0, 1])), group.offsets((name, [0]), version=0), group.offsets(group=nobody)]
    answers += [group.enter(), group.offsets(), group.alter((name, {0: 5})), group.forget(name), group.delete()]
    answers += [group.beat(epoch=-1), group.alter((name, {0: 5, 1: -1, 7: 3}), (nobody, {0: 1})), group.offsets()]
    answers += [group.offsets((name, [1, 0]), (nobody, [0, 7])), group.offsets((name, [0, 0])), group.offsets(version=0)]
    answers += [group.alter((name, {0: 0})), group.offsets(), group.alter(), group.alter((name, {}))]
    answers += [group.forget(nobody), group.forget(), group.forget(name), group.forget(name), group.offsets(), group.describe()]
    answers += [group.alter((name, {1: 2})), group.offsets(), group.delete(), group.offsets(), group.listed()]
    answers += [group.state.summary(partition) for partition in (0, 1)]
    return answers


def offsets_of_no_group(group: ShareGroup) -> Any:
    name, new = group.topic, group.wire.name("new")
    answers = [group.forget(name, group=new), group.forget(name, group=""), group.alter((name, {0: 1}), group="")]
    answers += [group.alter(group=new), group.describe(new), group.alter((name, {0: 1}), group=new), group.describe(new)]
    answers += [group.offsets(group=new), group.offsets(group="")]
    return [*answers, group.delete(new), group.describe(new), group.offsets((name, [0]), group=new)]


def impossible_offsets(group: ShareGroup) -> Any:
    """The codes of the groups."""
    name, nobody = group.topic, group.wire.name("nobody")
    asked = [group.offsets((name, [-1])), group.offsets((name, []), (nobody, [0])), group.offsets((name, [0]), group="")]
    return [answer.groups[0].error_code for answer in asked]


def offsets_of_no_partition(group: ShareGroup) -> Any:
    answer = group.offsets((group.topic, [9]))
    return answer if isinstance(answer, str) else answer.groups[0].error_code


def a_topic_grows(group: ShareGroup) -> Any:
    answers = [group.enter()]
    group.wire.call(CreatePartitionsRequest([CreatePartitionsTopic(group.topic, 3, None)], 30_000), 3)
    group.wire.wait_for_topic(group.topic, 3)

    def has_all(answer: Any) -> bool:
        return bool(answer.assignment and [len(each.partitions) for each in answer.assignment.topic_partitions] == [3])

    return [*answers, group.beat_until("m", has_all), group.describe(), group.offsets()]


def a_topic_goes(group: ShareGroup) -> Any:
    other = group.create("other")
    group.join("m", group.topic, other)

    def has_both(answer: Any) -> bool:
        return bool(answer.assignment and len(answer.assignment.topic_partitions) == 2)

    group.beat_until("m", has_both)
    group.wire.call(DeleteTopicsRequest(topic_names=[other], timeout_ms=30_000), 5)
    group.wire.wait_until_gone(other)

    def has_one(answer: Any) -> bool:
        return bool(answer.assignment and len(answer.assignment.topic_partitions) == 1)

    return [group.beat_until("m", has_one), group.describe(), group.offsets(), group.beat(epoch=-1), group.delete()]


def other_apis(group: ShareGroup) -> Any:
    group.enter()
    name, call = group.group, group.wire.call
    partition = offset_commit.OffsetCommitRequestPartition(0, 5)
    answers: list[Any] = [call(DescribeGroupsRequest([name]), version) for version in range(7)]
    answers.append(call(ConsumerGroupDescribeRequest([name]), 1))
    for version in (2, 8, 9, 10):
        topic = offset_commit.OffsetCommitRequestTopic(group.topic, group.topic_id, [partition])
        for epoch, member in ((-1, ""), (1, "m")):
            answers.append(call(offset_commit.OffsetCommitRequest(name, epoch, member, topics=[topic]), version))
    for version in (1, 7, 8, 9, 10):
        for epoch, asking in ((-1, None), (1, "m")):
            wanted = offset_fetch.OffsetFetchRequestTopics(group.topic, group.topic_id, [0])
            asked = offset_fetch.OffsetFetchRequestGroup(name, asking, epoch, [wanted])
            plain = offset_fetch.OffsetFetchRequestTopic(group.topic, [0])
            answers.append(call(offset_fetch.OffsetFetchRequest(name, [plain], [asked]), version))
    gone = offset_delete.OffsetDeleteRequestTopic(group.topic, [offset_delete.OffsetDeleteRequestPartition(0)])
    answers.append(call(offset_delete.OffsetDeleteRequest(name, [gone]), 0))
    answers += [call(SyncGroupRequest(name, 1, "m"), 5), call(HeartbeatRequest(name, 1, "m"), 4)]
    answers.append(call(LeaveGroupRequest(name, members=[MemberIdentity("m")]), 5))
    answers.append(Member(group.wire, name, "classic").join())
    request = consumer.ConsumerGroupHeartbeatRequest(name, "c" * 22, 0, None, None, 5000, [group.topic], None, None, [])
    answers.append(call(request, 1))
    return [*answers, group.describe()]


def offsets_in_transactions(group: ShareGroup) -> Any:
    group.enter()
    client = Client.__new__(Client)  # whose topic and group are there already
    client.wire, client.tid, client.ids = group.wire, group.wire.name("tx"), 0
    client.group, client.topic = group.group, group.topic
    producer = client.begin()
    group.wire.call(AddOffsetsToTxnRequest(client.tid, *producer, client.group), 3)
    member: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": group.epochs["m"]}
    return [client.commit_offset(producer, version, **more) for version in (3, 5) for more in ({}, member)]


def groups_of_other_kinds(group: ShareGroup) -> Any:
    classic, modern = group.wire.name("classic"), group.wire.name("modern")
    topic = offset_commit.OffsetCommitRequestTopic(
        group.topic, group.topic_id, [offset_commit.OffsetCommitRequestPartition(0, 5)]
    )
    group.wire.call(offset_commit.OffsetCommitRequest(classic, -1, "", topics=[topic]), 9)
    request = consumer.ConsumerGroupHeartbeatRequest(modern, "c" * 22, 0, None, None, 5000, [group.topic], None, None, [])
    group.wire.call(request, 1)
    answers = []
    for name in (classic, modern):
        answers += [
            group.beat("m", 0, [group.topic], group=name),
            group.beat("m", 1, group=name),
            group.beat("m", -1, group=name),
        ]
        answers += [group.describe(name), group.offsets(group=name), group.offsets((group.topic, [0]), group=name)]
        answers += [group.alter((group.topic, {0: 0}), group=name), group.forget(group.topic, group=name)]
    return answers


SCENARIOS = [
    life_of_a_member,
    epochs,
    refusals,
    subscriptions,
    several_members,
    settings_of_the_group,
    offsets,
    offsets_of_no_group,
    impossible_offsets,
    offsets_of_no_partition,
    a_topic_grows,
    a_topic_goes,
    other_apis,
    offsets_in_transactions,
    groups_of_other_kinds,
]


ROWS = {impossible_offsets: "S6", offsets_of_no_partition: "S7"}
"""Of the scenarios in which Kafka fails."""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.__name__ for scenario in SCENARIOS])
def test_share_groups(wires: dict[str, Wire], scenario: Any) -> None:
    check(wires, ROWS.get(scenario, f"share groups: {scenario.__name__}"), lambda wire: scenario(ShareGroup(wire)))
