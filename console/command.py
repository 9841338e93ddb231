"""`ottla console`: pages in a browser, for any Kafka cluster, and for a data directory.

What it needs beside the commands (starlette, uvicorn, jinja2) is the extra `console`, and is loaded when the command runs.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from ottla.commands import output
from ottla.commands.clients import client
from ottla.commands.output import Failure
from ottla.security.console_access import missing_packages, token_problem

if TYPE_CHECKING:
    from ottla.console.web.app import Beside
    from ottla.console.web.tls import RenewedKeystore
    from ottla.console.web.users import Users

DEFAULT_PORT: Final = 8080
PASSWORD_VARIABLE: Final = "OTTLA_CONSOLE_KEYSTORE_PASSWORD"
NO_BROWSER: Final = "there is no browser to open here; open the address above in yours"

_Port = Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="The port for browsers; 0 picks a free one.")]
_Host = Annotated[
    str, typer.Option(metavar="ADDRESS", help="127.0.0.1 or ::1; another one, for other machines, takes --keystore and --users.")
]
_Keystore = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help=f"A key with its certificate, as PEM, PKCS12 (.p12) or JKS (.jks), for TLS. {PASSWORD_VARIABLE} has its password.",
        show_default=False,
    ),
]
_Users = Annotated[
    Path | None,
    typer.Option("--users", metavar="FILE", help="Who may log in with a name and a password, a line each.", show_default=False),
]
_NewUser = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Print a line for that file, and nothing else: asks for the password, or reads it from standard input.",
        show_default=False,
    ),
]
_Open = Annotated[bool, typer.Option("--open", help="Open a browser with it.")]
_Token = Annotated[
    str | None,
    typer.Option(
        envvar="OTTLA_CONSOLE_TOKEN",
        metavar="TEXT",
        help="What lets a browser in; by default a new one, which is printed. Others can see what is on a command line.",
        show_default=False,
    ),
]
_ReadOnly = Annotated[bool, typer.Option("--read-only", help="Change nothing: no form that writes.")]
_DataDir = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DIR",
        help="A data directory, ottla's or Apache Kafka's, stopped or running, to look into. Without --bootstrap only this. "
        "May be repeated.",
        show_default=False,
    ),
]


@client.command
def run_console(
    context: typer.Context,
    cluster: client.Cluster,
    port: _Port = DEFAULT_PORT,
    host: _Host = "127.0.0.1",
    keystore: _Keystore = None,
    users: _Users = None,
    new_user: _NewUser = None,
    open_browser: _Open = False,
    token: _Token = None,
    read_only: _ReadOnly = False,
    data_dir: _DataDir = None,
) -> None:
    """Look at a cluster in a browser: topics, records, groups, brokers, settings; and at the files of a data directory."""
    if new_user is not None:
        _say_user(new_user)
        return
    if token is not None and (problem := token_problem(token)):
        raise typer.BadParameter(problem, param_hint="--token")
    if missing := missing_packages():
        raise Failure(f"the console needs {', '.join(missing)}; install ottla with the extra console: pip install '.[console]'")
    from ottla.console.running.threads import leave
    from ottla.console.web.serving import listen, serve
    from ottla.console.web.sessions import Sessions

    beside = _beside(context, cluster, data_dir or [])
    looks_at = [f"cluster {cluster.bootstrap}"] if beside.has_cluster else []
    looks_at += [f"directory {one.path}" for one in beside.directories]
    let_in = _users_of(users)
    keys = _keys_of(keystore)
    at = listen(host, port, *((keys.context, keys.names) if keys else ()), has_users=let_in is not None)
    # Whoever chose a token knows it, and may not want it in a log. Where other machines ask, there are users instead.
    made = token or (None if at.is_remote else secrets.token_urlsafe(24))
    sessions = Sessions(made, secrets.token_bytes, time.monotonic, users=let_in)
    url = at.url if token or made is None else f"{at.url}?token={quote(made, safe='')}"

    def ready() -> None:
        output.write_lines([f"ottla console ready: {url} {' '.join(looks_at)}"])
        sys.stdout.flush()
        if open_browser:
            open_in_browser(at.url if at.is_remote else f"{at.url}?token={sessions.open_once()}", os.environ)

    with at.socket:
        if serve(cluster, at, sessions, read_only=read_only, users=let_in, ready=ready, beside=beside):
            leave(0)


def _beside(context: typer.Context, cluster: client.Cluster, given: list[Path]) -> Beside:
    """Returns the data directories beside the cluster, or instead of it. Raises BadParameter."""
    from ottla.console.disk.directory import open_all, why_not
    from ottla.console.web.app import Beside

    if not given:
        return Beside()
    paths = [path.absolute() for path in given]
    for why in filter(None, map(why_not, paths)):
        raise typer.BadParameter(why, param_hint="--data-dir")
    is_secret = {"is_secret": context.obj.is_secret} if context.obj else {}
    return Beside(open_all(paths, **is_secret), cluster.is_named)


def _say_user(name: str) -> None:
    """Prints a user's line. Raises Failure and BadParameter."""
    from ottla.commands.user import read_password
    from ottla.security.password_file import MIN_PASSWORD, MOST_PASSWORD, credential_of, name_problem

    if problem := name_problem(name):
        raise typer.BadParameter(problem, param_hint="--new-user")
    password = read_password(name)
    if not MIN_PASSWORD <= len(password) <= MOST_PASSWORD:
        raise Failure(f"a password has {MIN_PASSWORD} to {MOST_PASSWORD} characters; nothing was printed")
    output.write_lines([credential_of(password, secrets.token_bytes(16)).line(name)])


def _users_of(path: Path | None) -> Users | None:
    """Returns who may log in. Raises Failure."""
    if path is None:
        return None
    from ottla.console.web.users import Users
    from ottla.security.password_file import BadPasswordFile

    try:
        return Users(path)
    except BadPasswordFile as error:
        raise Failure(f"--users {error}") from None


def _keys_of(path: Path | None) -> RenewedKeystore | None:
    """Returns the key for TLS, with its certificate. Raises Failure."""
    if path is None:
        return None
    from ottla.console.web.tls import RenewedKeystore

    return RenewedKeystore(path, os.environ.get(PASSWORD_VARIABLE), PASSWORD_VARIABLE)


def open_in_browser(url: str, environment: Mapping[str, str]) -> threading.Thread:
    """Opens a browser in a thread, which it returns, since some browsers return only when they are closed; without one it says
    so. Other users see what is on a command line, so a token in `url` should be one that opens once."""
    import webbrowser

    has_screen = sys.platform == "darwin" or any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))

    def open_() -> None:
        if not (has_screen and webbrowser.open(url)):
            output.note(NO_BROWSER)

    thread = threading.Thread(target=open_, name="browser", daemon=True)
    thread.start()
    return thread
