"""A connection to a broker, for what all brokers of a cluster know alike, or pass on to who knows it.

One that has just died is in the metadata for as long as its session lasts, so the next one is tried then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ottla.commands.clients import direct
from ottla.commands.clients.brokers import Brokers
from ottla.commands.output import Failure
from ottla.console.cluster.source import Node, Source


@contextmanager
def any_broker(source: Source) -> Iterator[direct.Connection]:
    """Connects to the broker with the lowest number that can be reached, until the end of the `with`. Raises Failure."""
    with Brokers(source.cluster, source.summary().metadata) as brokers:
        yield _first(brokers, source.summary().nodes)


@contextmanager
def controller(source: Source) -> Iterator[direct.Connection]:
    """Connects to the controller, or if it cannot be reached to another broker: in a KRaft cluster each passes on what it is
    asked, and the metadata name any. Raises Failure."""
    summary = source.summary()
    with Brokers(source.cluster, summary.metadata) as brokers:
        yield _first(brokers, sorted(summary.nodes, key=lambda node: not node.is_controller))


def _first(brokers: Brokers, nodes: Sequence[Node]) -> direct.Connection:
    """Returns a connection to the first that can be reached. Raises Failure, that of the first, if there is none."""
    failures: list[Failure] = []
    for node in nodes:
        try:
            return brokers.at(node.number)
        except Failure as failure:
            failures.append(failure)
    raise failures[0] if failures else Failure("the cluster has no broker")
