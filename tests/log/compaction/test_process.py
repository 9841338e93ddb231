"""The cleaner's process: its lines, and that it ends when nobody wants its result."""

from __future__ import annotations

import errno
import io
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ottla.log.compaction.process import NICE, serve
from ottla.log.disk.files import Disk, OsDisk, StateUnknown
from tests.log.compaction.cleaning import CleanerRig

START = [sys.executable, "-c", "import sys; from ottla.log.compaction.process import main; sys.exit(main())"]


class OsRig(CleanerRig):
    """On the system's own files."""

    def __init__(self, directory: Path, **changes: Any) -> None:
        self.root = directory
        super().__init__(disk=OsDisk(), **changes)

    def start(self) -> None:
        self.directory = str(self.root)
        super().start()

    def job_line(self, **changes: Any) -> bytes:
        return json.dumps(self.begin().job.fields() | changes).encode() + b"\n"


def answers_to(jobs: bytes, disk: Disk) -> tuple[int, list[dict[str, Any]]]:
    """Returns what `serve` says to these lines, after which its input ends only when it is done."""
    reading, writing = os.pipe()
    answers = io.BytesIO()
    closed = False

    class Answers(io.BytesIO):
        def write(self, data: Any) -> int:
            nonlocal closed
            if not closed and b'"group"' not in data:
                os.close(writing)
                closed = True
            return answers.write(data)

    os.write(writing, jobs)
    with os.fdopen(reading, "rb") as source:
        status = serve(source, Answers(), disk, time.monotonic)
    if not closed:
        os.close(writing)
    return status, [json.loads(line) for line in answers.getvalue().splitlines()]


def test_groups_and_then_what_was_done(tmp_path: Path) -> None:
    rig = OsRig(tmp_path, segment_bytes=200)
    rig.put_each([0, 1, 2, 3, 0])
    status, answers = answers_to(rig.job_line(), rig.disk)
    assert status == 0
    assert [next(iter(answer)) for answer in answers[-2:]] == ["group", "done"]
    base, size, replaces, end_offset = answers[0]["group"]
    assert (base, replaces[0]) == (0, 0)
    assert 0 < end_offset <= 5
    assert (tmp_path / "t-0" / f"{0:020d}.log.cleaned").stat().st_size == size
    assert answers[-1]["done"]["end_offset"] == 5


def test_a_damaged_log(tmp_path: Path) -> None:
    rig = OsRig(tmp_path)
    rig.put_each([0, 1])
    line = rig.job_line()
    file = tmp_path / "t-0" / f"{0:020d}.log"
    file.write_bytes(file.read_bytes()[:-3] + b"xyz")
    _, answers = answers_to(line, rig.disk)
    assert [answer["failed"] for answer in answers] == ["damaged"]


def test_a_disk_that_fails(tmp_path: Path) -> None:
    rig = OsRig(tmp_path)
    rig.put_each([0, 1])
    line = rig.job_line()
    (tmp_path / "t-0" / f"{0:020d}.log").unlink()
    _, answers = answers_to(line, rig.disk)
    assert [(answer["failed"], answer["errno"]) for answer in answers] == [("disk", 2)]


def test_a_disk_of_which_nobody_knows_what_it_holds(tmp_path: Path) -> None:
    class Unsynced(OsDisk):
        def sync_dir(self, path: str) -> None:
            raise StateUnknown(errno.ENOSPC, "for a test")

    rig = OsRig(tmp_path)
    rig.put_each([0, 1])
    _, answers = answers_to(rig.job_line(), Unsynced())
    assert [(answer["failed"], answer["errno"]) for answer in answers] == [("unknown", errno.ENOSPC)]


def test_it_is_nice_and_ends_with_its_input(tmp_path: Path) -> None:
    with subprocess.Popen(START, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        rig = OsRig(tmp_path)
        rig.put_each([0, 1])
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(rig.job_line())
        process.stdin.flush()
        assert b"group" in process.stdout.readline()
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(os.getpriority(os.PRIO_PROCESS, 0) + NICE, 19)
        process.stdin.close()
        assert process.wait(30) == 0


def test_it_ends_in_the_middle_of_a_job_when_its_input_does(tmp_path: Path) -> None:
    rig = OsRig(tmp_path)
    rig.put_each(range(50))
    with subprocess.Popen(START, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(rig.job_line(bytes_per_second=100.0))  # for minutes
        process.stdin.close()
        assert process.wait(30) == 0
    assert rig.names(".cleaned") == []


def test_it_is_killed_with_the_broker_though_somebody_else_keeps_its_input_open(tmp_path: Path) -> None:
    rig = OsRig(tmp_path)
    rig.put_each([0, 1])
    reading, writing = os.pipe()
    broker = f"import subprocess, sys; subprocess.Popen({START!r}).wait()"
    with subprocess.Popen([sys.executable, "-c", broker], stdin=reading, stdout=subprocess.PIPE) as parent:
        try:
            os.close(reading)
            assert parent.stdout is not None
            os.write(writing, rig.job_line())
            assert b"group" in parent.stdout.readline()
            assert b"done" in parent.stdout.readline()
            parent.kill()
            assert select.select([parent.stdout], [], [], 30)[0], "it lives on"
            assert parent.stdout.read() == b""
        finally:
            os.close(writing)


def test_it_ends_without_a_word_when_nobody_reads_its_answers(tmp_path: Path) -> None:
    rig = OsRig(tmp_path)
    rig.put_each([0, 1])
    line = rig.job_line()
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(START, stdin=subprocess.PIPE, stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        assert process.communicate(line, 30)[1] == b""
        assert process.returncode == 0
