"""Tests of what a broker makes of a disk that a test breaks, and that the disk is as it was once it is whole again."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ottla.log.disk.files import FileSlice, OsDisk
from ottla.server.testkit.disk.disk_faults import DiskFaults
from ottla.server.testkit.disk.faulty_disk import FaultyDisk
from ottla.server.testkit.fields import Refused
from ottla.wire.errors import ErrorCode
from tests.memdisk import MemDisk
from tests.server.testkit.lives_rig import living, run


def faulty() -> tuple[FaultyDisk, DiskFaults]:
    memory = MemDisk()
    memory.makedirs("/d")
    faults = DiskFaults()
    return FaultyDisk(memory, faults), faults


def test_a_full_disk_can_be_read_cut_and_tidied_up() -> None:
    disk, faults = faulty()
    file = disk.open("/d/a", create=True)
    file.append([b"abc"])
    faults.install({"fail": "enospc", "after_bytes": 2})
    assert disk.space("/d")[1] == 2
    assert file.append([b"d", b"ef"]) == 2
    with pytest.raises(OSError, match="No space left"):
        file.append([b"f"])
    for grows in (
        lambda: disk.open("/d/b", create=True),
        lambda: disk.makedirs("/d/e"),
        lambda: disk.write_bytes("/d/a", b"x"),
    ):
        with pytest.raises(OSError, match="No space left"):
            grows()
    assert disk.open("/d/a", create=True).pread(9, 0) == b"abcde"
    file.truncate(3)
    file.reserve(10)
    disk.makedirs("/d")
    disk.rename("/d/a", "/d/c")
    disk.remove("/d/c")
    assert disk.list("/d") == []
    faults.clear()
    disk.write_bytes("/d/a", b"x")
    assert disk.read_bytes("/d/a") == b"x"


def test_reads_that_fail_are_not_left_to_the_system(tmp_path: Path) -> None:
    faults, directory = DiskFaults(), str(tmp_path)
    disk = FaultyDisk(OsDisk(), faults)
    file = disk.open(f"{directory}/a", create=True)
    file.append([b"abc"])
    assert FileSlice(file, 0, 3).descriptor() >= 0
    faults.install({"fail": "eio", "operations": ["read"]})
    file.append([b"d"])
    assert FileSlice(file, 0, 4).descriptor() == -1
    for read in (
        lambda: file.pread(1, 0),
        lambda: disk.open(f"{directory}/a"),
        lambda: disk.read_bytes(f"{directory}/a"),
        lambda: disk.list(directory),
    ):
        with pytest.raises(OSError, match="Input/output"):
            read()


def test_a_slow_fsync_takes_its_time_in_the_thread_that_asks() -> None:
    stopped: list[tuple[int, float]] = []
    memory = MemDisk()
    memory.makedirs("/d")
    faults = DiskFaults(lambda seconds: stopped.append((threading.get_ident(), seconds)))
    disk = FaultyDisk(memory, faults)
    file = disk.open("/d/a", create=True)
    faults.install({"fsync_ms": 30})
    file.sync()
    disk.sync_dir("/d")
    thread = threading.Thread(target=file.sync)
    thread.start()
    thread.join()
    here, there = threading.get_ident(), stopped[-1][0]
    assert stopped == [(here, 0.03), (here, 0.03), (there, 0.03)]
    assert there != here
    assert faults.all[0].hits == 3
    disk.write_bytes("/d/b", b"", sync=False)
    assert faults.all[0].hits == 3


def test_without_room_produce_fails_and_goes_on_when_there_is_some() -> None:
    async def scenario() -> None:
        async with living() as rig:
            for topic in ("orders", "prices"):
                await rig.call("PUT", f"/v1/topics/{topic}", {"partitions": 1})
            fault = await rig.call("POST", "/v1/disk", {"fail": "enospc", "path": "orders-*", "after_bytes": 300})
            errors = [await rig.produce_error("orders") for _ in range(3)]
            assert (errors[0], errors[-1]) == (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
            assert await rig.produce_error("prices") == ErrorCode.NONE
            assert (await rig.call("GET", "/v1/disk"))[0]["hits"] > 0
            await rig.call("DELETE", f"/v1/disk/{fault['id']}")
            assert await rig.produce_error("orders") == ErrorCode.NONE
            assert await rig.call("GET", "/v1/disk") == []
            assert await rig.offset("orders", -1) == errors.count(ErrorCode.NONE) + 1

    run(scenario)


def test_a_disk_that_fails_takes_its_partitions_offline_until_a_restart() -> None:
    async def scenario() -> None:
        async with living(log_dirs="/kit/a,/kit/b", metadata_log_dir="/kit/a") as rig:
            for topic in ("one", "two"):
                await rig.call("PUT", f"/v1/topics/{topic}", {"partitions": 1})
            lost = next(topic for topic in ("one", "two") if rig.place_of(topic, 0).startswith("/kit/b"))
            kept = {"one": "two", "two": "one"}[lost]
            await rig.call("POST", "/v1/disk", {"fail": "eio", "path": "b/*"})
            assert await rig.produce_error(lost) == ErrorCode.KAFKA_STORAGE_ERROR
            assert await rig.produce_error(kept) == ErrorCode.NONE
            assert len(await rig.call("DELETE", "/v1/disk")) == 1
            assert await rig.produce_error(lost) != ErrorCode.NONE
            await rig.call("POST", "/v1/restart", {"how": "kill"})
            assert await rig.produce_error(lost) == ErrorCode.NONE

    run(scenario)


def test_a_disk_that_fails_in_a_start_leaves_the_broker_down_until_the_next() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("POST", "/v1/disk", {"fail": "eio", "path": "__cluster_metadata-*"})
            with pytest.raises(Refused, match="could not be started"):
                await rig.call("POST", "/v1/restart")
            await rig.call("DELETE", "/v1/disk")
            await rig.call("POST", "/v1/reset")
            assert await rig.topics() == []

    run(scenario)


def test_a_reset_makes_the_disk_whole_unless_faults_are_kept() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("POST", "/v1/disk", {"fail": "enospc", "path": "orders-*"})
            await rig.call("POST", "/v1/reset", {"keep": ["faults"]})
            assert len(await rig.call("GET", "/v1/disk")) == 1
            await rig.call("POST", "/v1/reset")
            assert await rig.call("GET", "/v1/disk") == []

    run(scenario)
