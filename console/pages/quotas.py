"""Quotas of users, client ids and addresses: listed, set, removed."""

from __future__ import annotations

import math
from typing import Final

from ottla.commands import quota
from ottla.console.ask import Answer, Ask, Page, paged
from ottla.console.errors import BadInput, Missing
from ottla.console.pages.forms import Field, Form, form_page, one_of, submit, text_of
from ottla.console.rendering.templates import segment
from ottla.console.subjects import access
from ottla.console.subjects.absent import or_why

SIZE: Final = 100
_HOME: Final = "/access/quotas"
DEFAULTS: Final = "defaults"


def quotas(ask: Ask) -> Answer:
    """Shows those of entities whose names contain `?q=`."""
    known, why = or_why(lambda: access.quotas(ask.source))
    words = ask.text("q").lower()
    found = [(one, quota.in_words(one.entity), address_of(one.entity)) for one in known or ()]
    found = [each for each in found if words in each[1].lower()]
    return Page("quotas.html", {"page": paged(ask, found, SIZE), "why": why, "q": ask.text("q")})


def address_of(entity: quota.Entity) -> str:
    """Returns an entity as a query of an address."""
    names = [f"{kind}={segment(name)}" for kind, name in entity.items() if name is not None]
    defaults = [kind for kind, name in entity.items() if name is None]
    return "&".join([*names, *([f"{DEFAULTS}={','.join(defaults)}"] if defaults else [])])


def new(ask: Ask) -> Answer:
    """Shows the form for a quota."""
    return form_page(ask, _new_form())


def add(ask: Ask) -> Answer:
    """Sets the quota of the form."""

    def act() -> None:
        key = one_of(ask, "key", "quota", access.QUOTAS)
        try:
            value = float(text_of(ask, "value", "value"))
        except ValueError:
            raise BadInput("value has to be a number") from None
        if not math.isfinite(value) or value <= 0:
            raise BadInput("value has to be a number above 0")
        entity: dict[str, str | None] = {}
        for kind in quota.KINDS:
            if ask.form.get(f"{kind}-default") == "1":
                entity[kind] = None
            if ask.form.get(kind, "").strip():
                if kind in entity:
                    raise BadInput(f"{kind}: either a name or the default")
                entity[kind] = text_of(ask, kind, kind)
        if not entity or (quota.IP in entity and len(entity) > 1):
            raise BadInput("say whose quota it is: a user, a client id, both, or an address alone")
        access.set_quota(ask.source, entity, key, value)

    names = {name: ask.form.get(name, "").strip()[:200] for name in (*quota.KINDS, "key", "value")}
    what = "set quota " + " ".join(f"{name}={text!a}" for name, text in names.items() if text)
    return submit(ask, _new_form(), what, act, _HOME)


def _new_form() -> Form:
    fields = [
        Field("user", "User", hint="any"),
        Field("user-default", "each user without a quota of its own", kind="check"),
        Field("client-id", "Client id", hint="any"),
        Field("client-id-default", "each client id without a quota of its own", kind="check"),
        Field("ip", "Address", hint="only for connection_creation_rate"),
        Field("ip-default", "each address without a quota of its own", kind="check"),
        Field("key", "Quota", "producer_byte_rate", "choice", access.QUOTAS),
        Field("value", "Value: bytes a second, per cent, or operations a second"),
    ]
    text = ["A quota is of a user, of a client id, of a user's client id, or of an address. Each broker counts for itself."]
    return Form("Set a quota", text, "Set", _HOME, fields)


def ask_to_remove(ask: Ask) -> Answer:
    """Shows the quota `?key=` of an entity."""
    return form_page(ask, _form(*_meant(ask)))


def remove(ask: Ask) -> Answer:
    """Removes it if its name was typed."""
    entity, key = _meant(ask)
    what = f"remove quota {key!a} of {quota.in_words(entity)!a}"
    return submit(ask, _form(entity, key), what, lambda: access.set_quota(ask.source, entity, key, None), _HOME)


def _meant(ask: Ask) -> tuple[dict[str, str | None], str]:
    defaults = ask.query.get(DEFAULTS, "").split(",")
    entity: dict[str, str | None] = {}
    for kind in quota.KINDS:
        if kind in ask.query:
            entity[kind] = ask.query[kind]
        elif kind in defaults:
            entity[kind] = None
    if not entity or not ask.query.get("key"):
        raise Missing("There is no such quota.")
    return entity, ask.query["key"]


def _form(entity: quota.Entity, key: str) -> Form:
    text = [f"This removes the quota {key} of {quota.in_words(entity)}; what it falls back to counts then."]
    return Form("Remove a quota", text, "Remove", _HOME, name=key, called="the quota's name")
