"""`ottla console`: pages in a browser, for any Kafka cluster, and for a data directory.

What it needs beside the commands (starlette, uvicorn, jinja2) is the extra `console`, and is loaded when the command runs.
"""

from __future__ import annotations

import importlib.util
import secrets
import sys
import time
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote

import typer

from ottla.commands import client, output
from ottla.commands.output import Failure

DEFAULT_PORT: Final = 8080
MIN_TOKEN: Final = 16
_NEEDED: Final = ("starlette", "uvicorn", "jinja2", "h11")


@client.command
def run_console(
    context: typer.Context,
    cluster: client.Cluster,
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="The port for browsers; 0 picks a free one.")] = (
        DEFAULT_PORT
    ),
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="127.0.0.1 or ::1; the console is for this machine.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            envvar="OTTLA_CONSOLE_TOKEN",
            metavar="TEXT",
            help="What lets a browser in; by default a new one, which is printed. Others can see what is on a command line.",
            show_default=False,
        ),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Change nothing: no form that writes.")] = False,
    data_dir: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="A data directory, ottla's or Apache Kafka's, stopped or running, to look into. Without --bootstrap only this. "
            "May be repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Look at a cluster in a browser: topics, records, groups, brokers, settings; and at the files of a data directory."""
    if token is not None and (len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token):
        raise typer.BadParameter(f"has to be {MIN_TOKEN} letters or more, in ASCII, without spaces", param_hint="--token")
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise Failure(f"the console needs {', '.join(missing)}; install ottla with the extra console: pip install '.[console]'")
    from ottla.console.app import Beside
    from ottla.console.directory import open_all, why_not
    from ottla.console.serving import listen, serve
    from ottla.console.sessions import Sessions
    from ottla.console.threads import leave

    beside = Beside()
    if data_dir:
        paths = [path.absolute() for path in data_dir]
        for why in filter(None, map(why_not, paths)):
            raise typer.BadParameter(why, param_hint="--data-dir")
        is_secret = {"is_secret": context.obj.is_secret} if context.obj else {}
        beside = Beside(open_all(paths, **is_secret), cluster.is_named)
    looks_at = [f"cluster {cluster.bootstrap}"] if beside.has_cluster else []
    looks_at += [f"directory {one.path}" for one in beside.directories]
    at, made = listen(host, port), token or secrets.token_urlsafe(24)
    sessions = Sessions(made, secrets.token_bytes, time.monotonic)
    # Whoever chose a token knows it, and may not want it in a log.
    url = at.url if token else f"{at.url}?token={quote(made, safe='')}"
    with at.socket:
        if serve(cluster, at, sessions, read_only=read_only, ready=lambda: _say(url, looks_at), beside=beside):
            leave(0)


def _say(url: str, looks_at: list[str]) -> None:
    output.write_lines([f"ottla console ready: {url} {' '.join(looks_at)}"])
    sys.stdout.flush()
