"""Describes the command line to typer. server/program/cli.py decides when this is loaded."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from ottla import __version__
from ottla.commands import config, group, log, pipeline, quota, topic, txn
from ottla.commands.consume import consume
from ottla.commands.produce import produce
from ottla.server.program.serve import ServeOptions, run

KAFKA_VERSION: Final = "4.4.0"
"""Whose protocol and formats these are."""

_HELP: Final = "A Kafka broker without the JVM. With no command it serves, with the options that `ottla serve --help` tells."

app = typer.Typer(
    name="ottla",
    help=_HELP,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ottla {__version__} (Kafka {KAFKA_VERSION})")
        raise typer.Exit


_SERVE_HELP: Final = (
    "Run a broker until SIGTERM or Ctrl-C.\n\n"
    "With nothing given: 127.0.0.1:9092, directory ./ottla-data, node 1. Settings come from SERVER.PROPERTIES, then from KAFKA_* "
    "variables as Kafka's container image reads them (KAFKA_LOG_RETENTION_MS is log.retention.ms), then from --override, then "
    "from the other options."
)
_Version = Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which this is.")]


@app.callback(help=_HELP)
def program(context: typer.Context, version: _Version = False) -> None:
    """Runs before every command. _HELP is its help.

    Commands know no broker: `log dump` gets from here which settings of brokers are secrets.
    """
    context.obj = _is_secret


def _is_secret(setting: str) -> bool:
    from ottla.server.settings.broker_settings import is_hidden  # with the first setting that a dump meets

    return is_hidden(setting)


@app.command(help=_SERVE_HELP)
def serve(
    properties: Annotated[
        str | None,
        typer.Argument(metavar="SERVER.PROPERTIES", help="Settings, as Kafka's own file has them.", show_default=False),
    ] = None,
    override: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting that beats file and environment. May be repeated.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Where clients connect; 0 is a free port.")] = None,
    host: Annotated[
        str | None, typer.Option(metavar="HOST", help="The address to listen on; 0.0.0.0 is every interface.")
    ] = None,
    data_dir: Annotated[str | None, typer.Option(metavar="DIR", help="log.dirs: where everything is kept.")] = None,
    cluster_id: Annotated[
        str | None, typer.Option(metavar="ID", help="For an empty directory; a used one must agree. Also: CLUSTER_ID.")
    ] = None,
    node_id: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, metavar="N", help="node.id: this broker's number.")] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="ottla.metrics.port: /metrics for Prometheus, /healthz, /readyz; 0 is a free port."),
    ] = None,
    version: _Version = False,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C."""
    raise typer.Exit(
        run(ServeOptions(properties, tuple(override or ()), port, host, data_dir, cluster_id, node_id, metrics_port))
    )


# The everyday commands, one module each in commands/. A command of one word: app.command("produce")(produce); a group of
# them: app.add_typer(topic.app, name="topic"). The first word must also stand in server/program/cli.py's COMMANDS.
app.add_typer(topic.app, name="topic")
app.command("produce")(produce)
app.command("consume")(consume)
app.add_typer(group.app, name="group")
app.add_typer(txn.app, name="txn")
app.add_typer(config.app, name="config")
app.add_typer(quota.app, name="quota")
app.add_typer(log.app, name="log")
app.add_typer(pipeline.app, name="pipeline")
