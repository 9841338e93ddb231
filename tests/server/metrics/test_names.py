"""Tests of what a broker under traffic really exports: valid names, as the docs list them and the dashboard asks for them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric as Family

from ottla.server.group.kind import Kind
from ottla.server.metrics.cluster_rows import CLUSTER_ROWS
from ottla.server.metrics.login_rows import LOGIN_ROWS
from ottla.server.metrics.table import METRICS
from ottla.wire.primitives import uuid_to_text
from tests.server.metrics.served import get, metrics_config, parsed, telling, traffic

ROOT = Path(__file__).resolve().parents[3]
TARGET_LABELS = {"instance", "job"}  # Prometheus' own, of where it scraped
KEYWORDS = {"by", "without", "on", "ignoring", "group_left", "group_right", "and", "or", "unless", "bool", "offset"}


@cache
def exported() -> dict[str, Family]:
    async def scenario() -> bytes:
        broker = metrics_config(offsets_topic_num_partitions="1", ottla_client_metrics="true")
        await broker.start()
        await traffic(broker)
        client = await telling(broker)
        answer = await get(broker.metrics_url, "/metrics")
        client.close()
        await broker.stop()
        assert (answer.status, answer.fields["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        return answer.body

    return parsed(asyncio.run(asyncio.wait_for(scenario(), 60)))


@cache
def series() -> dict[str, set[str]]:
    """Names that can be asked for -> the labels of their samples."""
    result: dict[str, set[str]] = {}
    for family in exported().values():
        for sample in family.samples:
            result.setdefault(sample.name, set()).update(sample.labels)
    return result


def value(name: str, **labels: str) -> float:
    (found,) = [
        sample.value
        for family in exported().values()
        for sample in family.samples
        if (sample.name, sample.labels) == (name, labels)
    ]
    return found


# Names


LOOP_LAG = "ottla_event_loop_lag_seconds"
OF_OTHERS = {name for name, *_ in (*LOGIN_ROWS, *CLUSTER_ROWS) if name != LOOP_LAG}
"""No client logs in to this broker, and it is in no cluster; test_login_rows.py and test_cluster_rows.py have these."""


@pytest.mark.parametrize("metric", [each for each in METRICS if each.name not in OF_OTHERS], ids=lambda metric: metric.name)
def test_every_metric_is_exported_with_its_kind_labels_and_text(metric: Any) -> None:
    family = exported()[metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name]
    assert (family.type, family.documentation) == (metric.kind, metric.doc)
    assert family.samples, "the traffic of this test reaches every metric"
    for sample in family.samples:
        assert set(sample.labels) - {"quantile", "le"} == set(metric.labels)


def test_names_and_labels_are_as_prometheus_wants_them() -> None:
    for name, family in exported().items():
        assert re.fullmatch("[a-z][a-z0-9_]*", name), name
        assert family.documentation.strip(), name
        assert not name.endswith(("_count", "_sum", "_bucket", "_total", "_info")) or name in {
            "kafka_server_socketservermetrics_connection_count",  # Kafka's own name
            "kafka_consumergroup_lag_sum",  # kafka-exporter's
            "kafka_log_logcleanermanager_uncleanable_partitions_count",  # Kafka's own name
            "kafka_server_groupcoordinatormetrics_group_count",  # Kafka's own name, and those of the kinds of groups
            *(f"kafka_server_groupcoordinatormetrics_{kind.value}_group_count" for kind in Kind),
            "kafka_server_socketservermetrics_expired_connections_killed_count",  # Kafka's own name
            "kafka_server_plugins_acls_total_count",  # Kafka's own name
            "ottla_info",
        }, name
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter"), sample.name
            assert all(re.fullmatch("[a-zA-Z][a-zA-Z0-9_]*", label) for label in sample.labels), sample
            assert sample.value >= 0, sample


def test_no_series_is_there_twice() -> None:
    seen = [(sample.name, *sorted(sample.labels.items())) for family in exported().values() for sample in family.samples]
    assert len(seen) == len(set(seen))


# Numbers


def test_the_numbers_are_those_of_the_traffic() -> None:
    prefix = "kafka_server_brokertopicmetrics_"
    assert value(f"{prefix}messagesin_total", topic="orders") == 3
    assert value(f"{prefix}totalproducerequests_total", topic="orders") == 2
    assert value(f"{prefix}failedproducerequests_total", topic="orders") == 1
    assert value(f"{prefix}totalfetchrequests_total", topic="orders") == 3
    assert value(f"{prefix}failedfetchrequests_total", topic="orders") == 1
    assert value(f"{prefix}bytesout_total", topic="orders") == 2 * value(f"{prefix}bytesin_total", topic="orders") > 0
    assert value(f"{prefix}messagesin_total", topic="") == 3 + 2  # and the two commits
    assert not [labels for labels in exported()[f"{prefix}messagesin"].samples if labels.labels["topic"] == "quiet"], "no traffic"

    assert value("kafka_network_requestmetrics_requests_total", request="Produce", version="8") == 2
    assert value("kafka_network_requestmetrics_totaltimems_count", request="Fetch") == 3
    assert value("ottla_request_duration_seconds_bucket", request="Fetch", le="+Inf") == 3
    assert value("kafka_network_requestmetrics_errors_total", request="Produce", error="INVALID_RECORD") == 1
    assert value("kafka_network_requestmetrics_errors_total", request="Fetch", error="OFFSET_OUT_OF_RANGE") == 1
    assert value("kafka_network_requestmetrics_errors_total", request="ListOffsets", error="UNKNOWN_TOPIC_OR_PARTITION") == 1

    assert value("kafka_log_log_logendoffset", topic="orders", partition="0") == 3
    assert value("kafka_log_log_size", topic="orders", partition="0") == value(f"{prefix}bytesin_total", topic="orders")
    assert value("kafka_server_replicamanager_partitioncount") == 4
    assert value("kafka_server_replicamanager_leadercount") == 4
    assert value("kafka_controller_kafkacontroller_globaltopiccount") == 3
    assert value("kafka_consumergroup_lag", consumergroup="readers", topic="orders", partition="0") == 2
    assert value("kafka_consumergroup_lag", consumergroup="readers", topic="orders", partition="1") == 0
    assert value("kafka_consumergroup_lag_sum", consumergroup="readers", topic="orders") == 2
    assert value("kafka_consumergroup_current_offset", consumergroup="readers", topic="orders", partition="0") == 1
    assert value("kafka_coordinator_group_groupmetadatamanager_numoffsets") == 2
    assert value("ottla_client_instances") == 1
    client = uuid_to_text(b"a client's own 1")
    assert (
        value("ottla_client_metric", client_id="teller", client_instance_id=client, metric="requests", attributes="node=1") == 3
    )
    sockets = "kafka_server_socketservermetrics_connection"
    open_now = value(f"{sockets}_count", listener="PLAINTEXT")
    created = value(f"{sockets}_creation_total", listener="PLAINTEXT")
    assert created - value(f"{sockets}_close_total", listener="PLAINTEXT") == open_now
    assert created >= 10


# The docs


def rows(text: str, columns: int) -> list[list[str]]:
    """Of the tables with so many columns, without their heads."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip().replace("`", "") for cell in line] for line in lines if len(line) == columns]


def test_the_docs_list_what_there_is() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text()
    assert rows(text, 4) == [[metric.name, metric.kind, ", ".join(metric.labels), metric.doc] for metric in METRICS]
    ours = {metric.name.removesuffix("_total") for metric in METRICS}
    others = [
        [f"{name}_total" if family.type == "counter" else name, family.type]
        for name, family in exported().items()
        if name not in ours
    ]
    pages = {"/metrics", "/healthz", "/readyz"}
    assert sorted(row for row in rows(text, 2) if row[0] not in pages) == sorted(others)


ELSEWHERE = re.compile(
    r"^(The same|That|Those)\b|\b(that (record|limit)|ago that was|limits that|the same times|those partitions|in all four)\b"
)
"""Words that point at another metric. /metrics shows each text alone."""


def test_a_help_text_needs_no_other() -> None:
    assert all(map(ELSEWHERE.search, ("The same, of the longest.", "How long ago that was.", "Bytes of those partitions.")))
    assert not [metric.name for metric in METRICS if ELSEWHERE.search(metric.doc)]


# The dashboard


def strings(node: Any, key: str) -> Iterator[str]:
    """All values of `key`, at any depth."""
    if isinstance(node, dict):
        for name, each in node.items():
            if name == key and isinstance(each, str):
                yield each
            yield from strings(each, key)
    elif isinstance(node, list):
        for each in node:
            yield from strings(each, key)


def dashboard() -> Any:
    return json.loads((ROOT / "dashboards" / "ottla.json").read_text())


def asked(expression: str) -> tuple[dict[str, set[str]], set[str]]:
    """(metric -> labels of its selectors, labels to group by) of a PromQL expression."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    grouping = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
    grouped = {label.strip() for labels in grouping.findall(bare) for label in labels.split(",") if label.strip()}
    bare = re.sub(r"\[[^\]]*\]", "", grouping.sub("", bare))
    metrics: dict[str, set[str]] = {}
    for name, selector in re.findall(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?![a-zA-Z0-9_:(\s])(\{[^}]*\})?", bare):
        if name in KEYWORDS:
            continue
        metrics.setdefault(name, set()).update(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*""', selector))
        bare = bare.replace(selector, "", 1) if selector else bare
    return metrics, grouped


def label_questions() -> list[tuple[str, str]]:
    """(metric, label) of the dashboard's variables."""
    found = [re.fullmatch(r"label_values\((\w+), (\w+)\)", text) for text in strings(dashboard()["templating"], "definition")]
    return [(match[1], match[2]) for match in found if match is not None]


EXPRESSIONS = sorted(set(strings(dashboard(), "expr")))


def test_the_reader_of_expressions_finds_names_and_labels() -> None:
    expression = 'sum by (a, le) (rate(x_total{b=~"$b", c!="{d}"}[5m])) / on (e) max(y) - 2 * histogram_quantile(0.9, z{f="1"})'
    assert asked(expression) == ({"x_total": {"b", "c"}, "y": set(), "z": {"f"}}, {"a", "le", "e"})


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_dashboard_asks_for_what_is_exported(expression: str) -> None:
    metrics, grouped = asked(expression)
    assert metrics, "it asks for nothing"
    unknown = {name: labels - series().get(name, set()) - TARGET_LABELS for name, labels in metrics.items()}
    assert set(metrics) <= set(series())
    assert not any(unknown.values()), unknown
    assert grouped <= TARGET_LABELS.union(*(series()[name] for name in metrics))
    assert all("rate(" in expression for name in metrics if name.endswith(("_total", "_bucket")))


def test_the_dashboard_s_variables_and_legends_are_of_labels_that_exist() -> None:
    questions = label_questions()
    assert len(questions) == 3
    for name, label in questions:
        assert label in series()[name] | TARGET_LABELS
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            metrics, grouped = asked(target["expr"])
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert shown <= (grouped or TARGET_LABELS.union(*(series()[name] for name in metrics))), panel["title"]


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    board = dashboard()
    assert board["schemaVersion"] >= 39
    assert {"title", "uid", "time", "templating", "panels"} <= set(board)
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, f"{panel['title']} lies on another"
        assert max(x for x, _ in cells) < 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert panel["targets"]
            assert panel["description"].endswith(".")
