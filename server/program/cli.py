"""Starts the `ottla` command.

    ottla [serve] [server.properties] [options]
    ottla topic | produce | consume | group | txn | config | quota | log | format | cluster | pipeline | testkit | console ...

Without a command `ottla` serves, so `ottla`, `ottla server.properties` and `ottla --port 0` all start a broker.

typer handles the commands, which server/program/app.py describes: their help, their completion, and messages about wrong options
(exit code 2). It takes 50 ms to import, a sixth of what a start may take, and rich as much again; so `plain_options` here reads a
command line that only starts a broker. It understands the same options and leaves everything else to typer. A test checks that
both read a command line in the same way.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from ottla.server.program.serve import ServeOptions, run
from ottla.server.settings.broker_settings import MOST_TEST_NODES

COMMANDS: Final = (
    *("serve", "topic", "produce", "consume", "group", "txn", "config", "quota", "acl", "user", "log"),
    *("format", "cluster", "pipeline", "testkit", "console"),
)
_OF_THE_PROGRAM: Final = ("--help", "-h", "--version", "--install-completion", "--show-completion")

_COMPLETION: Final = "_OTTLA_COMPLETE"
"""A shell that wants completions sets this variable, and gives the words typed so far in others (typer's convention)."""

OPTIONS: Final = {f"--{name.replace('_', '-')}": name for name in ServeOptions._fields if name != "properties"}
"""The options of `serve`."""
_FLAGS: Final = frozenset(("until_stdin_closes", "adopt_test_data", "console_read_only", "console_no_token"))
"""The options that take no value."""
_NUMBERS: Final = {
    "port": 65535,
    "metrics_port": 65535,
    "console_port": 65535,
    "node_id": 2**31 - 1,
    "test_port": 65535,
    "test_nodes": MOST_TEST_NODES,
    "test_seed": 2**63 - 1,
}
"""The options that are numbers, with their greatest values."""


def main() -> NoReturn:
    """Is the entry point of the `ottla` script and of `python -m ottla`."""
    arguments = with_command(sys.argv[1:])
    options = plain_options(arguments)
    if options is not None and _COMPLETION not in os.environ:
        sys.exit(run(options))
    from ottla.server.program.app import app

    app(arguments, prog_name="ottla")
    raise AssertionError("typer ends the process")


def with_command(arguments: Sequence[str]) -> list[str]:
    """Returns the arguments, with `serve` in front if they name no command and no option of the program itself.

    A plain word that is not a file either is a mistyped command: typer reports it and suggests a similar one.
    """
    if arguments and (arguments[0] in COMMANDS or arguments[0].partition("=")[0] in _OF_THE_PROGRAM):
        return list(arguments)
    if arguments and arguments[0].isalpha() and not os.path.exists(arguments[0]):
        return list(arguments)
    return ["serve", *arguments]


def plain_options(arguments: Sequence[str]) -> ServeOptions | None:
    """Returns the options of `serve ...` if they are only known options with valid values and at most one file, or else None."""
    if not arguments or arguments[0] != "serve":
        return None
    found: dict[str, Any] = {}
    override: list[str] = []
    words = iter(arguments[1:])
    for word in words:
        option, equals, text = word.partition("=")
        name = OPTIONS.get(option)
        if name is None:
            if word.startswith("-") or "properties" in found:
                return None
            found["properties"] = word
            continue
        if name in _FLAGS:
            if equals:
                return None
            found[name] = True
            continue
        value = text if equals else next(words, None)
        if value is None or (name in _NUMBERS and not _is_number(name, value)):
            return None
        if name == "override":
            override.append(value)
        else:
            found[name] = int(value) if name in _NUMBERS else value
    return ServeOptions(**found, override=tuple(override))


def _is_number(name: str, text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) <= _NUMBERS[name]
