"""Records on disk: bytes or decoded, a page at a time, bounded, and without what is secret."""

from __future__ import annotations

from pathlib import Path

from ottla.console.disk.batches import read_indexes, read_part
from ottla.console.disk.directory import open_file
from ottla.console.disk.records import DiskRecord, DiskRecords, section_size
from ottla.wire import metadata_records
from ottla.wire.batch import read_header
from ottla.wire.messages.internal import offset_commit_key, offset_commit_value
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.primitives import Parts
from ottla.wire.records import Record, build_batch
from tests.console.disk.written import write_orders


def read(path: Path, topic: str, count: int = 50) -> tuple[list[DiskRecord], int, list[str]]:
    file = open_file(path)
    part = read_part(file, read_indexes(path, 0), clock=lambda: 0.0)
    reading = DiskRecords(file, topic, lambda name: "password" in name)
    found, upto = reading.of_batches(part.rows, count)
    return found, upto, reading.problems


def test_records_of_every_codec_and_a_marker(tmp_path: Path) -> None:
    found, upto, problems = read(write_orders(tmp_path), "orders")
    assert [one.offset for one in found] == list(range(17))
    assert (upto, problems) == (7, [])
    assert (found[0].key, found[0].value, found[0].kind) == (b"key-0", b"<b>value</b>" * 8, "")
    assert (found[15].sequence, found[16].kind) == (0, "ABORT")
    assert "coordinator_epoch" in found[16].fields


def test_whole_batches_until_the_page_is_full(tmp_path: Path) -> None:
    path = write_orders(tmp_path)
    found, upto, _ = read(path, "orders", count=4)
    assert ([one.offset for one in found], upto) == ([0, 1, 2], 2)
    file = open_file(path)
    row = read_part(file, read_indexes(path, 0), offset=10, clock=lambda: 0.0).rows[0]
    assert row.header is not None
    reading = DiskRecords(file, "orders", bool)
    assert [one.offset for one in reading.of_batch(row.position, row.header, 2, 2)] == [12, 13]


def test_a_bomb_is_not_read(tmp_path: Path) -> None:
    bomb = build_batch([Record(0, 1, b"", bytes(65 << 20))], codec=4)
    (tmp_path / "x.log").write_bytes(bomb)
    found, _, problems = read(tmp_path / "x.log", "t")
    assert found == []
    assert "not all read" in problems[0]
    assert section_size(memoryview(bomb), read_header(bomb)) is None


def test_kafkas_own_records_are_decoded(tmp_path: Path) -> None:
    key, value = Parts(), Parts()
    offset_commit_key.ENCODE[0](offset_commit_key.OffsetCommitKey("<g>", "t", 3), key)
    offset_commit_value.ENCODE[3](offset_commit_value.OffsetCommitValue(offset=42), value)
    record = Record(0, 1, b"\0\1" + b"".join(key), b"\0\3" + b"".join(value))
    (tmp_path / "x.log").write_bytes(build_batch([record, Record(0, 1, b"\0\1", b"?")]))
    found, _, problems = read(tmp_path / "x.log", "__consumer_offsets")
    assert found[0].kind == "OffsetCommit"
    assert '"group": "<g>"' in found[0].fields
    assert '"offset": 42' in found[0].fields
    assert (found[1].kind, found[1].value) == ("", b"?")
    assert problems[0].startswith("record 1: ")


def test_secrets_of_the_metadata_log_are_not_shown(tmp_path: Path) -> None:
    records = [
        ConfigRecord(resource_type=4, resource_name="1", name=name, value="hunter2")
        for name in ("ssl.key.password", "log.retention.ms")
    ]
    (tmp_path / "x.log").write_bytes(metadata_records.build_records(records, 25, 1))
    found, _, _ = read(tmp_path / "x.log", "__cluster_metadata")
    assert [one.kind for one in found] == ["ConfigRecord"] * 2
    assert "hunter2" not in found[0].fields
    assert "hunter2" in found[1].fields


def test_what_cannot_be_decoded_of_the_metadata_log_is_not_shown_either(tmp_path: Path) -> None:
    newer = Record(0, 1, None, b"\x01\x7f\x00hunter2")
    (tmp_path / "x.log").write_bytes(build_batch([newer]))
    (found,), _, problems = read(tmp_path / "x.log", "__cluster_metadata")
    assert (found.kind, found.fields, found.key, found.value) == ("not shown", "", None, None)
    assert problems[0].startswith("record 0: ")
    (found,), _, _ = read(tmp_path / "x.log", "orders")
    assert found.value == newer.value
