"""`ottla log repair`: what it repairs, what it leaves alone by default, what it keeps, and that no crash does harm."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ottla.testing
from ottla.commands.log.checks.directory import Checker
from ottla.commands.log.checks.findings import Remedy
from ottla.commands.log.repair import plan, run_checks
from ottla.commands.log.repairs.steps import Damage
from ottla.log.disk.files import Buffer, File, OsDisk, OsFile
from ottla.server.program.app import app
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import find_coordinator, offset_commit, offset_fetch
from ottla.wire.metadata_records import MetadataError
from ottla.wire.primitives import WireStruct
from tests import asking
from tests.commands.log.damaged import findings, flip, offsets, run, segments, starts
from tests.commands.log.test_verify import DAMAGES

_LEFT_ALONE = {  # what no repair can know
    "no meta.properties",
    "another meta.properties",
    "partition.metadata of any bytes",
    "an interrupted compaction",
}
_LOSES = {"a record", "a header", "the end of a segment", "the synced end", "offsets twice"}
_FOREVER = 1_000_000


def saved(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(path.rglob("*.damaged*"))}


def test_a_clean_directory_is_left_alone(data: Path) -> None:
    assert run("repair", "--yes", data) == (0, "", "")


@pytest.mark.parametrize("name", sorted(DAMAGES))
def test_what_verify_finds_is_repaired(data: Path, name: str) -> None:
    before = offsets(data / "t-0")
    DAMAGES[name][0](data)
    code, out, errors = run("repair", "--yes", data)
    if name in _LEFT_ALONE | _LOSES:
        assert code == 1
        assert errors.endswith(" left\n")
        return
    assert (code, errors) == (0, "")
    assert out
    assert findings(data) == [] or [item["meaning"] for item in findings(data)] == ["note"] * 2  # a side file, no clean stop
    if name != "a whole segment lost":
        assert offsets(data / "t-0") == before
    assert run("repair", "--yes", data) == (0, "", "")


@pytest.mark.parametrize("how", ["--cut", "--skip"])
@pytest.mark.parametrize("name", sorted(_LOSES))
def test_lost_batches_are_taken_out_as_the_user_says(data: Path, name: str, how: str) -> None:
    before = offsets(data / "t-0")
    DAMAGES[name][0](data)
    code, _, errors = run("repair", "--yes", how, data)
    assert (code, errors) == (0, "")
    after = offsets(data / "t-0")
    assert set(after) <= set(before)
    assert after == sorted(after)
    if how == "--cut" and name != "the synced end":
        assert after == before[: len(after)]
    elif name != "offsets twice":
        assert len(after) == len(before) - 2  # one batch
    assert saved(data)
    assert {item["meaning"] for item in findings(data)} == {"note"}
    assert run("repair", "--yes", how, data) == (0, "", "")


def test_copies_that_somebody_made_are_no_segments(data: Path) -> None:
    log = segments(data / "t-0")[0]
    copy = log.with_name(f"{log.stem}.copy.log")
    shutil.copy(log, copy)
    log.with_suffix(".index").unlink()
    log.with_suffix(".txnindex").unlink(missing_ok=True)
    assert run("repair", "--yes", data)[0] == 0
    assert [item["meaning"] for item in findings(data)] == ["note"]
    assert copy.read_bytes() == log.read_bytes()


def test_cut_and_skip_keep_what_they_take_out(data: Path, tmp_path: Path) -> None:
    logs = segments(data / "t-0")
    place = starts(logs[1])[2]
    flip(logs[1], place + 70)
    whole, later = logs[1].read_bytes(), {path.name: path.read_bytes() for path in logs[2:]}
    other = Path(shutil.copytree(data, tmp_path / "other"))
    assert run("repair", "--yes", "--cut", data)[0] == 0
    assert logs[1].read_bytes() == whole[:place]
    assert [path.name for path in segments(data / "t-0")] == [path.name for path in logs[:2]]
    expected = {f"{logs[1].name}.{place}.damaged": whole[place:]} | {f"{name}.0.damaged": found for name, found in later.items()}
    assert saved(data) == expected
    aside = tmp_path / "aside"
    aside.mkdir()
    assert run("repair", "--yes", "--skip", "--damaged-to", aside, other)[0] == 0
    (side,) = saved(aside).values()
    assert saved(other) == {}
    assert segments(other / "t-0")[1].read_bytes() == whole.replace(side, b"")
    assert [path.name for path in segments(other / "t-0")] == [path.name for path in logs]


def test_a_side_file_that_is_there_is_kept(data: Path) -> None:
    log = segments(data / "t-0")[-1]
    size = log.stat().st_size
    for tail in (b"one", b"two", b"one"):
        log.write_bytes(log.read_bytes() + tail)
        assert run("repair", "--yes", data)[0] == 0
        assert log.stat().st_size == size
    assert saved(data) == {f"{log.name}.{size}.damaged": b"one", f"{log.name}.{size}.damaged.1": b"two"}


def test_nothing_is_done_without_a_yes(data: Path) -> None:
    segments(data / "t-0")[0].with_suffix(".index").unlink()
    code, out, errors = run("repair", data)
    assert code == 2
    assert out == f"rebuild the indexes of {segments(data / 't-0')[0]}\n"
    assert "pass --yes to confirm" in " ".join(errors.replace("│", " ").split())
    assert len(findings(data)) == 1
    code, out, errors = run("repair", "--dry-run", "--json", data)
    assert (code, errors) == (1, "ottla: 1 finding; nothing was changed\n")
    assert "step" in json.loads(out.splitlines()[0])
    assert len(findings(data)) == 1


def test_a_damaged_partition_keeps_its_meaning(data: Path) -> None:
    """With another partition's torn tail cut and a checkpoint unreadable, the damage still counts as synced."""
    shutil.copytree(data / "t-0", data / "u-0")
    log = segments(data / "t-0")[0]
    flip(log, starts(log)[2] + 70)
    tail = segments(data / "u-0")[-1]
    tail.write_bytes(tail.read_bytes() + b"torn")
    (data / "recovery-point-offset-checkpoint").write_bytes(b"\xff")
    before = log.read_bytes()
    assert run("repair", "--yes", data)[0] == 1
    assert (data / ".kafka_cleanshutdown").exists()
    assert (data / "recovery-point-offset-checkpoint").read_bytes() == b"\xff"
    assert log.read_bytes() == before
    assert [item["meaning"] for item in findings(data / "t-0")].count("corruption") == 1
    assert [item["meaning"] for item in findings(data / "u-0")].count("torn tail") == 0


def test_wrong_usage(data: Path) -> None:
    assert run("repair", "--cut", "--skip", data)[0] == 2
    assert run("repair", segments(data / "t-0")[0])[0] == 2
    lock = OsDisk().lock(str(data / ".lock"))
    assert run("repair", "--yes", data)[0] == 2
    lock.release()


# A crash at every step


class Crash(Exception):
    """Raised where the power goes."""


class CountedFile(OsFile):
    """A file that asks the disk before every change. It does not sync: that takes half a minute, and no power is cut here."""

    tick: Callable[[], None]

    def append(self, parts: Sequence[Buffer]) -> int:
        self.tick()
        return super().append(parts)

    def truncate(self, size: int) -> None:
        self.tick()
        super().truncate(size)

    def sync(self) -> None:
        self.tick()


class CountedDisk(OsDisk):
    """A disk that crashes instead of performing operation number `limit`."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.file_type = type("File", (CountedFile,), {"tick": staticmethod(self.tick), "__slots__": ()})

    def tick(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash

    def open(self, path: str, create: bool = False) -> File:
        if create:
            self.tick()
        return super().open(path, create)

    def rename(self, old: str, new: str) -> None:
        self.tick()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self.tick()
        super().remove(path)

    def sync_dir(self, path: str) -> None:
        self.tick()

    def write_bytes(self, path: str, data: bytes, sync: bool = True) -> None:
        self.tick()
        super().write_bytes(path, data, sync=False)


def repair(disk: OsDisk, data: Path, damage: Damage) -> None:
    for step in plan(disk, run_checks([data], None), damage, None):
        step.run()


def state(data: Path) -> dict[str, Any]:
    """Returns all that counts after a repair: every file but the side files, and all bytes that were kept."""
    kept = sorted(saved(data).values())
    files = {str(path.relative_to(data)): path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file()}
    return {name: found for name, found in files.items() if ".damaged" not in name} | {"kept": kept}


@pytest.mark.parametrize("damage", [Damage.CUT, Damage.SKIP])
def test_a_crash_at_any_step_leaves_it_repairable(data: Path, tmp_path: Path, damage: Damage) -> None:
    logs = segments(data / "t-0")
    for log in logs[1:3]:
        flip(log, starts(log)[1] + 70)
    logs[0].with_suffix(".index").write_bytes(b"wrong")
    (data / "t-0" / "leader-epoch-checkpoint").write_bytes(b"\xff")
    (data / "log-start-offset-checkpoint").write_bytes(b"\xff")
    whole = Path(shutil.copytree(data, tmp_path / "whole"))
    repair(CountedDisk(_FOREVER), whole, damage)
    expected = state(whole)
    limit = 0
    while True:
        copy = Path(shutil.copytree(data, tmp_path / f"crash-{limit}"))
        try:
            repair(CountedDisk(limit), copy, damage)
        except Crash:
            repair(CountedDisk(_FOREVER), copy, damage)
            checker = Checker([copy], deep=True)
            checker.run()
            assert {finding.meaning.value for finding in checker.found} == {"note"}, (limit, checker.found)
            found = state(copy)
            assert found["kept"] == expected["kept"], limit
            assert {name: found[name] for name in found if name.endswith(".log")} == {
                name: expected[name] for name in expected if name.endswith(".log")
            }
            shutil.rmtree(copy)
            limit += 1
        else:
            assert state(copy) == expected
            break
    assert limit > 20


# State of a broker


def ask(broker: ottla.testing.Broker, request: WireStruct) -> Any:
    port = int(broker.bootstrap.rpartition(":")[2])
    module: Any = sys.modules[type(request).__module__]
    return asyncio.run(asking.ask(port, module, 8, request))


def committed(broker: ottla.testing.Broker) -> tuple[int, int]:
    """Returns the error and the offset of group g; asks for its coordinator first, as a client does."""
    group = offset_fetch.OffsetFetchRequestGroup("g", topics=[offset_fetch.OffsetFetchRequestTopics("t", partition_indexes=[0])])
    (found,) = ask(broker, offset_fetch.OffsetFetchRequest(groups=[group])).groups
    return (found.error_code, -1) if found.error_code else (0, found.topics[0].partitions[0].committed_offset)


def commit(broker: ottla.testing.Broker, group: str, offset: int) -> None:
    """Commits an offset; the group's coordinator may still have to come up."""
    topic = offset_commit.OffsetCommitRequestTopic("t", partitions=[offset_commit.OffsetCommitRequestPartition(0, offset)])
    for _ in range(100):
        asking_for = find_coordinator.FindCoordinatorRequest(coordinator_keys=[group])
        (found,) = asyncio.run(asking.ask(int(broker.bootstrap.rpartition(":")[2]), find_coordinator, 4, asking_for)).coordinators
        if found.error_code == 0:
            break
    (answered,) = ask(broker, offset_commit.OffsetCommitRequest(group, topics=[topic])).topics
    assert answered.partitions[0].error_code == 0


def test_a_damaged_offset_is_refused_and_after_a_repair_the_one_before_counts(tmp_path: Path) -> None:
    with ottla.testing.Broker(data_dir=tmp_path) as broker:
        made = CliRunner().invoke(app, ["topic", "create", "t", "--bootstrap", broker.bootstrap], catch_exceptions=False)
        assert made.exit_code == 0
        commit(broker, "g", 1042)
        commit(broker, "g", 1049)
        commit(broker, "other", 1)
    log = tmp_path / "__consumer_offsets-0" / "00000000000000000000.log"
    data = log.read_bytes()
    at = data.rindex((1049).to_bytes(8, "big"))
    log.write_bytes(data[: at + 7] + bytes([data[at + 7] ^ 7]) + data[at + 8 :])
    with ottla.testing.Broker(data_dir=tmp_path) as broker:
        assert committed(broker) == (ErrorCode.NOT_COORDINATOR, -1)
    assert run("repair", "--yes", "--skip", log.parent)[0] == 0
    with ottla.testing.Broker(data_dir=tmp_path) as broker:
        assert committed(broker) == (0, 1042)


def test_a_topic_whose_creation_is_damaged_is_refused_and_after_a_repair_it_is_set_aside(tmp_path: Path) -> None:
    with ottla.testing.Broker(data_dir=tmp_path) as broker:
        for topic in ("first", "second"):
            made = CliRunner().invoke(app, ["topic", "create", topic, "--bootstrap", broker.bootstrap], catch_exceptions=False)
            assert made.exit_code == 0
    (log,) = (tmp_path / "__cluster_metadata-0").glob("*.log")
    flip(log, log.read_bytes().index(b"first"))
    with pytest.raises(MetadataError, match="ottla log repair --skip"):
        ottla.testing.Broker(data_dir=tmp_path).start()
    assert run("repair", "--yes", "--skip", log.parent)[0] == 0
    with ottla.testing.Broker(data_dir=tmp_path) as broker:
        listed = CliRunner().invoke(app, ["topic", "list", "--json", "--bootstrap", broker.bootstrap], catch_exceptions=False)
        assert [row["topic"] for row in json.loads(listed.stdout)] == ["second"]
    assert len(list(tmp_path.glob("first-0.*-stray"))) == 1
    with ottla.testing.Broker(data_dir=tmp_path):
        assert (tmp_path / "second-0").exists()


def test_a_damaged_snapshot_of_the_metadata_is_set_aside_if_others_hold_the_same(tmp_path: Path) -> None:
    with ottla.testing.Broker(data_dir=tmp_path) as broker:
        made = CliRunner().invoke(app, ["topic", "create", "t", "--bootstrap", broker.bootstrap], catch_exceptions=False)
        assert made.exit_code == 0
    metadata = tmp_path / "__cluster_metadata-0"
    (oldest,) = metadata.glob("*.checkpoint")
    newest = metadata / "00000000000000000002-0000000001.checkpoint"
    shutil.copy(oldest, newest)
    flip(newest, newest.stat().st_size // 2)
    (found,) = [item for item in findings(tmp_path) if item["meaning"] == "corruption"]
    assert (found["file"], found["remedy"]) == (str(newest), str(Remedy.ASIDE))
    assert run("repair", "--yes", tmp_path)[:2] == (0, f"rename {newest} to {newest.name}.damaged\n")
    assert not newest.exists()
    with ottla.testing.Broker(data_dir=tmp_path) as broker:
        listed = CliRunner().invoke(app, ["topic", "list", "--json", "--bootstrap", broker.bootstrap], catch_exceptions=False)
        assert [row["topic"] for row in json.loads(listed.stdout)] == ["t"]
    flip(oldest, oldest.stat().st_size // 2)
    (found,) = [item for item in findings(tmp_path) if item["meaning"] == "corruption"]
    assert found["remedy"] == str(Remedy.COPY)
