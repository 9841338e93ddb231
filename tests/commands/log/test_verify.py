"""`ottla log verify`: a sound directory is clean, damage of every kind is found and named, and nothing is changed."""

from __future__ import annotations

import os
import random
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c
from typer.testing import CliRunner

import ottla.testing
from ottla.commands.log.checks.directory import Checker
from ottla.log.disk.files import OsDisk
from ottla.server.program.app import app
from ottla.wire.batch import CRC_START, HEADER_SIZE
from tests.commands.log.damaged import findings, flip, run, segments, starts, write_log
from tests.log.support import Rig, batch, settings

_CHECKPOINT = "recovery-point-offset-checkpoint"


def content(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_a_clean_directory(data: Path) -> None:
    before = content(data)
    assert len(segments(data / "t-0")) > 2
    assert any(name.endswith(".txnindex") for name in before)
    for arguments in ([data], [data, "--deep"], [data / "t-0"], [segments(data / "t-0")[1], "--deep"], segments(data / "t-0")):
        assert run("verify", *arguments) == (0, "", "")
    assert content(data) == before


@pytest.mark.parametrize("batches", [0, 1])
def test_a_log_of_nothing_or_little(tmp_path: Path, batches: int) -> None:
    write_log(tmp_path, batches=batches)
    assert run("verify", tmp_path, "--deep") == (0, "", "")


def test_an_unclean_stop_is_a_note(tmp_path: Path) -> None:
    write_log(tmp_path, clean=False)
    code, out, errors = run("verify", tmp_path)
    assert (code, errors) == (0, "")
    assert out.startswith(f"{tmp_path}: note: the last stop was not clean")
    assert out.count("\n") == 1


def test_what_waits_to_be_removed_is_a_note(data: Path) -> None:
    (data / "t-0" / f"{0:020}.log.deleted").write_bytes(b"")
    (data / f"u-0.{'0' * 32}-delete").mkdir()
    assert [item["meaning"] for item in findings(data)] == ["note", "note"]


def first_log(data: Path) -> Path:
    return segments(data / "t-0")[0]


def last_log(data: Path) -> Path:
    return segments(data / "t-0")[-1]


def replace(path: Path, data: bytes) -> None:
    path.write_bytes(data)


DAMAGES: dict[str, tuple[Callable[[Path], object], str, str, str]] = {
    # name: what is done, the file in the finding, its meaning, its text
    "a record": (
        lambda d: flip(first_log(d), starts(first_log(d))[3] + 70),
        r"0{20}\.log",
        "corruption",
        "CRC .* does not match",
    ),
    "a header": (lambda d: flip(first_log(d), starts(first_log(d))[3] + 16), r"0{20}\.log", "corruption", "magic -3 where 2"),
    "the end of a segment": (
        lambda d: replace(first_log(d), first_log(d).read_bytes()[:-10]),
        r"0{20}\.log",
        "corruption",
        "nothing sound",
    ),
    "garbage behind the end": (
        lambda d: replace(last_log(d), last_log(d).read_bytes() + b"garbage"),
        r"\d{20}\.log",
        "torn tail",
        "7 bytes are not a batch header",
    ),
    "the synced end": (
        lambda d: replace(last_log(d), last_log(d).read_bytes()[:-10]),
        r"\d{20}\.log",
        "corruption",
        "below the recovery point",
    ),
    "a whole segment lost": (lambda d: last_log(d).unlink(), r"t-0", "corruption", "was synced up to"),
    "offsets twice": (
        lambda d: replace(first_log(d), first_log(d).read_bytes() + first_log(d).read_bytes()),
        r"0{20}\.log",
        "corruption",
        "offsets 0 to 1 where .* or more is expected",
    ),
    "no index": (lambda d: first_log(d).with_suffix(".index").unlink(), r"0{20}\.index", "rebuildable", "it is missing"),
    "an index of anything": (
        lambda d: replace(first_log(d).with_suffix(".index"), b"anything"),
        r"0{20}\.index",
        "rebuildable",
        "not at position|points to position",
    ),
    "half an entry": (
        lambda d: replace(first_log(d).with_suffix(".index"), first_log(d).with_suffix(".index").read_bytes()[:-3]),
        r"0{20}\.index",
        "rebuildable",
        "5 bytes that are not a whole entry",
    ),
    "an index into the middle of a batch": (
        lambda d: replace(first_log(d).with_suffix(".index"), struct.pack(">ii", 3, 17)),
        r"0{20}\.index",
        "rebuildable",
        "offset 3 is not at position 17",
    ),
    "an empty time index": (
        lambda d: replace(first_log(d).with_suffix(".timeindex"), b""),
        r"0{20}\.timeindex",
        "rebuildable",
        "greatest timestamp, .* is not in it",
    ),
    "another time": (
        lambda d: flip(first_log(d).with_suffix(".timeindex"), 7),
        r"0{20}\.timeindex",
        "rebuildable",
        "is not the greatest timestamp up to offset",
    ),
    "no transaction index": (
        lambda d: sorted((d / "t-0").glob("*.txnindex"))[0].unlink(),
        r"\d{20}\.txnindex",
        "rebuildable",
        "the aborted transaction of producer 8 .* is not in it",
    ),
    "a wrong transaction index": (
        lambda d: flip(sorted((d / "t-0").glob("*.txnindex"))[0], 9),
        r"\d{20}\.txnindex",
        "rebuildable",
        "is not in it",
    ),
    "a transaction index with more": (
        lambda d: replace(last_log(d).with_suffix(".txnindex"), struct.pack(">hqqqq", 0, 1, 2, 3, 4)),
        r"\d{20}\.txnindex",
        "rebuildable",
        "no marker at offset 3|is not in it",
    ),
    "a snapshot": (
        lambda d: flip(sorted((d / "t-0").glob("*.snapshot"))[0], 12),
        r"\d{20}\.snapshot",
        "rebuildable",
        "the CRC of the producer snapshot",
    ),
    "a snapshot of another log": (
        lambda d: replace(sorted((d / "t-0").glob("*.snapshot"))[0], sorted((d / "t-0").glob("*.snapshot"))[-1].read_bytes()),
        r"\d{20}\.snapshot",
        "rebuildable",
        "producer 7 has offset",
    ),
    "a snapshot beyond the end": (
        lambda d: replace(d / "t-0" / f"{9000:020}.snapshot", sorted((d / "t-0").glob("*.snapshot"))[0].read_bytes()),
        r"0+9000\.snapshot",
        "rebuildable",
        "beyond the log's end",
    ),
    "no epochs": (
        lambda d: (d / "t-0" / "leader-epoch-checkpoint").unlink(),
        "leader-epoch-checkpoint",
        "rebuildable",
        "has epoch 0, but the file says none",
    ),
    "wrong epochs": (
        lambda d: replace(d / "t-0" / "leader-epoch-checkpoint", b"0\n1\n0 0\n"),
        "leader-epoch-checkpoint",
        "rebuildable",
        "has epoch 1, but the file says epoch 0",
    ),
    "epochs of any bytes": (
        lambda d: replace(d / "t-0" / "leader-epoch-checkpoint", b"\xff\n"),
        "leader-epoch-checkpoint",
        "rebuildable",
        "",
    ),
    "an index without its log": (
        lambda d: replace(d / "t-0" / f"{9000:020}.index", b""),
        r"0+9000\.index",
        "leftover",
        "an index without its log",
    ),
    "a torn rewrite": (lambda d: replace(d / "t-0" / "x.tmp", b""), r".*\.tmp", "leftover", "left behind"),
    "half a compaction": (lambda d: replace(d / "t-0" / "0.log.cleaned", b""), r".*\.cleaned", "leftover", "left behind"),
    "an interrupted compaction": (lambda d: replace(d / "t-0" / f"{0:020}.log.swap", b""), r".*\.swap", "leftover", "compaction"),
    "a recovery point beyond the end": (
        lambda d: replace(d / _CHECKPOINT, b"0\n1\nt 0 9000\n"),
        "t-0",
        "corruption",
        "was synced up to 9000",
    ),
    "a start beyond the end": (
        lambda d: replace(d / "log-start-offset-checkpoint", b"0\n1\nt 0 9000\n"),
        "log-start-offset-checkpoint",
        "rebuildable",
        "before its start, 9000",
    ),
    "a high watermark beyond the end": (
        lambda d: replace(d / "replication-offset-checkpoint", b"0\n1\nt 0 9000\n"),
        "replication-offset-checkpoint",
        "rebuildable",
        "below its high watermark, 9000",
    ),
    "a line of no log": (
        lambda d: replace(d / "replication-offset-checkpoint", b"0\n1\nu 3 1\n"),
        "replication-offset-checkpoint",
        "rebuildable",
        "it names u-3",
    ),
    "a checkpoint of any bytes": (lambda d: replace(d / _CHECKPOINT, b"\xff\0"), _CHECKPOINT, "rebuildable", ""),
    "no meta.properties": (lambda d: (d / "meta.properties").unlink(), "meta.properties", "identity", "it is missing"),
    "another meta.properties": (
        lambda d: replace(d / "meta.properties", b"version=0\n"),
        "meta.properties",
        "identity",
        "version 0",
    ),
    "partition.metadata of any bytes": (
        lambda d: replace(d / "t-0" / "partition.metadata", b"x"),
        "partition.metadata",
        "identity",
        "is not readable",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found_and_named(data: Path, name: str) -> None:
    damage, file, meaning, text = DAMAGES[name]
    damage(data)
    before = content(data)
    found = findings(data)
    if name == "a whole segment lost":  # its snapshots and indexes are told as well
        found = [item for item in found if item["meaning"] == "corruption"]
    assert len(found) == 1, found
    assert re.fullmatch(file, Path(found[0]["file"]).name)
    assert found[0]["meaning"] == meaning
    assert re.search(text, found[0]["what"])
    assert content(data) == before


def test_where_the_damage_is(data: Path) -> None:
    place = starts(first_log(data))[4]
    flip(first_log(data), place + 70)
    assert findings(first_log(data))[0]["position"] == place
    code, out, errors = run("verify", data / "t-0")
    assert (code, errors) == (1, "ottla: 1 finding\n")
    assert out.startswith(f"{first_log(data)}: position {place}: corruption: offsets ")
    assert out.endswith("; restore it from a copy, or repair with --cut or --skip\n")


def test_what_lies_beyond_the_recovery_point_is_torn(tmp_path: Path) -> None:
    partition = write_log(tmp_path, clean=False)
    last = segments(partition)[-1]
    last.write_bytes(last.read_bytes()[:-5])
    (found,) = [item for item in findings(tmp_path) if item["meaning"] != "note"]
    assert (found["meaning"], found["remedy"]) == ("torn tail", "repair cuts it off")


def test_indexes_that_a_start_builds_anew_are_not_looked_at(tmp_path: Path) -> None:
    partition = write_log(tmp_path, clean=False)
    logs = segments(partition)
    logs[-1].with_suffix(".index").write_bytes(bytes(4096))
    logs[0].with_suffix(".index").write_bytes(b"wrong...")
    assert [Path(item["file"]).name for item in findings(tmp_path)] == [tmp_path.name, logs[0].with_suffix(".index").name]


def test_records_that_do_not_decode_are_found_by_a_deep_look(data: Path) -> None:
    log = first_log(data)
    content_of_log = bytearray(log.read_bytes())
    begin, end = starts(log)[2:4]
    content_of_log[begin + HEADER_SIZE : begin + HEADER_SIZE + 1] = b"\x7f"  # a record length that is none
    struct.pack_into(">I", content_of_log, begin + 17, crc32c(bytes(content_of_log[begin + CRC_START : end])))
    log.write_bytes(content_of_log)
    assert findings(data) == []
    (found,) = findings(data, "--deep")
    assert (found["position"], found["meaning"]) == (begin, "corruption")
    assert "the records cannot be read" in found["what"]


def test_what_a_deep_look_does_not_read_is_noted_and_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(settings(), OsDisk(), directory=str(tmp_path))
    rig.manager.format("cluster", 1)
    rig.append(batch(2000, value=bytes(1000), codec=4))
    rig.append(batch(5))
    rig.manager.close(True)
    assert findings(tmp_path, "--deep") == []
    for bound, words in ((1_000_000, "were not all checked: more than 1000000 bytes come out"), (500, "were not checked")):
        monkeypatch.setattr("ottla.commands.log.checks.segment.MAX_READ_BYTES", bound)
        found = findings(tmp_path, "--deep")
        assert {item["meaning"] for item in found} == {"note"}
        assert found[0]["position"] == 0
        assert words in found[0]["what"]


def test_two_directories_of_one_broker(data: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(data, tmp_path / "other"))
    found = findings(data, other)
    assert [item["what"] for item in found] == [f"{data} has the same directory.id", f"{data} holds the same partition"]
    text = (other / "meta.properties").read_text()
    (other / "meta.properties").write_text(text.replace("node.id=1", "node.id=2"))
    assert "it names node 2 of cluster cluster" in findings(data, other)[0]["what"]


@pytest.mark.parametrize("seed", range(6))
def test_any_bytes_at_all(data: Path, seed: int) -> None:
    """Whatever a file contains, the check ends, reports the file or finds it harmless, and changes nothing."""
    source = random.Random(seed)
    for path in sorted(file for file in data.rglob("*") if file.is_file() and file.name != ".lock"):
        kept = path.read_bytes()
        path.write_bytes(source.randbytes(source.choice((0, 1, 8, 34, 100, 5000))))
        before = content(data)
        checker = Checker([data], deep=True)
        checker.run()
        assert content(data) == before
        path.write_bytes(kept)


def test_damage_that_cannot_be_searched_is_no_torn_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A torn tail is cut off without asking; here something sound may follow."""
    write_log(tmp_path, clean=False)
    log = last_log(tmp_path)
    log.write_bytes(log.read_bytes() + log.read_bytes()[:HEADER_SIZE] * 2)
    (found,) = [item for item in findings(tmp_path) if item["meaning"] != "note"]
    assert found["remedy"] == "repair cuts it off"
    monkeypatch.setattr("ottla.log.opening.search._LEAST_BUDGET", -(1 << 40))
    (found,) = [item for item in findings(tmp_path) if item["meaning"] != "note"]
    assert "takes too long" in found["what"]
    assert "--cut" in found["remedy"]


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
def test_a_derived_file_that_is_far_too_large(data: Path, suffix: str) -> None:
    path = next(file for file in sorted((data / "t-0").iterdir()) if file.suffix == suffix)
    os.truncate(path, 1 << 40)
    (found,) = findings(data)
    assert (found["file"], found["meaning"]) == (str(path), "rebuildable")
    assert "too many for such a file" in found["what"]


def test_names_that_only_look_like_kafkas_are_a_note(data: Path) -> None:
    (data / "t-0" / ("\N{ARABIC-INDIC DIGIT ONE}" * 20 + ".log")).write_bytes(b"")
    (found,) = findings(data)
    assert (found["meaning"], found["what"]) == ("note", "not a file name that Kafka uses")


def test_a_running_broker_holds_its_directory(data: Path) -> None:
    lock = OsDisk().lock(str(data / ".lock"))
    for path in (data, data / "t-0", first_log(data)):
        code, _, errors = run("verify", path)
        assert code == 2
        assert "a broker is running" in " ".join(errors.split())
    assert run("verify", data, "--running")[0] == 0
    lock.release()
    assert run("verify", data)[0] == 0


def test_what_is_not_there(tmp_path: Path) -> None:
    assert run("verify", tmp_path / "nothing")[0] == 2


def test_against_the_metadata_log(tmp_path: Path) -> None:
    """It finds wrong topic ids, unknown topics, and partitions that should exist."""
    with ottla.testing.Broker(data_dir=tmp_path) as broker:
        made = CliRunner().invoke(
            app, ["topic", "create", "a", "b", "c", "--bootstrap", broker.bootstrap], catch_exceptions=False
        )
        assert made.exit_code == 0
    assert run("verify", tmp_path, "--deep") == (0, "", "")
    (tmp_path / "a-0" / "partition.metadata").write_bytes((tmp_path / "b-0" / "partition.metadata").read_bytes())
    (tmp_path / "b-0" / "partition.metadata").write_bytes(b"torn")
    (tmp_path / "c-0").rename(tmp_path / "d-0")
    found = {Path(item["file"]).relative_to(tmp_path).as_posix(): item for item in findings(tmp_path)}
    assert re.search("has topic id .*, the metadata log .*", found["a-0/partition.metadata"]["what"])
    assert found["b-0/partition.metadata"]["remedy"] == "repair rewrites it from the metadata log"
    assert found["c-0"]["what"] == "the metadata log places this partition here, but it is missing"
    assert "has no such topic" in found["d-0"]["what"]
    assert "it names c-0" in found["recovery-point-offset-checkpoint"]["what"]
    alone = tmp_path / "alone"
    shutil.copytree(tmp_path / "a-0", alone / "a-0")
    assert run("verify", alone / "a-0")[0] == 0
    assert run("verify", alone / "a-0", "--metadata-dir", tmp_path)[0] == 1


def test_what_a_broker_would_not_start_with_or_set_aside(tmp_path: Path) -> None:
    """A missing partition.metadata is a finding if there are records; a quorum-state whenever it is not a valid one."""
    data = tmp_path / "data"
    with ottla.testing.Broker(data_dir=data) as broker:
        for arguments in (["topic", "create", "full", "empty"], ["produce", "full", "--value", "x"]):
            done = CliRunner().invoke(app, [*arguments, "--bootstrap", broker.bootstrap], catch_exceptions=False)
            assert done.exit_code == 0
    for topic in ("full", "empty"):
        (data / f"{topic}-0" / "partition.metadata").unlink()
    (data / "__cluster_metadata-0" / "quorum-state").write_bytes(b"zz")
    found = {Path(item["file"]).relative_to(data).as_posix(): item for item in findings(data)}
    assert {file: item["meaning"] for file, item in found.items()} == {
        "full-0/partition.metadata": "identity",
        "__cluster_metadata-0/quorum-state": "identity",
    }
    assert run("repair", "--yes", data)[0] == 1
    assert [Path(item["file"]).name for item in findings(data)] == ["quorum-state"]


def test_what_is_no_data_directory(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert [item["what"][:20] for item in findings(tmp_path)] == ["not a data directory"]
    code, _, errors = run("verify", tmp_path / "notes.txt")
    assert code == 2
    assert "neither a directory nor named like a segment" in " ".join(errors.replace("│", " ").split())
