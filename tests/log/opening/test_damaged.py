"""log/opening/damaged.py, and who uses it: what a start takes out of a log is a torn tail, or kept, or not taken out at all."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ottla.log.config_def import LONG_MAX
from ottla.log.disk.files import OsDisk
from ottla.log.errors import StorageError
from ottla.log.management.manager import LogManager
from ottla.log.opening.damaged import Kind, examine
from tests.log.opening.damaged import SIZE, check, log_path, rig_of
from tests.log.support import NOW_MS, TOPIC_ID, Rig, batch, settings
from tests.memdisk import PowerCut


def flip(rig: Rig, base: int, position: int) -> None:
    """Changes one bit of a segment."""
    data = bytearray(rig.disk.read_bytes(log_path(rig, base)))
    data[position] ^= 1
    rig.disk.write_bytes(log_path(rig, base), bytes(data))


def kept(rig: Rig) -> dict[str, bytes]:
    return {name: rig.disk.read_bytes(f"{rig.path}/{name}") for name in rig.names() if ".damaged" in name}


# What counts as a torn tail

WHOLE = batch()
TAILS: dict[str, tuple[bytes, Kind, bool]] = {
    "zeros": (bytes(100_000), Kind.ZEROS, False),
    "a few bytes of a header": (WHOLE[:20], Kind.TORN, False),
    "half a batch": (WHOLE[:-30], Kind.TORN, False),
    "a batch but for its last byte": (batch(value=b"v" * 100 + b"\1")[:-1], Kind.TORN, False),
    "the begin of a header, in reserved room": (WHOLE[:20] + bytes(5000), Kind.TORN, False),
    "half a batch, in reserved room": (WHOLE[:-30] + bytes(5000), Kind.DOUBTFUL, False),
    "a batch with a wrong CRC": (WHOLE[:100] + b"!" + WHOLE[101:], Kind.DAMAGED, False),
    "a batch with a length that is too large": (WHOLE[:9] + b"\1" + WHOLE[10:], Kind.DAMAGED, False),
    "a batch with a length that is too small": (WHOLE[:11] + b"\x40" + WHOLE[12:], Kind.DAMAGED, False),
    "a batch with a wrong magic": (WHOLE[:16] + b"\7" + WHOLE[17:], Kind.DAMAGED, False),
    "no batch at all": (b"\xff" * 100, Kind.DAMAGED, False),
    "a sound batch behind half of one": (WHOLE[:-30] + WHOLE, Kind.DAMAGED, True),
    "a sound batch behind zeros": (bytes(500) + WHOLE, Kind.DAMAGED, True),
    "a sound batch behind one byte": (b"\xff" + WHOLE, Kind.DAMAGED, True),
    "a sound batch behind a length that is too large": (WHOLE[:9] + b"\1" + WHOLE[10:] + WHOLE, Kind.DAMAGED, True),
}


@pytest.mark.parametrize("name", TAILS)
def test_tails(name: str, tmp_path: Path) -> None:
    data, kind, goes_on = TAILS[name]
    (tmp_path / "x").write_bytes(WHOLE + data)
    found = examine(OsDisk().open(str(tmp_path / "x")), SIZE, SIZE + len(data))
    assert (found.kind, found.goes_on) == (kind, goes_on)
    assert found.end <= SIZE + len(data)
    if kind is not Kind.ZEROS:
        assert found.end >= SIZE + len(data.rstrip(b"\0"))


@pytest.mark.parametrize("tail", ["zeros", "half a batch", "a few bytes of a header"])
def test_a_torn_tail_leaves_nothing_behind(tail: str, caplog: pytest.LogCaptureFixture) -> None:
    rig = rig_of(6)
    rig.manager.close(clean=False)
    path = log_path(rig, 4)
    rig.disk.write_bytes(path, rig.disk.read_bytes(path) + TAILS[tail][0])
    rig.start()
    check(rig, 6)
    assert kept(rig) == {}
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


# What is kept


def test_what_is_cut_is_kept_and_a_line_says_where(caplog: pytest.LogCaptureFixture) -> None:
    rig = rig_of(11)
    rig.manager.close(clean=False)
    flip(rig, 0, SIZE + 70)
    whole = {base: rig.disk.read_bytes(log_path(rig, base)) for base in (0, 4, 8)}
    rig.start()
    check(rig, 1)
    names = [f"{0:020d}.log.{SIZE}.damaged", f"{4:020d}.log.0.damaged", f"{8:020d}.log.0.damaged"]
    assert kept(rig) == dict(zip(names, [whole[0][SIZE:], whole[4], whole[8]], strict=True))
    (line,) = (record.getMessage() for record in caplog.records if record.levelno == logging.ERROR)
    assert line.startswith(f"t-0 ends at offset 1 after damage; what came behind is kept in {rig.path}/{names[0]}, ")
    assert line.endswith("while no broker runs and nothing new was written, ottla log repair --restore puts it back")
    rig.restart(clean=False)
    rig.restart(clean=True)
    assert len(kept(rig)) == 3, "no start removes them"


def test_a_second_damage_at_the_same_place_has_a_file_of_its_own() -> None:
    rig = rig_of(2)
    for value in (b"one", b"two"):
        rig.manager.close(clean=False)
        flip(rig, 0, SIZE + 70)
        rig.start()
        rig.append(batch(value=value))
    rig.manager.close(clean=False)
    flip(rig, 0, SIZE + 70)
    rig.start()
    name = f"{0:020d}.log.{SIZE}.damaged"
    assert sorted(kept(rig)) == [name, f"{name}.1", f"{name}.2"]


def test_a_log_that_begins_again_because_of_its_checkpoint_is_kept() -> None:
    rig = rig_of(6)
    rig.manager.close()
    for name in ("log-start", "replication"):  # the tail is lost up to where both say that the log had come
        rig.disk.write_bytes(f"/data/{name}-offset-checkpoint", b"0\n1\nt 0 100\n")
    whole = {f"{base:020d}.log.0.damaged": rig.disk.read_bytes(log_path(rig, base)) for base in (0, 4)}
    rig.start()
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (100, 100)
    assert kept(rig) == whole


def test_a_start_may_be_cut_off_anywhere_and_nothing_is_lost() -> None:
    at_change = 0
    while True:
        rig = rig_of(11, flushed=11)
        rig.manager.close(clean=False)
        rig.disk.write_bytes("/data/recovery-point-offset-checkpoint", b"0\n1\nt 0 0\n")
        flip(rig, 0, SIZE + 70)
        before = b"".join(rig.disk.read_bytes(log_path(rig, base)) for base in (0, 4, 8))
        rig.memory.stop_after(at_change)
        try:
            rig.start()
        except PowerCut:
            rig.memory.crash(Random(at_change))
            rig.start()
            check_kept(rig, before)
            at_change += 1
            continue
        check_kept(rig, before)
        break
    assert at_change > 8


def check_kept(rig: Rig, before: bytes) -> None:
    assert rig.read() == [0]
    assert rig.disk.read_bytes(log_path(rig)) + b"".join(kept(rig).values()) == before


def test_a_full_disk_leaves_the_log_as_it_is() -> None:
    rig = rig_of(6)
    rig.manager.close(clean=False)
    flip(rig, 4, 70)
    before = rig.disk.read_bytes(log_path(rig, 4))
    rig.memory.fail("append", errno.ENOSPC, path=".damaged", written=10)
    with pytest.raises(StorageError, match="no room"):
        rig.start()
    rig.manager.close(clean=False)
    assert rig.disk.read_bytes(log_path(rig, 4)) == before
    assert kept(rig) == {}
    rig.start()
    assert kept(rig)


def test_all_that_is_kept_has_a_bound() -> None:
    rig = rig_of(6)
    rig.manager.create("u", 0, TOPIC_ID, rig.config).append_as_leader(batch(), leader_epoch=0)
    rig.disk.write_bytes(f"/data/u-0/{0:020d}.log.7.damaged.2", bytes(SIZE))
    rig.manager.close(clean=False)
    flip(rig, 4, 70)
    before = {name: rig.disk.read_bytes(f"{rig.path}/{name}") for name in rig.names(".log")}

    def start(max_bytes: int) -> LogManager:
        rig.manager = LogManager(rig.disk, ["/data"], lambda: NOW_MS, rig.config, random=Random(1), max_damaged_bytes=max_bytes)
        rig.manager.open_all()
        return rig.manager

    manager = start(3 * SIZE - 1)
    assert "ottla.damaged.files.max.bytes" in manager.unavailable["t", 0]
    assert {name: rig.disk.read_bytes(f"{rig.path}/{name}") for name in rig.names(".log")} == before
    manager.close(clean=False)
    assert start(3 * SIZE).unavailable == {}
    assert len(kept(rig)) == 1


# What was promised


def flushed_rig(*, flush_messages: int = 1) -> Rig:
    """Four segments of records that were all acknowledged, some of them long before the recovery point was saved."""
    rig = rig_of(14)
    rig.config = settings(segment_bytes=4 * SIZE, index_interval_bytes=SIZE, flush_messages=flush_messages)
    rig.manager.close(clean=False)
    return rig


DAMAGES: dict[str, Callable[[Rig], object]] = {
    "a bit": lambda rig: flip(rig, 0, SIZE + 70),
    "a length": lambda rig: flip(rig, 4, 8),
    "a bit of the very last batch": lambda rig: flip(rig, 12, SIZE + 70),
    "the length of the very last batch": lambda rig: flip(rig, 12, SIZE + 10),
    "the end of a segment": lambda rig: rig.disk.write_bytes(log_path(rig, 4), rig.disk.read_bytes(log_path(rig, 4))[:-SIZE]),
    "a segment": lambda rig: rig.disk.remove(log_path(rig, 4)),
    "a segment's content": lambda rig: rig.disk.write_bytes(log_path(rig, 4), b""),
}

GAPS = {"the end of a segment", "a segment", "a segment's content"}


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("flush_messages", [1, 1000])
def test_damage_to_what_flush_messages_promised_is_refused(name: str, flush_messages: int) -> None:
    rig = flushed_rig(flush_messages=flush_messages)
    DAMAGES[name](rig)
    before = {each: rig.disk.read_bytes(f"{rig.path}/{each}") for each in rig.names(".log")}
    for _ in range(2):
        with pytest.raises(StorageError, match=r"flushed before they are acknowledged|recovery point"):
            rig.start()
        assert {each: rig.disk.read_bytes(f"{rig.path}/{each}") for each in rig.names(".log")} == before
        rig.manager.checkpoint_pass()
        rig.manager.close(clean=False)
        for directory in ("/data", rig.path):
            rig.disk.sync_dir(directory)
        for each in before:
            rig.disk.open(f"{rig.path}/{each}").sync()
        if name not in GAPS:
            rig.memory.crash()  # damage stays damage, even if a power cut could explain it by now


@pytest.mark.parametrize("tail", ["zeros", "half a batch", "half a batch, in reserved room"])
def test_what_a_kill_leaves_is_cut_though_records_were_promised(tail: str) -> None:
    rig = flushed_rig()
    rig.disk.write_bytes(log_path(rig, 12), rig.disk.read_bytes(log_path(rig, 12)) + TAILS[tail][0])
    rig.start()
    check(rig, 14)


def test_after_a_power_cut_the_log_is_cut_and_what_came_behind_is_kept() -> None:
    """Appends that were under way may be there in any order, and nobody was promised them."""
    rig = flushed_rig()
    for base in (0, 4, 8, 12):
        rig.disk.open(log_path(rig, base)).sync()
    rig.disk.sync_dir(rig.path)
    rig.disk.sync_dir("/data")
    flip(rig, 8, 70)
    rig.memory.crash()
    rig.start()
    check(rig, 8)
    assert len(kept(rig)) == 2


def test_a_topic_without_a_promise_is_cut() -> None:
    rig = flushed_rig(flush_messages=LONG_MAX)
    flip(rig, 8, 70)
    rig.start()
    check(rig, 8)
    assert len(kept(rig)) == 2
