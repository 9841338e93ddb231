"""The common part of the modules of rows: the form of a row of METRICS (server/metrics/table.py), and rows without labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from ottla.server.metrics.sources import Sources

Rows = Callable[[Sources], Iterator[tuple[tuple[str, ...], float]]]
"""Makes the rows of a metric: the values of its labels, and its number."""
Row = tuple[str, Literal["counter", "gauge"], tuple[str, ...], str, Rows]
"""The name of a metric, its kind, its labels, its text, and its rows."""


def single(value: Callable[[Sources], float]) -> Rows:
    """Makes the only row of a metric without labels."""

    def rows(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
        yield (), value(sources)

    return rows
