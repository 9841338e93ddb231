"""`ottla format`: makes the log directories of a node ready for their first start, as Kafka's `kafka-storage.sh format` does.

Each directory gets a meta.properties with the id of the cluster, that of the node, and one of its own. It is then the node's for
life, and no other node or cluster can take it by mistake. ottla and Apache Kafka read each other's.

Nothing is written unless all directories fit: those that are formatted already must belong to this node and cluster, and need
`--ignore-formatted`; one that lost its meta.properties is not given another. As in Kafka, a directory that cannot be read is left
out, since the node can run without it, unless it is that of the metadata log.

A broker has nothing else to be formatted: voters and features are in the metadata of its controllers, which are Apache Kafka's.
The options of Kafka's tool for these are understood, so that its command lines can be used as they are.
"""

from __future__ import annotations

import re
import time
from random import Random, SystemRandom
from typing import Annotated, Final, NamedTuple

import typer

from ottla.commands import output
from ottla.commands.output import Failure
from ottla.commands.program import Node, Program
from ottla.log.disk.files import Disk, OsDisk
from ottla.log.errors import InconsistentMetadata
from ottla.log.management.identity import check_empty, check_owner, make_directory, read_identities, write_identity

_CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_.-]+")


class Outcome(NamedTuple):
    """The outcome for a directory."""

    path: str
    result: str
    """`formatted`, `formatted before` or `failed`."""
    error: str | None = None


@output.guarded
def format_directories(
    context: typer.Context,
    cluster_id: Annotated[
        str,
        typer.Option("--cluster-id", "-t", metavar="ID", envvar="CLUSTER_ID", help="The id of the cluster.", show_default=False),
    ],
    config: Annotated[
        str, typer.Option("--config", "-c", metavar="FILE", help="The node's server.properties.", show_default=False)
    ],
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", "-g", help="Leave out directories that are formatted already.")
    ] = False,
    standalone: Annotated[bool, typer.Option("--standalone", "-s", help="For a node that is its own controller.")] = False,
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", "-N", help="As it is with brokers anyway.", hidden=True)
    ] = False,
    initial_controllers: Annotated[
        str | None, typer.Option("--initial-controllers", "-I", help="For Kafka's controllers.", hidden=True)
    ] = None,
    feature: Annotated[list[str] | None, typer.Option("--feature", "-f", help="For controllers.", hidden=True)] = None,
    release_version: Annotated[str | None, typer.Option("--release-version", "-r", help="For controllers.", hidden=True)] = None,
    add_scram: Annotated[list[str] | None, typer.Option("--add-scram", "-S", help="For controllers.", hidden=True)] = None,
    as_json: output.Json = False,
) -> None:
    """Make a node's log directories ready for its first start, as kafka-storage.sh does."""
    if not _CLUSTER_ID.fullmatch(cluster_id):
        raise typer.BadParameter(f"{cluster_id!r} is not an id of letters, digits, '_', '-' and '.'", param_hint="--cluster-id")
    program: Program = context.obj
    node = program.read_node(config)
    given = {
        "--standalone": standalone,
        "--initial-controllers": initial_controllers,
        "--feature": feature,
        "--release-version": release_version,
        "--add-scram": add_scram,
    }
    _check_options([name for name, value in given.items() if value], node)
    try:
        outcomes = format_all(OsDisk(), node, cluster_id, ignore_formatted, SystemRandom(), int(time.time() * 1000))
    except InconsistentMetadata as error:
        text = f"log.dirs: {error}; give --cluster-id and node.id as the directory has them, or name other log.dirs"
        raise Failure(text) from error
    if as_json:
        output.write_json([{"name": path, "result": result, "error": why} for path, result, why in outcomes])
    else:
        for outcome in outcomes:
            output.note(f"log directory {outcome.path}: {outcome.error or outcome.result}")
    if not any(outcome.error is None for outcome in outcomes):
        raise Failure(f"log.dirs: none of {', '.join(node.log_dirs)} can be used; make one writable, or name others")


def _check_options(given: list[str], node: Node) -> None:
    """Refuses options that ask for what this node does not have, and notes those that change nothing for a broker. Raises
    Failure."""
    for option in given:
        if option == "--standalone" and not node.follows_controllers:
            continue
        if option in {"--standalone", "--initial-controllers"}:
            roles = "process.roles=broker" if node.follows_controllers else "ottla as its own controller"
            raise Failure(f"{option} is for Apache Kafka's controllers, not for {roles}; leave it out")
        if not node.follows_controllers:
            raise Failure(
                f"{option}: ottla as its own controller begins with all features and no users; change them once it runs"
            )
        output.note(f"{option} changes nothing for a broker: the metadata of its controllers has this")


def format_all(disk: Disk, node: Node, cluster_id: str, ignore_formatted: bool, random: Random, now_ms: int) -> list[Outcome]:
    """Formats the node's directories and returns what became of each. Raises InconsistentMetadata and Failure, before anything is
    written, and OSError."""
    found = read_identities(disk, (*node.log_dirs, node.metadata_dir))
    if node.metadata_dir in found.unreadable:
        raise found.unreadable[node.metadata_dir]
    check_owner(found.formatted, cluster_id, node.node_id)
    if found.formatted and not ignore_formatted:
        paths = ", ".join(found.formatted)
        raise Failure(f"log.dirs: formatted already: {paths}; with --ignore-formatted only the others are formatted")
    everything = [*found.formatted.values(), *([None] * len(found.new))]
    for path in found.new:
        check_empty(disk, path, everything)
    outcomes = [Outcome(path, "formatted before") for path in found.formatted]
    for path in found.new:
        make_directory(disk, path)
        write_identity(disk, path, cluster_id, node.node_id, random, now_ms)
        outcomes.append(Outcome(path, "formatted"))
    for path, error in found.unreadable.items():
        outcomes.append(Outcome(path, "failed", f"left out: {error.strerror or error}"))
    return outcomes
