"""The console that a broker starts: `python -m ottla.console.activated LISTENING CHANNEL`, two descriptors that it inherits.

The broker has bound the port and lends it. The first line on the channel says all else: where the broker is, who is let in, and
whether pages may show its inside; after it the channel answers questions (inside.py). When the broker closes it, this ends.
"""

from __future__ import annotations

import json
import logging
import secrets
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

import typer

from ottla.commands.clients.client import Cluster, cluster_of
from ottla.commands.output import Failure
from ottla.console.broker.inside import SocketInside
from ottla.console.disk.directory import Directory, open_all, why_not
from ottla.console.running.threads import leave
from ottla.console.web.app import Beside
from ottla.console.web.serving import Listening, Until, log_to_stderr, serve
from ottla.console.web.sessions import Ended, Sessions
from ottla.console.web.tls import context_of
from ottla.console.web.users import Users
from ottla.security.password_file import BadPasswordFile

NEEDS_TOKEN: Final = (
    "This broker checks access rules, and its console lets everybody in (ottla.console.no.token); what is inside the broker, "
    "which no rule covers, is only shown with a token."
)
_log: Final = logging.getLogger("ottla.console")


def main() -> int:
    """Serves until the broker ends, or nobody looks any more; returns the exit code."""
    listening, channel = (socket.socket(fileno=int(word)) for word in sys.argv[1:3])
    log_to_stderr()
    channel.setblocking(True)
    orders = _first_line(channel)
    until = Until()
    inside = SocketInside(channel, until.end)
    try:
        cluster = cluster_for(orders["addresses"], orders["command_config"])
    except (Failure, typer.BadParameter) as error:
        _log.error("ottla.console.command.config: %s", error)
        return 1
    try:
        users = None if orders["users"] is None else Users(Path(orders["users"]))
    except BadPasswordFile as error:  # it has been changed since the broker started
        _log.error("ottla.console.users: %s", error)
        return 1
    ended = Ended(
        frozenset(orders["ended"]),
        orders["none_before"],
        lambda session, opened: inside.ask("end_session", session=session, opened=opened),
    )
    sessions = Sessions(orders["token"], secrets.token_bytes, time.monotonic, bytes.fromhex(orders["key"]), users, ended)
    shown = Beside(_directories(orders["directories"]), inside=inside, is_under_test=orders["is_under_test"])
    beside = shown if orders["shows_inside"] else Beside(without_inside=NEEDS_TOKEN)
    context = None if orders["tls"] is None else context_of(orders["tls"].encode())
    tls = None if context is None else lambda: context
    at = Listening(listening, orders["host"], orders["port"], tls, tuple(orders["names"]))
    seen_by = None if orders["seen_by"] is None else frozenset(orders["seen_by"])
    read_only = orders["read_only"]
    if serve(cluster, at, sessions, read_only=read_only, users=users, seen_by=seen_by, beside=beside, until=until):
        leave(0)
    return 0


def _first_line(channel: socket.socket) -> dict[str, Any]:
    """Reads the first line byte by byte, because what follows is for others."""
    line = bytearray()
    while not line.endswith(b"\n"):
        more = channel.recv(1)
        if not more:
            raise SystemExit(0)  # the broker has gone already
        line += more
    orders: dict[str, Any] = json.loads(line)
    return orders


def _directories(paths: list[str]) -> tuple[Directory, ...]:
    """Returns those of the broker's data directories that pages can look into."""
    return open_all([path for path in map(Path.absolute, map(Path, paths)) if not why_not(path)])


def cluster_for(addresses: dict[str, str], command_config: str | None) -> Cluster:
    """Returns how to reach the broker: by its PLAINTEXT listener, or as the file of `ottla.console.command.config` says. Raises
    Failure if it has no listener of the file's security protocol, BadParameter for a file that cannot be read."""
    if command_config is None:
        return cluster_of(addresses["PLAINTEXT"], [], None)
    cluster = cluster_of(None, [], Path(command_config))
    if not cluster.is_named:
        protocol = cluster.file.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in addresses:
            there = ", ".join(addresses)
            raise Failure(f"security.protocol is {protocol}, and the broker listens with {there}; set it, or bootstrap.servers")
        cluster.file["bootstrap.servers"] = addresses[protocol]
    return cluster


if __name__ == "__main__":
    sys.exit(main())
