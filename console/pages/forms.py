"""Forms that change something: one template for all. A form that destroys something asks for a name to be typed.

`shown` shows a form, empty or as it was sent; `sent` carries out what was sent, writes the audit line and goes on to a page, or
shows the form again with the reason. A password is never shown again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import typer

from ottla.commands.clients.client import is_text
from ottla.commands.output import Failure
from ottla.console.ask import Answer, Ask, Page, Redirect
from ottla.console.errors import BadInput
from ottla.console.rendering.text import visible

TYPED: Final = "typed"


class Field(NamedTuple):
    """A field: `kind` is text, password, check, choice (of `options`) or lines."""

    name: str
    label: str
    value: str = ""
    kind: str = "text"
    options: Sequence[str] = ()
    hint: str = ""


class Form(NamedTuple):
    """`title` is the page's, `back` the page where one gives up, `name` what has to be typed, and `called` what that is."""

    title: str
    text: Sequence[str]
    button: str
    back: str
    fields: Sequence[Field] = ()
    name: str | None = None
    called: str = ""


def form_page(ask: Ask, form: Form, problem: str | None = None, notes: Sequence[str] = ()) -> Page:
    """Returns the page of a form; with a problem it is what was sent, and the status is 400."""
    values: dict[str, Any] = {
        "form": form,
        "fields": [_filled(ask, field) for field in form.fields],
        "problem": problem,
        "notes": notes,
    }
    return Page("form.html", values, 200 if problem is None else 400)


def _filled(ask: Ask, field: Field) -> Field:
    if not ask.form or field.kind == "password":
        return field
    return field._replace(value=ask.form.get(field.name, ""))


def submit(ask: Ask, form: Form, what: str, act: Callable[[], object], to: str) -> Answer:
    """Does `act`, which raises Failure or BadInput, if the name that the form asks for was typed. `what` is for the audit, and so
    is a text that `act` returns."""
    if form.name is not None and not is_typed(ask, form.name):
        return form_page(ask, form, f"Nothing was changed: what was typed is not {form.called}.")
    try:
        told = act()
    except (BadInput, typer.BadParameter) as error:
        why = str(error.args[0]) if error.args else str(error)
        ask.audit(f"{what}: refused: {why}")
        return form_page(ask, form, why)
    except Failure as failure:
        ask.source.lost()
        ask.audit(f"{what}: failed: {failure}")
        return form_page(ask, form, str(failure))
    finally:
        ask.source.changed()
    ask.audit(f"{what}: done{f': {told}' if isinstance(told, str) else ''}")
    return Redirect(to)


def is_typed(ask: Ask, name: str) -> bool:
    """Returns whether the name was typed, as it is or as it is shown."""
    typed = ask.form.get(TYPED, "")
    return bool({typed, typed.strip()} & {name, visible(name)})


def text_of(ask: Ask, name: str, label: str) -> str:
    """Returns a field of the form without spaces around it. Raises BadInput if it is empty or no text."""
    found = ask.form.get(name, "").strip()
    if not found:
        raise BadInput(f"{label} is empty")
    if "\0" in found or not is_text(found):
        raise BadInput(f"{label} has to be text")
    return found


def one_of(ask: Ask, name: str, label: str, options: Sequence[str]) -> str:
    """Returns a choice of the form. Raises BadInput if it is none of the options."""
    found = ask.form.get(name, options[0])
    if found not in options:
        raise BadInput(f"{label} has to be one of {', '.join(options)}")
    return found
