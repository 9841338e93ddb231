"""Tests of what settings do, seen by a client and in the directory, on both brokers: each as a topic's own from its creation,
changed while the topic lives, and changed for all brokers and for one, without a restart anywhere.

The broker of each kind is this file's own: its passes come quickly, and groups have narrow bounds. What a client cannot see
(jitter, expiry of offsets after a minute) is in the unit tests.
"""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import pytest

from compat_tests.brokers import CLASSES, Address
from compat_tests.reference.kafka import HOST, BrokerProcess
from compat_tests.waiting import wait_for
from compat_tests.wire import CLOSED, Wire, batch
from compat_tests.wire_diff.members import Member
from compat_tests.wire_diff.test_configs import BROKER, DELETE, GROUP, SET, TOPIC, Change, alter, describe
from ottla.wire.batch import CODEC_MASK, read_header
from ottla.wire.messages import create_topics, delete_topics, init_producer_id, list_offsets, offset_commit

NOW_MS: Final = int(time.time() * 1000)
HOUR_MS: Final = 3_600_000
LARGE: Final = b"x" * 300_000  # three of these fill a segment of 1 MiB
MIB: Final = str(1 << 20)
GZIP: Final = 1
RECORD_TOO_LARGE, INVALID_TIMESTAMP, INVALID_RECORD = 10, 32, 87
UNKNOWN_TOPIC_OR_PARTITION, MEMBER_ID_REQUIRED, INVALID_TRANSACTION_TIMEOUT = 3, 79, 50
TOPIC_DELETION_DISABLED, INVALID_REPLICATION_FACTOR, OUT_OF_ORDER_SEQUENCE_NUMBER = 73, 38, 45
INVALID_SESSION_TIMEOUT, GROUP_MAX_SIZE_REACHED, OFFSET_METADATA_TOO_LARGE = 26, 81, 12
STATIC: Final = {
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "log.flush.scheduler.interval.ms": "100",
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "false",
    "num.partitions": "3",
    "fetch.max.bytes": "400000",
    "max.incremental.fetch.session.cache.slots": "0",
    "socket.request.max.bytes": "5000000",
    "transaction.max.timeout.ms": "1000",
    "group.min.session.timeout.ms": "1000",
    "group.max.session.timeout.ms": "20000",
    "group.max.size": "2",
    "group.initial.rebalance.delay.ms": "1000",
    "broker.rack": "rack-7",
    "default.replication.factor": "2",
    "offsets.topic.compression.codec": "1",
    "producer.id.expiration.check.interval.ms": "100",
    "offset.metadata.max.bytes": "10",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": "2000000",
}


class Rig:
    """One broker of this file and its directory."""

    def __init__(self, broker: BrokerProcess) -> None:
        assert broker.process is not None
        self.wire = Wire(Address(broker.kind, broker.port, broker.process.pid, str(broker.log_file)), "effects")
        self.data = broker.data_dir
        self._round = 0

    def send(self, topic: str, *values: bytes | None, first_ms: int = NOW_MS, key: bytes | None = b"k", codec: int = 0) -> Any:
        """One batch; the answer of its partition."""
        records = batch(*values, first_ms=first_ms, key=key, codec=codec)
        return self.wire.produce(topic, records).responses[0].partition_responses[0]

    def sent(self, topic: str, *values: bytes | None, **options: Any) -> None:
        answer = self.send(topic, *values, **options)
        assert answer.error_code == 0, answer

    def earliest(self, topic: str) -> int:
        wanted = [list_offsets.ListOffsetsTopic(topic, [list_offsets.ListOffsetsPartition(0, timestamp=-2)])]
        return int(self.wire.call(list_offsets.ListOffsetsRequest(-1, 0, wanted), 7).topics[0].partitions[0].offset)

    def segments(self, topic: str) -> list[int]:
        """Base offsets of the files that are in use."""
        return sorted(int(path.stem) for path in (self.data / f"{topic}-0").glob("*.log"))

    def index_entries(self, topic: str, base_offset: int) -> int:
        """Of a segment that is no longer written."""
        return (self.data / f"{topic}-0" / f"{base_offset:020d}.index").stat().st_size // 8

    def stored(self, topic: str) -> bytes:
        """The batches as they are kept."""
        return bytes(self.wire.fetch(topic).responses[0].partitions[0].records)

    def set_aside(self, topic: str) -> list[str]:
        """Files on their way out."""
        return sorted(path.name for path in (self.data / f"{topic}-0").glob("*.deleted"))

    def recovery_point(self, topic: str) -> int:
        """Returns the offset up to which the log is known to be on disk."""
        lines = (self.data / "recovery-point-offset-checkpoint").read_text().splitlines()[2:]
        points = {tuple(line.split(" ")[:2]): int(line.split(" ")[2]) for line in lines}
        return points.get((topic, "0"), 0)

    def change(self, kind: int, name: str, **texts: str) -> None:
        """Settings with underscores for dots; waits until they count.

        Kafka shows a topic's settings a moment before its log hears of them. But it takes the changes of metadata one after the
        other: once one that was made after that is shown, the log has heard.
        """
        dotted = {key.replace("_", "."): text for key, text in texts.items()}
        self._alter(kind, name, [Change(key, SET, text) for key, text in dotted.items()])
        self._wait_until_shown(kind, "1" if kind == BROKER else name, dotted)
        self._round += 1
        later = {"consumer.session.timeout.ms": str(45_000 + self._round % 10_000)}
        self._alter(GROUP, "later", [Change(key, SET, text) for key, text in later.items()])
        self._wait_until_shown(GROUP, "later", later)

    def _wait_until_shown(self, kind: int, name: str, wanted: dict[str, str]) -> None:
        wait_for(lambda: wanted.items() <= self.shown(kind, name, list(wanted)).items(), f"{name} has {wanted}")

    def drop(self, kind: int, name: str, *names: str) -> None:
        self._alter(kind, name, [Change(key.replace("_", "."), DELETE, None) for key in names])

    def _alter(self, kind: int, name: str, changes: list[Any]) -> None:
        answer = alter(self.wire, kind, name, *changes).responses[0]
        assert answer.error_code == 0, answer

    def shown(self, kind: int, name: str, keys: list[str]) -> dict[str, str | None]:
        return {entry.name: entry.value for entry in describe(self.wire, kind, name, keys).results[0].configs}


@pytest.fixture(scope="module")
def rig(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    broker = CLASSES[kind](tmp_path_factory.mktemp("effects") / kind, STATIC)
    try:
        broker.start()
        made = Rig(broker)
        made.wire.warm_up()
        yield made
        made.wire.close()
    finally:
        broker.stop()
        shutil.rmtree(broker.directory, ignore_errors=True)


Topic = Callable[..., str]
BROKER_S: Final = {  # topic settings whose broker's setting has more to its name than "log."
    "max_message_bytes": "message_max_bytes",
    "compression_type": "compression_type",
    "max_decompressed_message_bytes": "max_decompressed_message_bytes",
    "max_compaction_lag_ms": "log_cleaner_max_compaction_lag_ms",
    "segment_ms": "log_roll_ms",
    "segment_index_bytes": "log_index_size_max_bytes",
    "flush_messages": "log_flush_interval_messages",
    "flush_ms": "log_flush_interval_ms",
    "file_delete_delay_ms": "log_segment_delete_delay_ms",
    "compression_gzip_level": "compression_gzip_level",
    "compression_lz4_level": "compression_lz4_level",
    "compression_zstd_level": "compression_zstd_level",
}


@pytest.fixture(params=["created", "altered", "all-brokers", "this-broker"])
def topic_with(rig: Rig, unique: Callable[[str], str], request: pytest.FixtureRequest) -> Iterator[Topic]:
    """`topic_with(retention_ms="5")`: a topic for which that counts, one way or another."""
    undo: list[tuple[str, str]] = []

    def make(**settings: str) -> str:
        stem = unique("t")
        if request.param == "created":
            return rig.wire.create(stem, 1, **settings)
        topic = rig.wire.create(stem)
        if request.param == "altered":
            rig.change(TOPIC, topic, **settings)
            return topic
        brokers = {BROKER_S.get(name, f"log_{name}"): text for name, text in settings.items()}
        name = "" if request.param == "all-brokers" else "1"
        undo.extend((name, key) for key in brokers)
        rig.change(BROKER, name, **brokers)
        return topic

    yield make
    for name, key in undo:
        rig.drop(BROKER, name, key)


# Retention


def test_retention_by_time(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(retention_ms="60000")
    rig.sent(topic, b"a", b"b", first_ms=NOW_MS - HOUR_MS)
    wait_for(lambda: rig.earliest(topic) == 2, "both records are gone")


def test_retention_spares_what_is_young_enough(rig: Rig, topic_with: Topic, unique: Callable[[str], str]) -> None:
    old = topic_with(retention_ms="60000")
    kept = rig.wire.create(unique("kept"), retention_ms="-1")
    rig.sent(kept, b"a", first_ms=NOW_MS - HOUR_MS)
    rig.sent(old, b"a", first_ms=NOW_MS - HOUR_MS)
    wait_for(lambda: rig.earliest(old) == 1, "a pass came by")
    assert rig.earliest(kept) == 0


def test_retention_by_size(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(retention_bytes="700000", segment_bytes=MIB)
    for _ in range(8):
        rig.sent(topic, LARGE)
    wait_for(lambda: rig.earliest(topic) == 3, "the first segment is gone: without the second less than 700,000 bytes are left")
    wait_for(lambda: rig.segments(topic) == [3, 6], "and so is its file, which Kafka renames a moment later")


# Rolling


def test_rolls_by_size(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(segment_bytes=MIB)
    for _ in range(7):
        rig.sent(topic, LARGE)
    assert rig.segments(topic) == [0, 3, 6]


def test_rolls_by_time(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(segment_ms="60000")
    for minutes in (10, 9.5, 8, 0):
        rig.sent(topic, b"x", first_ms=NOW_MS - int(minutes * 60_000))
    assert rig.segments(topic) == [0, 2, 3]


def test_a_compacted_topic_rolls_by_its_compaction_lag(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(cleanup_policy="compact", max_compaction_lag_ms="60000")
    for minutes in (10, 0):
        rig.sent(topic, b"x", first_ms=NOW_MS - minutes * 60_000)
    assert rig.segments(topic) == [0, 1]


# The index


def test_index_interval(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(index_interval_bytes="400000", segment_bytes=MIB)
    for _ in range(7):
        rig.sent(topic, LARGE)
    assert rig.segments(topic) == [0, 3, 6]
    assert rig.index_entries(topic, 3) == 1  # the first that began with the setting; by default it would have two


def test_index_size_rolls(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(segment_index_bytes="24", index_interval_bytes="0", segment_bytes=MIB)
    for value in [LARGE] * 4 + [b"x"] * 6:
        rig.sent(topic, value)
    segments = rig.segments(topic)
    assert segments[0] == 0
    assert [after - before for before, after in zip(segments[-3:], segments[-2:], strict=False)] == [2, 2]  # entries of times


# Flushing


@pytest.mark.parametrize("setting", [{"flush_messages": "3"}, {"flush_ms": "100"}])
def test_flush(rig: Rig, topic_with: Topic, unique: Callable[[str], str], setting: dict[str, str]) -> None:
    topic = topic_with(**setting)
    lazy = rig.wire.create(unique("lazy"), flush_ms="9000000000", flush_messages="1000000")
    for name in (lazy, topic):
        for _ in range(3):
            rig.sent(name, b"x")
    wait_for(lambda: rig.recovery_point(topic) == 3, "three records are on disk")
    assert rig.recovery_point(lazy) == 0


# Timestamps


def test_the_broker_stamps(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(message_timestamp_type="LogAppendTime")
    answer = rig.send(topic, b"x", first_ms=5)
    assert answer.error_code == 0
    assert answer.log_append_time_ms >= NOW_MS


def test_timestamps_too_far_behind(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(message_timestamp_before_max_ms="60000")
    assert rig.send(topic, b"x", first_ms=NOW_MS - HOUR_MS).error_code == INVALID_TIMESTAMP
    rig.sent(topic, b"x", first_ms=int(time.time() * 1000))


def test_timestamps_too_far_ahead(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(message_timestamp_after_max_ms="7200000")
    rig.sent(topic, b"x", first_ms=NOW_MS + HOUR_MS + HOUR_MS // 2)  # more than the default allows
    assert rig.send(topic, b"x", first_ms=NOW_MS + 3 * HOUR_MS).error_code == INVALID_TIMESTAMP


# Sizes and codecs


def test_the_largest_message(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(max_message_bytes="200")
    assert rig.send(topic, b"x" * 200).error_code == RECORD_TOO_LARGE
    rig.sent(topic, b"x" * 100)


def test_the_largest_message_may_be_larger_than_the_default(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(max_message_bytes="2000000")
    rig.sent(topic, b"x" * 1_500_000)


def test_the_largest_message_once_decompressed(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(max_decompressed_message_bytes="10000")
    rig.sent(topic, b"x" * 9_000, codec=GZIP)
    assert rig.send(topic, b"x" * 20_000, codec=GZIP).error_code == INVALID_RECORD


def test_the_broker_compresses(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(compression_type="gzip")
    rig.sent(topic, b"x" * 1000)
    assert read_header(rig.stored(topic)).attributes & CODEC_MASK == GZIP


@pytest.mark.parametrize(("codec", "least", "most"), [("gzip", "1", "9"), ("lz4", "1", "17"), ("zstd", "-131072", "22")])
def test_levels_of_compression(rig: Rig, topic_with: Topic, codec: str, least: str, most: str) -> None:
    text = " ".join(f"{n * n % 1009} records of {n % 97}" for n in range(3_000)).encode()
    sizes = []
    for level in (least, most):
        topic = topic_with(**{"compression_type": codec, f"compression_{codec}_level": level})
        rig.sent(topic, text)
        assert read_header(rig.stored(topic)).attributes & CODEC_MASK
        sizes.append(len(rig.stored(topic)))
    assert sizes[0] > sizes[1]


def test_removed_segments_wait(rig: Rig, topic_with: Topic) -> None:
    """Their files stay for so long, renamed."""
    topic = topic_with(file_delete_delay_ms="86400000", retention_ms="60000")
    rig.sent(topic, b"x", first_ms=NOW_MS - HOUR_MS)
    wait_for(lambda: rig.earliest(topic) == 1, "the segment is removed")
    kept = ["index.deleted", "log.deleted", "timeindex.deleted"]
    wait_for(lambda: [name.partition(".")[2] for name in rig.set_aside(topic)] == kept, "its files are set aside")


def test_removed_segments_need_not_wait(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(file_delete_delay_ms="0", retention_ms="60000")
    rig.sent(topic, b"x", first_ms=NOW_MS - HOUR_MS)
    wait_for(lambda: rig.earliest(topic) == 1, "the segment is removed")
    wait_for(lambda: not rig.set_aside(topic), "its files are gone")


def test_a_compacted_topic_wants_keys(rig: Rig, topic_with: Topic) -> None:
    topic = topic_with(cleanup_policy="compact")
    assert rig.send(topic, b"x", key=None).error_code == INVALID_RECORD
    rig.sent(topic, b"x")


# Of the broker, at its start


def test_topics_do_not_come_by_themselves(rig: Rig, unique: Callable[[str], str]) -> None:
    assert rig.wire.metadata(unique("nobody"), create=True).topics[0].error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_partitions_and_replicas_by_default(rig: Rig, unique: Callable[[str], str]) -> None:
    topics = [create_topics.CreatableTopic(unique("t"), -1, 1), create_topics.CreatableTopic(unique("t"), 1, -1)]
    alone, twofold = rig.wire.call(create_topics.CreateTopicsRequest(topics, 30_000), 7).topics
    assert (alone.error_code, alone.num_partitions) == (0, 3)
    assert twofold.error_code == INVALID_REPLICATION_FACTOR  # there is one broker


def test_topics_stay(rig: Rig, unique: Callable[[str], str]) -> None:
    topic = delete_topics.DeleteTopicState(rig.wire.create(unique("t")))
    answer = rig.wire.call(delete_topics.DeleteTopicsRequest([topic], timeout_ms=5_000), 6)
    assert answer.responses[0].error_code == TOPIC_DELETION_DISABLED


def test_a_fetch_brings_no_more_than_the_broker_allows(rig: Rig, unique: Callable[[str], str]) -> None:
    topic = rig.wire.create(unique("t"))
    for _ in range(3):
        rig.sent(topic, LARGE)
    assert len(rig.stored(topic)) == 400_000


def test_no_fetch_sessions(rig: Rig, unique: Callable[[str], str]) -> None:
    assert rig.wire.fetch(rig.wire.create(unique("t")), session_id=0, session_epoch=0).session_id == 0


def test_the_longest_request(rig: Rig, unique: Callable[[str], str]) -> None:
    assert rig.wire.produce(rig.wire.create(unique("t")), b"x" * 6_000_000) == CLOSED


def test_the_longest_transaction(rig: Rig, unique: Callable[[str], str]) -> None:
    answer = rig.wire.call(init_producer_id.InitProducerIdRequest(unique("tx"), 1_001), 4)
    assert answer.error_code == INVALID_TRANSACTION_TIMEOUT


def test_producers_are_forgotten(rig: Rig, unique: Callable[[str], str]) -> None:
    """A limit that is set while the broker runs: it takes any sequence number from a producer that it does not know."""
    topic = rig.wire.create(unique("t"))
    producer_id = rig.wire.new_producer_id()

    def send(sequence: int) -> int:
        records = batch(b"x", first_ms=NOW_MS, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        return int(rig.wire.produce(topic, records).responses[0].partition_responses[0].error_code)

    assert (send(0), send(5)) == (0, OUT_OF_ORDER_SEQUENCE_NUMBER)
    rig.change(BROKER, "", producer_id_expiration_ms="1")
    wait_for(lambda: send(5) == 0, "the producer is forgotten")
    rig.drop(BROKER, "", "producer_id_expiration_ms")


def test_where_the_broker_stands(rig: Rig) -> None:
    assert [broker.rack for broker in rig.wire.metadata("__consumer_offsets").brokers] == ["rack-7"]


def test_the_log_of_offsets(rig: Rig) -> None:
    assert len(rig.wire.metadata("__consumer_offsets").topics[0].partitions) == 2
    assert rig.shown(TOPIC, "__consumer_offsets", ["segment.bytes"]) == {"segment.bytes": "2000000"}


# Of groups


def test_bounds_of_session_timeouts(rig: Rig, unique: Callable[[str], str]) -> None:
    member = Member(rig.wire, unique("g"), "m")
    codes = [member.join(session_timeout_ms=timeout_ms).error_code for timeout_ms in (999, 20_001)]
    assert codes == [INVALID_SESSION_TIMEOUT] * 2
    assert member.join(session_timeout_ms=1_000).error_code == MEMBER_ID_REQUIRED


def together(rig: Rig, group: str, *names: str) -> list[Any]:
    """Members that join at the same time; their answers."""
    members = [Member(rig.wire, group, name) for name in names]
    for member in members:
        assert member.join(session_timeout_ms=20_000).error_code == MEMBER_ID_REQUIRED
    for member in members:  # nothing between them: the second must come within the first rebalance's delay
        member.start_join(session_timeout_ms=20_000)
    return [member.joined() for member in members]


def test_the_largest_group(rig: Rig, unique: Callable[[str], str]) -> None:
    group = unique("g")
    assert [answer.error_code for answer in together(rig, group, "first", "second")] == [0, 0]
    assert Member(rig.wire, group, "third").join(session_timeout_ms=20_000).error_code == GROUP_MAX_SIZE_REACHED


def test_the_first_rebalance_waits_for_more_members(rig: Rig, unique: Callable[[str], str]) -> None:
    """Checks that a member that comes within the delay is in the first generation; without a delay the second would begin
    another."""
    answers = together(rig, unique("g"), "first", "second")
    assert [(answer.error_code, answer.generation_id) for answer in answers] == [(0, 1), (0, 1)]
    assert sorted(len(answer.members) for answer in answers) == [0, 2]


def test_the_longest_note_to_an_offset(rig: Rig, unique: Callable[[str], str]) -> None:
    topic = rig.wire.create(unique("t"))
    codes = []
    for note in ("x" * 10, "x" * 11):
        partition = offset_commit.OffsetCommitRequestPartition(0, 0, -1, note)
        request = offset_commit.OffsetCommitRequest(
            unique("g"), topics=[offset_commit.OffsetCommitRequestTopic(topic, partitions=[partition])]
        )
        codes.append(rig.wire.call(request, 9).topics[0].partitions[0].error_code)
    assert codes == [0, OFFSET_METADATA_TOO_LARGE]
    stored = [rig.wire.fetch("__consumer_offsets", partition=partition) for partition in range(2)]
    records = [bytes(answer.responses[0].partitions[0].records or b"") for answer in stored]
    assert {read_header(each).attributes & CODEC_MASK for each in records if each} == {GZIP}


# Connections


def test_connections_of_one_address(rig: Rig) -> None:
    """A limit that is set while the broker runs, for an address that only this test has."""
    rig.change(BROKER, "", max_connections_per_ip_overrides="127.0.0.2:1")
    with dialled(rig, "127.0.0.2") as first:
        assert is_served(first)
        with dialled(rig, "127.0.0.2") as second:
            assert not is_served(second)
        rig.change(BROKER, "", max_connections_per_ip_overrides="127.0.0.2:2")
        with dialled(rig, "127.0.0.2") as third:
            assert is_served(third)
    rig.drop(BROKER, "", "max_connections_per_ip_overrides")


def dialled(rig: Rig, source: str) -> socket.socket:
    return socket.create_connection((HOST, rig.wire.address.port), timeout=15, source_address=(source, 0))


def is_served(connection: socket.socket) -> bool:
    """Returns whether ApiVersions v0 is answered; False where the broker has closed."""
    with suppress(ConnectionError):
        connection.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
        return bool(connection.recv(4))
    return False
