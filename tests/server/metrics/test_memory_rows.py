"""Tests of what the rows of the memory that clients fill say; test_names.py has those of a whole broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.log.producers import PRODUCER_BYTES
from ottla.server.metrics.memory_rows import MEMORY_ROWS
from ottla.server.share.sessions import PARTITION_BYTES, SessionKey, ShareSessions

REMEMBERED = ("producer_ids",), 7 * PRODUCER_BYTES
SESSIONS = [(("fetch_sessions",), 4000), (("share_sessions",), 3 * PARTITION_BYTES)]
PENDING = ("pending_member_ids",), 19


class Producers(list[int]):
    """The producers that a partition remembers, of which it has forgotten some."""

    forgotten = 11


def rows(listeners: int, shares: Any = None, groups: Any = None) -> dict[str, list[tuple[tuple[str, ...], float]]]:
    memory = SimpleNamespace(held=500, waits=7, evictions=2)
    listener = SimpleNamespace(context=SimpleNamespace(memory=memory))
    logs = {("t", index): SimpleNamespace(producers=Producers(range(count))) for index, count in enumerate((3, 4))}
    sources: Any = SimpleNamespace(
        logs=SimpleNamespace(logs=logs),
        listeners=[listener] * listeners,
        context=SimpleNamespace(
            fetch_sessions=SimpleNamespace(held_bytes=4000, partition_count=10),
            existing_share_partitions=shares,
            existing_groups=groups,
            config=SimpleNamespace(values={"ottla.client.memory.bytes": 9000}),
            refused_requests=13,
            long_answers=SimpleNamespace(refused=17),
        ),
    )
    return {name: list(make(sources)) for name, _, _, _, make in MEMORY_ROWS}


def test_all_listeners_share_one_account() -> None:
    sessions = ShareSessions()
    sessions.open(SessionKey("g", "m"), dict.fromkeys(((b"t" * 16, index) for index in range(3)), "t"), object(), 9)
    groups = SimpleNamespace(pending_ids=SimpleNamespace(held_bytes=19, forgotten=23))
    assert rows(2, SimpleNamespace(sessions=sessions), groups) == {
        "ottla_client_memory_bytes": [(("connections",), 500), *SESSIONS, PENDING, REMEMBERED],
        "ottla_client_memory_limit_bytes": [((), 9000)],
        "ottla_client_memory_waits_total": [((), 7)],
        "ottla_client_memory_closed_connections_total": [((), 2)],
        "ottla_request_items_closed_connections_total": [((), 13)],
        "ottla_response_bytes_closed_connections_total": [((), 17)],
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached": [((), 10)],
        "kafka_server_sharesessioncache_sharesessionscount": [((), 1)],
        "kafka_server_sharesessioncache_sharepartitionscount": [((), 3)],
        "kafka_server_sharesessioncache_sharesessionevictions_total": [((), 0)],
        "ottla_log_forgotten_producer_ids": [((), 22)],
        "ottla_group_forgotten_member_ids_total": [((), 23)],
    }


def test_before_the_listeners_are_open_there_is_none() -> None:
    found = rows(0)
    assert found["ottla_client_memory_bytes"] == [SESSIONS[0], (("share_sessions",), 0), (("pending_member_ids",), 0), REMEMBERED]
    assert found["ottla_client_memory_waits_total"] == found["ottla_client_memory_closed_connections_total"] == []
