"""Delegation tokens: listed without their secrets, made, renewed, ended. The secret of a new one is shown once, to its maker."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

from ottla.commands.tokens import AS_LONG_AS_POSSIBLE, Principal, Token
from ottla.console.ask import Answer, Ask, Page, paged, whole
from ottla.console.errors import BadInput, Missing
from ottla.console.pages.forms import Field, Form, form_page, submit, text_of
from ottla.console.rendering.templates import when
from ottla.console.subjects import tokens as subject
from ottla.console.subjects.absent import in_a_sentence, or_why

SIZE: Final = 200
MOST_HOURS: Final = 1_000_000
MOST_RENEWERS: Final = 100
_HOUR_MS: Final = 3_600_000
_HOME: Final = "/access/tokens"


def tokens(ask: Ask) -> Answer:
    """Shows those whose id, owner, requester or renewers contain `?q=`."""
    known, why = or_why(lambda: subject.tokens(ask.source))
    words = ask.text("q").lower()
    found = [one for one in known or () if any(words in text.lower() for text in _texts(one))]
    return Page("tokens.html", {"page": paged(ask, found, SIZE), "why": why, "q": ask.text("q")})


def _texts(one: Token) -> Sequence[str]:
    return (one.name, one.owner, one.requester or "", *one.renewers)


def new(ask: Ask) -> Answer:
    """Shows the form for a new token."""
    return form_page(ask, _new_form())


def create(ask: Ask) -> Answer:
    """Makes the token of the form, and shows it with its secret."""
    made: list[tuple[Token, bytes]] = []

    def act() -> str:
        owner = _principal(text_of(ask, "owner", "owner"), "owner") if ask.form.get("owner", "").strip() else None
        lines = [line.strip() for line in ask.form.get("renewers", "").splitlines() if line.strip()]
        if len(lines) > MOST_RENEWERS:
            raise BadInput(f"renewers: there may be {MOST_RENEWERS}")
        renewers = [_principal(line, "renewers") for line in lines]
        lasting_ms = _hours_ms(ask, "lifetime")
        made.append(in_a_sentence(lambda: subject.create(ask.source, owner, renewers, lasting_ms)))
        return ascii(made[0][0].name)

    owner = ask.form.get("owner", "").strip()
    what = f"make delegation token for {f'{owner[:200]!a}' if owner else 'the principal of this console'}"
    answer = submit(ask, _new_form(), what, act, _HOME)
    if not made:
        return answer
    token, secret = made[0]
    return Page("token_made.html", {"one": token, "secret": base64.b64encode(secret).decode("ascii")})


def _new_form() -> Form:
    fields = [
        Field("owner", "Owner, for whom it stands", hint="the principal of this console"),
        Field("renewers", "Who may renew and end it beside the owner: a principal a line, such as User:alice", kind="lines"),
        Field("lifetime", "Ends for good after so many hours", hint="as many as the cluster allows"),
    ]
    text = [
        "Whoever has the token logs in by SCRAM and then is its owner. It has to be renewed after each "
        "delegation.token.expiry.time.ms, a setting of the brokers, and ends for good after its lifetime."
    ]
    return Form("New delegation token", text, "Make", _HOME, fields)


def _principal(text: str, label: str) -> Principal:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name) or "\0" in text:
        raise BadInput(f"{label}: {text[:100]!r} is not a principal; write User:{text[:100]}")
    return Principal(kind, name)


def _hours_ms(ask: Ask, name: str) -> int:
    hours = whole(ask.form.get(name, ""), "hours", 0, 1, MOST_HOURS)
    return hours * _HOUR_MS or AS_LONG_AS_POSSIBLE


def ask_to_renew(ask: Ask) -> Answer:
    """Shows the form that renews the token `?id=`."""
    return form_page(ask, _renew_form(_meant(ask)))


def renew(ask: Ask) -> Answer:
    """Renews it."""
    one = _meant(ask)

    def act() -> str:
        lasting_ms = _hours_ms(ask, "period")
        return f"until {when(in_a_sentence(lambda: subject.renew(ask.source, one.name, lasting_ms)))}"

    return submit(ask, _renew_form(one), f"renew delegation token {one.name!a} of {one.owner!a}", act, _HOME)


def _renew_form(one: Token) -> Form:
    fields = [Field("period", "Lasts so many hours from now", hint="as many as the cluster allows")]
    text = [
        f"The token {one.name} of {one.owner} lasts until {when(one.expires_ms)}. It may be renewed by its owner"
        f"{' and ' + ', '.join(one.renewers) if one.renewers else ''}, until {when(one.latest_ms)} at the latest."
    ]
    return Form("Renew a delegation token", text, "Renew", _HOME, fields)


def ask_to_expire(ask: Ask) -> Answer:
    """Shows the token `?id=`, which would end."""
    return form_page(ask, _expire_form(_meant(ask)))


def expire(ask: Ask) -> Answer:
    """Ends it if its id was typed."""
    one = _meant(ask)
    what = f"end delegation token {one.name!a} of {one.owner!a}"
    return submit(ask, _expire_form(one), what, lambda: in_a_sentence(lambda: subject.expire(ask.source, one.name)), _HOME)


def _expire_form(one: Token) -> Form:
    text = [
        f"This ends the token {one.name} of {one.owner} at once, and for good: nobody can log in with it any more. Clients "
        "logged in with it stay logged in until their connection ends or has to log in again."
    ]
    return Form("End a delegation token", text, "End", _HOME, name=one.name, called="the token's id")


def _meant(ask: Ask) -> Token:
    """Returns the token `?id=`. Raises Missing, also where the cluster shows none, and Failure."""
    known, why = or_why(lambda: subject.tokens(ask.source))
    if why is not None:
        raise Missing(why)
    name = ask.query.get("id", "")
    for one in known or ():
        if one.name == name:
            return one
    raise subject.no_token(name)
