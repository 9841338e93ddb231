"""`ottla quota`: limits for the clients of any Kafka cluster: list, set, unset.

| option | whose quotas |
|---|---|
| `--user U`, `--client-id C` | those of a user or a client id; with both, those of the user's clients with that id |
| `--ip A` | those of an address: how fast connections may come from there |
| `--user-defaults`, `--client-defaults`, `--ip-defaults` | those of every user, client id or address without quotas of its own |

A default can be combined with a name: `--user U --client-defaults` applies to each client id of U separately. In JSON an entity
is an object with one or two of `user`, `client-id` and `ip`; null stands for the default.

librdkafka does not support quotas; direct.py has a connection of our own for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

import typer

from ottla.commands import admin, output
from ottla.commands.clients import client, direct
from ottla.commands.clients.brokers import Brokers, check
from ottla.commands.output import Cell
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, OpData, RequestEntityData, RequestEntryData
from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

app = typer.Typer(help="Limits for clients: list, set, unset.", no_args_is_help=True)

LIST_COLUMNS: Final = ("User", "Client id", "IP", "Quota", "Value")
USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
KINDS: Final = (USER, CLIENT_ID, IP)
_CALLED: Final = {USER: "user", CLIENT_ID: "client id", IP: "ip"}
_DEFAULT: Final = "<default>"
_EXACT, _IS_DEFAULT = 0, 1

Entity = Mapping[str, str | None]
"""Maps the kind of name to the name; None is the default."""
Quotas = Mapping[str, float]


class EntityOptions(NamedTuple):
    """The options that say whose quotas."""

    user: Annotated[str | None, typer.Option("--user", metavar="USER", help="The quotas of a user.")] = None
    client_id: Annotated[
        str | None, typer.Option("--client-id", metavar="ID", help="The quotas of a client id; with --user, of that user only.")
    ] = None
    ip: Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="The quotas of an IP address.")] = None
    user_defaults: Annotated[bool, typer.Option("--user-defaults", help="The quotas of every user without its own.")] = False
    client_defaults: Annotated[bool, typer.Option("--client-defaults", help="The quotas of every client id without its own.")] = (
        False
    )
    ip_defaults: Annotated[bool, typer.Option("--ip-defaults", help="The quotas of every address without its own.")] = False


@app.command("list")
@client.command
def list_quotas(
    cluster: client.Cluster,
    whose: EntityOptions,
    as_json: output.Json = False,
) -> None:
    """Show all quotas, or those of one entity."""
    entity = entity_of(whose)
    with Brokers(cluster) as brokers:
        found = described(any_of(brokers), entity)
    if as_json:
        output.write_json([{"entity": entity, "quotas": quotas} for entity, quotas in found])
    else:
        output.write_table(LIST_COLUMNS, [row for entity, quotas in found for row in rows(entity, quotas)])


@app.command("set")
@client.command
def set_quotas(
    cluster: client.Cluster,
    changes: Annotated[
        list[str], typer.Argument(metavar="QUOTA=VALUE", help="Such as producer_byte_rate=1048576.", show_default=False)
    ],
    whose: EntityOptions,
    dry_run: admin.DryRun = False,
    as_json: output.Json = False,
) -> None:
    """Set quotas of one entity. Quotas that are not named stay as they are."""
    entity = somebody(entity_of(whose))
    ops = [OpData(key, _number(key, text)) for key, text in admin.pairs(changes, "QUOTA=VALUE").items()]
    with Brokers(cluster) as brokers:
        error = alter(any_of(brokers), entity, ops, dry_run=dry_run)
    report(entity, "set", error, dry_run=dry_run, as_json=as_json)


@app.command("unset")
@client.command
def unset(
    cluster: client.Cluster,
    keys: Annotated[list[str], typer.Argument(metavar="QUOTA", help="Names of quotas.", show_default=False)],
    whose: EntityOptions,
    dry_run: admin.DryRun = False,
    as_json: output.Json = False,
) -> None:
    """Remove quotas from one entity."""
    entity = somebody(entity_of(whose))
    wanted = dict.fromkeys(admin.checked(keys))
    with Brokers(cluster) as brokers:
        connection = any_of(brokers)
        present = {key for _, quotas in described(connection, entity) for key in quotas}
        missing = [key for key in wanted if key not in present]  # the cluster would accept this silently
        error = f"it has no quota {', '.join(missing)}" if missing else None
        if error is None:
            error = alter(connection, entity, [OpData(key, remove=True) for key in wanted], dry_run=dry_run)
    report(entity, "unset", error, dry_run=dry_run, as_json=as_json)


# What is asked for


def entity_of(options: EntityOptions) -> dict[str, str | None]:
    """Returns the entity that the options name, if any. Raises BadParameter for a name with its default, or an IP with a user."""
    named = (
        (USER, options.user, options.user_defaults),
        (CLIENT_ID, options.client_id, options.client_defaults),
        (IP, options.ip, options.ip_defaults),
    )
    entity: dict[str, str | None] = {}
    for kind, name, is_default in named:
        if name is not None:
            admin.checked([name])
            if is_default:
                raise typer.BadParameter(f"name one {_CALLED[kind]} or the defaults, not both", param_hint=f"--{kind}")
            entity[kind] = name
        elif is_default:
            entity[kind] = None
    if IP in entity and len(entity) > 1:
        raise typer.BadParameter("an address cannot be combined with a user or a client id", param_hint="--ip")
    return entity


def somebody(entity: dict[str, str | None]) -> dict[str, str | None]:
    """Raises BadParameter if no entity is named."""
    if not entity:
        options = "--user, --client-id, --ip, or one of their defaults"
        raise typer.BadParameter(f"say whose quotas, with {options}", param_hint="--user")
    return entity


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{key}: {text!r} is not a number", param_hint="QUOTA=VALUE") from None


# Asking the cluster


def any_of(brokers: Brokers) -> direct.Connection:
    """Returns a connection to any broker, since every broker knows all quotas."""
    return brokers.at(min(brokers.metadata.brokers))


def described(connection: direct.Connection, entity: Entity) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    """Returns the quotas of this entity, or all quotas if it is empty, sorted."""
    parts = [ComponentData(kind, _EXACT if name is not None else _IS_DEFAULT, name) for kind, name in entity.items()]
    answer = connection.call(DescribeClientQuotasRequest(parts, strict=bool(parts)))
    check(answer.error_code, answer.error_message)
    found = []
    for entry in answer.entries or ():
        names = {part.entity_type: part.entity_name for part in entry.entity}
        ordered = {kind: names[kind] for kind in KINDS if kind in names}
        found.append((ordered, {value.key: value.value for value in sorted(entry.values, key=lambda value: str(value.key))}))
    return sorted(found, key=lambda each: [(kind in each[0], each[0].get(kind) or "") for kind in KINDS])


def alter(connection: direct.Connection, entity: Entity, ops: Sequence[OpData], *, dry_run: bool) -> str | None:
    """Alters the quotas of an entity. Returns the error in words, if any."""
    entry = RequestEntryData([RequestEntityData(*part) for part in entity.items()], list(ops))
    (answer,) = connection.call(AlterClientQuotasRequest([entry], dry_run)).entries
    return direct.words(answer.error_code, answer.error_message) if answer.error_code else None


# What is shown


def rows(entity: Entity, quotas: Quotas) -> Iterable[tuple[Cell, ...]]:
    names = [(entity[kind] or _DEFAULT) if kind in entity else None for kind in KINDS]
    return [(*names, key, _plain(value)) for key, value in quotas.items()]


def _plain(value: float) -> Cell:
    return int(value) if value.is_integer() else value


def in_words(entity: Entity) -> str:
    return ", ".join(f"{_CALLED[kind]} {_DEFAULT if name is None else name}" for kind, name in entity.items())


def report(entity: Entity, done: str, error: str | None, *, dry_run: bool, as_json: bool) -> None:
    name = in_words(entity)
    result = f"would be {done}" if dry_run else done
    outcome = admin.Outcome(name, result) if error is None else admin.failed(name, error)
    names: list[dict[str, Any]] = [{"entity": dict(entity)}]
    admin.report("", [outcome], as_json=as_json, names=names)
