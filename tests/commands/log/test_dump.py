"""`ottla log dump`: the content of sound files, the reports about damaged ones, and that no bytes can stop it."""

from __future__ import annotations

import json
import os
import random
import struct
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ottla.commands.log.command import topic_of
from ottla.commands.log.dump.schemas import Schema, decoder_of
from ottla.commands.log.dump.segment import Item, Problem, SegmentDump
from ottla.commands.log.files import open_to_read
from ottla.log.disk.checkpoint import encode_offsets
from ottla.log.index import OffsetIndex, TimeIndex
from ottla.log.producers import ProducerStates
from ottla.server.group.records import encode_batch, group_tombstone, offset_tombstone
from ottla.server.metadata.image import BROKER, TOPIC
from ottla.server.program.app import app
from ottla.wire.batch import read_header
from ottla.wire.messages.internal import transaction_log_key, transaction_log_value
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.internal.transaction_log_key import TransactionLogKey
from ottla.wire.messages.internal.transaction_log_value import TransactionLogValue
from ottla.wire.messages.internal.user_scram_credential_record import UserScramCredentialRecord
from ottla.wire.metadata_records import build_records, encode_value
from ottla.wire.primitives import Parts, WireStruct
from ottla.wire.records import Record, build_batch
from tests.log.support import NOW_MS, batch, marker

NAME = "00000000000000000000.log"


def numbered(count: int, *, value: bytes = b"v" * 100) -> list[bytes]:
    """Returns `count` batches of two records each, with consecutive offsets."""
    return [build_batch([Record(0, NOW_MS, b"k", value)] * 2, base_offset=2 * number) for number in range(count)]


def run(*arguments: str | Path) -> tuple[int, str, str]:
    ran = CliRunner().invoke(app, ["log", "dump", *map(str, arguments)], catch_exceptions=False)
    return ran.exit_code, ran.stdout, ran.stderr


def items(*arguments: str | Path) -> list[Any]:
    code, out, errors = run(*arguments, "--json")
    assert (code, errors) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def problems(path: Path, data: bytes) -> list[tuple[int, str]]:
    """Returns the problems that are found in a segment of these bytes."""
    path.write_bytes(data)
    return [(found.position, found.text) for found in SegmentDump(open_to_read(path), records=True) if isinstance(found, Problem)]


# Segments


def test_batches_and_records(tmp_path: Path) -> None:
    header = [("h", b"1"), ("h", None), ("n", b"\xff")]
    plain = build_batch([Record(0, NOW_MS, b"a b", None, header), Record(0, NOW_MS + 1, None, b"")], codec=1)
    (tmp_path / NAME).write_bytes(plain + build_batch([Record(0, NOW_MS, b"k", b"v")], base_offset=2))
    code, out, errors = run(tmp_path, "-r")
    assert (code, errors) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"file path={tmp_path / NAME} size={(tmp_path / NAME).stat().st_size}"
    assert lines[1].startswith(
        f"  batch position=0 size={len(plain)} base_offset=0 last_offset=1 records=2 codec=gzip timestamp_type="
    )
    assert lines[1].endswith(" base_sequence=-1 last_sequence=-1 flags=- crc=ok")
    shown = '    record offset=0 timestamp=2023-11-14T22:13:20.000Z key="a b" value=- headers='
    assert lines[2] == shown + '[["h", "1"], ["h", null], ["n", {"base64": "/w=="}]]'
    assert lines[3] == '    record offset=1 timestamp=2023-11-14T22:13:20.001Z key=- value=""'
    assert [item["type"] for item in items(tmp_path)] == ["file", "batch", "batch"]


def test_markers_and_flags(tmp_path: Path) -> None:
    sent = batch(producer=(7, 1, 5), transactional=True)
    (tmp_path / NAME).write_bytes(sent + build_of(marker(7, 1, commit=False, coordinator_epoch=3), 1))
    found = items(tmp_path, "--records")
    assert found[1]["flags"] == ["transactional"]
    assert (found[1]["producer_id"], found[1]["producer_epoch"], found[1]["base_sequence"]) == (7, 1, 5)
    assert found[3]["flags"] == ["transactional", "control"]
    assert (found[4]["control"], found[4]["value"]) == ("ABORT", {"EndTxnMarker": {"coordinator_epoch": 3}})


def test_sequences_of_a_producer(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(batch(3, producer=(7, 1, 2**31 - 2)))
    found = items(tmp_path, "--records")
    assert (found[1]["base_sequence"], found[1]["last_sequence"]) == (2**31 - 2, 0)
    assert [item["sequence"] for item in found[2:]] == [2**31 - 2, 2**31 - 1, 0]


def test_only_keys_and_values(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(build_batch([Record(0, NOW_MS, b"k", b"v", [("h", b"1")])]))
    assert run(tmp_path, "--skip-record-metadata")[1].splitlines()[-1] == "    record key=k value=v"


@pytest.mark.parametrize(("whole", "more", "batches"), [(0, 0, 0), (0, 1, 0), (2, -1, 1), (2, 0, 2), (9, 0, 3)])
def test_the_first_bytes_of_a_segment(tmp_path: Path, whole: int, more: int, batches: int) -> None:
    data = numbered(3)
    (tmp_path / NAME).write_bytes(b"".join(data))
    limit = whole * len(data[0]) + more
    assert sum(item["type"] == "batch" for item in items(tmp_path, "--max-bytes", str(limit))) == batches


@pytest.mark.parametrize(
    ("form", "data", "shown"),
    [
        ("text", b"v", "v"),
        ("hex", b"\x01\xff", {"hex": "01ff"}),
        ("base64", b"\x01\xff", {"base64": "Af8="}),
        ("short", b"\xff\xfe", -2),
        ("integer", b"\0\0\1\0", 256),
        ("long", b"\0" * 7 + b"\7", 7),
        ("float", b"\x3f\x80\0\0", 1.0),
        ("double", b"\x3f\xf0" + b"\0" * 6, 1.0),
        ("boolean", b"\1", True),
    ],
)
def test_keys_and_values_in_other_forms(tmp_path: Path, form: str, data: bytes, shown: Any) -> None:
    (tmp_path / NAME).write_bytes(build_batch([Record(0, NOW_MS, data, None), Record(0, NOW_MS, b"k", data)]))
    first, second = items(tmp_path, "--records", "--value-decoder", form)[2:]
    assert (first["value"], second["key"], second["value"]) == (None, "k", shown)
    (tmp_path / NAME).write_bytes(build_batch([Record(0, NOW_MS, data, None)]))
    assert items(tmp_path, "--key-decoder", form, "--records")[2]["key"] == shown


def test_bytes_that_are_no_such_number(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(build_batch([Record(0, NOW_MS, b"k", b"four")]))
    code, out, errors = run(tmp_path, "--value-decoder", "long")
    assert (code, "value=four" in out) == (1, True)
    assert "record 0: a value of 4 bytes is not of type long" in errors


def test_indexes_only_where_they_are_wrong(tmp_path: Path) -> None:
    index = tmp_path / f"{0:020}.index"
    index.write_bytes(struct.pack(">iiii", 1, 0, 1, 5))
    assert [item["type"] for item in items(index, "--index-sanity-check")] == ["file", "sanity"]
    code, out, errors = run(index, "--verify-index-only")
    assert (code, out.count("entry")) == (1, 0)
    assert "offset 1 at 5 is out of order" in errors
    index.write_bytes(struct.pack(">iiii", 1, 0, -1, 5) + b"abc")
    errors = run(index, "--index-sanity-check")[2]
    assert "position 8: corrupt: the last entry lies before the first" in errors
    assert "position 16: torn: 3 bytes" in errors


def build_of(data: bytes, base_offset: int) -> bytes:
    """Returns the batch with another base offset, which its CRC does not cover."""
    return struct.pack(">q", base_offset) + data[8:]


def test_offsets_that_go_back(tmp_path: Path) -> None:
    first, second, third = numbered(3)
    assert problems(tmp_path / "a.log", first + third + second) == [
        (len(first) + len(third), "offset 2 where 6 or more is expected")
    ]
    (tmp_path / "00000000000000000005.log").write_bytes(first)
    code, _, errors = run(tmp_path / "00000000000000000005.log")
    assert code == 1
    assert "position 0: offset 0 where 5 or more is expected\nottla: 1 problem found\n" in errors


def test_a_wrong_crc(tmp_path: Path) -> None:
    first, second, third = numbered(3)
    damaged = bytearray(second)
    damaged[-1] ^= 1
    ((position, text),) = problems(tmp_path / "a.log", first + damaged + third)
    assert position == len(first)
    crc = f"{read_header(second).crc:#010x}"
    assert text.startswith(f"corrupt: offsets 2 to 3: CRC {crc} does not match the bytes, which give 0x")
    assert "problem" in run(tmp_path / "a.log", "--json")[1]


@pytest.mark.parametrize(("at", "value"), [(8, 0x7F), (11, 0), (16, 3), (16, 1)])
def test_damage_in_a_header_and_sound_batches_behind(tmp_path: Path, at: int, value: int) -> None:
    """The walk continues where batches are sound again, even if the damaged length led it astray."""
    first, second, third = numbered(3)
    damaged = bytearray(second)
    damaged[at] = value
    (tmp_path / "a.log").write_bytes(first + damaged + third)
    found = list(SegmentDump(open_to_read(tmp_path / "a.log")))
    sound = [one.fields["base_offset"] for one in found if isinstance(one, Item) and one.fields["crc"] == "ok"]
    assert sound == [0, 4]
    wrong = [one for one in found if isinstance(one, Problem)]
    assert wrong[0].position == len(first)
    assert any(f"the next sound batch is at position {len(first) + len(second)}" in one.text for one in wrong)


def test_a_damaged_length_that_swallows_the_next_batch(tmp_path: Path) -> None:
    first, second, third = numbered(3)
    longer = bytearray(second)
    longer[8:12] = struct.pack(">i", len(second) - 12 + len(third) - 20)
    (tmp_path / "a.log").write_bytes(first + longer + third)
    found = list(SegmentDump(open_to_read(tmp_path / "a.log")))
    assert [one.fields["base_offset"] for one in found if isinstance(one, Item)] == [0, 2, 4]


@pytest.mark.parametrize("left", [1, 60, 61, 150])
def test_a_torn_tail(tmp_path: Path, left: int) -> None:
    first, second = numbered(2)
    ((position, text),) = problems(tmp_path / "a.log", first + second[:left])
    assert position == len(first)
    assert text.startswith("torn: ")
    assert f"{left} bytes" in text


def test_zeros_behind(tmp_path: Path) -> None:
    (first,) = numbered(1)
    wrong = [(len(first), "torn: 3000000 bytes of zeros to the end, never written or lost in a crash")]
    assert problems(tmp_path / "a.log", first + bytes(3_000_000)) == wrong


def test_records_that_do_not_decode(tmp_path: Path) -> None:
    """The CRC is right, but what it covers is not, as after a client's bug."""
    from ottla.wire.batch import restamp

    (sound,) = numbered(1)
    header = read_header(sound)
    for attributes, section, words in (
        (0, b"\x7f\xff\xff", "records cannot be read"),
        (4, b"no zstd", "cannot be decompressed"),
        (5, b"", "cannot be decompressed"),
        (0, sound[61:-110], "records cannot be read"),
    ):
        made = restamp(header, section, attributes=attributes, max_timestamp=NOW_MS) + section
        ((_, text),) = problems(tmp_path / "a.log", made)
        assert words in text


def test_records_above_the_bound_are_not_shown_and_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.commands.log.dump.segment.MAX_READ_BYTES", 1_000_000)
    large = build_batch([Record(0, NOW_MS, None, bytes(1000))] * 3000, base_offset=7, codec=4)
    (tmp_path / "a.log").write_bytes(large)
    found = list(SegmentDump(open_to_read(tmp_path / "a.log"), records=True))
    assert all(isinstance(one, Item) for one in found)
    shown = [one.fields["offset"] for one in found if isinstance(one, Item) and one.kind == "record"]
    assert shown == [*range(7, 7 + len(shown))]
    assert 500 < len(shown) < 1000
    last = found[-1]
    assert isinstance(last, Item)
    assert (last.kind, last.fields["position"]) == ("skipped", 0)
    assert last.fields["reason"].startswith(f"records from offset {7 + len(shown)} on are not shown: ")


def test_any_bytes_at_all(tmp_path: Path) -> None:
    """Sound segments with holes and noise, as files of every kind: it ends, with 0 or 1."""
    chance = random.Random(4)
    sound = b"".join(numbered(5)) + encode_batch([group_tombstone("g"), offset_tombstone("g", "t", 0)], NOW_MS)
    names = ["leader-epoch-checkpoint", "replication-offset-checkpoint", "meta.properties", "quorum-state", "partition.metadata"]
    names += [f"{0:020}.{kind}" for kind in ("log", "index", "timeindex", "txnindex", "snapshot")] + [
        f"{0:020}-{0:010}.checkpoint"
    ]
    for _ in range(60):
        data = bytearray(sound if chance.random() < 0.7 else chance.randbytes(chance.randrange(200)))
        for _ in range(chance.randrange(8)):
            if data:
                at = chance.randrange(len(data))
                data[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        for name in names:
            (tmp_path / name).write_bytes(data)
        code, _, errors = run(tmp_path, "--decode", chance.choice(list(Schema)), *(["--json"] if chance.random() < 0.5 else []))
        assert code == (1 if errors else 0)


@pytest.mark.parametrize("fill", [b"\x02", b"\x00\x02", b"\x02\x00\x00\x00\x00\x00\x00"])
def test_what_looks_like_magics_everywhere(tmp_path: Path, fill: bytes) -> None:
    """The search for the next sound batch is bounded."""
    ((position, _),) = problems(tmp_path / "a.log", fill * (2_000_000 // len(fill)))
    assert position == 0


def test_memory_is_bounded(tmp_path: Path) -> None:
    """A segment of 200 MiB, most of it one damaged batch, is never read as a whole."""
    size = 200 * 1024 * 1024
    first = numbered(1)[0]
    huge = bytearray(numbered(1)[0])
    huge[8:12] = struct.pack(">i", size - 12)
    path = tmp_path / "a.log"
    with path.open("wb") as file:
        file.write(first + huge)
        file.truncate(len(first) + size)
    tracemalloc.start()
    try:
        found = list(SegmentDump(open_to_read(path), records=True))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [type(one) for one in found[-2:]] == [Item, Problem]
    assert peak < 16 * 1024 * 1024


# Schemas


def test_groups_of_a_directory_by_its_name(tmp_path: Path) -> None:
    directory = tmp_path / "__consumer_offsets-7"
    directory.mkdir()
    (directory / NAME).write_bytes(encode_batch([group_tombstone("g"), offset_tombstone("g", "t", 3)], NOW_MS))
    found = [item for item in items(directory, "-r") if item["type"] == "record"]
    assert [item["key"] for item in found] == [
        {"GroupMetadataKey": {"group": "g"}},
        {"OffsetCommitKey": {"group": "g", "topic": "t", "partition": 3}},
    ]
    assert [item["value"] for item in found] == [None, None]
    assert items(directory, "--decode", "auto") == items(directory, "-r")
    raw = [item for item in items(directory, "-r", "--decode", "none") if item["type"] == "record"]
    assert raw[0]["key"] == "\x00\x02\x00\x01g"


def transaction(transactional_id: str, version: int) -> Record:
    key: Parts = [b"\x00\x00"]
    transaction_log_key.ENCODE[0](TransactionLogKey(transactional_id), key)
    value: Parts = [struct.pack(">h", version)]
    transaction_log_value.ENCODE[version](TransactionLogValue(producer_id=9, transaction_status=2), value)
    return Record(0, NOW_MS, b"".join(key), b"".join(value))


@pytest.mark.parametrize("version", [0, 1])
def test_transactions(version: int) -> None:
    decode = decoder_of(Schema.AUTO, "__transaction_state")
    assert decode is not None
    found = decode(transaction("tx", version))
    assert found["key"] == {"TransactionLogKey": {"transactional_id": "tx"}}
    assert found["value"]["TransactionLogValue"]["producer_id"] == 9


def test_passwords_of_the_metadata_log_are_shown_only_if_wanted(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    settings = [
        (BROKER, "listener.name.tls.ssl.keystore.password"),
        (BROKER, "plugin.token"),
        (BROKER, "log.retention.ms"),
        (TOPIC, "retention.ms"),
    ]
    metadata: list[WireStruct] = [ConfigRecord(kind, "r", name, "hunter2") for kind, name in settings]
    metadata.append(ConfigRecord(BROKER, "r", "plugin.token", None))
    metadata.append(UserScramCredentialRecord("me", 1, b"hunter2", b"hunter2", b"hunter2", 4096))
    (directory / NAME).write_bytes(build_records(metadata, 30, NOW_MS))

    def values(*arguments: str) -> list[Any]:
        found = items(directory, "-r", *arguments)
        return [field for item in found if item["type"] == "record" for field in item["value"].values()]

    hidden, shown = values(), values("--show-secrets")
    assert [fields["value"] for fields in hidden[:-1]] == ["(secret)", "(secret)", "hunter2", "hunter2", None]
    assert [fields["value"] for fields in shown[:-1]] == ["hunter2"] * 4 + [None]
    scram = {"name": "me", "mechanism": 1, "iterations": 4096}
    assert hidden[-1] == scram | dict.fromkeys(("salt", "stored_key", "server_key"), "(secret)")
    assert shown[-1] == scram | dict.fromkeys(("salt", "stored_key", "server_key"), "hunter2")


def test_records_that_follow_no_schema_are_shown_raw(tmp_path: Path) -> None:
    records = [Record(0, NOW_MS, key, value) for key, value in ((None, b"v"), (b"\x00\x63", b""), (b"\x00\x01", b"x"))]
    (tmp_path / NAME).write_bytes(build_batch(records))
    code, out, errors = run(tmp_path, "--decode", "offsets", "--json")
    assert code == 1
    assert [item["value"] for item in map(json.loads, out.splitlines()) if item["type"] == "record"] == ["v", "", "x"]
    for words in ("it has no key", "key type 99 is not known", "do not follow their schema", "3 problems found"):
        assert words in errors


@pytest.mark.parametrize(
    ("directory", "topic"),
    [("a-b-12", "a-b"), ("t-0." + "0" * 32 + "-delete", "t"), ("t", None), ("t-x", None)],
)
def test_a_topic_by_its_directory(tmp_path: Path, directory: str, topic: str | None) -> None:
    assert topic_of(tmp_path / directory / NAME) == topic


# The files beside


def test_indexes(tmp_path: Path) -> None:
    first, second = numbered(2)
    (tmp_path / NAME).write_bytes(first + second)
    offsets, times = OffsetIndex(0, 1024), TimeIndex(0, 1024)
    offsets.append(1, 0)
    offsets.append(3, len(first))
    times.append_if_later(NOW_MS, 1)
    (tmp_path / NAME).with_suffix(".index").write_bytes(offsets.encode())
    (tmp_path / NAME).with_suffix(".timeindex").write_bytes(times.encode() + bytes(24))
    found = items(tmp_path)
    entries = [item for item in found if item["type"] == "entry"]
    assert [(item["offset"], item.get("position"), item.get("timestamp")) for item in entries] == [
        (1, 0, None),
        (3, len(first), None),
        (1, None, NOW_MS),
    ]
    assert [item["bytes"] for item in found if item["type"] == "preallocated"] == [24]


def index_problems(path: Path, entries: Iterable[tuple[int, int]], tail: bytes = b"") -> str:
    path.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries) + tail)
    code, _, errors = run(path)
    assert code == 1
    return errors


def test_wrong_indexes(tmp_path: Path) -> None:
    first, second = numbered(2)
    (tmp_path / NAME).write_bytes(first + second)
    index = (tmp_path / NAME).with_suffix(".index")
    assert "position 0: corrupt: offset 1 at 7 of the segment: no batch with that offset begins there" in index_problems(
        index, [(1, 7)]
    )
    assert "position 0: corrupt: offset 1 at 100000 of the segment: the segment has" in index_problems(index, [(1, 100_000)])
    assert "position 8: corrupt: offset 1 at 0 is out of order" in index_problems(index, [(1, 0), (1, 0)])
    assert "position 0: corrupt: offset -1 at 0 is out of order" in index_problems(index, [(-1, 0)])
    assert "position 8: torn: 3 bytes that are not a whole entry of 8" in index_problems(index, [(1, 0)], b"abc")
    times = index.with_suffix(".timeindex")
    times.write_bytes(struct.pack(">qiqi", NOW_MS, 1, NOW_MS - 1, 2))
    assert f"position 12: corrupt: timestamp {NOW_MS - 1} at offset 2 is out of order" in run(times)[2]


def test_snapshots_and_checkpoints(tmp_path: Path) -> None:
    states = ProducerStates()
    states.update(read_header(batch(2, producer=(8, 3, 10))), 20)
    (tmp_path / f"{22:020}.snapshot").write_bytes(states.snapshot_bytes())
    (tmp_path / "replication-offset-checkpoint").write_bytes(encode_offsets({("t", 1): 5}))
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"0\n1\n4 100\n")
    (tmp_path / f"{0:020}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 8, 1, 2, 3))
    (tmp_path / "quorum-state").write_text('{"leaderId": 1, "data_version": 1}')
    (tmp_path / "partition.metadata").write_text("version: 0\ntopic_id: abc")
    found = {item["type"] + "/" + str(item.get("name", "")): item for item in items(tmp_path)}
    producer = found["producer/"]
    assert (producer["producer_id"], producer["producer_epoch"], producer["last_sequence"], producer["last_offset"]) == (
        8,
        3,
        11,
        21,
    )
    assert (found["checkpoint/"]["topic"], found["checkpoint/"]["partition"], found["checkpoint/"]["offset"]) == ("t", 1, 5)
    assert (found["epoch/"]["epoch"], found["epoch/"]["start_offset"]) == (4, 100)
    aborted = found["aborted_transaction/"]
    assert [aborted[name] for name in ("producer_id", "first_offset", "last_offset", "last_stable_offset")] == [8, 1, 2, 3]
    assert found["value/leaderId"]["value"] == 1
    assert found["value/topic_id"]["value"] == "abc"


def test_a_damaged_snapshot(tmp_path: Path) -> None:
    path = tmp_path / f"{22:020}.snapshot"
    data = bytearray(ProducerStates().snapshot_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert (
        run(path)[2] == f"{path}: position 0: corrupt: the CRC of the producer snapshot does not match\nottla: 1 problem found\n"
    )


def test_a_file_that_is_far_too_large(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.snapshot"
    path.touch()
    os.truncate(path, 1 << 40)
    code, _, errors = run(path)
    assert code == 1
    assert "too many for such a file" in errors


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    os.mkfifo(tmp_path / "pipe.log")
    os.mkfifo(tmp_path / f"{0:020}.snapshot")
    for name, words in (
        ("none.log", "No such file or directory"),
        ("notes.txt", "not a file name that Kafka uses"),
        ("pipe.log", "not a regular file"),
        (f"{0:020}.snapshot", "not a regular file"),
    ):
        code, _, errors = run(tmp_path / name)
        assert (code, errors) == (1, f"ottla: {tmp_path / name}: {words}\n")
    (tmp_path / "empty").mkdir()
    assert "no data files in this directory" in run(tmp_path / "empty")[2]


def test_where_nobody_says_which_settings_are_secrets_all_of_brokers_are() -> None:
    value = encode_value(ConfigRecord(BROKER, "r", "log.retention.ms", "5"), 30)
    of_topic = encode_value(ConfigRecord(TOPIC, "r", "retention.ms", "5"), 30)
    decode, knowing = (
        decoder_of(Schema.METADATA, None),
        decoder_of(Schema.METADATA, None, lambda name: name != "log.retention.ms"),
    )
    assert decode is not None
    assert knowing is not None
    assert decode(Record(0, 0, None, value))["value"]["ConfigRecord"]["value"] == "(secret)"
    assert decode(Record(0, 0, None, of_topic))["value"]["ConfigRecord"]["value"] == "5"
    assert knowing(Record(0, 0, None, value))["value"]["ConfigRecord"]["value"] == "5"
