"""One setting of a topic, a group, a broker or all brokers: what it is and means, and the forms that change it."""

from __future__ import annotations

from typing import Final

from ottla.commands.clients.client import is_text
from ottla.commands.config_rows import Kind, Target, own
from ottla.commands.output import Failure
from ottla.console.ask import Answer, Ask, Page, whole
from ottla.console.errors import BadInput, Missing
from ottla.console.pages.forms import Field, Form, form_page, submit
from ottla.console.rendering.templates import segment
from ottla.console.subjects import settings as subject
from ottla.wire.batch import MAX_INT32

_KINDS: Final = {"topic": Kind.TOPIC, "group": Kind.GROUP, "broker": Kind.BROKER, "brokers": Kind.BROKER_DEFAULTS}
_SHOWN_VALUE: Final = 200


def setting(ask: Ask) -> Answer:
    """Shows the setting `?key=` of `?of=` (topic, group, broker or brokers) `?name=`."""
    target, key = _meant(ask)
    found = subject.detail(ask.source, target, key)
    of_all = found.entry.source == Kind.BROKER_DEFAULTS
    return Page(
        "setting.html",
        {
            "target": target,
            "found": found,
            "back": _back(target),
            "of": ask.query["of"],
            "is_set": bool(own(target.kind, [found.entry])) and found.entry.source != "file",
            "unset": ("brokers", "") if of_all else (ask.query["of"], target.name),
        },
    )


def ask_to_set(ask: Ask) -> Answer:
    """Shows the form with the value as it is, if it is no secret."""
    target, key = _meant(ask)
    return form_page(ask, _set_form(target, subject.detail(ask.source, target, key)))


def set_(ask: Ask) -> Answer:
    """Sets it to the value of the form."""
    target, key = _meant(ask)
    found = subject.detail(ask.source, target, key)
    value = ask.form.get("value", "").replace("\r\n", "\n")
    told = "a secret" if found.entry.is_sensitive else f"{value[:_SHOWN_VALUE]!a}"

    def act() -> None:
        if "\0" in value or not is_text(value):
            raise BadInput("value has to be text")
        try:
            subject.change(ask.source, _whose(ask, target), key, value)
        except Failure as failure:
            if not (found.entry.is_sensitive and value):
                raise
            raise Failure(str(failure).replace(value, "(secret)")) from None  # a cluster may repeat what it does not take

    return submit(ask, _set_form(target, found), f"set {_called(_whose(ask, target))} {key!a} to {told}", act, _back(target))


def ask_to_unset(ask: Ask) -> Answer:
    """Shows what the setting would fall back to."""
    target, key = _meant(ask)
    return form_page(ask, _unset_form(target, subject.detail(ask.source, target, key)))


def unset(ask: Ask) -> Answer:
    """Removes what was set if the setting's name was typed."""
    target, key = _meant(ask)
    form = _unset_form(target, subject.detail(ask.source, target, key))

    def act() -> None:
        subject.change(ask.source, target, key, None)

    return submit(ask, form, f"unset {_called(target)} {key!a}", act, _back(target))


def group_settings(ask: Ask) -> Answer:
    """Shows the settings of the group `?id=`."""
    name = _group(ask.query.get("id", ""))
    entries = subject.of_group(ask.source, name)
    mine, why = own(Kind.GROUP, entries or []), subject.NO_GROUP_SETTINGS if entries is None else None
    others = [one for one in entries or [] if one not in mine]
    return Page("group_settings.html", {"name": name, "mine": mine, "others": others, "why": why})


def _group(name: str) -> str:
    """Returns the name. Raises Missing if it is empty: a group may have such a name, but no cluster lets it have settings."""
    if not name:
        raise Missing("A group without a name has no settings of its own.")
    return name


def _meant(ask: Ask) -> tuple[Target, str]:
    """Returns whose setting it is, and its name. Raises BadInput, Missing."""
    kind = _KINDS.get(ask.query.get("of", ""))
    if kind is None:
        raise BadInput(f"of has to be one of {', '.join(_KINDS)}")
    name, key = ask.query.get("name", ""), ask.query.get("key", "")
    if kind is Kind.BROKER:
        name = str(whole(name or "none", "name", 0, 0, MAX_INT32))
    elif kind is Kind.BROKER_DEFAULTS:
        name = ""
    elif kind is Kind.TOPIC:
        ask.source.topic(name)
    elif kind is Kind.GROUP:
        name = _group(name)
    if not key or "\0" in key or not is_text(key):
        raise Missing("There is no such setting.")
    return Target(kind, name), key


def _whose(ask: Ask, target: Target) -> Target:
    """Returns whose setting is changed: a broker's may be set for all of them."""
    everybody = target.kind is Kind.BROKER and ask.form.get("everybody") == "1"
    return Target(Kind.BROKER_DEFAULTS) if everybody else target


def _called(target: Target) -> str:
    return f"{target.kind.value.replace('-', ' ')} {target.name!a}" if target.name else target.kind.value.replace("-", " ")


def _back(target: Target) -> str:
    if target.kind is Kind.TOPIC:
        return f"/topics/{segment(target.name)}/settings"
    if target.kind is Kind.GROUP:
        return f"/group/settings?id={segment(target.name)}"
    return f"/brokers/{target.name}" if target.kind is Kind.BROKER else "/brokers"


def _set_form(target: Target, found: subject.Detail) -> Form:
    entry = found.entry
    kind = "password" if entry.is_sensitive else "lines" if "\n" in (entry.value or "") else "text"
    fields = [Field("value", f"{entry.name}{f', {found.type}' if found.type else ''}", entry.value or "", kind)]
    if target.kind is Kind.BROKER:
        fields.append(Field("everybody", "for all brokers that have none of their own, not only this one", kind="check"))
    text = [found.text] if found.text else []
    if entry.is_read_only:
        text.insert(0, "The cluster takes this setting only at a broker's start, and will probably refuse to change it now.")
    return Form(f"Set {entry.name} of {target}", text, "Set", _back(target), fields)


def _unset_form(target: Target, found: subject.Detail) -> Form:
    entry = found.entry
    if entry.is_sensitive:
        then = "something else"
    else:
        steps = [step for step in found.steps if step.source != entry.source]
        then = f"{steps[0].value} ({steps[0].source}, {steps[0].setting})" if steps else "its default"
    text = [f"This removes what was set for {entry.name} of {target}. What counts then is {then}."]
    return Form(f"Unset {entry.name} of {target}", text, "Unset", _back(target), name=entry.name, called="the setting's name")
