"""A member of a streams group (KIP-1071) by hand: a topology in short words, heartbeats, each answer as it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compat_tests import group_settings
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from ottla.wire.messages import (
    streams_group_describe,
    streams_group_heartbeat,
)

Tasks = Mapping[str, Sequence[int]]
TopicInfo = streams_group_heartbeat.TopicInfo


def subtopology(
    name: str,
    *sources: str,
    sinks: Sequence[str] = (),
    repartition: Mapping[str, int] | None = None,
    changelogs: Sequence[str] = (),
    together: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
) -> streams_group_heartbeat.Subtopology:
    """`repartition` are repartition sources and their counts (0: to be worked out), `together` copartition groups by index."""
    compact = [streams_group_heartbeat.KeyValue("cleanup.policy", "compact")]
    return streams_group_heartbeat.Subtopology(
        name,
        list(sources),
        state_changelog_topics=[TopicInfo(topic, topic_configs=compact) for topic in changelogs],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=[TopicInfo(topic, count) for topic, count in (repartition or {}).items()],
        copartition_groups=[
            streams_group_heartbeat.CopartitionGroup(list(topics), [], list(internal)) for topics, internal in together
        ],
    )


def counting(wire: Wire, topic: str) -> list[Any]:
    """Returns the topology that counting words makes: one subtopology reads and repartitions, the other counts and keeps the
    counts."""
    between, counts = wire.name("words-repartition"), wire.name("counts-changelog")
    return [
        subtopology("0", topic, sinks=[between]),
        subtopology("1", repartition={between: 0}, changelogs=[counts]),
    ]


def task_ids(tasks: Tasks) -> list[Any]:
    return [streams_group_heartbeat.RequestTaskIds(name, list(partitions)) for name, partitions in tasks.items()]


def held(listed: Sequence[Any] | None) -> dict[str, list[int]]:
    return {each.subtopology_id: sorted(each.partitions) for each in listed or ()}


class Stream:
    """One member. `epoch`, `active`, `standby` are what the last answer made them."""

    def __init__(self, wire: Wire, group: str, name: str, instance: str | None = None, process: str | None = None) -> None:
        self.wire, self.group, self.id, self.instance = wire, group, f"{group}-{name}", instance
        self.process = process or f"process-{name}"
        self.epoch = 0
        self.endpoint_epoch = 0
        self.active: dict[str, list[int]] = {}
        self.standby: dict[str, list[int]] = {}

    def beat(self, version: int = 1, **changes: Any) -> Any:
        """A heartbeat that says nothing new; `changes` are fields of the request."""
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
            "endpoint_information_epoch": self.endpoint_epoch,
        }
        answer = self.wire.call(streams_group_heartbeat.StreamsGroupHeartbeatRequest(**(fields | changes)), version)
        if not isinstance(answer, str) and answer.error_code == 0:
            self.epoch = answer.member_epoch
            self.endpoint_epoch = answer.endpoint_information_epoch
            if answer.active_tasks is not None:
                self.active, self.standby = held(answer.active_tasks), held(answer.standby_tasks)
        return answer

    def join(self, subtopologies: Sequence[Any], version: int = 1, **changes: Any) -> Any:
        """The first heartbeat, with a topology of epoch 0 (or `topology_epoch`)."""
        fields: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "topology": streams_group_heartbeat.Topology(changes.pop("topology_epoch", 0), list(subtopologies)),
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "process_id": self.process,
            "client_tags": [],
        }
        return self.beat(version, **(fields | changes))

    def owning(self, active: Tasks | None = None, standby: Tasks | None = None, **changes: Any) -> Any:
        """A heartbeat that says what the member has: by default, all that it was assigned."""
        given = {
            "active_tasks": task_ids(self.active if active is None else active),
            "standby_tasks": task_ids(self.standby if standby is None else standby),
            "warmup_tasks": [],
        }
        return self.beat(**(given | changes))

    def until(self, said: str, reached: Any, **changes: Any) -> Any:
        """Heartbeats that say what it has, until `reached(answer)`; that answer."""
        answers: list[Any] = []

        def done() -> bool:
            answers.append(self.owning(**changes))
            return bool(reached(answers[-1]))

        wait_for(done, lambda: f"{self.id}: {said}; the last answer was {answers[-1]}")
        return answers[-1]

    def until_ready(self) -> Any:
        """Until no status says that topics are missing; which heartbeat of Kafka's sees them first is a matter of time."""
        return self.until("topics are there", lambda answer: answer.error_code == 0 and not answer.status)

    def leave(self, **changes: Any) -> Any:
        return self.beat(**({"member_epoch": -1} | changes))


def set_group(wire: Wire, group: str, **settings: str) -> None:
    """Settings of a group, `streams.` left out of their names and underscores for dots, as soon as they hold."""
    group_settings.set_group(wire, group, {f"streams.{name.replace('_', '.')}": value for name, value in settings.items()})


def at_once(wire: Wire, stem: str = "g", **settings: str) -> str:
    """A group whose assignments wait for nothing."""
    group = wire.name(stem)
    set_group(wire, group, **({"initial_rebalance_delay_ms": "0", "assignment_interval_ms": "0"} | settings))
    return group


def described(wire: Wire, *groups: str, version: int = 1, **fields: Any) -> Any:
    return wire.call(streams_group_describe.StreamsGroupDescribeRequest(list(groups), **fields), version)
