"""Members of streams groups of the broker that the sweeps ask: without one, a StreamsGroupHeartbeat that names tasks is refused,
and without a topology of its own each time, one that joins is.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any, Final

from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from ottla.wire.primitives import WireStruct

MEMBER: Final = "m"
GROUP: Final = "streams"
USUAL_TEXT: Final = "x"
"""The id of a subtopology in a request whose long list is another (tests/odd_requests.py)."""
Ask = Callable[[WireStruct], Any]

_groups = itertools.count()


def topology(names: list[str], topic: str) -> Topology:
    """Returns a topology whose subtopologies have these names and read one topic."""
    return Topology(0, [Subtopology(name, [topic]) for name in names])


def joining(group: str, member: str, brings: Topology) -> StreamsGroupHeartbeatRequest:
    """Returns the first heartbeat of a member."""
    return StreamsGroupHeartbeatRequest(
        group,
        member,
        0,
        rebalance_timeout_ms=60_000,
        topology=brings,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id=member,
        client_tags=[],
    )


class Staying:
    """A member that has all tasks of its group. Its requests are about these tasks, and about as many as there may be."""

    def __init__(self) -> None:
        self._epoch = 0
        self._names: list[str] = []

    async def enter(self, ask: Ask, wait: Callable[[], Any], names: list[str], topic: str) -> None:
        """Has the member join, and get its tasks."""
        self._names = names
        answer = await ask(joining(GROUP, MEMBER, topology(names, topic)))
        while not answer.active_tasks:
            assert not answer.error_code, answer
            await wait()
            answer = await ask(StreamsGroupHeartbeatRequest(GROUP, MEMBER, answer.member_epoch))
        self._epoch = answer.member_epoch

    def change(self, request: Any) -> Any:
        """Returns the same request of this member, which joins no more. It has no other tasks than those of the long list, and
        each offset is one of another task.
        """
        request.group_id, request.member_id, request.member_epoch = GROUP, MEMBER, self._epoch
        request.instance_id = request.topology = None
        for name in ("active_tasks", "standby_tasks", "warmup_tasks"):
            tasks = [copy.copy(each) for each in getattr(request, name)]
            setattr(request, name, tasks if len(tasks) > 1 or _is_long_within(tasks) else [])
            for task in tasks:
                if task.subtopology_id == USUAL_TEXT:
                    task.subtopology_id = self._names[0]
        for offsets in (request.task_offsets, request.task_end_offsets):
            for at, task in enumerate(offsets or ()):
                task.subtopology_id, task.partition = self._names[at % len(self._names)], at // len(self._names)
        return request


def join_another(request: Any) -> Any:
    """Returns the same request, with which a member joins a group of its own. Where its lists are not long, they are as in the
    topology of a member that reads and does no more.
    """
    request.group_id, request.member_id, request.member_epoch = f"streams-{next(_groups)}", MEMBER, 0
    request.instance_id, request.rebalance_timeout_ms = None, 60_000
    request.active_tasks, request.standby_tasks, request.warmup_tasks = [], [], []
    request.task_offsets = request.task_end_offsets = None
    parts = request.topology.subtopologies = [copy.copy(part) for part in request.topology.subtopologies]
    for at, part in enumerate(parts):
        part.subtopology_id = str(at)
        for name in (
            "source_topic_regex",
            "state_changelog_topics",
            "repartition_sink_topics",
            "repartition_source_topics",
            "copartition_groups",
        ):
            if len(getattr(part, name)) < 2 and not _is_long_within(getattr(part, name)):
                setattr(part, name, [])
        part.state_changelog_topics = [_without_count(topic) for topic in part.state_changelog_topics]
        for group in part.copartition_groups:
            group.source_topics, group.repartition_source_topics = [0] * len(group.source_topics), []
    return request


def _is_long_within(things: list[Any]) -> bool:
    """Returns whether one of these has a list that is long."""
    lists = (getattr(thing, name) for thing in things if isinstance(thing, WireStruct) for name in thing.__slots__)
    return any(isinstance(each, list) and len(each) > 1 for each in lists)


def _without_count(topic: Any) -> Any:
    changed = copy.copy(topic)
    changed.name, changed.partitions, changed.replication_factor = f"changelog-{topic.name}", 0, 1
    return changed
