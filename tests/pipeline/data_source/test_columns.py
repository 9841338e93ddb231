"""Slices as Arrow batches: the same rows as the log's own decoding gives, column by column."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard

from ottla.pipeline.data_source.columns import TYPES, read
from ottla.pipeline.data_source.columns_pile import Pile
from ottla.pipeline.data_source.segments import DataLoss, SourceError
from ottla.wire.batch import HEADER_SIZE, iter_batches, read_header, restamp
from ottla.wire.records import Record, build_batch, encode_records
from tests.log.support import NOW_MS
from tests.pipeline.logs import ALL, by_hand, end_transaction, fill, numbered, offsets, plan, rig, rows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def expected(record: Record) -> dict[str, Any]:
    headers = [
        {"key": key.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), "value": value}
        for key, value in record.headers
    ]
    return {
        "key": record.key,
        "value": record.value,
        "topic": "t",
        "partition": 0,
        "offset": record.offset,
        "timestamp": EPOCH + timedelta(milliseconds=record.timestamp_ms),
        "timestampType": 0,
        "headers": headers or None,
    }


def some_records(random: Random, count: int, *, with_headers: bool = True) -> list[Record]:
    def some() -> bytes | None:
        return None if random.random() < 0.2 else random.randbytes(random.choice([0, 3, 40, 400]))

    def headers() -> list[tuple[str, bytes | None]]:
        return [(random.choice(["", "origin", "ключ", "\udcff"]), some()) for _ in range(random.choice([0, 0, 2]) * with_headers)]

    return [Record(0, random.choice([-1, NOW_MS, NOW_MS + 77]), some(), some(), headers()) for _ in range(count)]


@pytest.mark.parametrize("codec", range(5))
def test_every_column_of_every_record(tmp_path: Path, codec: int) -> None:
    log, random = rig(tmp_path), Random(codec)
    for _ in range(20):
        log.append(build_batch(some_records(random, random.randrange(1, 40)), codec=codec))
    log.manager.close(True)
    found = rows(plan(tmp_path))
    assert found == [expected(record) for record in by_hand(tmp_path)]
    assert len(found) > 100


@pytest.mark.parametrize("seed", range(4))
def test_any_columns_in_any_order_and_codecs_that_change(tmp_path: Path, seed: int) -> None:
    log, random = rig(tmp_path), Random(seed)
    for _ in range(40):
        log.append(
            build_batch(some_records(random, random.randrange(1, 9), with_headers=seed % 2 == 0), codec=random.randrange(5))
        )
    log.manager.close(True)
    whole = [expected(record) for record in by_hand(tmp_path)]
    for _ in range(12):
        columns = tuple(random.sample(ALL, random.randrange(1, len(ALL) + 1)))
        assert rows(plan(tmp_path), columns) == [{name: row[name] for name in columns} for row in whole]
        low, high = sorted(random.sample(range(len(whole) + 1), 2))
        part = rows(plan(tmp_path, low=low, high=high), columns)
        assert part == [{name: row[name] for name in columns} for row in whole[low:high]], (low, high, columns)


def test_types_are_those_that_spark_takes(tmp_path: Path) -> None:
    log = rig(tmp_path)
    log.append(numbered(0, 3))
    log.manager.close(True)
    (batch,) = read(plan(tmp_path)[0], ALL)
    assert {field.name: field.type for field in batch.schema} == TYPES
    assert str(batch.schema.field("timestamp").type) == "timestamp[us, tz=UTC]"


def test_log_append_time_counts_for_every_record(tmp_path: Path) -> None:
    log = rig(tmp_path, message_timestamp_type="LogAppendTime")
    log.append(numbered(0, 3))
    log.manager.close(True)
    assert [(row["timestamp"], row["timestampType"]) for row in rows(plan(tmp_path))] == [
        (EPOCH + timedelta(milliseconds=NOW_MS), 1)
    ] * 3


def test_a_range_of_times_is_exact_although_times_go_back(tmp_path: Path) -> None:
    log, random = rig(tmp_path, segment_bytes=2000, index_interval_bytes=200), Random(3)
    for _ in range(60):
        times = [NOW_MS + random.randrange(1000) for _ in range(5)]
        log.append(build_batch([Record(0, time, None, b"x" * 20, []) for time in times]))
    log.manager.close(True)
    all_records = by_hand(tmp_path)
    for _ in range(30):
        earliest, latest = sorted(NOW_MS + random.randrange(1000) for _ in range(2))
        wanted = [record.offset for record in all_records if earliest <= record.timestamp_ms < latest]
        assert offsets(tmp_path, earliest=earliest, latest=latest) == wanted


def test_only_offsets_need_no_decompression(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = rig(tmp_path)
    fill(log, 5, codec=4)
    log.manager.close(True)

    def refuse(*_: Any) -> None:
        raise AssertionError

    for way in ("at_once", "pieces"):
        monkeypatch.setattr(f"ottla.pipeline.data_source.columns_pile.Pile.{way}", refuse)
    assert offsets(tmp_path) == list(range(50))
    assert offsets(tmp_path, low=3, high=27) == list(range(3, 27))
    with pytest.raises(AssertionError):
        rows(plan(tmp_path), ("timestamp",))


def test_batches_that_are_too_old_are_not_decompressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = rig(tmp_path)
    for old in (0, 5, 0, 0, 7):
        log.append(build_batch([Record(0, NOW_MS + old, None, b"x" * 20, [])], codec=4))
    log.manager.close(True)
    decompressed = []

    def count(*arguments: Any) -> Any:
        decompressed.append(1)
        return at_once(*arguments)

    at_once = Pile.at_once
    monkeypatch.setattr(Pile, "at_once", count)
    assert [row["offset"] for row in rows(plan(tmp_path, earliest=NOW_MS + 5), ("offset", "timestamp"))] == [1, 4]
    assert len(decompressed) == 2


def test_timestamps_need_no_decompression_where_the_log_gave_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = rig(tmp_path, message_timestamp_type="LogAppendTime")
    fill(log, 5, codec=4)
    log.manager.close(True)

    def refuse(*_: Any) -> None:
        raise AssertionError

    wanted = [(row["offset"], row["timestamp"]) for row in rows(plan(tmp_path))]
    for way in ("at_once", "pieces"):
        monkeypatch.setattr(f"ottla.pipeline.data_source.columns_pile.Pile.{way}", refuse)
    found = rows(plan(tmp_path), ("timestamp", "offset"))
    assert [(row["offset"], row["timestamp"]) for row in found] == wanted
    assert len(wanted) == 50


def test_batches_of_zstd_of_any_size_and_in_several_frames(tmp_path: Path) -> None:
    """One that says its size, one that is larger than those before, two frames: offsets and times are looked for in each."""
    log = rig(tmp_path, max_message_bytes=1 << 26)
    sizes = [10, 3_000_000, 9_000_000, 20]
    for at, size in enumerate(sizes):
        log.append(build_batch([Record(0, NOW_MS + at, None, bytes(size), [])], codec=4))
    records = encode_records([Record(0, NOW_MS + at, None, b"x" * 50, []) for at in range(4, 8)], NOW_MS + 4)
    header = read_header(numbered(4, 4)).replace(base_timestamp=NOW_MS + 4)
    for frames in (
        zstandard.ZstdCompressor(write_content_size=True).compress(records),
        b"".join(zstandard.ZstdCompressor().compress(piece) for piece in (records[:70], records[70:])),
    ):
        log.append(restamp(header, frames, attributes=4, max_timestamp=NOW_MS + 7) + frames)
    log.manager.close(True)
    by_name = {row["offset"]: row["timestamp"] for row in rows(plan(tmp_path), ("offset", "timestamp"))}
    assert by_name == {row["offset"]: row["timestamp"] for row in rows(plan(tmp_path))}
    assert len(by_name) == len(sizes) + 8


def test_a_batch_larger_than_a_piece_of_the_file(tmp_path: Path) -> None:
    log = rig(tmp_path, max_message_bytes=1 << 26)
    log.append(numbered(0, 3))
    log.append(build_batch([Record(0, NOW_MS, None, bytes(9_000_000), [])]))
    log.append(build_batch([Record(0, NOW_MS, None, bytes(30_000_000), [])], codec=4))
    log.append(numbered(5, 3))
    log.manager.close(True)
    assert [len(row["value"]) for row in rows(plan(tmp_path), ("value",))][3:5] == [9_000_000, 30_000_000]
    assert offsets(tmp_path) == list(range(8))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_of_many_pieces_is_read_piece_by_piece(tmp_path: Path, codec: int) -> None:
    log = rig(tmp_path, max_message_bytes=1 << 26)
    log.append(numbered(0, 3))
    records = [Record(0, NOW_MS + at, b"%d" % at, bytes(1000), [("h", b"%d" % at)]) for at in range(6000)]
    log.append(build_batch([*records, Record(0, NOW_MS, None, bytes(2_000_000), []), *records[:10]], codec=codec))
    log.append(numbered(0, 3))
    log.manager.close(True)
    whole = rows(plan(tmp_path))
    assert [row["offset"] for row in whole] == list(range(6017))
    assert [row["key"] for row in whole][3:6003] == [record.key for record in records]
    assert [len(row["value"]) for row in whole][6003:6005] == [2_000_000, 1000]
    assert offsets(tmp_path, low=4000, high=6012) == list(range(4000, 6012))
    assert [row["offset"] for row in rows(plan(tmp_path), ("offset", "timestamp"))] == list(range(6017))
    batches = [one for part in plan(tmp_path) for one in read(part, ("value",))]
    assert max(one.nbytes for one in batches) < 5_000_000


@pytest.mark.parametrize("columns", [("offset",), ("offset", "value")])
def test_an_arrow_batch_has_some_sixty_thousand_rows_however_small_they_are(tmp_path: Path, columns: tuple[str, ...]) -> None:
    log = rig(tmp_path)
    records = [Record(0, NOW_MS, None, b"", [])] * 10_000
    for _ in range(14):
        log.append(build_batch(records, codec=4))
    log.manager.close(True)
    sizes = [len(one) for part in plan(tmp_path) for one in read(part, columns)]
    assert sizes == [70_000, 70_000]


def test_a_batch_above_the_bound_is_named(tmp_path: Path) -> None:
    log = rig(tmp_path)
    log.append(numbered(0, 3))
    position = log.log.size_bytes
    log.append(build_batch([Record(0, NOW_MS, None, bytes(1000), [])] * 3000, codec=4))
    log.manager.close(True)
    (part,) = plan(tmp_path)
    words = rf"00\.log has a batch at position {position}, offset 3 that is not read: .*maxDecompressedBatchBytes"
    for columns in (("value",), ("timestamp",)):
        with pytest.raises(SourceError, match=words):
            list(read(part, columns, max_batch_bytes=1_000_000))
    assert sum(len(one) for one in read(part, ("value",), max_batch_bytes=4_000_000)) == 3003


def test_batches_that_compaction_emptied_have_no_rows(tmp_path: Path) -> None:
    log = rig(tmp_path)
    log.append(numbered(0, 3))
    empty = read_header(numbered(3, 4)).replace(records_count=0, base_offset=3)
    log.append(numbered(3, 4))
    log.manager.close(True)
    file = tmp_path / "t-0" / "00000000000000000000.log"
    first = read_header(file.read_bytes()).size
    header = restamp(empty, b"", attributes=0, max_timestamp=NOW_MS, base_offset=3, leader_epoch=0)
    file.write_bytes(file.read_bytes()[:first] + header)
    assert offsets(tmp_path) == [0, 1, 2]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_damage_is_one_line_with_the_place(tmp_path: Path, codec: int) -> None:
    log = rig(tmp_path)
    for _ in range(3):
        log.append(numbered(log.log.log_end_offset, 10, codec))
    log.manager.close(True)
    parts = plan(tmp_path)
    file = tmp_path / "t-0" / "00000000000000000000.log"
    data = bytearray(file.read_bytes())
    second = read_header(data).size
    data[second + HEADER_SIZE + 5] ^= 1
    file.write_bytes(data)
    with pytest.raises(SourceError, match=rf"00\.log is damaged at position {second}, offset 10: the CRC does not match$"):
        rows(parts)


@pytest.mark.parametrize("codec", [0, 4])
def test_records_that_are_not_what_the_header_says(tmp_path: Path, codec: int) -> None:
    """With a CRC that fits: somebody wrote it so."""
    log = rig(tmp_path)
    log.append(numbered(0, 10, codec))
    log.manager.close(True)
    file = tmp_path / "t-0" / "00000000000000000000.log"
    data = file.read_bytes()
    header = read_header(data)
    lies = restamp(header.replace(records_count=9), data[HEADER_SIZE:], attributes=codec, max_timestamp=NOW_MS)
    file.write_bytes(lies + data[HEADER_SIZE:])
    with pytest.raises(SourceError, match=r"it holds 10 records and declares 9$"):
        rows(plan(tmp_path))
    cut = data[HEADER_SIZE:-7]
    file.write_bytes(restamp(header, cut, attributes=codec, max_timestamp=NOW_MS) + cut)
    with pytest.raises(SourceError, match="damaged at position 0, offset 0: "):
        rows(plan(tmp_path))


def test_a_segment_that_is_marked_as_deleted_is_read(tmp_path: Path) -> None:
    log = rig(tmp_path, segment_bytes=1000)
    fill(log, 10)
    log.manager.close(True)
    parts = plan(tmp_path)
    assert len(parts) > 2
    for file in (tmp_path / "t-0").glob("*.log"):
        file.rename(f"{file}.deleted")
    assert [row["offset"] for row in rows(parts)] == list(range(100))


def test_offsets_that_are_gone_are_data_loss_unless_that_does_not_matter(tmp_path: Path) -> None:
    log = rig(tmp_path, segment_bytes=1000)
    fill(log, 10)
    log.manager.close(True)
    parts = plan(tmp_path)
    second = int(Path(parts[1].path).stem)
    Path(parts[0].path).unlink()
    with pytest.raises(DataLoss, match=f"t-0: offsets 0 to {second - 1} were removed before they were read, and failOnDataLoss"):
        rows(parts)
    assert [row["offset"] for row in rows(parts, fail_on_data_loss=False)] == list(range(second, 100))
    for file in (tmp_path / "t-0").iterdir():
        file.unlink()
    (tmp_path / "t-0").rmdir()
    with pytest.raises(DataLoss, match="t-0 was removed while it was read"):
        rows(parts)
    assert rows(parts, fail_on_data_loss=False) == []


@pytest.mark.parametrize("number", ["another inode, or the same", "the same inode"])
def test_a_compaction_under_way_is_followed_to_the_new_file(tmp_path: Path, number: str) -> None:
    """The positions of the slices mean nothing in it; their offsets do."""
    log = rig(tmp_path, segment_bytes=1 << 20, index_interval_bytes=100)
    fill(log, 30, codec=1)
    log.manager.close(True)
    parts = plan(tmp_path, 1000)
    assert len(parts) > 3
    file = tmp_path / "t-0" / "00000000000000000000.log"
    kept = [record for record in by_hand(tmp_path) if record.offset % 7 == 0]
    if number != "the same inode":
        file.unlink()  # its number is given to the next file on some file systems
    for name in ("index", "timeindex"):
        file.with_suffix(f".{name}").unlink()
    deltas = [record.offset for record in kept]
    header = read_header(build_batch(kept)).replace(last_offset_delta=299)
    section = encode_records(kept, header.base_timestamp, deltas)
    file.write_bytes(restamp(header, section, attributes=0, max_timestamp=header.max_timestamp) + section)
    assert [row["offset"] for row in rows(parts)] == deltas


def test_a_compaction_that_leaves_the_first_batch_of_a_slice(tmp_path: Path) -> None:
    """With the file's number given again too, the slice begins where it did and ends within a batch of the next one."""
    log = rig(tmp_path, segment_bytes=1 << 20, index_interval_bytes=100)
    fill(log, 30, codec=1)
    log.manager.close(True)
    parts = plan(tmp_path, 1000)
    file = tmp_path / "t-0" / "00000000000000000000.log"
    thin = b"".join(bytes(data) for header, data in iter_batches(file.read_bytes()) if header.base_offset != 10)
    assert parts[0].wanted.low < 10 < parts[0].wanted.high
    for name in ("index", "timeindex"):
        file.with_suffix(f".{name}").unlink()
    file.write_bytes(thin)
    assert [row["offset"] for row in rows(parts)] == [at for at in range(300) if at // 10 != 1]


def test_committed_reading_drops_aborted_records_by_their_range(tmp_path: Path) -> None:
    log = rig(tmp_path, segment_bytes=1500)
    kept: list[int] = []
    random = Random(5)
    sequences = {7: 0, 8: 0}
    open_: dict[int, list[int]] = {}
    for _ in range(120):
        producer = random.choice([None, 7, 8])
        at = log.log.log_end_offset
        if producer is None:
            log.append(numbered(at, 2))
            kept += [at, at + 1]
        elif producer in open_ and random.random() < 0.4:
            commit = random.random() < 0.5
            end_transaction(log, producer, commit=commit)
            ended = open_.pop(producer)
            kept += ended if commit else []
        else:
            records = [Record(0, NOW_MS, None, b"v" * 50, [])]
            log.append(
                build_batch(
                    records, producer_id=producer, producer_epoch=0, base_sequence=sequences[producer], transactional=True
                )
            )
            sequences[producer] += 1
            open_.setdefault(producer, []).append(at)
    stable = min((first[0] for first in open_.values()), default=log.log.log_end_offset)
    assert stable == log.log.last_stable_offset
    for clean in (True, False):
        log.restart(clean=clean)
        for split in (1, 1 << 30):
            assert offsets(tmp_path, split, committed=True) == sorted(at for at in kept if at < stable)
    everything = [record.offset for record in by_hand(tmp_path)]
    assert offsets(tmp_path) == everything
