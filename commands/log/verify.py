"""`ottla log verify DIR...`: checks whether everything in a data directory is as it should be. It changes nothing.

Each finding is a line: file, position, what it means (findings.py), what is wrong, and the remedy. The exit code is 0 if there is
nothing but notes, 1 for findings, and 2 for wrong usage. A directory that a running broker holds is wrong usage, too, since its
files change while they are read.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ottla.commands import output
from ottla.commands.log.checks.findings import Finding, Meaning
from ottla.commands.log.files import SEGMENT_FILE
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
    deep: Annotated[bool, typer.Option("--deep", help="Also decompress every batch and read its records.")] = False,
    metadata: Annotated[
        Path | None, typer.Option("--metadata-dir", help="Where the metadata log is, if not in one of DIR.", exists=True)
    ] = None,
    running: Annotated[bool, typer.Option("--running", help="Check even if a broker is using the directory.")] = False,
    as_json: output.Json = False,
) -> None:
    """Check a data directory, a partition or a segment. Nothing is changed."""
    from ottla.commands.log.checks.directory import Checker  # here, so that the other commands start without it

    for path in paths:
        if not path.is_dir() and SEGMENT_FILE.fullmatch(path.name) is None:
            raise typer.BadParameter(f"{path} is neither a directory nor named like a segment", param_hint="DIR")
    if not running:
        refuse_locked(paths)
    checker = Checker(paths, deep=deep, metadata=metadata)
    count = 0
    held: list[Finding] = []  # on a terminal, until the progress bar is done
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
    """Raises BadParameter if a broker holds one of the directories."""
    for path in paths:
        for directory in (path, path.absolute().parent, path.absolute().parent.parent):
            if is_locked(directory / LOCK):
                raise typer.BadParameter(f"a broker is running on {directory}; stop it, or pass --running", param_hint="DIR")


def is_locked(path: Path) -> bool:
    """Does somebody hold this `.lock`, by either of the locks that log/disk/files.py takes? Our own is released on return."""
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
