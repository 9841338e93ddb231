"""One group of any kind: its members with what is assigned to them, and where it is in each partition."""

from __future__ import annotations

from typing import Any, Final

from ottla.commands.groups.rows import GroupState, assigned
from ottla.commands.output import Failure
from ottla.console.ask import Answer, Ask, Page, paged
from ottla.console.cluster.uncommitted import uncommitted
from ottla.console.errors import Missing

SIZE: Final = 200


def _timers(ask: Ask, name: str) -> list[dict[str, Any]] | None:
    """Returns the armed deadlines of a group; None if they are not known here."""
    try:
        return None if ask.inside is None else ask.inside.ask("group", name=name)["timers"][:SIZE]
    except (Failure, Missing):  # another broker coordinates it, or it has gone
        return None


def _left_out(ask: Ask, state: GroupState) -> list[str]:
    """Returns what the lag leaves out. While members read, all of their partitions are listed; share groups commit nothing."""
    if state.members or state.kind not in {"classic", "consumer"}:
        return []
    return uncommitted(ask.source.summary().topics, [one.partition for one in state.offsets])


def group(ask: Ask) -> Answer:
    """Shows the group `?id=`; its name may be any text, so it is no part of the path."""
    state, notes = ask.source.state(ask.query.get("id", ""))
    page = paged(ask, state.offsets, SIZE)
    members = [
        (member, assigned(member.partitions), None if member.target is None else assigned(member.target))
        for member in state.members[:SIZE]
    ]
    return Page(
        "group.html",
        {
            "group": state,
            "members": members,
            "more_members": max(0, len(state.members) - SIZE),
            "page": page,
            "notes": [*notes, *_left_out(ask, state)],
            "has_committed": any(one.committed is not None for one in state.offsets),
            "has_epochs": state.epoch is not None,
            "timers": _timers(ask, state.name),
        },
    )
