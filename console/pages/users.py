"""Users with SCRAM passwords: listed, added, given another password, removed. No page shows a password or what is made of it."""

from __future__ import annotations

from typing import Final

from ottla.commands import user
from ottla.console.ask import Answer, Ask, Page, paged, whole
from ottla.console.errors import BadInput, Missing
from ottla.console.pages.forms import Field, Form, form_page, one_of, submit, text_of
from ottla.console.subjects import access
from ottla.console.subjects.absent import or_why

SIZE: Final = 100
LEAST, USUAL, MOST = 4096, 8192, 16384
_HOME: Final = "/access/users"


def users(ask: Ask) -> Answer:
    """Shows the users whose names contain `?q=`."""
    known, why = or_why(lambda: access.users(ask.source))
    found = [one for one in known or () if ask.text("q").lower() in one.name.lower()]
    return Page("users.html", {"page": paged(ask, found, SIZE), "why": why, "q": ask.text("q")})


def new(ask: Ask) -> Answer:
    """Shows the form for a user's password."""
    return form_page(ask, _new_form(ask.query.get("name", "")))


def add(ask: Ask) -> Answer:
    """Sets the password of the form."""

    def act() -> None:
        name = text_of(ask, "name", "name")
        mechanism = one_of(ask, "mechanism", "mechanism", list(user.MECHANISMS))
        iterations = whole(ask.form.get("iterations", ""), "iterations", USUAL, LEAST, MOST)
        password = ask.form.get("password", "")
        if not password:
            raise BadInput("password is empty")
        if password != ask.form.get("again", ""):
            raise BadInput("the passwords are not the same")
        access.set_password(ask.source, name, mechanism, iterations, password)

    what = f"set password of user {ask.form.get('name', '').strip()!a} ({ask.form.get('mechanism', '')[:20]!a})"
    return submit(ask, _new_form(""), what, act, _HOME)


def _new_form(name: str) -> Form:
    fields = [
        Field("name", "Name, without User:", name),
        Field("mechanism", "Mechanism", "SCRAM-SHA-512", "choice", list(user.MECHANISMS)),
        Field("password", "Password", kind="password"),
        Field("again", "The same again", kind="password"),
        Field("iterations", f"Rounds of PBKDF2, {LEAST} to {MOST}", hint=str(USUAL)),
    ]
    text = ["Adds a user, or changes the password of one. The cluster is sent keys that are made of it, not the password."]
    return Form("Set a user's password", text, "Set", _HOME, fields)


def ask_to_remove(ask: Ask) -> Answer:
    """Shows what would be removed: the password of `?name=` for `?mechanism=`."""
    return form_page(ask, _form(*_meant(ask)))


def remove(ask: Ask) -> Answer:
    """Removes it if the user's name was typed."""
    name, mechanism = _meant(ask)
    what = f"remove {mechanism} password of user {name!a}"
    return submit(ask, _form(name, mechanism), what, lambda: access.remove_user(ask.source, name, mechanism), _HOME)


def _meant(ask: Ask) -> tuple[str, str]:
    mechanism = ask.query.get("mechanism", "")
    if mechanism not in user.MECHANISMS:
        raise Missing(f"There is no mechanism {mechanism}.")
    return ask.query.get("name", ""), mechanism


def _form(name: str, mechanism: str) -> Form:
    text = [f"This removes the {mechanism} password of {name}, who cannot log in with it any more."]
    return Form("Remove a user's password", text, "Remove", _HOME, name=name, called="the user's name")
