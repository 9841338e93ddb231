"""Directories of several brokers: which replica of a partition is read, how far, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.log.disk import checkpoint
from ottla.log.disk.checkpoint import MetaProperties
from ottla.pipeline.data_source.readers import StreamReader
from ottla.pipeline.data_source.replicas import choose, find_replicas
from ottla.pipeline.data_source.seen import SeenPartitions
from ottla.pipeline.data_source.segments import DataLoss, SourceError, end_offset
from tests.log.support import batch
from tests.pipeline.logs import end_transaction, fill, rig
from tests.pipeline.test_source import offsets, schema_of, source

CLUSTER, OTHER_CLUSTER = "b3R0bGFDb21wYXRUZXN0cw", "AAAAAAAAAAAAAAAAAAAAAw"
DIRECTORY_ID = "0PTJG8ptL8_TQgsdUAkd_w"
TOPIC, OTHER_TOPIC = b"t" * 16, b"u" * 16


def owned(directory: Path, node: int, cluster: str = CLUSTER) -> None:
    meta = MetaProperties(cluster, node, DIRECTORY_ID)
    (directory / "meta.properties").write_bytes(checkpoint.encode_meta_properties(meta, 0))


def marked(directory: Path, high_watermark: int, partition: int = 0) -> None:
    lines = checkpoint.encode_offsets({("t", partition): high_watermark})
    (directory / checkpoint.HIGH_WATERMARKS).write_bytes(lines)


@pytest.fixture
def broker(tmp_path: Path) -> Callable[..., Path]:
    """Makes the directory of a broker that has t-0 with so many batches of ten records, and this high watermark."""

    def make(node: int, batches: int, high_watermark: int, *, is_clean: bool = True) -> Path:
        directory = tmp_path / f"broker-{node}"
        directory.mkdir()
        log = rig(directory)
        fill(log, batches)
        log.manager.close(is_clean)
        owned(directory, node)
        marked(directory, high_watermark)
        return directory

    return make


def chosen(path: Path | str) -> tuple[str, int]:
    """Returns which directory is read, and up to where."""
    seen = SeenPartitions()
    (replicas,) = find_replicas(str(path))
    place = choose(replicas, seen)
    return Path(place.path).parent.name, seen.with_log(place, lambda log: end_offset(log, False))


def test_the_higher_of_two_high_watermarks_counts_and_nothing_above_it(tmp_path: Path, broker: Callable[..., Path]) -> None:
    broker(1, 9, 20)
    broker(2, 5, 40)
    broker(3, 7, 30)
    assert chosen(f"{tmp_path}/broker-*") == ("broker-2", 40)
    assert offsets(source(f"{tmp_path}/broker-*")) == list(range(40))
    assert offsets(source(f"{tmp_path}/broker-1,{tmp_path}/broker-3")) == list(range(30))
    assert offsets(source(f"{tmp_path}/broker-[13]/t")) == list(range(30))
    assert offsets(source("", paths=f'["{tmp_path}/broker-1", "{tmp_path}/broker-3"]')) == list(range(30))
    assert offsets(source(f"{tmp_path}/broker-1")) == list(range(90)), "one broker alone: all that is in the log"


def test_a_topic_that_only_one_of_the_brokers_has_ends_at_the_high_watermark_as_well(
    tmp_path: Path, broker: Callable[..., Path]
) -> None:
    broker(1, 9, 20)
    (tmp_path / "broker-2").mkdir()
    owned(tmp_path / "broker-2", 2)
    assert offsets(source(f"{tmp_path}/broker-*", subscribe="t")) == list(range(20))
    assert offsets(source(f"{tmp_path}/broker-1/,{tmp_path}/broker-2")) == list(range(20))


def test_a_log_that_ends_below_its_high_watermark_has_only_what_is_there(tmp_path: Path, broker: Callable[..., Path]) -> None:
    """As after a power cut: the checkpoint is on the disk, and the end of the log is not."""
    broker(1, 3, 60)
    broker(2, 6, 50)
    broker(3, 6, 40)
    assert chosen(f"{tmp_path}/broker-*") == ("broker-2", 50)
    assert offsets(source(f"{tmp_path}/broker-*")) == list(range(50))


def test_only_the_replica_that_promises_most_is_opened(
    tmp_path: Path, broker: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for node, high_watermark in ((1, 20), (2, 40), (3, 30)):
        broker(node, 5, high_watermark)
    opened: list[str] = []
    with_log = SeenPartitions.with_log

    def counting(self: SeenPartitions, place: Any, work: Any) -> Any:
        opened.append(place.path)
        return with_log(self, place, work)

    monkeypatch.setattr(SeenPartitions, "with_log", counting)
    (replicas,) = find_replicas(f"{tmp_path}/broker-*")
    choose(replicas, SeenPartitions())
    assert opened == [f"{tmp_path}/broker-2/t-0"]


def test_of_equals_the_one_that_begins_first_is_read(tmp_path: Path, broker: Callable[..., Path]) -> None:
    for node, start in ((1, 20), (2, 10), (3, 30)):
        directory = broker(node, 5, 50)
        (directory / checkpoint.LOG_START_OFFSETS).write_bytes(checkpoint.encode_offsets({("t", 0): start}))
    assert chosen(f"{tmp_path}/broker-*") == ("broker-2", 50)
    assert offsets(source(f"{tmp_path}/broker-*")) == list(range(10, 50))


def test_a_partition_that_one_broker_has_is_bounded_as_well(tmp_path: Path, broker: Callable[..., Path]) -> None:
    broker(1, 5, 20)
    other = broker(2, 5, 50)
    (other / "t-0").rename(other / "t-1")
    marked(other, 30, partition=1)
    assert sorted(offsets(source(f"{tmp_path}/broker-*"))) == sorted([*range(20), *range(30)])
    marked(other, 30, partition=7)
    assert offsets(source(f"{tmp_path}/broker-*")) == list(range(20)), "a line that is not there yet is 0"


def test_committed_records_end_at_the_high_watermark_or_at_an_open_transaction_below_it(tmp_path: Path) -> None:
    for node in (1, 2):
        directory = tmp_path / f"broker-{node}"
        directory.mkdir()
        log = rig(directory)
        fill(log, 2)
        log.append(batch(10, producer=(7, 0, 0), transactional=True))  # 20 to 29
        end_transaction(log, 7, commit=False)
        fill(log, 1)  # 31 to 40
        log.append(batch(10, producer=(8, 0, 0), transactional=True))  # 41 to 50, open
        fill(log, 1)
        log.manager.close(True)
        owned(directory, node)
    for high_watermark, expected in ((35, [*range(20), *range(31, 35)]), (55, [*range(20), *range(31, 41)])):
        for node in (1, 2):
            marked(tmp_path / f"broker-{node}", high_watermark)
        assert offsets(source(f"{tmp_path}/broker-*", isolation__level="read_committed")) == expected


def test_a_stream_follows_the_high_watermark_from_one_replica_to_another(tmp_path: Path, broker: Callable[..., Path]) -> None:
    one, other = broker(1, 5, 20), broker(2, 5, 10)
    of = source(f"{tmp_path}/broker-*", startingOffsets="earliest")
    reader = of.streamReader(schema_of(of))
    assert isinstance(reader, StreamReader)
    start = reader.initialOffset()
    end = reader.latestOffset()
    assert (start, end) == ({"t": {"0": 0}}, {"t": {"0": 20}})
    (part,) = reader.partitions(start, end)
    assert [row["offset"] for batch in reader.read(part) for row in batch.to_pylist()] == list(range(20))
    marked(other, 50)
    assert reader.latestOffset() == {"t": {"0": 50}}
    (part,) = reader.partitions(end, {"t": {"0": 50}})
    assert part.value.place.path == f"{other}/t-0"
    assert [row["offset"] for batch in reader.read(part) for row in batch.to_pylist()] == list(range(20, 50))
    marked(one, 40)
    marked(other, 10)
    with pytest.raises(DataLoss, match="t-0 was read to below 50 and now ends at 40"):
        reader.partitions({"t": {"0": 50}}, reader.latestOffset())


def test_directories_of_two_clusters_are_refused(tmp_path: Path, broker: Callable[..., Path]) -> None:
    one, other = broker(1, 1, 10), broker(2, 1, 10)
    (other / "t-0").rename(other / "u-0")
    owned(other, 2, OTHER_CLUSTER)
    said = f"{one} belongs to cluster {CLUSTER}, and {other} to cluster {OTHER_CLUSTER}: read one at a time"
    with pytest.raises(SourceError, match=f"^{re.escape(said)}$"):
        source(f"{tmp_path}/broker-*").schema()


def test_two_that_nobody_can_tell_apart_are_refused(tmp_path: Path, broker: Callable[..., Path]) -> None:
    one, other = broker(1, 1, 10), broker(2, 1, 10)
    said = f"t-0 is there twice: in {one}/t-0 and in {other}/t-0, and meta.properties in their log directories does not say that "
    owned(other, 1)
    with pytest.raises(SourceError, match=re.escape(said)):
        find_replicas(f"{tmp_path}/broker-*")
    (other / "meta.properties").unlink()
    with pytest.raises(SourceError, match=re.escape(said)):
        find_replicas(f"{tmp_path}/broker-*")
    (other / "meta.properties").write_text("version=0\n")
    with pytest.raises(SourceError, match=rf"^whose {other} is cannot be read: .*version 0, only 1 is known$"):
        find_replicas(f"{tmp_path}/broker-*")


def test_a_topic_that_was_made_again_is_refused(tmp_path: Path, broker: Callable[..., Path]) -> None:
    for node, topic_id in ((1, TOPIC), (2, OTHER_TOPIC), (3, TOPIC)):
        directory = broker(node, 1, 10)
        (directory / "t-0" / checkpoint.PARTITION_METADATA).write_bytes(checkpoint.encode_partition_metadata(topic_id))
    with pytest.raises(SourceError, match=r"broker-1/t-0 and .*/broker-2/t-0 are of two topics with the same name"):
        find_replicas(f"{tmp_path}/broker-*")
    assert len(find_replicas(f"{tmp_path}/broker-[13]")) == 1


def test_a_copy_without_high_watermarks_is_refused(tmp_path: Path, broker: Callable[..., Path]) -> None:
    broker(1, 1, 10)
    other = broker(2, 1, 10)
    (other / "t-0").rename(other / "t-1")
    (other / checkpoint.HIGH_WATERMARKS).unlink()
    with pytest.raises(SourceError, match=rf"^{other}/replication-offset-checkpoint is missing, which says what is replicated"):
        offsets(source(f"{tmp_path}/broker-*"))
