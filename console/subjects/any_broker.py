"""A connection to a broker, for what all brokers of a cluster know alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ottla.commands import direct
from ottla.commands.brokers import Brokers
from ottla.console.source import Source


@contextmanager
def any_broker(source: Source) -> Iterator[direct.Connection]:
    """Connects to the broker with the lowest number until the end of the `with`. Raises Failure."""
    with Brokers(source.cluster, source.summary().metadata) as brokers:
        yield brokers.at(min(brokers.metadata.brokers))
