"""Snapshots of the metadata: when one is written, what is in it, what goes because of it, and that no crash can hurt it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from ottla.log.errors import StorageError
from ottla.log.management.passes import run_pass
from ottla.server.metadata import snapshot
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.image_records import freeze
from ottla.server.metadata.snapshot import SnapshotId
from ottla.server.metadata.snapshot_keeper import SnapshotKeeper
from ottla.wire import metadata_records as records
from ottla.wire.batch import iter_batches
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.metadata_records import MetadataError
from ottla.wire.records import decode_records
from tests.memdisk import PowerCut
from tests.server.metadata.support import CLUSTER_ID, DIRECTORY, METADATA, NOW_MS, Node, dump, in_turns, write_kafka_directory

SMALL = {"internal_metadata_log_segment_bytes": "6000", "metadata_log_max_record_bytes_between_snapshots": "1000"}
HOUR_SECONDS = 3600.0


class Time:
    """Takes the place of the node's still clock."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        return NOW_MS + int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


def keeper(node: Node, time: Time | None = None, **settings: int) -> SnapshotKeeper:
    controller = node.controller
    values = node.config.values | {name.replace("_", "."): value for name, value in settings.items()}
    clock: Any = time or Time()
    return SnapshotKeeper(controller._log, controller.image, node.disk, values, clock, Random(1))


def run(kept: SnapshotKeeper) -> bool:
    """One pass; whether it wrote a snapshot."""

    async def one() -> bool:
        writing = kept.run()
        if writing is not None:
            await writing
        return writing is not None

    return asyncio.run(one())


def topics(node: Node, *names: str, partitions: int = 3) -> None:
    asked = [CreatableTopic(name, partitions, 1, configs=[CreatableTopicConfig("retention.ms", "99")]) for name in names]
    in_turns(node.controller.create_topics(CreateTopicsRequest(asked), None))


def files(node: Node, *endings: str) -> list[str]:
    return [name for name in node.disk.list(METADATA) if name.endswith(endings)]


def newest(node: Node) -> SnapshotId:
    return snapshot.find(node.disk, METADATA)[0]


class Ticking(Time):
    """Every look at the wall clock finds it later."""

    def now_ms(self) -> int:
        self.seconds += 0.001
        return super().now_ms()


def read_again(node: Node, found: SnapshotId) -> MetadataImage:
    contents = snapshot.read(node.disk, f"{METADATA}/{found.file_name}")
    image = MetadataImage(CLUSTER_ID)
    image.apply_all(contents.records, found.end_offset - 1)
    return image


# What is in it


def test_it_says_all_that_the_image_says() -> None:
    node = Node()
    write_kafka_directory(node.disk, "static")  # settings, quotas, credentials, access rules, producer ids
    node.start()
    assert run(keeper(node, metadata_log_max_record_bytes_between_snapshots=1))
    assert newest(node) == (node.image.highest_offset + 1, node.cluster.epoch)
    assert dump(read_again(node, newest(node))) == dump(node.image)
    node.stop()
    before = dump(node.image)["topics"]
    node.start()
    assert list(dump(node.image)["topics"]) == list(before)


def test_batches_are_as_kafkas() -> None:
    node = Node()
    node.start()
    topics(node, "t", partitions=2100)
    assert run(keeper(node, Ticking(), metadata_log_max_record_bytes_between_snapshots=1))
    batches = list(iter_batches(node.disk.read_bytes(f"{METADATA}/{newest(node).file_name}")))
    assert [header.is_control for header, _ in batches] == [True, False, False, False, True]
    assert [header.records_count for header, _ in batches][1:3] == [1024, 1024]
    assert {header.partition_leader_epoch for header, _ in batches} == {node.cluster.epoch}
    for header, _ in batches:
        assert header.base_timestamp == header.max_timestamp  # or Kafka does not start
    ends = [header.base_offset + header.records_count for header, _ in batches]
    assert [header.base_offset for header, _ in batches] == [0, *ends[:-1]]
    kinds = [records.decode_control(record).type for _, batch in (batches[0], batches[-1]) for record in decode_records(batch)]
    assert kinds == [records.SNAPSHOT_HEADER, records.SNAPSHOT_FOOTER]
    assert snapshot.last_contained_ms(node.disk, f"{METADATA}/{newest(node).file_name}") == NOW_MS


def test_voters_are_repeated_where_the_log_names_them() -> None:
    node = Node(controller_quorum_bootstrap_servers="127.0.0.1:9093", listeners="PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093")
    node.start()
    assert run(keeper(node, metadata_log_max_record_bytes_between_snapshots=1))
    path = f"{METADATA}/{SnapshotId(0, 0).file_name}"
    first, second = (snapshot.read(node.disk, p) for p in (path, f"{METADATA}/{newest(node).file_name}"))
    assert newest(node).end_offset > 0
    assert (second.kraft_version, second.voters) == (1, first.voters)


@pytest.mark.parametrize("has_begun", [False, True])
def test_what_changes_while_it_is_written_or_before_that_is_not_in_it(has_begun: bool) -> None:
    """The task that writes it begins a turn after the look at whether there may be one."""
    node = Node()
    node.start()
    topics(node, "before")

    async def both() -> None:
        kept = keeper(node, metadata_log_max_record_bytes_between_snapshots=1)
        writing = asyncio.ensure_future(kept.take("of a test"))
        if has_begun:
            await asyncio.sleep(0)
        topics(node, "meanwhile")
        await writing

    end_offset = node.image.highest_offset + 1
    asyncio.run(both())
    assert newest(node).end_offset == end_offset
    assert list(read_again(node, newest(node)).topics) == ["before"]
    node.kill()
    node.start()
    assert list(node.image.topics) == ["before", "meanwhile"]


def test_a_version_that_knows_no_directories_and_no_eligible_leaders() -> None:
    node = Node()
    node.start()
    topics(node, "t", partitions=1)
    node.image.features["metadata.version"] = 7
    partition: Any
    (partition,) = [record for record in freeze(node.image).records() if type(record).__name__ == "PartitionRecord"]
    assert (partition.directories, partition.last_known_elr) == ([], None)


# When


def test_by_size() -> None:
    node = Node()
    node.start()
    kept = keeper(node, metadata_log_max_record_bytes_between_snapshots=2000)
    assert not run(kept)
    topics(node, "t", partitions=30)
    assert run(kept)
    assert not run(kept)
    topics(node, "u", partitions=30)
    assert run(kept)


def test_by_time_but_never_for_nothing() -> None:
    node, time = Node(), Time()
    node.start()
    kept = keeper(node, time)
    time.seconds = HOUR_SECONDS - 1
    assert not run(kept)
    time.seconds = HOUR_SECONDS
    assert kept.why_due == "the last one is 3600 s old"
    assert run(kept)
    time.seconds = 5 * HOUR_SECONDS
    assert not run(kept)
    topics(node, "t")
    assert run(kept)
    topics(node, "u")
    assert not run(kept)  # the hour begins anew
    assert not run(keeper(node, time, metadata_log_max_snapshot_interval_ms=0))


# What goes


def fill(node: Node, kept: SnapshotKeeper, count: int) -> None:
    """Several segments, and a snapshot after each."""
    for number in range(count):
        topics(node, f"topic-{number}-{node.cluster.epoch}", partitions=30)
        assert run(kept)


def test_nothing_goes_before_it_must() -> None:
    node, time = Node(**SMALL), Time()
    node.start()
    kept = keeper(node, time)
    fill(node, kept, 3)
    assert kept.clean() == 0
    assert len(files(node, ".checkpoint")) == 4


def test_the_log_is_trimmed_behind_the_snapshots_by_size() -> None:
    node, time = Node(**SMALL), Time()
    node.start()
    kept = keeper(node, time, metadata_max_retention_bytes=9000)
    fill(node, kept, 4)
    before = files(node, ".checkpoint")
    time.seconds = 61
    assert not run(kept)
    left = files(node, ".checkpoint")
    assert left == before[-len(left) :]
    assert 1 <= len(left) < len(before)
    log = kept._log.partition_log
    oldest = snapshot.find(node.disk, METADATA)[-1]
    assert log.log_start_offset == oldest.end_offset
    assert 0 < log.first_base_offset <= oldest.end_offset
    deleted = files(node, ".deleted")
    assert any(name.endswith(".log.deleted") for name in deleted)
    assert len([name for name in deleted if ".checkpoint" in name]) == len(before) - len(left)
    run_pass(log.directory.removals(time.now_ms() + 59_000))
    assert files(node, ".checkpoint.deleted")
    run_pass(log.directory.removals(time.now_ms() + 61_000))
    assert not files(node, ".deleted")
    before_image = dump(node.image)["topics"].keys()
    node.kill()
    node.start()
    assert dump(node.image)["topics"].keys() == before_image


def test_and_by_time() -> None:
    node, time = Node(**SMALL), Time()
    node.start()
    kept = keeper(node, time, metadata_max_retention_ms=5000)
    fill(node, kept, 3)
    time.seconds = 5
    assert kept.clean() == 0
    time.seconds = 5.001
    assert kept.clean() == 3
    assert len(files(node, ".checkpoint")) == 1
    assert kept.clean() == 0  # the newest stays, however old


def test_no_limits() -> None:
    node, time = Node(**SMALL), Time()
    node.start()
    kept = keeper(node, time, metadata_max_retention_ms=-1, metadata_max_retention_bytes=-1)
    fill(node, kept, 2)
    time.seconds = 1e9
    assert kept.clean() == 0


# Starts


def test_a_start_removes_halves_and_deleted_ones() -> None:
    node = Node()
    node.start()
    stray = [
        "00000000000000000007-0000000001-123.checkpoint.part",
        "00000000000000000003-0000000001.checkpoint.deleted",
    ]
    for name in stray:
        node.disk.write_bytes(f"{METADATA}/{name}", b"half")
    node.stop()
    node.start()
    assert not set(stray) & set(node.disk.list(METADATA))


def test_a_log_that_begins_behind_every_snapshot_is_refused() -> None:
    node = Node(**SMALL)
    node.start()
    kept = keeper(node, metadata_max_retention_bytes=1)
    fill(node, kept, 3)
    assert kept.clean() > 0
    node.stop()
    for name in files(node, ".checkpoint"):
        node.disk.remove(f"{METADATA}/{name}")
    with pytest.raises(MetadataError):
        node.start()
    node.kill()


@pytest.mark.parametrize("lost", [(".log", ".index", ".timeindex"), ("",)])
def test_a_snapshot_alone_is_enough(lost: tuple[str, ...]) -> None:
    """The log behind it is lost, or all else; Kafka starts on that, too."""
    node = Node()
    node.start()
    topics(node, "t")
    assert run(keeper(node, metadata_log_max_record_bytes_between_snapshots=1))
    found, epoch = newest(node), node.cluster.epoch
    node.stop()
    for name in node.disk.list(METADATA):
        if name.endswith(lost) and not name.endswith(".checkpoint"):
            node.disk.remove(f"{METADATA}/{name}")
    node.start()
    assert list(node.image.topics) == ["t"]
    assert node.cluster.epoch > epoch
    assert node.controller._log.partition_log.log_start_offset == found.end_offset
    topics(node, "later")
    node.power_cut()
    node.start()
    assert list(node.image.topics) == ["t", "later"]


def test_the_records_of_an_older_formatting_tool_begin_the_log() -> None:
    old, node = Node(), Node()
    old.start()
    data = old.disk.read_bytes(f"{METADATA}/{SnapshotId(0, 0).file_name}")
    batches = [bytes(batch) for _, batch in iter_batches(data)]
    node.disk.makedirs(DIRECTORY)
    node.disk.write_bytes(f"{DIRECTORY}/{snapshot.BOOTSTRAP}", b"".join(batches[:-1]))  # its files have no footer
    node.start()
    assert node.image.features == old.image.features
    assert not files(node, ".checkpoint")
    node.kill()
    node.start()
    assert node.image.features == old.image.features


def test_a_snapshot_that_is_written_is_durable() -> None:
    node = Node()
    node.start()
    topics(node, "t")
    assert run(keeper(node, metadata_log_max_record_bytes_between_snapshots=1))
    found = newest(node)
    node.power_cut()
    node.start()
    assert newest(node) == found


@pytest.mark.parametrize("losing", [None, 1, 2])
def test_a_power_cut_at_any_step_leaves_the_old_or_the_new(losing: int | None) -> None:
    """Writing a snapshot and cleaning behind it, cut at every change to the disk."""
    for step in range(1, 200):
        node = Node(**SMALL)
        node.start()
        kept = keeper(node, metadata_max_retention_bytes=3000)
        fill(node, kept, 2)
        topics(node, "last")
        expected = dump(node.image)["topics"]
        node.disk.stop_after(step)
        try:
            asyncio.run(kept.take("of a test"))
            kept.clean()
            done = True
        except PowerCut:
            done = False
        node.power_cut(None if losing is None else Random(losing * 1000 + step))
        node.start()
        assert list(dump(node.image)["topics"]) == list(expected)
        assert not files(node, ".part", ".deleted")
        node.kill()
        if done:
            return
    raise AssertionError("it never came to its end")


def test_a_disk_that_fails_takes_the_directory_offline() -> None:
    node = Node()
    node.start()
    node.disk.fail("append", path=".part")
    with pytest.raises(StorageError):
        asyncio.run(keeper(node).take("of a test"))
    assert not files(node, ".part")
    assert not run(keeper(node, metadata_log_max_record_bytes_between_snapshots=1))  # offline: no pass tries again


# Damage


def damage(node: Node, found: SnapshotId) -> str:
    """Flips a bit of a snapshot; returns its name."""
    path = f"{METADATA}/{found.file_name}"
    data = bytearray(node.disk.read_bytes(path))
    data[len(data) // 2] ^= 1
    node.disk.write_bytes(path, bytes(data))
    return found.file_name


def counted(node: Node) -> dict[str, int]:
    return {name: len(topic.partitions) for name, topic in node.image.topics.items()}


def test_an_older_snapshot_and_the_log_take_the_place_of_a_damaged_one(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(**SMALL)
    node.start()
    kept = keeper(node)
    fill(node, kept, 2)
    topics(node, "last")
    before = counted(node)
    node.stop()
    name = damage(node, newest(node))
    with caplog.at_level("ERROR"):
        node.start()
    assert counted(node) == before
    (line,) = [message for message in caplog.messages if "damaged" in message]
    assert line.startswith(f"{METADATA}/{name} is damaged at position ")
    assert files(node, ".damaged") == [f"{name}.damaged"]
    node.stop()
    caplog.clear()
    node.start()
    assert counted(node) == before
    assert not [message for message in caplog.messages if "damaged" in message], "nothing looks at it again"


def test_a_damaged_snapshot_is_refused_where_nothing_takes_its_place() -> None:
    node, time = Node(**SMALL), Time()
    node.start()
    kept = keeper(node, time, metadata_max_retention_bytes=9000)
    fill(node, kept, 4)
    assert kept.clean()
    node.stop()
    found = snapshot.find(node.disk, METADATA)
    assert node.logs is not None
    for each in found:  # the log begins at the end of the oldest one that is left
        damage(node, each)
    with pytest.raises(MetadataError, match=f"{newest(node).file_name} is damaged at position .* restore it from a copy"):
        node.start()
    assert files(node, ".damaged") == []


def test_a_log_that_ends_before_a_damaged_snapshot_does_not_take_its_place() -> None:
    node = Node(**SMALL)
    node.start()
    fill(node, keeper(node), 1)
    node.stop()
    found = newest(node)
    beyond = SnapshotId(found.end_offset + 1000, found.epoch)
    node.disk.rename(f"{METADATA}/{found.file_name}", f"{METADATA}/{beyond.file_name}")
    damage(node, beyond)
    with pytest.raises(MetadataError, match="restore it from a copy"):
        node.start()


def test_the_age_of_a_damaged_snapshot_is_not_believed() -> None:
    node = Node()
    node.start()
    path = f"{METADATA}/{SnapshotId(0, 0).file_name}"
    data = bytearray(node.disk.read_bytes(path))
    data[80] ^= 1  # in the first batch
    node.disk.write_bytes(path, bytes(data))
    with pytest.raises(MetadataError, match="damaged at position 0"):
        snapshot.last_contained_ms(node.disk, path)
