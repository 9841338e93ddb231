"""One group of any kind: its members with what is assigned to them, and where it is in each partition."""

from __future__ import annotations

from typing import Final

from ottla.commands.group_rows import assigned
from ottla.console.ask import Answer, Ask, Page, paged

SIZE: Final = 200


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
            "notes": notes,
            "has_epochs": state.epoch is not None,
        },
    )
