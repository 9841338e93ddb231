"""`ottla user`: users with SCRAM passwords in any Kafka cluster: list, add, remove.

The password never leaves this process: the cluster is sent PBKDF2 of it, and keeps two keys made of that (RFC 5802). It is asked
for on the terminal, or is the first line of standard input; not an argument, which others could read in the list of processes.
"""

from __future__ import annotations

import getpass
import secrets
import sys
from typing import Annotated, Final

import typer

from ottla.commands import admin, output
from ottla.commands.clients import client, direct
from ottla.commands.clients.brokers import Brokers, check
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.wire.scram import DIGESTS, salt_password

app = typer.Typer(help="Users with SCRAM passwords: list, add, remove.", no_args_is_help=True)

LIST_COLUMNS: Final = ("User", "Mechanism", "Iterations")
MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
SALT_BYTES: Final = 24
NOT_FOUND: Final = 91
_NAMES: Final = {number: name for name, number in MECHANISMS.items()}

Mechanism = Annotated[
    list[str] | None, typer.Option("--mechanism", metavar="M", help=f"{' or '.join(MECHANISMS)}; both if not given.")
]


@app.command("list")
@client.command
def list_users(
    cluster: client.Cluster,
    names: Annotated[list[str] | None, typer.Argument(metavar="USER", help="All users if not given.", show_default=False)] = None,
    as_json: output.Json = False,
) -> None:
    """Show users with their mechanisms."""
    with Brokers(cluster) as brokers:
        found = described(any_of(brokers), names)
    if as_json:
        output.write_json(
            [
                {"user": user, "mechanism": _NAMES.get(mechanism, str(mechanism)), "iterations": iterations}
                for user, mechanism, iterations in found
            ]
        )
    else:
        output.write_table(
            LIST_COLUMNS, [(user, _NAMES.get(mechanism, str(mechanism)), count) for user, mechanism, count in found]
        )


@app.command("add")
@client.command
def add(
    cluster: client.Cluster,
    name: Annotated[str, typer.Argument(metavar="USER", help="The name, without a type.", show_default=False)],
    mechanism: Mechanism = None,
    iterations: Annotated[int, typer.Option("--iterations", min=4096, max=16384, help="Rounds of PBKDF2.")] = 8192,
    as_json: output.Json = False,
) -> None:
    """Add a user, or change the password of one. The password comes from the terminal or standard input."""
    admin.checked([name])
    numbers = mechanisms(mechanism)
    password = read_password(name)
    outcomes = []
    with Brokers(cluster) as brokers:
        connection = any_of(brokers)
        for number in numbers:  # each in a request of its own, because a request may name a user once
            wish = credential(name, number, iterations, password, secrets.token_bytes(SALT_BYTES))
            (result,) = connection.call(AlterUserScramCredentialsRequest([], [wish])).results
            outcomes.append(_outcome(f"user {name} ({_NAMES[number]})", result.error_code, result.error_message, "set"))
    admin.report("", outcomes, as_json=as_json)


@app.command("remove")
@client.command
def remove(
    cluster: client.Cluster,
    name: Annotated[str, typer.Argument(metavar="USER", help="The name, without a type.", show_default=False)],
    mechanism: Mechanism = None,
    yes: admin.Yes = False,
    as_json: output.Json = False,
) -> None:
    """Remove a user's passwords: all, or those of a mechanism."""
    admin.checked([name])
    wanted = mechanisms(mechanism)
    admin.confirm(f"Remove user {name}?", yes=yes)
    outcomes = []
    with Brokers(cluster) as brokers:
        connection = any_of(brokers)
        there = [number for _, number, _ in described(connection, [name]) if number in wanted]
        for number in there:
            (result,) = connection.call(AlterUserScramCredentialsRequest([ScramCredentialDeletion(name, number)], [])).results
            outcomes.append(_outcome(f"user {name} ({_NAMES[number]})", result.error_code, result.error_message, "removed"))
    if not there:
        raise output.Failure(f"user {name}: there is no such user")
    admin.report("", outcomes, as_json=as_json)


def mechanisms(names: list[str] | None) -> list[int]:
    """Returns the numbers of the mechanisms, all if none is named. Raises BadParameter."""
    for name in names or ():
        if name.upper() not in MECHANISMS:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(MECHANISMS)}", param_hint="--mechanism")
    return [MECHANISMS[name.upper()] for name in dict.fromkeys(names or MECHANISMS)]


def read_password(user: str) -> str:
    """Returns the password, from the terminal or the first line of standard input. Raises BadParameter without one."""
    if sys.stdin.isatty():
        password = getpass.getpass(f"Password of {user}: ")
        if password != getpass.getpass("Again: "):
            raise output.Failure("the passwords are not the same; nothing was changed")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise typer.BadParameter("a password is needed, on the terminal or as the first line of standard input")
    return password


def credential(user: str, mechanism: int, iterations: int, password: str, salt: bytes) -> ScramCredentialUpsertion:
    """Returns what the cluster is sent instead of the password."""
    salted = salt_password(DIGESTS[_NAMES[mechanism]], password, salt, iterations)
    return ScramCredentialUpsertion(user, mechanism, iterations, salt, salted)


def any_of(brokers: Brokers) -> direct.Connection:
    return brokers.at(min(brokers.metadata.brokers))


def described(connection: direct.Connection, names: list[str] | None) -> list[tuple[str, int, int]]:
    """Returns (user, mechanism, iterations) of these users or all, sorted. Users that there are not are left out."""
    users = None if not names else [UserName(name) for name in admin.checked(names)]
    answer = connection.call(DescribeUserScramCredentialsRequest(users))
    check(answer.error_code, answer.error_message)
    for result in answer.results:
        if result.error_code != NOT_FOUND:
            check(result.error_code, result.error_message)
    return sorted((result.user, each.mechanism, each.iterations) for result in answer.results for each in result.credential_infos)


def _outcome(what: str, code: int, text: str | None, done: str) -> admin.Outcome:
    return admin.failed(what, direct.words(code, text)) if code else admin.Outcome(what, done)
