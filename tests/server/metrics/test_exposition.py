"""Families, their text, and that a large one comes in pieces."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ottla.server.base.randomness import from_system
from ottla.server.dispatch.chain import Chain
from ottla.server.dispatch.measured import RequestMetrics
from ottla.server.dispatch.routes import Dispatch
from ottla.server.group.coordinator import GroupCoordinator
from ottla.server.group.coordinator_config import GroupCoordinatorConfig
from ottla.server.metrics import exposition as module
from ottla.server.metrics.exposition import PIECE, PIECE_SECONDS, BrokerCollector, Exposition
from ottla.server.metrics.sources import Sources
from ottla.wire.header import encode_request_header
from ottla.wire.messages import produce
from tests.fakes import MemoryBroker
from tests.log.support import batch
from tests.server.coordination.memory import CoordinatorLog


def sources(broker: MemoryBroker, requests: RequestMetrics | None = None) -> Sources:
    """Returns the sources of a broker that coordinates no groups."""
    broker.context.existing_groups = GroupCoordinator(
        CoordinatorLog(), broker.clock, GroupCoordinatorConfig(), broker.image, from_system()
    )
    return Sources(broker.context, requests or RequestMetrics(lambda: 1), [], broker.logs, serving=True)


def text(exposition: Exposition) -> str:
    return b"".join(exposition.pieces()).decode()


def test_it_is_a_collector_for_any_registry() -> None:
    registry = CollectorRegistry()
    registry.register(BrokerCollector(sources(MemoryBroker({"t": 1}))))
    assert b'kafka_log_log_size{partition="0",topic="t"} 0.0' in generate_latest(registry)


def test_a_large_family_comes_in_pieces_under_one_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", 20)
    exposition = Exposition(sources(MemoryBroker({"t": 41})))
    pieces = list(exposition.pieces())
    sizes = [piece.count(b"\nkafka_log_log_size{") + piece.startswith(b"kafka_log_log_size{") for piece in pieces]
    assert [size for size in sizes if size] == [20, 20, 1]
    families = [family.name for family in text_string_to_metric_families(b"".join(pieces).decode())]
    assert len(families) == len(set(families))
    assert b"".join(pieces).count(b"# TYPE kafka_log_log_size ") == 1


def test_what_takes_long_comes_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = MemoryBroker({"t": 5})
    ticks = (int(tick * 0.4 * PIECE_SECONDS * 1e9) for tick in range(1_000_000))
    monkeypatch.setattr(broker.clock, "ticks_ns", lambda: next(ticks))
    pieces = [family.samples for family in BrokerCollector(sources(broker)).pieces() if family.name == "kafka_log_log_size"]
    assert [len(samples) for samples in pieces] == [3, 2]


def test_what_goes_while_a_scrape_is_on_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", 20)
    broker = MemoryBroker({"t": 20, "u": 20, "v": 20})
    pieces = Exposition(sources(broker)).pieces()
    found = b""
    for piece in pieces:
        found += piece
        if b'kafka_log_log_size{partition="0",topic="t"}' in piece:
            broker.delete_topic("t")
            broker.delete_topic("v")
            broker.create_topic("w", 3)
            replica = broker.replicas.get("u", 0)
            assert replica is not None
            replica.append(batch())
    families = {family.name: family for family in text_string_to_metric_families(found.decode())}
    assert {sample.labels["topic"] for sample in families["kafka_log_log_numlogsegments"].samples} == {"u", "w"}


def test_names_of_clients_are_escaped() -> None:
    broker = MemoryBroker({'a"b\\c\nd': 1})
    families = {family.name: family for family in text_string_to_metric_families(text(Exposition(sources(broker))))}
    assert families["kafka_log_log_size"].samples[0].labels["topic"] == 'a"b\\c\nd'


def test_quantiles_buckets_and_sums_are_of_the_same_times() -> None:
    broker = MemoryBroker({"t": 1})
    now = iter(range(0, 10**12, 3_000_000))
    next(now)
    requests, chain = RequestMetrics(lambda: next(now)), Chain()
    chain.measure(requests.make_route)
    dispatch = Dispatch(broker.context, chain)
    parts: list[Any] = [encode_request_header(0, 9, 1, "me")]
    data = [produce.PartitionProduceData(0, batch())]
    produce.ENCODE_REQUEST[9](produce.ProduceRequest(None, -1, 0, [produce.TopicProduceData("t", partition_data=data)]), parts)
    for _ in range(4):
        dispatch.serve(b"".join(parts), broker.session())
    families = {family.name: family for family in text_string_to_metric_families(text(Exposition(sources(broker, requests))))}

    summary = families["kafka_network_requestmetrics_totaltimems"].samples
    by_name = {(sample.name, sample.labels.get("quantile")): sample.value for sample in summary}
    assert by_name["kafka_network_requestmetrics_totaltimems_count", None] == 4
    assert by_name["kafka_network_requestmetrics_totaltimems_sum", None] == 12.0
    assert 2.0 < by_name["kafka_network_requestmetrics_totaltimems", "0.50"] < 4.2
    assert [quantile for _, quantile in by_name if quantile] == ["0.50", "0.75", "0.95", "0.98", "0.99", "0.999"]

    histogram = families["ottla_request_duration_seconds"].samples
    counts = [(float(sample.labels["le"]), sample.value) for sample in histogram if "le" in sample.labels]
    assert [bound for bound, count in counts if count] == [bound for bound, _ in counts if bound >= 0.003]
    assert counts[-1] == (float("inf"), 4)
    assert sum(sample.value for sample in histogram if sample.name.endswith("_sum")) == 0.012


def test_where_nobody_asked_for_anything_there_are_no_quantiles() -> None:
    lines = text(Exposition(sources(MemoryBroker({"t": 1})))).splitlines()
    assert not [line for line in lines if "quantile=" in line or "_bucket" in line]


def test_a_scrape_of_ten_thousand_partitions_leaves_the_loop_to_others_all_the_time() -> None:
    """Not how long it takes, which is the machine's: how much is done between two turns of the loop."""
    broker = MemoryBroker({"t": 1})
    (log,) = broker.logs.logs.values()
    broker.logs.logs.update({("t", index): log for index in range(10_000)})
    pieces = list(Exposition(sources(broker)).pieces())
    assert max(piece.count(b"\n") for piece in pieces) <= PIECE + 2
    assert sum(piece.count(b"\n") for piece in pieces) > 40_000
