"""The groups that read a topic, with their lag in it: they have committed offsets there, or a member has partitions of it."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.commands.groups.rows import GroupState
from ottla.commands.output import counted
from ottla.console.ask import Answer, Ask, Page, paged
from ottla.console.pages.groups import trouble

MOST_GROUPS: Final = 500
"""The most groups that are asked whether they read the topic."""
SIZE: Final = 100


class Reader(NamedTuple):
    """A group, and what it has of the topic: so many `partitions` with an offset or a member, its `lag` there in offsets, the
    `clients` that read them, and what is wrong as far as it is seen there."""

    group: GroupState
    partitions: int
    lag: int
    clients: tuple[str, ...]
    trouble: str | None


def groups(ask: Ask) -> Answer:
    """Shows the groups of the topic whose names contain `?q=`, those that are the furthest behind first."""
    topic = ask.source.topic(ask.args["topic"])
    known = ask.source.groups()
    names = [name for name in sorted(known.by_name) if ask.text("q").lower() in name.lower()]
    states = ask.source.states(names[:MOST_GROUPS], topic.name)
    offline = {topic.name} if topic.without_leader else set()
    found = [one for state in states.by_name.values() if (one := reader(state, topic.name, offline)) is not None]
    found.sort(key=lambda one: (-one.lag, one.group.name))
    left_out = [f"{counted(len(names) - MOST_GROUPS, 'more group')} not asked; search for some by name"]
    values = {
        "topic": topic,
        "page": paged(ask, found, SIZE),
        "q": ask.text("q"),
        "notes": (*known.notes, *states.notes, *(left_out if len(names) > MOST_GROUPS else [])),
    }
    return Page("topic_groups.html", values)


def reader(state: GroupState, topic: str, offline: set[str]) -> Reader | None:
    """Returns what a group has of the topic; None if that is nothing."""
    mine = [one for one in state.offsets if one.partition.topic == topic]
    clients = {one.member.client_id for one in mine if one.member is not None}
    clients |= {member.client_id for member in state.members if any(one.topic == topic for one in member.partitions)}
    if not mine and not clients:
        return None
    return Reader(state, len(mine), sum(one.lag or 0 for one in mine), tuple(sorted(clients)), trouble(state, offline))
