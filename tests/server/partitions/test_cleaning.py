"""These tests cover compaction as the server runs it: its workers, how they end, and what stops them."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import pytest
import uvloop

from ottla.log.compaction.cleaner import Cleaner
from ottla.log.compaction.cleaner_manager import Cleaning, unthrottled
from ottla.log.compaction.cleaning_job import CleaningStats, MapTooSmall
from ottla.log.disk.files import OsDisk
from ottla.log.errors import CorruptRecord
from ottla.pipeline.data_source.disk import ReadOnlyDisk
from ottla.server.base.clock import Clock
from ottla.server.partitions.cleaning import LogCleaner, ProcessWorker, Result, ThreadWorker, Worker, WorkerDied
from ottla.server.testkit.disk.disk_faults import DiskFaults
from ottla.server.testkit.disk.faulty_disk import FaultyDisk
from ottla.throwaway import UnsyncedDisk
from tests.fakes import ManualClock
from tests.log.compaction.cleaning import CleanerRig
from tests.server.coordination.memory import slow_ticks

VALUES = {
    "log.cleaner.threads": 1,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
    "log.cleaner.io.buffer.load.factor": 0.9,
    "log.cleaner.io.buffer.size": 1 << 19,
    "log.cleaner.io.max.bytes.per.second": float("inf"),
    "log.cleaner.backoff.ms": 15_000,
}
SLOW = {"log.cleaner.io.max.bytes.per.second": 200.0}
"""So slow that the work lasts until it is ended."""


def rig_on(path: Path, **changes: Any) -> CleanerRig:
    """Makes a log on the system's files, with something to compact in it."""

    class OsRig(CleanerRig):
        def start(self) -> None:
            self.directory = str(path)
            super().start()

    rig = OsRig(disk=OsDisk(), **changes)
    fill(rig)
    return rig


def fill(rig: CleanerRig) -> None:
    rig.put_each([0, 1, 2] * 10)
    rig.roll()


class RigClock(ManualClock):
    """A clock that shows a rig's time; waits end when it is advanced."""

    def __init__(self, rig: CleanerRig) -> None:
        super().__init__()
        self.rig = rig

    def now_ms(self) -> int:
        return self.rig.now_ms


def cleaning_of(
    rig: CleanerRig,
    new_worker: Callable[[Clock], Worker] | None = None,
    clock: RigClock | None = None,
    values: Mapping[str, float] = MappingProxyType({}),
) -> LogCleaner:
    given = clock or RigClock(rig)
    made = None if new_worker is None else lambda: new_worker(given)
    return LogCleaner(rig.manager, rig.disk, given, Random(1), lambda: {**VALUES, **values}, made)


def in_thread(rig: CleanerRig) -> Callable[[Clock], Worker]:
    return lambda clock: ThreadWorker(rig.disk, clock)


def run(action: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(action(), 60)

    asyncio.run(bounded())


async def until(condition: Callable[[], Any]) -> None:
    while not condition():  # noqa: ASYNC110 - a process that begins tells nobody here
        await asyncio.sleep(0.01)


class Fails:
    """A worker that raises an error after it has made the same files as a real one."""

    def __init__(self, error: BaseException, before: Callable[[Cleaning], object] = lambda cleaning: None) -> None:
        self.error = error
        self.before = before
        self.cleanings = 0

    async def clean(self, cleaning: Cleaning) -> AsyncIterator[Result]:
        self.cleanings += 1
        self.before(cleaning)
        cleaning.log.directory.disk.open(f"{cleaning.log.path}/{0:020d}.log.cleaned", create=True)
        raise self.error
        yield CleaningStats()  # makes it an iterator, as a real worker's is

    def call_off(self) -> None: ...

    async def close(self) -> None: ...


# What is done


@pytest.mark.parametrize("where", ["process", "thread"])
def test_a_pass_compacts_what_is_due(where: str, tmp_path: Path) -> None:
    rig = rig_on(tmp_path, segment_bytes=400)
    cleaning = cleaning_of(rig, ProcessWorker if where == "process" else in_thread(rig))
    run(cleaning.run_pass)
    assert rig.offsets() == [27, 28, 29]
    assert (rig.cleaned_upto, cleaning.manager.cleanings) == (30, 1)
    assert rig.manager.in_cleaning == set()
    assert not [name for name in rig.names() if name.endswith((".cleaned", ".swap"))]
    rig.restart(clean=False)
    assert rig.offsets() == [27, 28, 29]


class FilesOfTheSystem(OsDisk):
    """Is another class, with files that are as open to other processes as before."""


@pytest.mark.parametrize(
    ("disk", "worker"),
    [
        (FilesOfTheSystem(), ProcessWorker),
        (UnsyncedDisk(), ThreadWorker),
        (FaultyDisk(OsDisk(), DiskFaults()), ThreadWorker),
        (ReadOnlyDisk(), ThreadWorker),
    ],
)
def test_the_disk_says_whether_a_process_may_work_on_its_files(tmp_path: Path, disk: Any, worker: type[Worker]) -> None:
    rig = rig_on(tmp_path)
    rig.disk = disk
    assert type(cleaning_of(rig)._new_worker()) is worker


def test_files_of_the_system_are_for_a_process_others_for_a_thread(tmp_path: Path) -> None:
    assert isinstance(cleaning_of(rig_on(tmp_path))._new_worker(), ProcessWorker)
    rig = CleanerRig()
    fill(rig)
    cleaning = cleaning_of(rig)
    assert isinstance(cleaning._new_worker(), ThreadWorker)
    run(cleaning.run_pass)
    assert rig.offsets() == [27, 28, 29]


def test_what_is_not_synced_yet_is_synced_before() -> None:
    rig = CleanerRig()
    fill(rig)
    assert rig.log.recovery_point == 0
    run(cleaning_of(rig).run_pass)
    assert rig.log.recovery_point == 30
    assert rig.disk.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 30\n"


def test_a_flush_before_the_cleaning_that_meets_a_bug_is_not_the_logs_last(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = CleanerRig()
    fill(rig)

    def fail(path: str) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(rig.disk, "sync_dir", fail)
    run(cleaning_of(rig, in_thread(rig)).run_pass)
    assert (rig.log.recovery_point, rig.log.unsynced.in_flight) == (0, None)
    monkeypatch.undo()
    assert rig.manager.flush_pass(rig.now_ms) == 1


def test_several_logs_with_several_threads() -> None:
    rig = CleanerRig()
    for index in range(1, 5):
        rig.log = rig.manager.create("t", index, bytes([index]) * 16, rig.config)
        fill(rig)
    at_once: list[int] = []

    class Counts(ThreadWorker):
        async def clean(self, cleaning: Cleaning) -> AsyncIterator[Result]:
            at_once.append(len(rig.manager.in_cleaning))
            async for result in super().clean(cleaning):
                yield result

    cleaning = cleaning_of(rig, lambda clock: Counts(rig.disk, clock), values={"log.cleaner.threads": 2})
    run(cleaning.run_pass)
    assert cleaning.manager.cleanings == 4
    assert max(at_once) == 2
    assert cleaning.manager.settings.threads == 2


def test_settings_count_from_the_next_pass_on() -> None:
    rig = CleanerRig()
    fill(rig)
    values = dict(VALUES)
    cleaning = LogCleaner(rig.manager, rig.disk, RigClock(rig), Random(1), lambda: values)
    run(cleaning.run_pass)
    values["log.cleaner.dedupe.buffer.size"] = 1 << 20
    fill(rig)
    run(cleaning.run_pass)
    assert cleaning.manager.settings.dedupe_buffer_size == 1 << 20
    assert cleaning.manager.cleanings == 2


def test_retention_of_compacted_logs_comes_with_the_pass() -> None:
    rig = CleanerRig(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1_000)
    fill(rig)
    run(cleaning_of(rig).run_pass)
    rig.now_ms += 2_000
    run(cleaning_of(rig).run_pass)
    assert rig.offsets() == []
    assert rig.log.log_start_offset == 30


# What goes wrong


@pytest.mark.parametrize("error", [CorruptRecord("for a test"), MapTooSmall("for a test"), ZeroDivisionError("for a test")])
def test_a_log_that_cannot_be_compacted_is_left_alone(error: Exception) -> None:
    rig = CleanerRig()
    fill(rig)
    worker = Fails(error)
    cleaning = cleaning_of(rig, lambda _: worker)
    run(cleaning.run_pass)
    run(cleaning.run_pass)
    assert "for a test" in cleaning.manager.uncleanable["t", 0]
    assert rig.manager.in_cleaning == set()
    assert worker.cleanings == 1
    assert rig.names(".cleaned") == []
    assert rig.offsets() == list(range(30))


def test_a_worker_that_dies_is_tried_once_more() -> None:
    rig = CleanerRig()
    fill(rig)
    worker = Fails(WorkerDied("for a test"))
    cleaning = cleaning_of(rig, lambda _: worker)
    for deaths, alone in ((1, False), (2, True), (2, True)):
        run(cleaning.run_pass)
        assert (worker.cleanings, ("t", 0) in cleaning.manager.uncleanable) == (deaths, alone)
        assert rig.names(".cleaned") == []
        assert rig.manager.in_cleaning == set()


def test_one_death_is_forgotten_with_the_next_success() -> None:
    rig = CleanerRig()
    fill(rig)
    workers: list[Callable[[Clock], Worker]] = [
        lambda _: Fails(WorkerDied("1")), in_thread(rig), lambda _: Fails(WorkerDied("2")), in_thread(rig)
    ]  # fmt: skip

    def next_worker(clock: Clock) -> Worker:
        return workers.pop(0)(clock)

    cleaning = cleaning_of(rig, next_worker)
    for _ in range(2):
        run(cleaning.run_pass)
        run(cleaning.run_pass)
        fill(rig)
    assert cleaning.manager.uncleanable == {}
    assert cleaning.manager.cleanings == 2


def test_a_disk_that_fails_in_the_worker_takes_the_directory_offline() -> None:
    rig = CleanerRig()
    fill(rig)
    run(cleaning_of(rig, lambda _: Fails(OSError(errno.EIO, "for a test"))).run_pass)
    assert rig.log.directory.failed is not None


def test_no_descriptors_in_the_worker_is_no_reason_to_go_offline() -> None:
    rig = CleanerRig()
    fill(rig)
    run(cleaning_of(rig, lambda _: Fails(OSError(errno.EMFILE, "for a test"))).run_pass)
    assert rig.log.directory.failed is None
    run(cleaning_of(rig).run_pass)
    assert rig.offsets() == [27, 28, 29]


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENOENT])
def test_a_process_that_cannot_be_begun_is_no_fault_of_the_disk(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = rig_on(tmp_path)
    cleaning = cleaning_of(rig)

    async def refuse(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "create_subprocess_exec", refuse)
        for _ in range(3):
            run(cleaning.run_pass)
    assert rig.log.directory.failed is None
    assert (rig.manager.in_cleaning, cleaning.manager.uncleanable) == (set(), {})
    run(cleaning.run_pass)
    assert rig.offsets() == [27, 28, 29]


def speaking(line: bytes) -> type[ProcessWorker]:
    """Returns workers whose process prints this and ends."""

    class Speaks(ProcessWorker):
        async def _begin(self) -> asyncio.subprocess.Process:
            return await asyncio.create_subprocess_exec(
                "printf", "%s", line, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )

    return Speaks


def test_a_sync_that_failed_in_the_process_is_final_whatever_its_errno_says(tmp_path: Path) -> None:
    for kind, is_final in (("disk", False), ("unknown", True)):
        rig = rig_on(tmp_path / kind)
        line = json.dumps({"failed": kind, "reason": "for a test", "errno": errno.ENOSPC}).encode() + b"\n"
        run(cleaning_of(rig, speaking(line)).run_pass)
        assert (rig.log.directory.failed is not None) == is_final


def test_a_process_that_dies_over_a_line_has_died(tmp_path: Path) -> None:
    rig = rig_on(tmp_path)
    cleaning = cleaning_of(rig, speaking(b'{"group": [0, 1'))
    run(cleaning.run_pass)
    assert (cleaning.manager.uncleanable, cleaning._deaths) == ({}, {("t", 0): 1})


def test_a_process_that_is_killed_between_two_jobs_is_no_fault_of_the_next_log(tmp_path: Path) -> None:
    rig = rig_on(tmp_path)
    worker = ProcessWorker(RigClock(rig))
    cleaning = cleaning_of(rig, lambda _: worker)

    async def scenario() -> None:
        process = worker._process = await worker._begin()
        process.kill()
        await process.wait()
        assert process.stdin is not None
        process.stdin.close()
        await cleaning.run_pass()

    run(scenario)
    assert (cleaning.manager.uncleanable, cleaning._deaths) == ({}, {})
    assert rig.offsets() == [27, 28, 29]


def test_a_process_that_is_gone_before_its_first_job_has_died(tmp_path: Path) -> None:
    class Gone(ProcessWorker):
        async def _begin(self) -> asyncio.subprocess.Process:
            process = await super()._begin()
            process.kill()
            await process.wait()
            await asyncio.sleep(0)  # its pipes are closed
            return process

    rig = rig_on(tmp_path)
    cleaning = cleaning_of(rig, Gone)
    uvloop.run(cleaning.run_pass())
    assert (cleaning.manager.uncleanable, cleaning._deaths) == ({}, {("t", 0): 1})


def test_files_that_are_missing_because_the_log_was_cut_are_nobodys_fault() -> None:
    rig = CleanerRig()
    fill(rig)
    worker = Fails(OSError(errno.ENOENT, "for a test"), before=lambda cleaning: cleaning.log.truncate_to(5))
    run(cleaning_of(rig, lambda _: worker).run_pass)
    assert rig.log.directory.failed is None
    assert rig.names(".cleaned") == []
    assert rig.offsets() == [0, 1, 2, 3, 4]


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    rig = rig_on(tmp_path)
    worker = ProcessWorker(RigClock(rig))
    cleaning = cleaning_of(rig, lambda _: worker, values=SLOW)

    async def scenario() -> None:
        running = asyncio.ensure_future(cleaning.run_pass())
        await until(lambda: worker._process is not None)
        assert worker._process is not None
        os.kill(worker._process.pid, signal.SIGKILL)
        await running

    run(scenario)
    assert rig.offsets() == list(range(30))
    assert (rig.manager.in_cleaning, rig.names(".cleaned")) == (set(), [])
    run(cleaning_of(rig).run_pass)
    assert rig.offsets() == [27, 28, 29]


def test_a_throttled_thread_takes_its_time_by_the_clock() -> None:
    rig = CleanerRig()
    fill(rig)
    size, clock = rig.log.size_bytes, RigClock(rig)
    cleaning = cleaning_of(rig, in_thread(rig), clock, {"log.cleaner.io.max.bytes.per.second": size / 4})

    async def scenario() -> None:
        running = asyncio.ensure_future(cleaning.run_pass())
        while not running.done():
            await until(lambda: clock.waiting or running.done())
            clock.advance(0.5)

    run(scenario)
    assert rig.offsets() == [27, 28, 29]
    assert clock.monotonic() > 4, "it reads the whole log, a quarter of it a second"


# What calls it off


def test_a_thread_that_waits_for_hours_wakes_up() -> None:
    rig = CleanerRig()
    fill(rig)
    clock = RigClock(rig)
    cleaning = cleaning_of(rig, clock=clock, values={"log.cleaner.io.max.bytes.per.second": 0.001})

    async def scenario() -> None:
        running = asyncio.ensure_future(cleaning.run_pass())
        await until(lambda: clock.waiting)
        cleaning.stop()
        await running

    run(scenario)
    assert rig.offsets() == list(range(30))


@pytest.mark.parametrize("where", ["process", "thread"])
@pytest.mark.parametrize("what", ["cut", "deleted", "stopped"])
def test_work_that_nobody_wants_any_more_ends(what: str, where: str, tmp_path: Path) -> None:
    rig = rig_on(tmp_path)
    log, clock = rig.log, RigClock(rig)
    cleaning = cleaning_of(rig, ProcessWorker if where == "process" else in_thread(rig), clock, SLOW)

    async def scenario() -> None:
        running = asyncio.ensure_future(cleaning.run_pass())
        await until(lambda: clock.waiting)
        if what == "cut":
            log.truncate_to(20)
            log.config = CleanerRig(min_cleanable_dirty_ratio=1.0).config
        elif what == "deleted":
            rig.manager.delete("t", 0)
        else:
            cleaning.stop()
        if what != "stopped":  # nobody tells the worker, which looks now and then
            clock.advance(0.5)
        await running

    run(scenario)
    assert rig.manager.in_cleaning == set()
    assert cleaning._workers == []
    if what != "deleted":
        assert rig.names(".cleaned") == []
        assert rig.offsets() == list(range(20 if what == "cut" else 30))


def test_a_sync_that_comes_after_the_deletion_is_nobodys_fault() -> None:
    """The deletion runs in a thread, and the directory has another name by then."""
    rig = CleanerRig()
    fill(rig)
    cleaning = rig.begin()
    swap = rig.cleaner.swap(cleaning, next(Cleaner(rig.disk, cleaning.job, unthrottled(cleaning.job)).groups()))
    swap.steps[0]()
    rig.manager.delete("t", 0)
    swap.sync()
    assert swap.is_void
    rig.manager.directories[0].check()


def test_nothing_begins_after_the_stop() -> None:
    rig = CleanerRig()
    fill(rig)
    cleaning = cleaning_of(rig)
    cleaning.stop()
    run(cleaning.run_pass)
    assert rig.offsets() == list(range(30))


def test_nothing_begins_after_a_stop_that_comes_while_a_log_is_chosen() -> None:
    rig = CleanerRig()
    fill(rig)
    clock = RigClock(rig)
    clock.ticks_ns = slow_ticks()  # type: ignore[method-assign]  # of this clock only
    cleaning = cleaning_of(rig, clock=clock)

    async def stopped() -> None:
        running = asyncio.ensure_future(cleaning.run_pass())
        for _ in range(3):
            await asyncio.sleep(0)
        cleaning.stop()
        while not running.done():
            clock.advance(0)
            await asyncio.sleep(0)
        await running

    run(stopped)
    assert rig.offsets() == list(range(30))
    assert rig.manager.in_cleaning == set()
