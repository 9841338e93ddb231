"""`ottla acl`: the access rules of any Kafka cluster: list, add, remove; and `why`, which names the rule that decides.

A rule allows (`--allow`) or denies (`--deny`) a principal, such as `User:alice` or `User:*`, operations on resources, from one
address or from all.

| option | resources |
|---|---|
| `--topic T`, `--group G`, `--transactional-id X`, `--delegation-token ID`, `--user-resource U` | the one so named; `*` is all |
| `--prefix` with one of these | those whose names begin like this |
| `--cluster` | the cluster |

`why` reads all rules and decides as the brokers do. Only the brokers know `super.users`, who may do everything, and
`allow.everyone.if.no.acl.found`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, NamedTuple

import typer

from ottla.commands import admin, output
from ottla.commands.clients import client, direct
from ottla.commands.clients.brokers import Brokers, check
from ottla.commands.output import Cell
from ottla.commands.program import AccessRule, Program
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest

app = typer.Typer(help="Access rules: list, add, remove, and why something is allowed or not.", no_args_is_help=True)

LIST_COLUMNS: Final = ("Rule", "Principal", "Host", "Operation", "Resource", "Name", "Pattern")
ANY: Final = 1
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
RESOURCES: Final = {"topic": 2, "group": 3, "cluster": 4, "transactional-id": 5, "delegation-token": 6, "user-resource": 7}
OPERATIONS: Final = {
    "all": 2,
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "alter": 7,
    "describe": 8,
    "cluster-action": 9,
    "describe-configs": 10,
    "alter-configs": 11,
    "idempotent-write": 12,
    "create-tokens": 13,
    "describe-tokens": 14,
}
CLUSTER_NAME: Final = "kafka-cluster"
_RESOURCE_NAMES: Final = {number: name for name, number in RESOURCES.items()}
_OPERATION_NAMES: Final = {number: name for name, number in OPERATIONS.items()}
_PATTERNS: Final = {LITERAL: "literal", PREFIXED: "prefix"}


class ResourceOptions(NamedTuple):
    """The options that name a resource."""

    topic: Annotated[str | None, typer.Option("--topic", metavar="T", help="A topic, or * for all.")] = None
    group: Annotated[str | None, typer.Option("--group", metavar="G", help="A group, or * for all.")] = None
    is_cluster: Annotated[bool, typer.Option("--cluster", help="The cluster.")] = False
    transactional_id: Annotated[
        str | None, typer.Option("--transactional-id", metavar="X", help="A transactional id, or * for all.")
    ] = None
    delegation_token: Annotated[
        str | None, typer.Option("--delegation-token", metavar="ID", help="A delegation token, by its id.")
    ] = None
    user_resource: Annotated[
        str | None, typer.Option("--user-resource", metavar="U", help="A user whose delegation tokens it is about, as User:name.")
    ] = None


class RuleOptions(NamedTuple):
    """The options that say what rules for a resource are about."""

    prefix: Annotated[bool, typer.Option("--prefix", help="All resources whose names begin like this.")] = False
    allow: Annotated[
        list[str] | None, typer.Option("--allow", metavar="PRINCIPAL", help="Who is allowed to. May be repeated.")
    ] = None
    deny: Annotated[list[str] | None, typer.Option("--deny", metavar="PRINCIPAL", help="Who is denied it. May be repeated.")] = (
        None
    )
    operation: Annotated[
        list[str] | None,
        typer.Option("--operation", "-o", metavar="OP", help=f"One of {', '.join(OPERATIONS)}. May be repeated."),
    ] = None
    host: Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="From which address; all if not given.")] = None

    @property
    def principals(self) -> list[tuple[str, int]]:
        """Each principal with what a rule does for it, ALLOW or DENY."""
        return [(principal, ALLOW) for principal in self.allow or ()] + [(principal, DENY) for principal in self.deny or ()]


class Resource(NamedTuple):
    """The resource that a rule is about: its type and name, and whether the name is a prefix."""

    kind: str
    name: str
    pattern: int = LITERAL

    def __str__(self) -> str:
        if self.kind == "cluster":
            return "the cluster"
        return f"{self.kind} {self.name}{'...' if self.pattern == PREFIXED else ''}"


@app.command("list")
@client.command
def list_rules(
    cluster: client.Cluster,
    named: ResourceOptions,
    principal: Annotated[str | None, typer.Option("--principal", metavar="PRINCIPAL", help="Only rules about this one.")] = None,
    as_json: output.Json = False,
) -> None:
    """Show the rules: all of them, or those that count for a resource: for its name, its prefixes, and *."""
    resource = resource_of(named)
    with Brokers(cluster) as brokers:
        found = sorted(described(any_of(brokers), resource, principal), key=_order)
    if as_json:
        output.write_json([as_object(rule) for rule in found])
    else:
        output.write_table(LIST_COLUMNS, [row(rule) for rule in found])


@app.command("add")
@client.command
def add(
    cluster: client.Cluster,
    named: ResourceOptions,
    about: RuleOptions,
    as_json: output.Json = False,
) -> None:
    """Add rules for a resource. One that is there already is no error."""
    resource = required(resource_of(named, prefix=about.prefix))
    rules = rules_of(resource, about)
    if not rules:
        raise typer.BadParameter("say who, with --allow or --deny, and what, with --operation", param_hint="--allow")
    with Brokers(cluster) as brokers:
        answer = any_of(brokers).call(CreateAclsRequest([AclCreation(*_fields(rule)) for rule in rules]))
    errors = [direct.words(each.error_code, each.error_message) if each.error_code else None for each in answer.results]
    _report(rules, errors, "added", as_json=as_json)


@app.command("remove")
@client.command
def remove(
    cluster: client.Cluster,
    named: ResourceOptions,
    about: RuleOptions,
    yes: admin.Yes = False,
    as_json: output.Json = False,
) -> None:
    """Remove rules of a resource: all of them, or those about these principals, operations and this address."""
    resource = required(resource_of(named, prefix=about.prefix))
    principals: list[tuple[str | None, int]] = [*about.principals] or [(None, ANY)]
    wanted = [operation_of(name) for name in about.operation or ()] or [ANY]
    filters = [
        DeleteAclsFilter(RESOURCES[resource.kind], resource.name, resource.pattern, principal, about.host, each, permission)
        for principal, permission in principals
        for each in wanted
    ]
    admin.confirm(f"Remove the rules of {resource}?", yes=yes)
    with Brokers(cluster) as brokers:
        answer = any_of(brokers).call(DeleteAclsRequest(filters))
    gone: list[AccessRule] = []
    errors: list[str | None] = []
    for result in answer.filter_results:
        check(result.error_code, result.error_message)
        for each in result.matching_acls:
            gone.append(
                AccessRule(
                    each.resource_type,
                    each.resource_name,
                    each.pattern_type,
                    each.principal,
                    each.host,
                    each.operation,
                    each.permission_type,
                )
            )
            errors.append(direct.words(each.error_code, each.error_message) if each.error_code else None)
    if not gone:
        raise output.Failure(f"{resource}: there is no such rule")
    _report(gone, errors, "removed", as_json=as_json)


@app.command("why")
@client.command
def why(
    context: typer.Context,
    cluster: client.Cluster,
    principal: Annotated[str, typer.Argument(metavar="PRINCIPAL", help="Such as User:alice.", show_default=False)],
    operation: Annotated[str, typer.Argument(metavar="OPERATION", help=f"One of {', '.join(OPERATIONS)}.", show_default=False)],
    named: ResourceOptions,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="From which address.")] = "127.0.0.1",
    as_json: output.Json = False,
) -> None:
    """Say whether a principal may do something, and which rule decides."""
    resource = required(resource_of(named))
    number = operation_of(operation)
    if number == OPERATIONS["all"]:
        raise typer.BadParameter("name one operation", param_hint="OPERATION")
    check_principal(principal)
    program: Program = context.obj
    with Brokers(cluster) as brokers:
        rules = described(any_of(brokers), None, None)
    decided = program.decide(rules, principal, host, number, RESOURCES[resource.kind], resource.name)
    if as_json:
        rule = None if decided.rule is None else as_object(decided.rule)
        output.write_json({"allowed": decided.allowed, "rule": rule, "rules": decided.has_rules})
        return
    what = f"{principal} {{}} {operation} {resource} from {host}"
    if decided.rule is not None:
        verb = "may" if decided.allowed else "may not"
        output.write_table(("Answer",), [(f"{what.format(verb)}, by the rule: {in_words(decided.rule)}",)])
    elif decided.has_rules:
        output.write_table(("Answer",), [(f"{what.format('may not')}: no rule for {resource} allows it",)])
    else:
        text = (
            f"{what.format('may not')}: there is no rule for {resource}; with allow.everyone.if.no.acl.found=true everybody may"
        )
        output.write_table(("Answer",), [(text,)])


# What is asked for


def resource_of(options: ResourceOptions, *, prefix: bool = False) -> Resource | None:
    """Returns the resource that the options name, if any. Raises BadParameter for two, or a prefix of nothing."""
    named = {
        "topic": options.topic,
        "group": options.group,
        "cluster": CLUSTER_NAME if options.is_cluster else None,
        "transactional-id": options.transactional_id,
        "delegation-token": options.delegation_token,
        "user-resource": options.user_resource,
    }
    found = [Resource(kind, name, PREFIXED if prefix else LITERAL) for kind, name in named.items() if name is not None]
    if len(found) > 1:
        raise typer.BadParameter(f"name one resource, not {found[0].kind} and {found[1].kind}", param_hint=f"--{found[1].kind}")
    admin.checked([each.name for each in found])
    if prefix and (not found or options.is_cluster):
        raise typer.BadParameter("needs the beginning of a name, such as --topic orders-", param_hint="--prefix")
    return found[0] if found else None


def required(resource: Resource | None) -> Resource:
    """Raises BadParameter if no resource is named."""
    if resource is None:
        options = ", ".join(f"--{kind}" for kind in RESOURCES)
        raise typer.BadParameter(f"name a resource, with one of {options}", param_hint="--topic")
    return resource


def operation_of(name: str) -> int:
    """Returns the number of an operation. Raises BadParameter."""
    number = OPERATIONS.get(name.lower().replace("_", "-"))
    if number is None:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(OPERATIONS)}", param_hint="--operation")
    return number


def check_principal(principal: str) -> None:
    """Raises BadParameter if this is no principal."""
    admin.checked([principal])
    if ":" not in principal:
        raise typer.BadParameter(f"{principal!r} is not a principal; write User:{principal}")


def rules_of(resource: Resource, options: RuleOptions) -> list[AccessRule]:
    """Returns the rules that the options describe. Raises BadParameter for what is no principal or operation."""
    for principal, _ in options.principals:
        check_principal(principal)
    numbers = [operation_of(name) for name in options.operation or ()]
    host = options.host or "*"
    return [
        AccessRule(RESOURCES[resource.kind], resource.name, resource.pattern, principal, host, number, permission)
        for principal, permission in options.principals
        for number in numbers
    ]


# Asking the cluster


def any_of(brokers: Brokers) -> direct.Connection:
    """Returns a connection to any broker, since every broker knows all rules."""
    return brokers.at(min(brokers.metadata.brokers))


def described(connection: direct.Connection, resource: Resource | None, principal: str | None) -> list[AccessRule]:
    """Returns the rules that count for a resource, or all, about a principal, or anybody."""
    match = 2
    kind, name, pattern = (ANY, None, ANY) if resource is None else (RESOURCES[resource.kind], resource.name, match)
    answer = connection.call(DescribeAclsRequest(kind, name, pattern, principal, None, ANY, ANY))
    check(answer.error_code, answer.error_message)
    return [
        AccessRule(
            each.resource_type,
            each.resource_name,
            each.pattern_type,
            rule.principal,
            rule.host,
            rule.operation,
            rule.permission_type,
        )
        for each in answer.resources
        for rule in each.acls
    ]


# What is shown


def _fields(rule: AccessRule) -> tuple[Any, ...]:
    return tuple(rule)


def _order(rule: AccessRule) -> tuple[Any, ...]:
    return rule.resource_type, rule.name, rule.pattern, rule.principal, rule.permission, rule.operation, rule.host


def row(rule: AccessRule) -> tuple[Cell, ...]:
    return (
        "allow" if rule.permission == ALLOW else "deny",
        rule.principal,
        rule.host,
        _OPERATION_NAMES.get(rule.operation, str(rule.operation)),
        _RESOURCE_NAMES.get(rule.resource_type, str(rule.resource_type)),
        rule.name,
        _PATTERNS.get(rule.pattern, str(rule.pattern)),
    )


def as_object(rule: AccessRule) -> Mapping[str, Cell]:
    return dict(zip(("rule", "principal", "host", "operation", "resource", "name", "pattern"), row(rule), strict=True))


def in_words(rule: AccessRule) -> str:
    kind, principal, host, operation, resource, _, _ = row(rule)
    about = Resource(str(resource), rule.name, rule.pattern)
    return f"{kind} {principal} {operation} on {about}{'' if host == '*' else f' from {host}'}"


def _report(rules: Iterable[AccessRule], errors: Iterable[str | None], done: str, *, as_json: bool) -> None:
    outcomes = [
        admin.Outcome(in_words(rule), done) if error is None else admin.failed(in_words(rule), error)
        for rule, error in zip(rules, errors, strict=True)
    ]
    admin.report("", outcomes, as_json=as_json)
