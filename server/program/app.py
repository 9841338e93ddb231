"""Describes the command line to typer. server/program/cli.py decides when this is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from ottla import __version__
from ottla.commands import acl, config, group, quota, topic, txn, user
from ottla.commands.cluster.command import run_cluster
from ottla.commands.consume import consume
from ottla.commands.format import format_directories
from ottla.commands.log.command import app as log
from ottla.commands.output import Failure
from ottla.commands.pipeline.command import app as pipeline
from ottla.commands.produce import produce
from ottla.commands.program import AccessRule, Decided, Node, Program
from ottla.commands.testkit.command import app as testkit
from ottla.console.command import run_console
from ottla.server.base.compiled import NOT_COMPILED, is_compiled
from ottla.server.program.serve import CannotStart, ServeOptions, gather_here, run
from ottla.server.settings.broker_settings import MOST_TEST_NODES

KAFKA_VERSION: Final = "4.4.0"
"""The version of Kafka whose protocol and formats these are."""

_HELP: Final = "A Kafka broker without the JVM. Without a command it serves, with the options that `ottla serve --help` lists."

app = typer.Typer(
    name="ottla",
    help=_HELP,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ottla {__version__} (Kafka {KAFKA_VERSION})" + ("" if is_compiled() else f", {NOT_COMPILED}"))
        raise typer.Exit


_SERVE_HELP: Final = (
    "Run a broker until SIGTERM or Ctrl-C.\n\n"
    "The defaults are 127.0.0.1:9092, directory ./ottla-data and node 1. Settings come from SERVER.PROPERTIES, then from KAFKA_* "
    "variables as Kafka's container image reads them (KAFKA_LOG_RETENTION_MS is log.retention.ms), then from --override, then "
    "from the other options."
)
_TestPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="ottla.test.port: the port where a test breaks this broker on purpose (docs/testkit.md); 0 picks a free port.",
    ),
]
_ConsolePort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="ottla.console.port: the port of the broker's console for browsers (docs/console.md); 0 picks a free port.",
    ),
]
_ConsoleReadOnly = Annotated[
    bool, typer.Option("--console-read-only", help="ottla.console.read.only: the console changes nothing.")
]
_ConsoleNoToken = Annotated[
    bool, typer.Option("--console-no-token", help="ottla.console.no.token: everybody on this machine may use the console.")
]
_TestNodes = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_TEST_NODES, metavar="N", help="ottla.test.nodes: how many nodes it simulates for a test."),
]
_TestSeed = Annotated[
    int | None,
    typer.Option(min=0, max=2**63 - 1, metavar="N", help="ottla.test.seed: the same seed repeats a test's random choices."),
]
_TestDisk = Annotated[
    str | None,
    typer.Option(
        metavar="DISK",
        help="ottla.test.disk: where a test's broker has its data: in files, or in memory, whose power a test can cut.",
    ),
]
_ReadyFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="Where to write, as JSON, the addresses and the process id once it serves.")
]
_UntilStdinCloses = Annotated[
    bool, typer.Option("--until-stdin-closes", help="Stop when the standard input ends, as it does when a test dies.")
]
_Version = Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")]


@app.callback(help=_HELP)
def program(context: typer.Context, version: _Version = False) -> None:
    """Runs before every command. Its help text is _HELP.

    Commands know nothing about the broker's code, so they learn from here what they need of it.
    """
    context.obj = Program(_is_secret, _read_node, _decide)


def _is_secret(setting: str) -> bool:
    from ottla.server.settings.broker_settings import is_hidden  # loaded with the first setting in a dump

    return is_hidden(setting)


def _read_node(path: str) -> Node:
    """Reads a configuration as `ottla serve` would. Raises Failure."""
    try:
        config, _ = gather_here(ServeOptions(path))
    except CannotStart as error:
        raise Failure(str(error)) from error
    return Node(config.node_id, tuple(config.log_dirs), config.metadata_log_dir, config.follows_controllers)


def _decide(rules: Sequence[AccessRule], principal: str, host: str, operation: int, resource_type: int, name: str) -> Decided:
    from ottla.server.base.hosts import java_form
    from ottla.server.security.authorizer import Authorizer, Rule  # loaded with `ottla acl why`
    from ottla.server.security.rights import Operation, Resource

    records = [Rule(at.to_bytes(16, "big"), *rule) for at, rule in enumerate(rules)]
    asked = principal, java_form(host), Operation(operation), Resource(resource_type), name
    decision = Authorizer(rules=records).decide(*asked)
    found = None if decision.rule is None else rules[int.from_bytes(decision.rule.id, "big")]
    open_to_all = Authorizer(allow_without_rules=True, rules=records).decide(*asked)
    return Decided(decision.allowed, found, has_rules=decision.allowed or not open_to_all.allowed)


@app.command(help=_SERVE_HELP)
def serve(
    properties: Annotated[
        str | None,
        typer.Argument(metavar="SERVER.PROPERTIES", help="A file of settings like Kafka's own.", show_default=False),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A setting that overrides file and environment. May be repeated."),
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The port for clients; 0 picks a free one.")] = None,
    host: Annotated[
        str | None, typer.Option(metavar="HOST", help="The address to listen on; 0.0.0.0 means every interface.")
    ] = None,
    data_dir: Annotated[str | None, typer.Option(metavar="DIR", help="log.dirs: the directory for all data.")] = None,
    cluster_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The id for an empty directory; one in use must have it. Also: CLUSTER_ID.")
    ] = None,
    node_id: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, metavar="N", help="node.id: this broker's number.")] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="ottla.metrics.port: /metrics for Prometheus, /healthz, /readyz; 0 picks a free port."
        ),
    ] = None,
    console_port: _ConsolePort = None,
    console_read_only: _ConsoleReadOnly = False,
    console_no_token: _ConsoleNoToken = False,
    test_port: _TestPort = None,
    test_disk: _TestDisk = None,
    test_nodes: _TestNodes = None,
    test_seed: _TestSeed = None,
    ready_file: _ReadyFile = None,
    until_stdin_closes: _UntilStdinCloses = False,
    adopt_test_data: Annotated[
        bool, typer.Option("--adopt-test-data", help="Keep for good the data that a broker with a test port has written.")
    ] = False,
    version: _Version = False,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C."""
    options = ServeOptions(
        properties,
        tuple(override or ()),
        port,
        host,
        data_dir,
        cluster_id,
        node_id,
        metrics_port,
        console_port,
        console_read_only,
        console_no_token,
        test_port,
        test_disk,
        test_nodes,
        test_seed,
        ready_file,
        until_stdin_closes,
        adopt_test_data,
    )
    raise typer.Exit(run(options))


# The everyday commands, each a module or a room of commands/. A command of one word is added by app.command("produce")(produce),
# a group of commands by app.add_typer(topic.app, name="topic"). The first word must also be in COMMANDS of server/program/cli.py.
app.add_typer(topic.app, name="topic")
app.command("produce")(produce)
app.command("consume")(consume)
app.add_typer(group.app, name="group")
app.add_typer(txn.app, name="txn")
app.add_typer(config.app, name="config")
app.add_typer(quota.app, name="quota")
app.add_typer(acl.app, name="acl")
app.add_typer(user.app, name="user")
app.add_typer(log, name="log")
app.command("format")(format_directories)
app.command("cluster")(run_cluster)
app.add_typer(pipeline, name="pipeline")
app.add_typer(testkit, name="testkit")
app.command("console")(run_console)
