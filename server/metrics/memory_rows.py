"""Makes the rows of the metrics that say how much the broker holds for clients and what was too much of it, for
server/metrics/table.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.log.producers import PRODUCER_BYTES
from ottla.server.metrics.rows import Row, Rows
from ottla.server.metrics.sources import Sources

if TYPE_CHECKING:
    from ottla.server.network.client_memory import ClientMemory
    from ottla.server.share.sessions import ShareSessions


def _account_row(value: Callable[[ClientMemory], float]) -> Rows:
    def rows(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
        for listener in sources.listeners[:1]:  # all listeners share one account; there is none before they are open
            yield (), value(listener.context.memory)

    return rows


def _uses(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
    for listener in sources.listeners[:1]:
        yield ("connections",), listener.context.memory.held
    yield ("fetch_sessions",), sources.context.fetch_sessions.held_bytes
    yield ("share_sessions",), _of_share_sessions(lambda sessions: sessions.held_bytes, sources)
    groups = sources.context.existing_groups
    yield ("pending_member_ids",), 0 if groups is None else groups.pending_ids.held_bytes
    yield ("producer_ids",), PRODUCER_BYTES * sum(len(log.producers) for log in list(sources.logs.logs.values()))


def _limit(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
    yield (), sources.context.config.values["ottla.client.memory.bytes"]


def _session_partitions(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
    yield (), sources.context.fetch_sessions.partition_count


def _of_share_sessions(value: Callable[[ShareSessions], int], sources: Sources) -> int:
    shares = sources.context.existing_share_partitions
    return 0 if shares is None else value(shares.sessions)


def _share_session_row(value: Callable[[ShareSessions], int]) -> Rows:
    return lambda sources: iter([((), _of_share_sessions(value, sources))])


def _refused_requests(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
    yield (), sources.context.refused_requests


def _refused_answers(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
    yield (), sources.context.long_answers.refused


def _forgotten_member_ids(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
    groups = sources.context.existing_groups
    yield (), 0 if groups is None else groups.pending_ids.forgotten


def _forgotten_producers(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
    yield (), sum(log.producers.forgotten for log in list(sources.logs.logs.values()))


MEMORY_ROWS: Final[tuple[Row, ...]] = (
    (
        "ottla_client_memory_bytes",
        "gauge",
        ("use",),
        "What the broker holds for clients: requests and answers of connections, fetch and share sessions, producer "
        "ids of partitions, and member ids of classic groups that nobody has joined with, which have limits of their own.",
        _uses,
    ),
    (
        "ottla_client_memory_limit_bytes",
        "gauge",
        (),
        "The setting ottla.client.memory.bytes, which limits what the broker holds for clients; -1 is no limit.",
        _limit,
    ),
    (
        "ottla_client_memory_waits_total",
        "counter",
        (),
        "How often reading from a connection stopped because of ottla.client.memory.bytes.",
        _account_row(lambda memory: memory.waits),
    ),
    (
        "ottla_client_memory_closed_connections_total",
        "counter",
        (),
        "Connections that were closed because of ottla.client.memory.bytes, or because the process got no more memory.",
        _account_row(lambda memory: memory.evictions),
    ),
    (
        "ottla_request_items_closed_connections_total",
        "counter",
        (),
        "Connections that were closed because a request named more things than ottla.request.max.items.",
        _refused_requests,
    ),
    (
        "ottla_response_bytes_closed_connections_total",
        "counter",
        (),
        "Connections that were closed because an answer was longer than ottla.response.max.bytes.",
        _refused_answers,
    ),
    (
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        "gauge",
        (),
        "Partitions in fetch sessions.",
        _session_partitions,
    ),
    (
        "kafka_server_sharesessioncache_sharesessionscount",
        "gauge",
        (),
        "Share sessions.",
        _share_session_row(len),
    ),
    (
        "kafka_server_sharesessioncache_sharepartitionscount",
        "gauge",
        (),
        "Partitions in share sessions.",
        _share_session_row(lambda sessions: sessions.partition_count),
    ),
    (
        "kafka_server_sharesessioncache_sharesessionevictions_total",
        "counter",
        (),
        "Share sessions that were evicted, because their connection held more than one for which there was no room.",
        _share_session_row(lambda sessions: sessions.evictions),
    ),
    (
        "ottla_log_forgotten_producer_ids",
        "gauge",
        (),
        "Producer ids that the partitions held here have forgotten early, because they were too many.",
        _forgotten_producers,
    ),
    (
        "ottla_group_forgotten_member_ids_total",
        "counter",
        (),
        "Member ids that classic groups handed out and have forgotten early, because nobody had joined with too many of them.",
        _forgotten_member_ids,
    ),
)
