"""Clients push their metrics (KIP-714): the Java client and librdkafka to ottla, and to Apache Kafka with a plug-in that listens.

Which metrics there are is the client's own; that all of them arrive is the broker's. So the names are compared.
"""

from __future__ import annotations

import base64
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from compat_tests.brokers import Address, Ottla
from compat_tests.java_client import Java, compiled, running
from compat_tests.reference.kafka import BrokerProcess, RealKafka, free_port
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from ottla.server.telemetry.otlp import points
from ottla.wire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest

CLIENT_METRICS = 16
WANTED = {
    "java-app": "org.apache.kafka.consumer.coordinator.,org.apache.kafka.consumer.fetch.manager.",
    "rdk-app": "org.apache.kafka.producer.node.,org.apache.kafka.producer.record.queue.time.",
}
"""By client id: prefixes of metrics."""


class ListeningOttla(Ottla):
    """With its page of metrics."""

    def __init__(self, directory: Path) -> None:
        self.metrics_port = free_port()
        super().__init__(directory, {"ottla.client.metrics": "true", "ottla.metrics.port": str(self.metrics_port)})

    def told(self) -> set[str]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics") as page:
            families = text_string_to_metric_families(page.read().decode())
        return {s.labels["metric"] for family in families if family.name == "ottla_client_metric" for s in family.samples}


class ListeningKafka(RealKafka):
    """With compat_tests/java/PushedMetrics.java."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.plugin = compiled(directory, "PushedMetrics", "kafka")
        self.pushed = directory / "pushed"
        super().__init__(directory, {"metric.reporters": "PushedMetrics"})

    def _java(self) -> list[str]:
        java = super()._java()
        return [*java[:-1], f"{self.plugin}:{java[-1]}", f"-Dpushed.metrics={self.pushed}"]

    def told(self) -> set[str]:
        lines = self.pushed.read_text().splitlines() if self.pushed.exists() else []
        return {point.name for line in lines for point in points(base64.b64decode(line))}


Listening = ListeningOttla | ListeningKafka


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Listening]]:
    made: list[Listening] = [kind(tmp_path_factory.mktemp("brokers") / "b") for kind in (ListeningOttla, ListeningKafka)]
    try:
        for broker in made:
            broker.start()
            subscribe(broker)
        yield made
    finally:
        for broker in made:
            broker.stop()


def subscribe(broker: BrokerProcess) -> None:
    """Each client of these tests is to push the metrics of WANTED, often."""
    wire = Wire(Address(broker.kind, broker.port, 0, ""), "subscribe")
    wire.warm_up()
    for client_id, metrics in WANTED.items():
        settings = {"metrics": metrics, "interval.ms": "300", "match": f"client_id={client_id}"}
        configs = [AlterableConfig(name, 0, text) for name, text in settings.items()]
        answer = wire.call(IncrementalAlterConfigsRequest([AlterConfigsResource(CLIENT_METRICS, client_id, configs)]), 1)
        assert answer.responses[0].error_code == 0
    wire.close()


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with running(tmp_path_factory.mktemp("java")) as program:
        yield program


def of(client_id: str, names: set[str]) -> set[str]:
    return {name for name in names if name.startswith(tuple(WANTED[client_id].split(",")))}


def all_told(client_id: str, brokers: list[Listening]) -> None:
    """Waits until both brokers have heard the same of this client, and something."""
    heard: list[set[str]] = [set() for _ in brokers]

    def same() -> bool:
        for number, broker in enumerate(brokers):
            heard[number] |= of(client_id, broker.told())
        return len(heard[0]) > 3 and heard[0] == heard[1]

    wait_for(same, f"both have heard the same of {client_id}")


def test_a_java_consumer_sends_its_metrics(listening: list[Listening], java: Java) -> None:
    for broker in listening:
        program = java.at(broker.bootstrap)
        program.topic("t", 1)
        settings = {"client.id": "java-app", "group.id": "g"}
        program.call("join", member=broker.kind, topics=["t"], settings=settings)
    all_told("java-app", listening)
    for broker in listening:
        java.call("leave", member=broker.kind)


def test_a_producer_of_librdkafka_sends_its_metrics(listening: list[Listening]) -> None:
    producers = [
        Producer({"bootstrap.servers": broker.bootstrap, "client.id": "rdk-app", "enable.metrics.push": True})
        for broker in listening
    ]
    for producer in producers:
        producer.produce("t", b"value")
        producer.flush()
    all_told("rdk-app", listening)
