"""Three replicas in one quorum of two brokers of ottla and two of Apache Kafka 4.4.0, in all four casts: each kind leads, and has
one follower of each kind.

All replicas are the same bytes for records of every codec, idempotent producers and transactions: the segments while the
brokers run, and when they have stopped also the leader epochs, the snapshots of producers and the indexes of transactions.
Kafka's own tool for it finds no replica behind. A topic moves from the one kind to the other and back while it is written and
read, and a reader sees each record once.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests.cluster.mixed import Mixed
from compat_tests.cluster.producing import produce
from compat_tests.cluster.traffic import Traffic
from compat_tests.test_apache_tools import java

KAFKA, KAFKA_TOO, OTTLA, OTTLA_TOO = 1, 2, 3, 4
LED_BY = {
    "kafka": [[KAFKA, KAFKA_TOO, OTTLA], [KAFKA_TOO, OTTLA_TOO, OTTLA], [KAFKA, OTTLA_TOO, KAFKA_TOO]],
    "ottla": [[OTTLA, OTTLA_TOO, KAFKA], [OTTLA_TOO, KAFKA_TOO, KAFKA], [OTTLA, KAFKA_TOO, OTTLA_TOO]],
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TRANSACTIONS = "__transaction_state"
COORDINATORS = [[KAFKA, KAFKA_TOO, OTTLA], [OTTLA, OTTLA_TOO, KAFKA]] * 2
LEDGER = {"kafka": "b", "ottla": "a"}
"""The transactional id whose coordinator is of that kind: Java's hash of a text of one character is its code, 98 or 97."""
SEGMENT_BYTES = str(1 << 20)
"""The smallest that Kafka 4.4 accepts."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    made = Mixed(tmp_path_factory.mktemp("casts"), ["kafka", "kafka", "ottla", "ottla"])
    try:
        made.start()
        made.create(TRANSACTIONS, COORDINATORS, cleanup_policy="compact", segment_bytes=SEGMENT_BYTES)
        yield made
    finally:
        made.stop()


def transactions(bootstrap: str, topic: str, name: str) -> None:
    """One transaction is committed, the next one aborted, and the last one committed again, in two partitions of one leader."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": "0"})
    producer.init_transactions(60)
    for commits in (True, False, True):
        producer.begin_transaction()
        for at in range(30):
            producer.produce(topic, b"v" * 100, partition=at % 2 * 2)
        producer.flush(60)
        if commits:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)


@pytest.mark.parametrize("kind", LED_BY)
def test_three_replicas_have_the_same_bytes_whoever_leads(cluster: Mixed, kind: str) -> None:
    topic, assignment = f"led-by-{kind}", LED_BY[kind]
    cluster.create(topic, assignment, segment_bytes=SEGMENT_BYTES, min_insync_replicas="2")
    for codec in CODECS:
        produce(cluster.bootstrap, topic, 300, 1000, compression_type=codec)
    produce(cluster.bootstrap, topic, 4000, 1000, enable_idempotence=True)
    transactions(cluster.bootstrap, topic, LEDGER[kind])
    cluster.wait_until_equal(topic, assignment)
    cluster.wait_for_isr(topic, assignment)
    assert len(cluster.segments(assignment[0][0], topic, 0)) > 1, "no segment was rolled"


def test_kafkas_tool_finds_no_replica_behind(cluster: Mixed) -> None:
    """It reads all replicas from the beginning, and says again and again how far behind the worst one is."""
    asked = ["--broker-list", cluster.bootstrap, "--topics-include", "led-by-.*", "--time", "-2", "--report-interval-ms", "200"]
    reports: list[str] = []
    with subprocess.Popen([*java("replica-verification"), *asked], stdout=subprocess.PIPE, text=True) as tool:
        assert tool.stdout is not None
        try:
            for line in tool.stdout:
                reports += [line] * ("verification process is started" not in line)
                if len(reports) > 2 and "max lag is 0" in line:
                    break
        finally:
            tool.kill()
    assert "max lag is 0" in reports[-1], reports
    assert "among 6 partitions" in reports[-1]
    assert [line for line in reports if "max lag is" not in line] == []


def test_a_topic_moves_to_ottla_and_back_while_it_is_written_and_read(cluster: Mixed, tmp_path: Path) -> None:
    places = {"kafka": [[KAFKA, KAFKA_TOO], [KAFKA_TOO, KAFKA]], "ottla": [[OTTLA, OTTLA_TOO], [OTTLA_TOO, OTTLA]]}
    cluster.create("moved", places["kafka"], segment_bytes=SEGMENT_BYTES, min_insync_replicas="2")
    with Traffic(cluster.bootstrap, "moved", partitions=2, bytes_a_second=1_000_000) as traffic:
        for to in ("ottla", "kafka"):
            traffic.wait_for_more()
            cluster.reassign("moved", places[to], tmp_path)
            traffic.wait_for_more()
    cluster.wait_until_equal("moved", places["kafka"])


def test_every_file_is_the_same_after_leaders_have_changed(cluster: Mixed) -> None:
    """This test comes last, and leaves the brokers stopped."""
    topics = {f"led-by-{kind}": assignment for kind, assignment in LED_BY.items()}
    for leaving in (KAFKA, OTTLA):
        cluster.brokers[leaving].stop()
        for topic, assignment in topics.items():
            cluster.wait_for_isr(topic, [[node for node in replicas if node != leaving] for replicas in assignment])
            produce(cluster.bootstrap, topic, 300, 1000, enable_idempotence=True)
        cluster.brokers[leaving].start()
        for topic, assignment in topics.items():
            cluster.wait_for_isr(topic, assignment)
            cluster.elect_preferred(topic, len(assignment))
            cluster.wait_for_leaders(topic, [replicas[0] for replicas in assignment])
            produce(cluster.bootstrap, topic, 300, 1000, enable_idempotence=True)
    for topic, assignment in topics.items():
        cluster.wait_until_equal(topic, assignment)
    cluster.stop()
    for topic, assignment in topics.items():
        for partition, (first, *others) in enumerate(assignment):
            wanted = cluster.settled(first, topic, partition)
            for other in others:
                found = cluster.settled(other, topic, partition)
                different = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
                assert not different, f"{topic}-{partition} at {first} and {other}"
            assert len([name for name in wanted if name.endswith(".snapshot")]) > 1
        assert any(name.endswith(".txnindex") for name in wanted), "no aborted transaction is known"
        assert "/" in str(wanted["epochs"]), f"only one leader had records: {wanted['epochs']!r}"
