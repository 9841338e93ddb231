"""The history of a broker before another takes its directory over: a little of all that leaves something on disk.

`everyday` and `with_transactions` are what both brokers can do, `kafkas_own` what only Apache Kafka does, and `go_on` is what
happens after a swap, on either. All of them go through clients, or through raw requests where a client would choose for itself:
sequences, epochs, timestamps. Topics begin with the `prefix` given, so that a directory can go through several rounds.

`Sequence` is an idempotent producer whose requests are made by hand: it can go on at another broker where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaProducer

from compat_tests.java_client import JavaAt
from compat_tests.times import TODAY_MS
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire, batch
from ottla.wire.batch import iter_batches
from ottla.wire.messages import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_partitions,
    delete_records,
    delete_topics,
    describe_log_dirs,
    incremental_alter_configs,
    offset_commit,
    share_group_heartbeat,
)

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
HOUR_MS: Final = 3_600_000
OPEN_TRANSACTION_MS: Final = 900_000  # as long as a transaction may stay open: longer than any of these tests
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32

HISTORY_SETTINGS: Final = {
    "num.partitions": "2",
    "log.initial.task.delay.ms": "500",
    "metadata.log.max.record.bytes.between.snapshots": "5000",
    "log.retention.check.interval.ms": "500",
    "log.cleaner.backoff.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "300",
    "log.flush.start.offset.checkpoint.interval.ms": "300",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""So that retention, the cleaner and the checkpoints come within a second instead of minutes, and metadata snapshots at all."""


@dataclass
class Sequence:
    """An idempotent producer of one partition, by hand."""

    topic: str
    producer_id: int
    epoch: int = 0
    sequence: int = 0
    sent: list[tuple[bytes, int]] = field(default_factory=list)
    """The batches, and the base offsets that they were given."""

    def send(self, wire: Wire, *values: bytes, retry: bool = True) -> int:
        """The next batch, and where `retry`, once more, as after an answer that was lost. Its base offset."""
        made = self._batch(values, self.sequence)
        code, offset = produced(wire, self.topic, made)
        assert code == 0, f"sequence {self.sequence} of producer {self.producer_id}: error {code}"
        self.sequence += len(values)
        self.sent.append((made, offset))
        if retry:
            self.repeat(wire)
        return offset

    def _batch(self, values: tuple[bytes, ...], first_sequence: int) -> bytes:
        return batch(*values, producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=first_sequence)

    def repeat(self, wire: Wire) -> None:
        """The last batch again: it is known as a duplicate, and answered with the offset that it has. (Of the four before it a
        broker knows while it runs; a snapshot holds the last only.)"""
        made, offset = self.sent[-1]
        answer = produced(wire, self.topic, made)
        assert answer == (0, offset), f"{wire.kind} answers {answer} to a duplicate of {offset} by {self.producer_id}"

    def leap(self, wire: Wire) -> None:
        """A batch that leaves one out is refused (45 OUT_OF_ORDER_SEQUENCE_NUMBER)."""
        assert produced(wire, self.topic, self._batch((b"gap",), self.sequence + 1))[0] == 45


def produced(wire: Wire, topic: str, records: bytes, **more: Any) -> tuple[int, int]:
    """(error code, base offset)"""
    (answer,) = wire.produce(topic, records, **more).responses[0].partition_responses
    return answer.error_code, answer.base_offset


def accepted(wire: Wire, topic: str, records: bytes, **more: Any) -> int:
    code, offset = produced(wire, topic, records, **more)
    assert code == 0, f"{topic}: error {code}"
    return offset


def alter(wire: Wire, resource_type: int, name: str, **settings: str | None) -> None:
    """Set, or delete where the value is None. Underscores in names stand for dots."""
    configs = [
        incremental_alter_configs.AlterableConfig(key.replace("_", "."), 1 if value is None else 0, value)
        for key, value in settings.items()
    ]
    resource = incremental_alter_configs.AlterConfigsResource(resource_type, name, configs)
    answer = wire.call(incremental_alter_configs.IncrementalAlterConfigsRequest([resource]), 1)
    assert answer.responses[0].error_code == 0, answer


def commit(wire: Wire, group: str, topic: str, offset: int, text: str | None = None) -> None:
    partition = offset_commit.OffsetCommitRequestPartition(0, offset, 0, text)
    request = offset_commit.OffsetCommitRequest(
        group, topics=[offset_commit.OffsetCommitRequestTopic(topic, partitions=[partition])]
    )

    def done() -> bool:  # a coordinator may still be loading
        (found,) = wire.call(request, 8).topics[0].partitions
        return bool(found.error_code == 0)

    wait_for(done, f"{group} commits {offset}")


def delete_below(wire: Wire, topic: str, offset: int) -> None:
    wanted = [delete_records.DeleteRecordsTopic(topic, [delete_records.DeleteRecordsPartition(0, offset)])]
    (found,) = wire.call(delete_records.DeleteRecordsRequest(wanted, 30_000), 2).topics[0].partitions
    assert (found.error_code, found.low_watermark) == (0, offset), found


def delete_topic(wire: Wire, name: str) -> None:
    answer = wire.call(delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(name)], timeout_ms=30_000), 6)
    assert answer.responses[0].error_code == 0, answer
    wire.wait_until_gone(name)


def grow(wire: Wire, name: str, count: int) -> None:
    topic = create_partitions.CreatePartitionsTopic(name, count, None)
    answer = wire.call(create_partitions.CreatePartitionsRequest([topic], 30_000), 3)
    assert answer.results[0].error_code == 0, answer
    wire.wait_for_topic(name, count)


def by_the_hour(wire: Wire, topic: str, count: int, first: int = 0, key: Callable[[int], bytes | None] = lambda n: b"k") -> None:
    """A batch an hour of record time: with a smaller segment.ms, a segment a batch. They end long before TODAY_MS."""
    for n in range(first, first + count):
        start_ms = TODAY_MS - (100 - n) * HOUR_MS
        accepted(wire, topic, batch(b"a%d" % n, None, b"b%d" % n, key=key(n), first_ms=start_ms))


# What both brokers can do


def everyday(wire: Wire, java: JavaAt, bootstrap: str) -> dict[str, Sequence]:
    """Topics of all kinds, groups, settings. The idempotent producers, which go on elsewhere."""
    for codec in CODECS:
        topic = wire.create(codec, 2)
        produce_by_java(java, topic, codec)
        produce_by_librdkafka(bootstrap, topic, codec)
        produce_by_kafka_python(bootstrap, topic, codec)
    by_the_hour(wire, wire.create("segments", segment_ms="60000", retention_ms="-1"), 12)
    accepted(wire, wire.create("append-time", message_timestamp_type="LogAppendTime"), batch(b"1", b"2", b"3", first_ms=5))
    cut = wire.create("records-deleted", segment_ms="60000", retention_ms="-1")
    by_the_hour(wire, cut, 6)
    delete_below(wire, cut, 10)  # in the middle of a batch: no file name says it
    grown = wire.create("grown", 1)
    accepted(wire, grown, batch(b"before"))
    grow(wire, grown, 3)
    accepted(wire, grown, batch(b"after"), partition=2)
    delete_topic(wire, wire.create("gone", 2))
    again = wire.create("again", 1)
    accepted(wire, again, batch(b"of the first topic of this name"))
    delete_topic(wire, again)
    accepted(wire, wire.create("again", 1), batch(b"of the second"))
    configured(wire)
    retention_under_way(wire)
    compaction(wire)
    groups(wire, bootstrap)
    return idempotent(wire)


def spread(count: int, **more: Any) -> list[dict[str, Any]]:
    """Records for the Java client: nulls, empty texts, headers, two partitions, times that go up and down."""
    return [
        {
            "partition": n % 2,
            "timestamp_ms": TODAY_MS + (n * 7919) % 10_000,
            "key": (None, "", f"key {n}")[n % 3],
            "value": (f"value {n} " * 20, "", None, "ü€😀")[n % 4],
            "headers": [["h", f"{n}"], ["h", None], ["", ""]] if n % 5 == 0 else [],
        }
        | more
        for n in range(count)
    ]


def produce_by_java(java: JavaAt, topic: str, codec: str) -> None:
    """Idempotent, as it is by default."""
    answers = java.call("produce", topic=topic, records=spread(40), settings={"compression.type": codec, "linger.ms": "20"})
    assert not [answer for answer in answers if "error" in answer]


def produce_by_librdkafka(bootstrap: str, topic: str, codec: str) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.codec": codec, "enable.idempotence": codec != "none", "linger.ms": 20}
    )
    for n in range(40):
        producer.produce(topic, f"value {n} " * 20, f"key {n % 7}", n % 2, timestamp=TODAY_MS + n, headers=[("h", b"\0\xff")])
    assert producer.flush(30) == 0


def produce_by_kafka_python(bootstrap: str, topic: str, codec: str) -> None:
    settings = {"compression_type": None if codec == "none" else codec, "enable_idempotence": codec != "none"}
    with closing(KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20, **settings)) as producer:
        sent = [producer.send(topic, b"value %d " % n * 20, b"key %d" % n, [("h", b"x")], n % 2, TODAY_MS + n) for n in range(20)]
        for future in sent:
            future.get(30)


def configured(wire: Wire) -> None:
    """Settings of every kind of resource that both brokers know."""
    topic = wire.create("configured", 1, retention_ms="86400000", max_message_bytes="200000", compression_type="zstd")
    alter(wire, TOPIC, topic, retention_ms="172800000", max_message_bytes=None, flush_messages="10")
    accepted(wire, topic, batch(b"recompressed by the broker" * 30))
    alter(wire, BROKER, "", log_retention_ms="604800001", message_max_bytes="1048600")
    alter(wire, BROKER, "1", log_cleaner_threads="2")


def retention_under_way(wire: Wire) -> None:
    """Old segments are deleted by now, and lie there as .deleted."""
    topic = wire.create("retained", segment_ms="60000", retention_ms="-1", retention_bytes="3000")
    by_the_hour(wire, topic, 90, first=5)

    wait_for(lambda: size_of(wire, topic) < 3100, "retention deletes segments")  # of 91 bytes: it goes no further


def size_of(wire: Wire, topic: str) -> int:
    """Bytes of partition 0 in its log directory."""
    asked = [describe_log_dirs.DescribableLogDirTopic(topic, [0])]
    found = wire.call(describe_log_dirs.DescribeLogDirsRequest(asked), 4)
    return sum(p.partition_size for directory in found.results for each in directory.topics for p in each.partitions)


def compaction(wire: Wire) -> None:
    """Topics whose older part has been compacted when the directory is taken over, and one that is still to be."""
    settings: dict[str, Any] = {"segment_ms": "60000", "min_cleanable_dirty_ratio": "0.01", "retention_ms": "-1"}
    compacted = wire.create("compacted", cleanup_policy="compact", **settings)
    producer = Sequence(compacted, wire.new_producer_id())
    by_the_hour(wire, compacted, 20, key=one_of_five)
    producer.send(wire, b"the last of this producer", retry=False)
    by_the_hour(wire, compacted, 3, first=30, key=one_of_five)
    both = wire.create("both", cleanup_policy="compact,delete", **(settings | {"retention_ms": str(10_000 * HOUR_MS)}))
    by_the_hour(wire, both, 20, key=one_of_five)
    later = wire.create("to-compact", cleanup_policy="compact", **(settings | {"min_compaction_lag_ms": str(10_000 * HOUR_MS)}))
    by_the_hour(wire, later, 20, key=one_of_five)
    for topic in (compacted, both):
        wait_until_compacted(wire, topic)


def one_of_five(n: int) -> bytes:
    return b"key %d" % (n % 5)


def wait_until_compacted(wire: Wire, topic: str) -> None:
    """One record for each of the keys of `by_the_hour`, another for the producer's, and three in the active segment."""

    def compacted() -> bool:
        (found,) = wire.fetch(topic).responses[0].partitions
        return sum(header.records_count for header, _ in iter_batches(found.records)) <= 5 + 1 + 3

    wait_for(compacted, f"{topic} is compacted")


def groups(wire: Wire, bootstrap: str) -> None:
    """Groups with members that came and went, and one that only ever committed."""
    topic = wire.name("gzip")
    consume_some(bootstrap, wire.name("classic-group"), topic)
    commit(wire, wire.name("simple-group"), topic, 17, "written by hand")
    commit(wire, wire.name("simple-group"), wire.name("none"), 0)
    commit(wire, wire.name("simple-group"), topic, 18, None)


def consume_some(bootstrap: str, group: str, topic: str, count: int = 50, group_protocol: str = "classic") -> None:
    """A member joins, reads on from where the group is, at least `count` records, commits and leaves."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": group_protocol}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got: list[Any] = []

    def read_on() -> bool:
        got.extend(message for message in consumer.consume(count, 0.5) if message.error() is None)
        return len(got) >= count

    wait_for(read_on, f"{group} reads")
    consumer.commit(asynchronous=False)
    consumer.close()


def idempotent(wire: Wire) -> dict[str, Sequence]:
    """Several producers on one partition, one of them with more than the five batches that a broker remembers."""
    topic = wire.create("idempotent", segment_ms="60000", retention_ms="-1")
    made = {name: Sequence(topic, wire.new_producer_id()) for name in ("many", "few", "one")}
    for n in range(8):
        made["many"].send(wire, b"m%d" % n, b"and %d" % n)
        if n % 4 == 0:
            made["few"].send(wire, b"f%d" % n)
    made["one"].send(wire, b"only", b"this", b"batch")
    return made


def transactional(bootstrap: str, name: str) -> Producer:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": OPEN_TRANSACTION_MS}
    producer = Producer(settings)
    producer.init_transactions(30)
    return producer


def with_transactions(wire: Wire, bootstrap: str) -> None:
    """Commits and aborts, interleaved and over several segments; offsets committed within; and one that stays open:
    librdkafka ends none when a producer goes."""
    topic = wire.create("transactional", 2, segment_ms="1000", retention_ms="-1")
    first, second = (transactional(bootstrap, wire.name(name)) for name in ("first", "second"))
    for n in range(6):
        for producer in (first, second):
            producer.begin_transaction()
            for partition in range(2):
                producer.produce(topic, f"{n}", f"{n}", partition, timestamp=TODAY_MS - (50 - n) * HOUR_MS)
            producer.flush(30)
        (first.abort_transaction if n % 2 else first.commit_transaction)(30)
        (second.abort_transaction if n % 3 else second.commit_transaction)(30)
    first.begin_transaction()
    with_group = Consumer({"bootstrap.servers": bootstrap, "group.id": wire.name("in-transaction")})
    first.send_offsets_to_transaction([TopicPartition(topic, 0, 3)], with_group.consumer_group_metadata(), 30)
    with_group.close()
    first.commit_transaction(30)
    wait_for(lambda: not any(unfinished(wire, topic, p) for p in range(2)), "markers are written")
    leave_open(wire, bootstrap)


def leave_open(wire: Wire, bootstrap: str) -> None:
    """Begins a transaction and goes: librdkafka ends none when a producer is destroyed. A record of nobody's lies behind it."""
    topic = wire.name("transactional")
    producer = transactional(bootstrap, wire.name("left-open"))
    wait_for(lambda: not unfinished(wire, topic, 0), "what was left open before is aborted")
    producer.begin_transaction()
    for n in range(3):
        producer.produce(topic, f"open {n}", "key", 0, timestamp=TODAY_MS)
    assert producer.flush(30) == 0
    accepted(wire, topic, batch(b"behind the open transaction"))
    assert unfinished(wire, topic, 0)


def unfinished(wire: Wire, topic: str, partition: int) -> bool:
    """Returns whether a transaction is open in the partition."""
    (found,) = wire.fetch(topic, 0, partition=partition, isolation_level=1).responses[0].partitions
    return bool(found.last_stable_offset < found.high_watermark)


# What Apache Kafka does alone


def kafkas_own(wire: Wire, bootstrap: str) -> None:
    """Credentials, quotas, subscriptions to clients' metrics, and groups of the newer kinds."""
    salted = alter_user_scram_credentials.ScramCredentialUpsertion("alice", 1, 4096, b"salt" * 4, b"x" * 32)
    stronger = alter_user_scram_credentials.ScramCredentialUpsertion("alice", 2, 8192, b"salt" * 4, b"y" * 64)
    for credential in (salted, stronger):
        answer = wire.call(alter_user_scram_credentials.AlterUserScramCredentialsRequest([], [credential]), 0)
        assert answer.results[0].error_code == 0, answer
    for name in ("alice", None):
        entity = [alter_client_quotas.RequestEntityData("user", name), alter_client_quotas.RequestEntityData("client-id", "app")]
        values = [
            alter_client_quotas.OpData("producer_byte_rate", 12345678.0),
            alter_client_quotas.OpData("request_percentage", 12.5),
        ]
        request = alter_client_quotas.AlterClientQuotasRequest([alter_client_quotas.RequestEntryData(entity, values)])
        altered = wire.call(request, 1)
        assert altered.entries[0].error_code == 0, altered
    alter(wire, CLIENT_METRICS, "subscription", metrics="org.apache.kafka.producer.", interval_ms="60000")
    alter(wire, GROUP, wire.name("consumer-group"), consumer_session_timeout_ms="46000")
    for group in ("consumer-group", "changing-group"):
        consume_some(bootstrap, wire.name(group), wire.name("gzip"), group_protocol="consumer")
    share_group(wire)


def share_group(wire: Wire) -> None:
    """A member comes and goes: Kafka then keeps the group's state in __share_group_state."""
    group, member = wire.name("share-group"), "AAAAAAAAAAAAAAAAAAAAAQ"
    epoch = 0

    def joined() -> bool:
        nonlocal epoch
        topics = [wire.name("gzip")]
        request = share_group_heartbeat.ShareGroupHeartbeatRequest(group, member, epoch, None, topics)
        answer = wire.call(request, 1)
        epoch = answer.member_epoch if answer.error_code == 0 else epoch
        return bool(answer.assignment is not None and answer.assignment.topic_partitions)

    wait_for(joined, f"a member of {group} has partitions")
    wire.call(share_group_heartbeat.ShareGroupHeartbeatRequest(group, member, -1), 1)


# After a swap, on either


def go_on(wire: Wire, bootstrap: str, sequences: dict[str, Sequence], turn: int) -> None:
    """The everyday life of topics, groups and producers that began elsewhere; `turn` counts the swaps, from 1."""
    wire.warm_up()
    for sequence in sequences.values():
        sequence.repeat(wire)
        sequence.leap(wire)
        sequence.send(wire, b"turn %d" % turn, b"and on")
    used = {sequence.producer_id for sequence in sequences.values()}
    sequences[f"of turn {turn}"] = new = Sequence(wire.name("idempotent"), wire.new_producer_id())
    assert new.producer_id > max(used), "a producer id was given twice"
    new.send(wire, b"a new producer")
    by_the_hour(wire, wire.name("segments"), 2, first=12 + 2 * turn)
    by_the_hour(wire, wire.name("compacted"), 2, first=40 + 2 * turn, key=one_of_five)
    alter(wire, TOPIC, wire.name("to-compact"), min_compaction_lag_ms=None)
    for topic in ("compacted", "to-compact"):
        wait_until_compacted(wire, wire.name(topic))
    accepted(wire, wire.create(f"turn-{turn}", 2, retention_ms="86400001"), batch(b"first", b"second"))
    if turn > 1:
        delete_topic(wire, wire.name(f"turn-{turn - 1}"))
    grow(wire, wire.name("grown"), 3 + turn)
    accepted(wire, wire.name("grown"), batch(b"turn %d" % turn), partition=2 + turn)
    delete_below(wire, wire.name("records-deleted"), 10 + turn)
    alter(wire, TOPIC, wire.name("configured"), retention_ms=str(172800000 + turn), flush_messages=None)
    alter(wire, BROKER, "", log_retention_ms=str(604800001 + turn))
    assert unfinished(wire, wire.name("transactional"), 0), "the transaction that was left open is not"
    leave_open(wire, bootstrap)  # its producer is back, which ends it
    producer = transactional(bootstrap, wire.name("first"))
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(wire.name("transactional"), f"turn {turn}", partition=1, timestamp=TODAY_MS)
        end(30)
    wait_for(lambda: not unfinished(wire, wire.name("transactional"), 1), "markers are written")
    commit(wire, wire.name("simple-group"), wire.name("gzip"), 20 + turn, f"turn {turn}")
    produce_by_librdkafka(bootstrap, wire.name("gzip"), "gzip")
    consume_some(bootstrap, wire.name("classic-group"), wire.name("gzip"), count=40)
    consume_some(bootstrap, wire.name("changing-group"), wire.name("gzip"), count=40)
