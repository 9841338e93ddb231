"""What clients use of their quotas, as rows for server/metrics/table.py, for those that have a limit and were active recently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal

from ottla.server.metrics.sources import Sources

Rows = Callable[[Sources], Iterator[tuple[tuple[str, ...], float]]]
Row = tuple[str, Literal["counter", "gauge"], tuple[str, ...], str, Rows]

_SHARE: Final = ("user", "client_id")


def _used(quota: str) -> Rows:
    def rows(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
        quotas = sources.context.quotas
        yield from quotas.used(quota) if quotas is not None else ()

    return rows


QUOTA_ROWS: Final[tuple[Row, ...]] = (
    (
        "kafka_server_produce_byte_rate",
        "gauge",
        _SHARE,
        "Bytes a second that clients with a quota produce; who shares a limit has one row.",
        _used("producer_byte_rate"),
    ),
    (
        "kafka_server_fetch_byte_rate",
        "gauge",
        _SHARE,
        "Bytes a second that clients with a quota are sent as records.",
        _used("consumer_byte_rate"),
    ),
    (
        "kafka_server_request_request_time",
        "gauge",
        _SHARE,
        "The time that requests of clients with a quota take, in percent of one thread.",
        _used("request_percentage"),
    ),
    (
        "kafka_server_controllermutation_tokens",
        "gauge",
        _SHARE,
        "Partitions that clients with a quota may make or remove now; negative while they have to wait.",
        _used("controller_mutation_rate"),
    ),
)
