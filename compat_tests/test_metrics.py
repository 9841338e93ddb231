"""Our metrics have the names under which the JMX exporter shows Kafka's: asked of Kafka's own MBeans after the same traffic.

`exported` does to an MBean's name what the exporter's usual rules for Kafka do, with lowercaseOutputName: a meter's Count is a
counter, a Value a gauge, a histogram has a count and percentiles under the label `quantile`, and the metrics of Kafka's own
library have the attribute at the end of their name. Not compared: what begins with `ottla_`, and kafka-exporter's names.
"""

from __future__ import annotations

import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families

from compat_tests.brokers import Address, Ottla
from compat_tests.reference.kafka import HOST, BrokerProcess, RealKafka, free_port
from compat_tests.topics import make_topics
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, OpData, RequestEntityData, RequestEntryData
from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

MBEANS = Path(__file__).parent / "KafkaMBeans.java"
NOT_KAFKA_S = ("ottla_", "kafka_consumergroup_", "process_", "python_")
SUMS = ("_sum",)  # JMX has none of a histogram; ours are extra
BY_TOPIC_ONCE_IT_HAPPENS = ("failedproducerequests_total", "failedfetchrequests_total")
"""Kafka makes these for a topic with its first failure that is the broker's own fault, which no client can bring about."""
TIMEOUT_S = 60

Series = dict[str, set[str]]
"""Names -> the labels that any of their samples has."""


class KafkaWithJmx(RealKafka):
    """Kafka with a door for JMX."""

    jmx_port = 0

    def command(self) -> list[str]:
        self.jmx_port = free_port()
        jmx = {"port": self.jmx_port, "rmi.port": self.jmx_port, "authenticate": "false", "ssl": "false"}
        java, *rest = super().command()
        flags = [f"-Dcom.sun.management.jmxremote.{name}={value}" for name, value in jmx.items()]
        return [java, f"-Djava.rmi.server.hostname={HOST}", *flags, *rest]


@contextmanager
def running(broker: BrokerProcess) -> Iterator[None]:
    broker.start()
    try:
        yield
    finally:
        broker.stop()


def use(bootstrap: str, unique: Callable[[str], str]) -> None:
    """A topic, records in and out, a group that commits; by clients with quotas that nobody reaches."""
    limit_everybody(bootstrap)
    topic, servers = unique("metrics"), {"bootstrap.servers": bootstrap}
    make_topics(bootstrap, 1, topic)
    producer = Producer(servers)
    for number in range(10):
        producer.produce(topic, str(number))
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer(servers | {"group.id": unique("readers"), "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert len(consumer.consume(10, TIMEOUT_S)) == 10
    consumer.commit(asynchronous=False)
    consumer.close()


def limit_everybody(bootstrap: str) -> None:
    wire = Wire(Address("", int(bootstrap.rpartition(":")[2]), 0, ""), "limits")
    entity = [RequestEntityData("user", None), RequestEntityData("client-id", None)]
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    request = AlterClientQuotasRequest([RequestEntryData(entity, [OpData(key, 1e9) for key in keys])])
    assert wire.call(request, 1).entries[0].error_code == 0
    filters = [ComponentData("user", 1, None), ComponentData("client-id", 1, None)]
    described = DescribeClientQuotasRequest(filters, strict=True)
    wait_for(lambda: [len(entry.values) for entry in wire.call(described, 1).entries] == [len(keys)], "the broker knows them")
    wire.close()


def exported(mbean: str, attributes: set[str]) -> Series:
    """Returns what the exporter makes of one MBean."""
    domain, _, properties = mbean.partition(":")
    keys = dict(pair.split("=", 1) for pair in re.split(r",(?=[\w-]+=)", properties))
    kind, name = keys.pop("type").replace("-", ""), keys.pop("name", None)
    prefix, labels = f"{domain}_{kind}".replace(".", "_").lower(), {key.replace("-", "_") for key in keys}
    if name is None:
        return {f"{prefix}_{attribute}".replace("-", "_").lower(): labels for attribute in attributes}
    full = f"{prefix}_{name}".replace("-", "_").lower()
    if "Value" in attributes:
        return {full: labels}
    if "50thPercentile" in attributes:
        return {full: labels | {"quantile"}, f"{full}_count": labels}
    return {f"{full.removesuffix('persec')}_total": labels}


def of_kafka(jmx_port: int) -> Series:
    listed = subprocess.run(
        ["java", str(MBEANS), str(jmx_port)], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    ).stdout
    found: Series = {}
    for line in listed.splitlines():
        mbean, _, attributes = line.partition("\t")
        for name, labels in exported(mbean, set(attributes.split())).items():
            found.setdefault(name, set()).update(labels)
    return found


def of_ottla(port: int) -> Series:
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=TIMEOUT_S) as answer:
        text = answer.read().decode()
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_name_and_label_of_kafka_s_is_kafka_s(tmp_path: Path, unique: Callable[[str], str]) -> None:
    port = free_port()
    ottla = Ottla(tmp_path / "ottla", {"ottla.metrics.port": str(port)})
    with running(ottla):
        use(ottla.bootstrap, unique)
        ours = of_ottla(port)
    kafka = KafkaWithJmx(tmp_path / "kafka")
    with running(kafka):
        use(kafka.bootstrap, unique)
        theirs = of_kafka(kafka.jmx_port)
    compared = {name: labels for name, labels in ours.items() if not name.startswith(NOT_KAFKA_S) and not name.endswith(SUMS)}
    assert len(compared) > 30
    assert set(compared) - set(theirs) == set()
    for name in compared:
        if name.endswith(BY_TOPIC_ONCE_IT_HAPPENS):
            theirs[name].add("topic")
    assert {name: labels - theirs[name] for name, labels in compared.items() if labels - theirs[name]} == {}
