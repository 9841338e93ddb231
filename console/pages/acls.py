"""Access rules: listed, added, and removed one by one."""

from __future__ import annotations

from typing import Final

from ottla.commands import acl
from ottla.commands.program import AccessRule
from ottla.console.ask import Answer, Ask, Page, paged
from ottla.console.errors import BadInput
from ottla.console.pages.forms import Field, Form, form_page, one_of, submit, text_of
from ottla.console.subjects import access
from ottla.console.subjects.absent import or_why

SIZE: Final = 100
COLUMNS: Final = ("rule", "principal", "host", "operation", "resource", "name", "pattern")
_RULES: Final = {"allow": acl.ALLOW, "deny": acl.DENY}
_PATTERNS: Final = {"literal": acl.LITERAL, "prefix": acl.PREFIXED}


def acls(ask: Ask) -> Answer:
    """Shows the rules whose principal contains `?principal=` and whose resource's name contains `?q=`."""
    words, principal = ask.text("q").lower(), ask.text("principal").lower()
    known, why = or_why(lambda: access.rules(ask.source))
    found = [one for one in known or () if words in one.name.lower() and principal in one.principal.lower()]
    page = paged(ask, [acl.as_object(one) for one in found], SIZE)
    rows = list(enumerate(page.shown, page.first))
    return Page("acls.html", {"page": page, "rows": rows, "why": why, "q": ask.text("q"), "principal": ask.text("principal")})


def new(ask: Ask) -> Answer:
    """Shows the form for a new rule."""
    return form_page(ask, _new_form())


def add(ask: Ask) -> Answer:
    """Adds the rule of the form."""
    try:
        rule = _rule_of_form(ask)
    except BadInput as error:
        ask.audit(f"add access rule: refused: {error}")
        return form_page(ask, _new_form(), str(error))
    return submit(ask, _new_form(), f"add access rule {_words(rule)}", lambda: access.add_rule(ask.source, rule), "/access")


def _rule_of_form(ask: Ask) -> AccessRule:
    kind = one_of(ask, "resource", "resource", list(acl.RESOURCES))
    principal = text_of(ask, "principal", "principal")
    if ":" not in principal:
        raise BadInput(f"principal: {principal!r} is not a principal; write User:{principal}")
    return AccessRule(
        acl.RESOURCES[kind],
        acl.CLUSTER_NAME if kind == "cluster" else text_of(ask, "name", "the resource's name"),
        acl.PREFIXED if ask.form.get("prefix") == "1" and kind != "cluster" else acl.LITERAL,
        principal,
        text_of(ask, "host", "host") if ask.form.get("host", "").strip() else "*",
        acl.OPERATIONS[one_of(ask, "operation", "operation", list(acl.OPERATIONS))],
        _RULES[one_of(ask, "rule", "rule", list(_RULES))],
    )


def _new_form() -> Form:
    fields = [
        Field("rule", "Rule", "allow", "choice", list(_RULES)),
        Field("principal", "Principal", hint="User:alice, or User:* for everybody"),
        Field("host", "From the address", hint="all addresses"),
        Field("operation", "Operation", "read", "choice", list(acl.OPERATIONS)),
        Field("resource", "Resource", "topic", "choice", list(acl.RESOURCES)),
        Field("name", "Its name; * for all, blank for the cluster"),
        Field("prefix", "and all others whose names begin with it", kind="check"),
    ]
    return Form("New access rule", ["A rule that denies counts before one that allows."], "Add", "/access", fields)


def ask_to_remove(ask: Ask) -> Answer:
    """Shows the rule, which the query spells out."""
    return form_page(ask, _form(_rule_of_query(ask)))


def remove(ask: Ask) -> Answer:
    """Removes it if its principal was typed."""
    rule = _rule_of_query(ask)
    what = f"remove access rule {_words(rule)}"
    return submit(ask, _form(rule), what, lambda: access.remove_rule(ask.source, rule), "/access")


def _rule_of_query(ask: Ask) -> AccessRule:
    given = {name: ask.query.get(name, "") for name in COLUMNS}
    try:
        return AccessRule(
            acl.RESOURCES[given["resource"]],
            given["name"],
            _PATTERNS[given["pattern"]],
            given["principal"],
            given["host"],
            acl.OPERATIONS[given["operation"]],
            _RULES[given["rule"]],
        )
    except KeyError as error:
        raise BadInput(f"{error} is none that an access rule has; begin again with the list") from None


def _words(rule: AccessRule) -> str:
    return ascii(acl.in_words(rule))


def _form(rule: AccessRule) -> Form:
    text = [f"This removes the rule: {acl.in_words(rule)}."]
    return Form("Remove an access rule", text, "Remove", "/access", name=rule.principal, called="the rule's principal")
