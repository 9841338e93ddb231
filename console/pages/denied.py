"""The page about why somebody is denied something: the rule that decides, those that were looked at, and the line that would
allow it.

The decision is the authorizer's own, so it takes the broker's inside; a client is shown the rules that count, and no verdict.
"""

from __future__ import annotations

import shlex
from typing import Any, Final

from ottla.commands import acl
from ottla.commands.output import Failure
from ottla.commands.program import AccessRule
from ottla.console.ask import Answer, Ask, Page
from ottla.console.errors import BadInput
from ottla.console.subjects.any_broker import any_broker

MOST_RULES: Final = 200
_WITHOUT_RULE: Final = {
    "SuperUser": "it is one of super.users",
    "DefaultDeny": "no rule allows it",
    "DefaultAllow": "there is no rule for it, and allow.everyone.if.no.acl.found is true",
}
_FIELDS: Final = ("principal", "host", "operation", "resource", "name")


def denied(ask: Ask) -> Answer:
    """Shows who was denied what lately, and with `?principal=` and the other fields why."""
    form = {name: ask.query.get(name, "") for name in _FIELDS}
    notes: list[str] = [] if ask.inside is not None else [f"Who was denied what lately is not known. {ask.without_inside}"]
    answer = None
    if form["principal"]:
        try:
            answer = _answer(ask, form)
        except Failure as failure:  # for one, of a cluster that has no authorizer
            notes.append(f"What decides is not known: {failure}")
    values: dict[str, Any] = {
        "form": form,
        "operations": [name for name in acl.OPERATIONS if name != "all"],
        "resources": list(acl.RESOURCES),
        "denials": None if ask.inside is None else _denials(ask.inside.ask("denials")),
        "notes": notes,
        "row": acl.row,
        "answer": answer,
    }
    return Page("denied.html", values)


def _answer(ask: Ask, form: dict[str, str]) -> dict[str, Any]:
    principal, host = form["principal"].strip(), form["host"].strip() or "127.0.0.1"
    if ":" not in principal:
        raise BadInput(f"principal has to be like User:{principal}")
    operation, kind = acl.OPERATIONS.get(form["operation"]), acl.RESOURCES.get(form["resource"])
    if operation is None or kind is None:
        raise BadInput("operation and resource have to be of the lists")
    name = acl.CLUSTER_NAME if form["resource"] == "cluster" else form["name"]
    if not name:
        raise BadInput("name has to say which resource")
    resource = acl.Resource(form["resource"], name)
    if ask.inside is None:
        rules = _rules(ask, resource, principal)
        command = f"ottla acl why {shlex.quote(principal)} {form['operation']} {_option(resource)} --host {shlex.quote(host)}"
        return {"text": None, "allowed": None, "rules": rules, "decider": None, "line": command}
    said = ask.inside.ask("decision", principal=principal, host=host, operation=operation, resource=kind, name=name)
    rule = None if said["rule"] is None else AccessRule(*said["rule"])
    by = f"the rule: {acl.in_words(rule)}" if rule is not None else _WITHOUT_RULE.get(said["without_rule"], said["without_rule"])
    return {
        "text": f"{principal} may{'' if said['allowed'] else ' not'} {form['operation']} {resource} from {host}: {by}.",
        "allowed": said["allowed"],
        "rules": [AccessRule(*each) for each in said["considered"][:MOST_RULES]],
        "decider": rule,
        "line": None if said["allowed"] else _line(resource, principal, form["operation"], rule),
    }


def _line(resource: acl.Resource, principal: str, operation: str, rule: AccessRule | None) -> str:
    """Returns the command that would allow it: a denial has to go, and without one a rule has to come."""
    if rule is None:
        return f"ottla acl add {_option(resource)} --allow {shlex.quote(principal)} --operation {operation}"
    _, who, host, what, kind, name, pattern = map(str, acl.row(rule))
    prefix = " --prefix" if pattern == "prefix" else ""
    at = "" if host == "*" else f" --host {shlex.quote(host)}"
    found = _option(acl.Resource(kind, name))
    return f"ottla acl remove {found}{prefix} --deny {shlex.quote(who)} --operation {what}{at}"


def _option(resource: acl.Resource) -> str:
    return "--cluster" if resource.kind == "cluster" else f"--{resource.kind} {shlex.quote(resource.name)}"


def _rules(ask: Ask, resource: acl.Resource, principal: str) -> list[AccessRule]:
    """Returns the rules of the cluster that count for the resource and are about the principal, or everybody."""
    with any_broker(ask.source) as broker:
        rules = acl.described(broker, resource, None)
    return [rule for rule in rules if rule.principal in {principal, "User:*"}][:MOST_RULES]


def _denials(said: dict[str, Any]) -> dict[str, Any]:
    operations = {number: name for name, number in acl.OPERATIONS.items()}
    resources = {number: name for name, number in acl.RESOURCES.items()}
    found = [
        {**each, "operation": operations.get(each["operation"], ""), "resource": resources.get(each["resource"], "")}
        for each in said["denials"]
    ]
    return {**said, "denials": found}
