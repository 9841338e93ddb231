"""Makes rows for server/metrics/table.py of what clients use of their quotas.

There is a row for each limit, for clients that share it together, from the first request that counted against it on. It stays
until the last quota of its kind is removed, or until so many others came (server/quotas/ledger.py) that idle ones are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.server.metrics.rows import Row, Rows
from ottla.server.metrics.sources import Sources

_SHARE: Final = ("user", "client_id")


def _usage_rows(quota: str) -> Rows:
    def rows(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
        quotas = sources.context.quotas
        yield from quotas.used(quota) if quotas is not None else ()

    return rows


QUOTA_ROWS: Final[tuple[Row, ...]] = (
    (
        "kafka_server_produce_byte_rate",
        "gauge",
        _SHARE,
        "Bytes per second of Produce requests of clients with a quota; clients that share a limit share a row.",
        _usage_rows("producer_byte_rate"),
    ),
    (
        "kafka_server_fetch_byte_rate",
        "gauge",
        _SHARE,
        "Bytes per second of Fetch and ShareFetch answers to clients with a quota; clients that share a limit share a row.",
        _usage_rows("consumer_byte_rate"),
    ),
    (
        "kafka_server_request_request_time",
        "gauge",
        _SHARE,
        "The time that requests of clients with a quota take, in percent of one thread, without what a parked one does later; "
        "clients that share a limit share a row.",
        _usage_rows("request_percentage"),
    ),
    (
        "kafka_server_controllermutation_tokens",
        "gauge",
        _SHARE,
        "Partitions that clients with a quota may create or delete now; negative while they have to wait; clients that share a "
        "limit share a row.",
        _usage_rows("controller_mutation_rate"),
    ),
)
