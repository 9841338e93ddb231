"""`ottla quota`: what clients of any Kafka may use: list, set, unset.

| option | whose quotas |
|---|---|
| `--user U`, `--client-id C` | a user's, a client id's; with both, those of the user's clients with that id |
| `--ip A` | an address's: how fast connections may come from there |
| `--user-defaults`, `--client-defaults`, `--ip-defaults` | those of every user, client id or address without any of its own |

A default can stand beside a name: `--user U --client-defaults` is for every client id of U by itself. In JSON an entity is an
object of `user`, `client-id`, `ip`, of which it has one or two; null is the default.

librdkafka does not know quotas: direct.py has a connection of our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from ottla.commands import admin, client, direct, output
from ottla.commands.brokers import Brokers, check
from ottla.commands.output import Cell
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, OpData, RequestEntityData, RequestEntryData
from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

app = typer.Typer(help="What clients may use: list, set, unset.", no_args_is_help=True)

LIST_COLUMNS: Final = ("User", "Client id", "IP", "Quota", "Value")
USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
KINDS: Final = (USER, CLIENT_ID, IP)
_CALLED: Final = {USER: "user", CLIENT_ID: "client id", IP: "ip"}
_DEFAULT: Final = "<default>"
_EXACT, _IS_DEFAULT = 0, 1

Entity = Mapping[str, str | None]
"""Kind of name -> name; None is the default."""
Quotas = Mapping[str, float]

User = Annotated[str | None, typer.Option("--user", metavar="USER", help="A user's.")]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="A client id's; with --user, of that user only.")]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="An address's.")]
UserDefaults = Annotated[bool, typer.Option("--user-defaults", help="Of every user without any.")]
ClientDefaults = Annotated[bool, typer.Option("--client-defaults", help="Of every client id without any.")]
IpDefaults = Annotated[bool, typer.Option("--ip-defaults", help="Of every address without any.")]


@app.command("list")
@client.command
def list_quotas(
    cluster: client.Cluster,
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    user_defaults: UserDefaults = False,
    client_defaults: ClientDefaults = False,
    ip_defaults: IpDefaults = False,
    as_json: output.Json = False,
) -> None:
    """Show quotas: all, or those of one entity."""
    names = {USER: user, CLIENT_ID: client_id, IP: ip}
    entity = entity_of(names, {USER: user_defaults, CLIENT_ID: client_defaults, IP: ip_defaults})
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
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    user_defaults: UserDefaults = False,
    client_defaults: ClientDefaults = False,
    ip_defaults: IpDefaults = False,
    dry_run: admin.DryRun = False,
    as_json: output.Json = False,
) -> None:
    """Set quotas of one entity. Those that are not named stay."""
    names = {USER: user, CLIENT_ID: client_id, IP: ip}
    entity = somebody(entity_of(names, {USER: user_defaults, CLIENT_ID: client_defaults, IP: ip_defaults}))
    ops = [OpData(key, _number(key, text)) for key, text in admin.pairs(changes, "QUOTA=VALUE").items()]
    with Brokers(cluster) as brokers:
        error = alter(any_of(brokers), entity, ops, dry_run=dry_run)
    tell(entity, "set", error, dry_run=dry_run, as_json=as_json)


@app.command("unset")
@client.command
def unset(
    cluster: client.Cluster,
    keys: Annotated[list[str], typer.Argument(metavar="QUOTA", help="Quotas' names.", show_default=False)],
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    user_defaults: UserDefaults = False,
    client_defaults: ClientDefaults = False,
    ip_defaults: IpDefaults = False,
    dry_run: admin.DryRun = False,
    as_json: output.Json = False,
) -> None:
    """Take quotas from one entity."""
    names = {USER: user, CLIENT_ID: client_id, IP: ip}
    entity = somebody(entity_of(names, {USER: user_defaults, CLIENT_ID: client_defaults, IP: ip_defaults}))
    wanted = dict.fromkeys(admin.checked(keys))
    with Brokers(cluster) as brokers:
        connection = any_of(brokers)
        present = {key for _, quotas in described(connection, entity) for key in quotas}
        missing = [key for key in wanted if key not in present]  # the cluster would say nothing to that
        error = f"it has no quota {', '.join(missing)}" if missing else None
        if error is None:
            error = alter(connection, entity, [OpData(key, remove=True) for key in wanted], dry_run=dry_run)
    tell(entity, "unset", error, dry_run=dry_run, as_json=as_json)


# What is asked for


def entity_of(names: Mapping[str, str | None], defaults: Mapping[str, bool]) -> dict[str, str | None]:
    """What the options name, which may be nothing. Wrong usage for a name and its default, and for an address of somebody."""
    entity: dict[str, str | None] = {}
    for kind in KINDS:
        name = names[kind]
        if name is not None:
            admin.checked([name])
            if defaults[kind]:
                raise typer.BadParameter(f"one {_CALLED[kind]} and all others are two entities", param_hint=f"--{kind}")
            entity[kind] = name
        elif defaults[kind]:
            entity[kind] = None
    if IP in entity and len(entity) > 1:
        raise typer.BadParameter("quotas of addresses are nobody's in particular", param_hint="--ip")
    return entity


def somebody(entity: dict[str, str | None]) -> dict[str, str | None]:
    """Wrong usage if nobody is named."""
    if not entity:
        options = "--user, --client-id, --ip, or one of their defaults"
        raise typer.BadParameter(f"say whose quotas: {options}", param_hint="--user")
    return entity


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{key}: {text!r} is no number", param_hint="QUOTA=VALUE") from None


# Asking the cluster


def any_of(brokers: Brokers) -> direct.Connection:
    """Every broker knows all quotas."""
    return brokers.at(min(brokers.metadata.brokers))


def described(connection: direct.Connection, entity: Entity) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    """The quotas of this entity, or of all where it is empty, sorted."""
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
    """What went wrong, in words."""
    entry = RequestEntryData([RequestEntityData(*part) for part in entity.items()], list(ops))
    (answer,) = connection.call(AlterClientQuotasRequest([entry], dry_run)).entries
    return direct.words(answer.error_code, answer.error_message) if answer.error_code else None


# What is told


def rows(entity: Entity, quotas: Quotas) -> Iterable[tuple[Cell, ...]]:
    names = [(entity[kind] or _DEFAULT) if kind in entity else None for kind in KINDS]
    return [(*names, key, _plain(value)) for key, value in quotas.items()]


def _plain(value: float) -> Cell:
    return int(value) if value.is_integer() else value


def in_words(entity: Entity) -> str:
    return ", ".join(f"{_CALLED[kind]} {_DEFAULT if name is None else name}" for kind, name in entity.items())


def tell(entity: Entity, done: str, error: str | None, *, dry_run: bool, as_json: bool) -> None:
    name = in_words(entity)
    result = f"would be {done}" if dry_run else done
    told = admin.Outcome(name, result) if error is None else admin.failed(name, error)
    names: list[dict[str, Any]] = [{"entity": dict(entity)}]
    admin.tell("", [told], as_json=as_json, names=names)
