"""Deletes the offsets that a group has committed in a topic. Whoever deletes them has to type the group's name."""

from __future__ import annotations

from ottla.commands.groups.rows import GroupState
from ottla.commands.output import counted
from ottla.console.ask import Answer, Ask
from ottla.console.cluster import changes
from ottla.console.errors import Missing
from ottla.console.pages.forms import Field, Form, form_page, one_of, submit
from ottla.console.rendering.templates import segment


def ask_to_forget(ask: Ask) -> Answer:
    """Shows the form of the group `?id=`, with the topic `?topic=` if it is given."""
    state, notes = ask.source.state(ask.query.get("id", ""))
    return form_page(ask, _form(ask, state), notes=notes)


def forget(ask: Ask) -> Answer:
    """Deletes them if the group's name was typed."""
    state, _ = ask.source.state(ask.query.get("id", ""))
    form = _form(ask, state)

    def act() -> None:
        topic = one_of(ask, "topic", "topic", _topics(state))
        changes.delete_offsets(ask.source, state, topic)

    what = f"delete offsets of group {state.name!a} in topic {ask.form.get('topic', '')[:249]!a}"
    return submit(ask, form, what, act, form.back)


def _topics(state: GroupState) -> list[str]:
    """Returns the topics in which the group has committed offsets. Raises Missing if there is none."""
    if not (found := sorted({one.partition.topic for one in state.offsets if one.committed is not None})):
        raise Missing(f"Group {state.name or '(empty name)'} has committed no offset.")
    return found


def _form(ask: Ask, state: GroupState) -> Form:
    topics, name = _topics(state), state.name or "(empty name)"
    text = [
        f"This deletes what the {state.kind} group {name} has committed in one topic. A consumer that reads the topic for it "
        "later begins where its own settings say. It cannot be undone."
    ]
    if state.members:
        members = counted(len(state.members), "member")
        text.append(
            f"The group has {members}: the cluster refuses this for a topic that they read, or as long as they are there."
        )
    chosen = ask.text("topic") if ask.text("topic") in topics else topics[0]
    back = f"/group?id={segment(state.name)}"
    fields = [Field("topic", "Topic", chosen, "choice", topics)]
    return Form(f"Delete offsets of {name}", text, "Delete", back, fields, name=state.name, called="the group's name")
