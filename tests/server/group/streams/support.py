"""Streams groups without a network: a coordinator over a log and a clock in memory (fakes.py), and members that send requests to
it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from ottla.server.base.turns import at_once
from ottla.server.group.cluster import Topic
from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Client
from ottla.server.group.streams.ahead import Ahead
from ottla.server.group.streams.group import StreamsGroup
from ottla.server.group.streams.protocol import Answer, StreamsProtocol
from ottla.server.group.streams.tasks import TaskIds
from ottla.wire.messages.internal import streams_group_topology_value as recorded
from ottla.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.server.coordination.memory import NODE_ID
from tests.server.group.fakes import Broker

GROUP = "g"
GROUP_RESOURCE = 32
AT_ONCE = {"streams.initial.rebalance.delay.ms": "0", "streams.assignment.interval.ms": "0"}


def subtopology(
    name: str,
    *sources: str,
    sinks: Sequence[str] = (),
    repartition: Mapping[str, int] | None = None,
    changelogs: Sequence[str] = (),
    together: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
) -> Subtopology:
    return Subtopology(
        name,
        list(sources),
        state_changelog_topics=[TopicInfo(topic) for topic in changelogs],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=[TopicInfo(topic, count) for topic, count in (repartition or {}).items()],
        copartition_groups=[CopartitionGroup(list(topics), [], list(internal)) for topics, internal in together],
    )


READS_T = subtopology("0", "t")  # three partitions


def topic(name: str, partitions: int) -> Topic:
    return SimpleNamespace(
        name=name,
        topic_id=name.encode().rjust(16, b"\0"),
        partitions={index: SimpleNamespace(replicas=(NODE_ID,)) for index in range(partitions)},
    )


def ids(tasks: TaskIds | Mapping[str, Any]) -> dict[str, list[int]]:
    return {name: sorted(partitions) for name, partitions in tasks.items()}


class Cluster:
    """A broker whose groups are assigned at once unless a setting says otherwise; names of settings are prefixed
    with `streams.`.
    """

    def __init__(self, broker: Broker | None = None, **settings: str) -> None:
        self.broker = broker or Broker()
        self.set(GROUP, **settings)

    def set(self, group: str = GROUP, **settings: str) -> None:
        named = {f"streams.{name.replace('_', '.')}": text for name, text in settings.items()}
        self.broker.configs[GROUP_RESOURCE, group] = {**AT_ONCE, **self.broker.configs.get((GROUP_RESOURCE, group), {}), **named}

    def make_topic(self, name: str, partitions: int) -> None:
        self.broker.metadata.topics[name] = topic(name, partitions)
        self.broker.groups.topic_changed(name)

    def drop_topic(self, name: str) -> None:
        del self.broker.metadata.topics[name]
        self.broker.groups.topic_changed(name)

    def advance(self, seconds: float) -> None:
        self.broker.clock.advance(seconds)

    @property
    def protocol(self) -> StreamsProtocol:
        return self.broker.groups.member_shard(GROUP).protocol(StreamsProtocol)

    @property
    def group(self) -> StreamsGroup:
        return self.protocol.group(GROUP)

    def restart(self) -> None:
        """Returns another process over the same log, as after kill -9."""
        self.broker.groups.close()
        topics, configs = self.broker.metadata.topics, self.broker.configs
        self.broker = self.broker.restarted()
        self.broker.metadata.topics, self.broker.configs = topics, configs
        self.broker.metadata.config_of = lambda kind, name: configs.get((kind, name), {})


class Member:
    """A member. `epoch`, `active` and `standby` are those of the last answer."""

    def __init__(self, cluster: Cluster, name: str, instance: str | None = None, process: str | None = None) -> None:
        self.cluster, self.name, self.instance, self.process = cluster, name, instance, process or f"process-{name}"
        self.epoch = 0
        self.active: dict[str, list[int]] = {}
        self.standby: dict[str, list[int]] = {}

    def beat(self, **changes: Any) -> Any:
        """Sends a heartbeat and returns the answer. Raises GroupError."""
        return self.ask(**changes).response

    def ask(self, **changes: Any) -> Answer:
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": self.name,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
        }
        request = StreamsGroupHeartbeatRequest(**(fields | changes))
        protocol = self.cluster.protocol
        if request.member_epoch < 0:
            answer = protocol.group_leave(request)
        else:
            steps = protocol.look_ahead(request)
            ahead = Ahead() if steps is None else at_once(steps)
            answer = protocol.group_heartbeat(request, Client("client", "/host"), 1, ahead)
        if answer.endpoints is not None:
            answer.response.partitions_by_user_endpoint = at_once(answer.endpoints)
        self.epoch = answer.response.member_epoch
        if answer.response.active_tasks is not None:
            self.active = {each.subtopology_id: each.partitions for each in answer.response.active_tasks}
            self.standby = {each.subtopology_id: each.partitions for each in answer.response.standby_tasks or ()}
        return answer

    def join(self, *subtopologies: Subtopology, **changes: Any) -> Any:
        return self.enter(*subtopologies, **changes).response

    def enter(self, *subtopologies: Subtopology, **changes: Any) -> Answer:
        fields: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "topology": Topology(changes.pop("topology_epoch", 0), list(subtopologies)),
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "process_id": self.process,
            "client_tags": [],
        }
        return self.ask(**(fields | changes))

    def own(self, active: Mapping[str, Sequence[int]] | None = None, **changes: Any) -> Any:
        """Sends a heartbeat that reports the member's tasks, by default all that it was assigned."""
        given = self.active if active is None else active
        owned = {
            "active_tasks": [RequestTaskIds(name, list(partitions)) for name, partitions in given.items()],
            "standby_tasks": [RequestTaskIds(name, list(partitions)) for name, partitions in self.standby.items()],
            "warmup_tasks": [],
        }
        return self.beat(**(owned | changes))

    def refused(self, **changes: Any) -> int:
        """Returns the error code of a heartbeat that is refused."""
        try:
            self.beat(**changes)
        except GroupError as error:
            return int(error.code)
        raise AssertionError("it was not refused")


def settle(*members: Member) -> None:
    """Lets members send heartbeats with their tasks until nothing can change any more."""
    for _ in range(4):
        for member in members:
            member.own()


def two_members(cluster: Cluster) -> tuple[Member, Member]:
    one, two = Member(cluster, "m1"), Member(cluster, "m2")
    one.join(READS_T)
    two.join(READS_T)
    settle(one, two)
    return one, two


def value(*subtopologies: Subtopology, epoch: int = 0) -> recorded.StreamsGroupTopologyValue:
    """Returns a topology as a group's record has it."""
    from ottla.server.group.streams.answers import topology_value

    return at_once(topology_value(Topology(epoch, list(subtopologies))))
