"""`ottla cluster`: a whole cluster on this machine by one command: controllers of Apache Kafka, and brokers of ottla.

It checks everything first (options, the directory, Java, jars, ports), then starts the controllers, then the brokers, prints
where they are, and stays until SIGTERM, Ctrl-C or the end of its terminal, when it stops them in the opposite order. The same
command on the same directory starts the same cluster again.

| exit code | |
|---|---|
| 0 | stopped by a signal, every node in order |
| 1 | the cluster could not start; or a node ended by itself, or had to be killed |
| 2 | wrong usage, or Java or Maven is missing |

A second signal ends all nodes at once, and the command with 128 and its number.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from random import SystemRandom
from typing import Annotated, Any, Final, NoReturn

import typer

from ottla.commands import output
from ottla.commands.cluster import cores, jars
from ottla.commands.cluster.errors import ClusterError
from ottla.commands.cluster.layout import MOST_NODES, check_overrides, plan
from ottla.commands.cluster.process import NodeProcess
from ottla.commands.cluster.running import Interrupted, RunningCluster, find_programs


class Signals:
    """SIGTERM, SIGINT and SIGHUP as something to ask for and to wait for (`fd`). The second one ends the nodes and this process,
    but not a second SIGHUP: a terminal that ends sends it, and so does its shell. Under `nohup` it stays ignored."""

    def __init__(self) -> None:
        self.came: signal.Signals | None = None
        self.cluster: RunningCluster | None = None
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        self._before_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._before_fd)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self.fd)
        os.close(self._write_fd)

    def _on_signal(self, number: int, _: object) -> None:
        if self.came is not None and self.cluster is not None and number != signal.SIGHUP:
            self.cluster.kill()
            os._exit(128 + number)
        self.came = signal.Signals(number)


_Nodes = Annotated[
    int | None,
    typer.Option("--nodes", min=1, max=MOST_NODES, help="How many brokers; 3 for a new cluster.", show_default=False),
]
_Controllers = Annotated[
    int | None,
    typer.Option("--controllers", min=1, max=MOST_NODES, help="How many controllers; 1 for a new cluster.", show_default=False),
]
_PORT_HELP: Final = "The first broker's port, the others have the next ones; 9092 for a new cluster, 0 picks free ones."
_Port = Annotated[int | None, typer.Option(min=0, max=65535, help=_PORT_HELP, show_default=False)]
_KAFKA_HELP: Final = "An unpacked Apache Kafka to take the controllers from, instead of Maven."


@output.guarded
def run_cluster(
    nodes: _Nodes = None,
    controllers: _Controllers = None,
    directory: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where everything is kept.")] = Path("ottla-cluster"),
    port: _Port = None,
    kafka: Annotated[Path | None, typer.Option("--kafka", metavar="DIR", help=_KAFKA_HELP)] = None,
    kafka_version: Annotated[
        str, typer.Option("--kafka-version", metavar="VERSION", help="The version that Maven fetches.")
    ] = jars.NEWEST,
    override: Annotated[
        list[str] | None, typer.Option("--override", metavar="KEY=VALUE", help="A setting for all nodes. May be repeated.")
    ] = None,
    rack: Annotated[
        str | None, typer.Option("--rack", metavar="RACK", help="broker.rack of all brokers: the name of this machine.")
    ] = None,
    on_cores: Annotated[
        bool, typer.Option("--cores", help="Bind each broker to a core of its own, as far as there are enough.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print pids, addresses and logs as JSON.")] = False,
) -> None:
    """Run a cluster on this machine until SIGTERM or Ctrl-C: Apache Kafka's controllers and ottla's brokers."""
    overrides = tuple(override or ())
    try:
        check_overrides(overrides)
        usable = cores.usable() if on_cores else []
        layout = plan(directory, nodes, controllers, port, SystemRandom())
        programs = find_programs(os.environ, kafka, kafka_version)
    except ClusterError as error:
        _fail(error)
    with Signals() as signals:
        signals.cluster = RunningCluster(
            layout,
            programs,
            os.environ,
            overrides=overrides,
            rack=rack,
            should_stop=lambda: signals.came is not None,
            stop_fd=signals.fd,
            cores=usable,
        )
        try:
            signals.cluster.start()
        except ClusterError as error:
            _fail(error)
        except Interrupted:
            output.note("stopped before the cluster was ready")
            return
        in_order = _stay(signals.cluster, signals, as_json)
    if not in_order:
        raise typer.Exit(output.FAILED)


def _fail(error: ClusterError) -> NoReturn:
    output.note(f"ottla: {' '.join(str(error).split())}")
    raise typer.Exit(error.exit_code)


def _stay(cluster: RunningCluster, signals: Signals, as_json: bool) -> bool:
    """Stays until a signal comes or no node is left; returns whether every node ended in order, and not by itself."""
    try:
        _announce(cluster, as_json)
        in_order = True
        for node in cluster.ended():
            in_order = False
            output.note(f"{node.name} (pid {node.pid}) has {node.how_it_ended()}{_what_to_do(cluster, node)}")
        if signals.came is None:
            output.note("ottla: no node of the cluster runs any more; start it again with the same command")
    finally:
        failed = cluster.stop()
    for node in failed:
        output.note(f"{node.name} did not stop in order: it {node.how_it_ended()} (its log is {node.log})")
    return in_order and not failed


def _what_to_do(cluster: RunningCluster, node: NodeProcess) -> str:
    if node.place.kind == "controller":
        return f"; it is not started again (its log is {node.log})"
    properties = node.log.with_name("server.properties")
    return f"; it is not started again, unless by you: `ottla serve {properties}` (its log is {node.log})"


def _announce(cluster: RunningCluster, as_json: bool) -> None:
    """Prints where the cluster is. The first line of text, or the only one of JSON, comes when everything serves."""
    layout = cluster.layout

    def described(node: NodeProcess) -> dict[str, object]:
        entry = {"id": node.place.node_id, "address": node.place.address, "pid": node.pid, "log": str(node.log)}
        return entry | ({"core": node.core} if node.core is not None else {})

    if as_json:
        output.write_json(
            {
                "bootstrap": layout.bootstrap,
                "cluster_id": layout.cluster_id,
                "directory": str(layout.directory),
                "controllers": [described(node) for node in cluster.controllers],
                "brokers": [described(node) for node in cluster.brokers],
            }
        )
    else:
        lines = [f"ottla cluster ready: bootstrap {layout.bootstrap}, directory {layout.directory}, cluster {layout.cluster_id}"]
        lines += [f"{node.name}: {node.place.address}, {_runs_as(node)}, log {node.log}" for node in cluster.nodes]
        output.write_lines(lines)
    sys.stdout.flush()


def _runs_as(node: NodeProcess) -> str:
    return f"pid {node.pid}" if node.core is None else f"pid {node.pid} on core {node.core}"
