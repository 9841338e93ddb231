"""Moves a group to other offsets: first a look at both offsets of each partition, then the form once more with the name typed.

What is moved is what was looked at: the second form carries the offsets, so a time or "the end" does not mean something else by
then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from ottla.commands.clients.partition import Partition
from ottla.commands.groups.rows import GroupState
from ottla.commands.output import Failure, counted
from ottla.commands.positions import MAX_INT64, parse_position
from ottla.console.ask import Answer, Ask, Page, Redirect
from ottla.console.cluster import changes
from ottla.console.errors import BadInput
from ottla.console.pages.forms import is_typed
from ottla.console.rendering.templates import segment
from ottla.wire.batch import MAX_INT32

MOST_PARTITIONS: Final = 2000
"""The most partitions that a form moves; more is for `ottla group reset`."""


def form(ask: Ask) -> Answer:
    """Shows the form; with `?to=` also where the group would go on.

    The form itself names the group by `?name=`, percent-encoded once more, since a browser changes line ends in a field.
    """
    state, notes = ask.source.state(unquote(ask.query["name"]) if "name" in ask.query else ask.query.get("id", ""))
    if not ask.text("to"):
        return _shown(ask.query, state, None, None, notes)
    place = parse_position(ask.text("to"), "to")
    wanted = changes.partitions_of(ask.source, state, ask.text("topic"))
    if len(wanted) > MOST_PARTITIONS:
        count = len(wanted)
        raise BadInput(f"topic: that would move {count:,} partitions; `ottla group reset` moves more than {MOST_PARTITIONS:,}")
    return _shown(ask.query, state, changes.preview_reset(ask.source, state, wanted, place), None, notes)


def reset(ask: Ask) -> Answer:
    """Moves the group to the offsets of the form, if its name was typed."""
    name = ask.query.get("id", "")
    after = offsets_of(ask.form.get("offsets", ""))
    state, notes = ask.source.state(name)
    moved = changes.look_at(ask.source, state, after)
    if not is_typed(ask, name):
        return _shown(ask.form, state, moved, "Nothing was changed: what was typed is not the name of the group.", notes, 400)
    if why := changes.outside(moved):
        ask.audit(f"reset group {name!a}: refused: {why}")
        return _shown(ask.form, state, moved, f"Nothing was changed: {why}.", notes, 400)
    try:
        changes.reset(ask.source, state, after)
    except Failure as failure:
        ask.audit(f"reset group {name!a}: failed: {failure}")
        return _shown(ask.form, state, moved, str(failure), notes, 400)
    ask.audit(f"reset group {name!a} in {len(after)} partitions: done")
    return Redirect(f"/group?id={segment(name)}")


def as_text(after: Mapping[Partition, int]) -> str:
    """Returns the offsets as the form carries them."""
    return " ".join(f"{partition.topic}:{partition.number}:{offset}" for partition, offset in after.items())


def offsets_of(text: str) -> dict[Partition, int]:
    """Returns the offsets that `as_text` wrote. Raises BadInput."""
    found: dict[Partition, int] = {}
    for word in text.split():
        topic, _, rest = word.partition(":")
        number, _, offset = rest.partition(":")
        if not topic or "\0" in topic:
            raise BadInput("offsets has to be as this page wrote it; begin again")
        found[Partition(topic, _number(number, MAX_INT32))] = _number(offset, MAX_INT64)
    if not found or len(found) > MOST_PARTITIONS:
        raise BadInput("offsets has to be as this page wrote it; begin again")
    return found


def _number(text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) <= most):
        raise BadInput("offsets has to be as this page wrote it; begin again")
    return int(text)


def _shown(
    given: Mapping[str, str],
    state: GroupState,
    moved: changes.Moved | None,
    problem: str | None,
    notes: tuple[str, ...],
    status: int = 200,
) -> Page:
    if moved is not None and moved.asked is not None and (other := sum(one != moved.asked for one in moved.after.values())):
        far = f"{counted(other, 'partition')} of {len(moved.after)} would go to the nearest offset"
        notes = (*notes, f"{far}, not to {moved.asked}, which is outside")
    rows = [] if moved is None else [(one, moved.before.get(one), after, moved.have[one]) for one, after in moved.after.items()]
    values: dict[str, Any] = {
        "group": state,
        "form": {name: given.get(name, "") for name in ("topic", "to")},
        "rows": rows,
        "offsets": "" if moved is None else as_text(moved.after),
        "hindrance": changes.why_not_to_reset(state),
        "problem": problem,
        "notes": notes,
    }
    return Page("group_reset.html", values, status)
