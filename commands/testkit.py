"""`ottla testkit`: what belongs to brokers under test (docs/testkit.md)."""

from __future__ import annotations

import typer

from ottla.commands.testkit_replay import replay

app = typer.Typer(help="Brokers under test (docs/testkit.md): replay recorded requests.", no_args_is_help=True)


@app.callback()
def testkit() -> None:
    """Brokers under test (docs/testkit.md): replay recorded requests."""


app.command("replay")(replay)
