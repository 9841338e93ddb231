"""ottla follows partitions that an Apache Kafka leads, in a real quorum: two replicas, Kafka's first.

What Kafka and ottla have on disk must be the same bytes: the segments while both run, and after both have stopped also the
epochs, the snapshots of producers and the indexes of transactions. In between the follower is killed, finds its log longer than
the leader's, falls behind the leader's start, and deletes old segments by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import producing
from compat_tests.cluster.nodes import KafkaBroker, KafkaController, OttlaBroker
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import wait_for
from ottla.wire.batch import iter_batches, stamp
from ottla.wire.records import Record, build_batch

KAFKA_ID, OTTLA_ID = 1, 2
BOTH = [KAFKA_ID, OTTLA_ID]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENT_BYTES = 1 << 20
"""The smallest that Kafka 4.4 accepts."""
OFTEN = {
    "log.retention.check.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.initial.task.delay.ms": "100",
    "replica.fetch.backoff.ms": "200",
}


class Cluster:
    """A controller, a broker of Kafka that leads, and a broker of ottla that follows with two log directories."""

    def __init__(self, directory: Path) -> None:
        self.controller = KafkaController(directory / "controller")
        self.kafka = KafkaBroker(directory / "kafka", KAFKA_ID, self.controller.bootstrap, OFTEN)
        place = directory / "ottla"
        dirs = f"{place / 'data'},{place / 'more'}"
        self.ottla = OttlaBroker(place, OTTLA_ID, self.controller.bootstrap, OFTEN | {"log.dirs": dirs})
        self.dirs: dict[BrokerProcess, list[Path]] = {
            self.kafka: [self.kafka.data_dir],
            self.ottla: [place / "data", place / "more"],
        }

    def start(self) -> None:
        for node in (self.controller, self.kafka, self.ottla):
            node.start()

    def stop(self) -> None:
        """Stops the follower first, so that the leadership stays where it is."""
        for node in (self.ottla, self.kafka, self.controller):
            node.stop()

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.kafka.bootstrap})

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(topic, partitions, replica_assignment=[BOTH] * partitions, config=settings)
        self.admin.create_topics([new])[topic].result(30)

    def isr(self, topic: str) -> list[list[int]]:
        """The in-sync replicas of each partition, as Kafka has them."""
        partitions = self.admin.list_topics(topic, 30).topics[topic].partitions
        return [sorted(partitions[index].isrs) for index in sorted(partitions)]

    def wait_for_isr(self, topic: str) -> None:
        wait_for(lambda: all(isr == BOTH for isr in self.isr(topic)), lambda: f"{topic}: {self.isr(topic)} {self.tails()}")

    def files(self, broker: BrokerProcess, topic: str, *suffixes: str) -> dict[str, bytes]:
        """The files of a topic on a broker, by partition and name."""
        found = {}
        for directory in self.dirs[broker]:
            for place in directory.glob(f"{topic}-[0-9]*"):
                if place.name.rpartition("-")[2].isdigit():
                    for path in place.iterdir():
                        if path.name.endswith(suffixes):
                            found[f"{place.name}/{path.name}"] = path.read_bytes()
        return found

    def differences(self, topic: str, *suffixes: str) -> list[str]:
        leader, follower = (self.files(broker, topic, *suffixes) for broker in (self.kafka, self.ottla))
        return sorted(name for name in leader.keys() | follower.keys() if leader.get(name) != follower.get(name))

    def wait_until_equal(self, topic: str) -> None:
        """Waits until the segments are the same bytes, and there are some."""

        def equal() -> bool:
            try:
                return not self.differences(topic, ".log") and bool(self.files(self.kafka, topic, ".log"))
            except FileNotFoundError:  # a segment was deleted meanwhile
                return False

        wait_for(equal, lambda: f"{topic} differs in {self.differences(topic, '.log')} {self.tails()}")

    def tails(self) -> str:
        return f"\n--- ottla\n{self.ottla.log_tail(25)}\n--- kafka\n{self.kafka.log_tail(10)}"

    def segment(self, broker: BrokerProcess, topic: str) -> Path:
        """The newest segment of partition 0."""
        return max(path for directory in self.dirs[broker] for path in directory.glob(f"{topic}-0/*.log"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("follow"))
    try:
        made.start()
        # the coordinators stay with Kafka, and ottla follows their partitions as any others
        made.create("__transaction_state", 4, cleanup_policy="compact", segment_bytes=str(SEGMENT_BYTES))
        made.create("__consumer_offsets", 4, cleanup_policy="compact", segment_bytes=str(SEGMENT_BYTES))
        yield made
    finally:
        made.stop()


def produce(cluster: Cluster, topic: str, count: int, size: int = 100, **settings: object) -> None:
    producing.produce(cluster.kafka.bootstrap, topic, count, size, **settings)


def transactions(cluster: Cluster, topic: str, name: str) -> None:
    """One transaction is committed, the next one aborted, and the last one committed again."""
    producer = Producer({"bootstrap.servers": cluster.kafka.bootstrap, "transactional.id": name, "linger.ms": "0"})
    producer.init_transactions(60)
    for commits in (True, False, True):
        producer.begin_transaction()
        for at in range(20):
            producer.produce(topic, b"v" * 100, str(at))
        producer.flush(60)
        if commits:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)


def test_every_kind_of_batch_is_the_same_bytes_and_ottla_is_in_sync(cluster: Cluster) -> None:
    cluster.create("kinds", 3, segment_bytes=str(SEGMENT_BYTES))
    for codec in CODECS:
        produce(cluster, "kinds", 300, 1000, compression_type=codec)
    produce(cluster, "kinds", 4000, 1000, enable_idempotence=True)
    transactions(cluster, "kinds", "teller")
    cluster.wait_until_equal("kinds")
    cluster.wait_for_isr("kinds")
    assert len(cluster.files(cluster.kafka, "kinds", ".log")) > 3, "no segment was rolled"
    for internal in ("__transaction_state", "__consumer_offsets"):
        cluster.wait_until_equal(internal)
        cluster.wait_for_isr(internal)
    places = [sum(1 for _ in directory.glob("kinds-*")) for directory in cluster.dirs[cluster.ottla]]
    assert min(places) > 0, f"one log directory has none of the partitions: {places}"


def test_a_follower_that_is_killed_goes_on_where_it_was(cluster: Cluster) -> None:
    cluster.create("killed", segment_bytes=str(SEGMENT_BYTES), min_insync_replicas="1")
    produce(cluster, "killed", 500, 1000)
    cluster.wait_for_isr("killed")
    writing = threading.Thread(target=produce, args=(cluster, "killed", 20_000, 1000), kwargs={"acks": 1})
    writing.start()
    try:
        size = cluster.segment(cluster.ottla, "killed").stat().st_size
        wait_for(
            lambda: cluster.segment(cluster.ottla, "killed").stat().st_size != size, lambda: f"nothing came {cluster.tails()}"
        )
        cluster.ottla.kill()
    finally:
        writing.join()
    wait_for(lambda: cluster.isr("killed") == [[KAFKA_ID]], "out of the in-sync replicas")
    cluster.ottla.start()
    cluster.wait_until_equal("killed")
    cluster.wait_for_isr("killed")


def test_records_that_the_leader_does_not_have_are_cut(cluster: Cluster) -> None:
    """The follower has a batch behind what was replicated, as one that came from a leader which then lost it."""
    cluster.create("longer")
    produce(cluster, "longer", 50)
    cluster.wait_until_equal("longer")
    cluster.ottla.kill()
    segment = cluster.segment(cluster.ottla, "longer")
    data = segment.read_bytes()
    *_, (last, _) = iter_batches(data)
    extra = build_batch([Record(0, last.max_timestamp, b"k", b"only here", []) for _ in range(5)])
    (header, _), *_ = iter_batches(extra)
    segment.write_bytes(data + stamp(header, last.next_offset, last.partition_leader_epoch) + extra[16:])
    cluster.ottla.start()
    cluster.wait_until_equal("longer")
    cluster.wait_for_isr("longer")
    assert b"only here" not in cluster.segment(cluster.ottla, "longer").read_bytes()


def test_the_leaders_log_start_is_followed(cluster: Cluster) -> None:
    cluster.create("shortened")
    produce(cluster, "shortened", 100)
    cluster.wait_until_equal("shortened")

    def delete_before(offset: int) -> None:
        cluster.admin.delete_records([TopicPartition("shortened", 0, offset)])[TopicPartition("shortened", 0)].result(30)

    def log_start() -> str:
        files = (directory / "log-start-offset-checkpoint" for directory in cluster.dirs[cluster.ottla])
        lines = [line for path in files if path.exists() for line in path.read_text().splitlines()]
        return "".join(line for line in lines if line.startswith("shortened "))

    delete_before(30)
    wait_for(lambda: log_start() == "shortened 0 30", lambda: f"{log_start()} {cluster.tails()}")


def test_a_follower_behind_the_leaders_start_begins_anew_there(cluster: Cluster) -> None:
    cluster.create("left-behind", segment_bytes=str(SEGMENT_BYTES), retention_bytes=str(SEGMENT_BYTES), min_insync_replicas="1")
    produce(cluster, "left-behind", 100, 1000)
    cluster.wait_until_equal("left-behind")
    cluster.ottla.kill()
    produce(cluster, "left-behind", 5000, 1000, acks=1)

    def oldest() -> str:
        return min(cluster.files(cluster.kafka, "left-behind", ".log"))

    wait_for(lambda: oldest() != "left-behind-0/00000000000000000000.log", "the leader deletes what is old")
    cluster.ottla.start()
    cluster.wait_until_equal("left-behind")
    cluster.wait_for_isr("left-behind")


def test_a_follower_deletes_old_segments_by_itself(cluster: Cluster) -> None:
    cluster.create("old", segment_bytes=str(SEGMENT_BYTES), retention_bytes=str(2 * SEGMENT_BYTES))
    produce(cluster, "old", 6000, 1000)

    def first() -> str:
        return min(cluster.files(cluster.ottla, "old", ".log"))

    wait_for(lambda: first() != "old-0/00000000000000000000.log", lambda: f"{first()} {cluster.tails()}")
    cluster.wait_until_equal("old")


def test_after_a_stop_of_both_everything_else_is_the_same_as_well(cluster: Cluster) -> None:
    """This test comes last, and leaves the brokers stopped."""
    cluster.create("quiet", 2, segment_bytes=str(SEGMENT_BYTES))
    produce(cluster, "quiet", 3000, 1000, enable_idempotence=True)
    transactions(cluster, "quiet", "another teller")
    cluster.wait_until_equal("quiet")
    assert cluster.ottla.stop() == 0
    cluster.kafka.stop()
    assert cluster.differences("quiet", ".log", ".snapshot", ".txnindex", "leader-epoch-checkpoint") == []
    found = cluster.files(cluster.ottla, "quiet", ".snapshot", ".txnindex")
    assert {name.rpartition(".")[2] for name in found} == {"snapshot", "txnindex"}
