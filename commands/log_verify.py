"""`ottla log verify DIR...`: is everything in a data directory as it should be? Nothing is changed.

A line a finding: file, position, what it means (findings.py), what is wrong, what would mend it. Exit code 0: nothing but notes;
1: findings; 2: wrong usage, and so is a directory that a running broker holds: its files change while they are read.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ottla.commands import output
from ottla.commands.findings import Finding, Meaning
from ottla.commands.kafka_files import SEGMENT_FILE
from ottla.commands.output import Failure
from ottla.log.disk.checkpoint import LOCK

Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIR", help="Data directories, directories of partitions, or segments.", exists=True, show_default=False
    ),
]


@output.guarded
def verify(
    paths: Paths,
    deep: Annotated[bool, typer.Option("--deep", help="Decompress every batch and read its records, too.")] = False,
    metadata: Annotated[
        Path | None, typer.Option("--metadata-dir", help="Where the metadata log lies, if in none of these.", exists=True)
    ] = None,
    running: Annotated[bool, typer.Option("--running", help="Check even while a broker uses the directory.")] = False,
    as_json: output.Json = False,
) -> None:
    """Check a data directory, a partition or a segment, and change nothing."""
    from ottla.commands.check_directory import Checker  # here, for the other commands start without it

    for path in paths:
        if not path.is_dir() and SEGMENT_FILE.fullmatch(path.name) is None:
            raise typer.BadParameter(f"{path} is no directory, and no segment by its name", param_hint="DIR")
    if not running:
        refuse_locked(paths)
    checker = Checker(paths, deep=deep, metadata=metadata)
    count = 0
    held: list[Finding] = []  # a terminal's bar and its lines are not mixed
    with output.progress("verify", checker.total_bytes, in_bytes=True) as advance:
        for finding in checker.findings(advance):
            count += finding.meaning is not Meaning.NOTE
            if sys.stdout.isatty():
                held.append(finding)
            else:
                show(finding, as_json=as_json)
    for finding in held:
        show(finding, as_json=as_json)
    if count:
        raise Failure(summary(count))


def summary(count: int) -> str:
    return f"{count} finding{'s' if count != 1 else ''}"


def show(finding: Finding, *, as_json: bool) -> None:
    if as_json:
        output.write_json(finding.fields())
    else:
        sys.stdout.write(finding.line() + "\n")


def refuse_locked(paths: list[Path]) -> None:
    """typer.BadParameter if a broker holds one of the directories."""
    for path in paths:
        for directory in (path, path.absolute().parent, path.absolute().parent.parent):
            if is_locked(directory / LOCK):
                raise typer.BadParameter(f"a broker is running on {directory}; stop it first, or say --running", param_hint="DIR")


def is_locked(path: Path) -> bool:
    """Does somebody hold this `.lock`, by either of the locks that log/disk/files.py takes? Ours is gone with the look."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    finally:
        os.close(fd)
    return False
