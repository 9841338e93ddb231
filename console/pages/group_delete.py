"""Deletes a group with its offsets. Whoever deletes one has to type its name."""

from __future__ import annotations

from ottla.commands.groups.rows import GroupState
from ottla.commands.output import counted
from ottla.console.ask import Answer, Ask
from ottla.console.cluster import changes
from ottla.console.pages.forms import Form, form_page, submit
from ottla.console.rendering.templates import segment


def ask_to_delete(ask: Ask) -> Answer:
    """Shows what would be deleted of the group `?id=`."""
    state, notes = ask.source.state(ask.query.get("id", ""))
    return form_page(ask, _form(state), notes=notes)


def delete(ask: Ask) -> Answer:
    """Deletes it if its name was typed."""
    state, _ = ask.source.state(ask.query.get("id", ""))
    what = f"delete group {state.name!a}"
    return submit(ask, _form(state), what, lambda: changes.delete_group(ask.source, state), "/groups")


def _form(state: GroupState) -> Form:
    where = counted(sum(one.committed is not None for one in state.offsets), "partition")
    text = [
        f"This deletes the {state.kind} group {state.name or '(empty name)'} with its offsets in {where}. A "
        "consumer that joins it later begins where its own settings say. It cannot be undone."
    ]
    if state.members:
        text.append(f"The cluster will refuse it: the group has {counted(len(state.members), 'member')}. Stop them first.")
    back = f"/group?id={segment(state.name)}"
    return Form(f"Delete group {state.name or '(empty name)'}", text, "Delete", back, name=state.name, called="the group's name")
