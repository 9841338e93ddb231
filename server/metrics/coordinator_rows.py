"""Counts the partitions of internal topics that are not served because their bytes are damaged, in rows for
server/metrics/table.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.server.metadata.names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from ottla.server.metrics.rows import Row
from ottla.server.metrics.sources import Sources


def _damaged(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
    context = sources.context
    groups = context.existing_groups
    yield (CONSUMER_OFFSETS,), 0 if groups is None else groups.damaged_partitions
    transactions, shares = context.existing_transaction_coordinator, context.existing_share_coordinator
    yield (TRANSACTION_STATE,), 0 if transactions is None else transactions.damaged_partitions
    yield (SHARE_GROUP_STATE,), 0 if shares is None else shares.damaged_partitions


COORDINATOR_ROWS: Final[tuple[Row, ...]] = (
    (
        "ottla_coordinator_damaged_partitions",
        "gauge",
        ("topic",),
        "Partitions of an internal topic that are not served until their damaged bytes are repaired.",
        _damaged,
    ),
)
