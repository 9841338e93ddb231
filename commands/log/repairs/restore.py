"""The steps of `ottla log repair --restore`: they put back what a start or a repair took out of a log and keeps as `.damaged`.

A start takes out all that came behind damage (log/opening/damaged.py), which may be much that is sound. Back in its place it is
as damaged as it was, and `--skip` then takes out only the bad batches. Bytes can go back only where nothing was written since,
because everything that was written has the same offsets: the log's last segment must end where they began, and a whole segment
must begin behind the end of the log. Anything else stays where it is; `ottla log dump --records` reads it.

Each step is durable when it returns, and one that was interrupted is completed by the same command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from ottla.commands.log.checks.partition import PartitionCheck
from ottla.commands.log.repairs.steps import COPY_BYTES, Step
from ottla.log.disk.files import Disk
from ottla.log.names import offset_name

_DAMAGED: Final = re.compile(r"(?P<base>\d{20})\.log\.(?P<position>\d+)\.damaged(\.(?P<number>\d+))?")


class _Kept(NamedTuple):
    """A `.damaged` file: where in which segment its bytes were, and which of several files for that place it is."""

    base: int
    position: int
    number: int
    path: Path


def restore_steps(disk: Disk, checks: list[PartitionCheck]) -> Iterator[Step]:
    """Yields the steps for all partitions. Raises OSError."""
    for check in checks:
        yield from _of_partition(disk, check)


def _of_partition(disk: Disk, check: PartitionCheck) -> Iterator[Step]:
    kept = _newest(check.path)
    if not kept:
        return
    last = max((state.base_offset for state in check.segments), default=-1)
    parts = [each for each in kept if each.base == last and each.path.with_name(f"{offset_name(last)}.log").exists()]
    fitting = [each for each in parts if _is_next(disk, each)]
    for each in fitting[:1]:
        yield Step(f"put {each.path} back into {_segment(each)} at position {each.position}", partial(_put_back_part, disk, each))
    if parts and not fitting:
        return  # the segment was written to after it was cut, so what came behind it has no place any more
    for each in kept:
        if each.base > last and each.position == 0 and each.base >= (0 if fitting else check.end_offset):
            yield Step(f"put {each.path} back as {_segment(each)}", partial(_put_back_segment, disk, each))


def _newest(directory: Path) -> list[_Kept]:
    """Returns the `.damaged` files of a partition, of several for one place the last, ascending by place."""
    found: dict[tuple[int, int], _Kept] = {}
    for path in directory.iterdir():
        if match := _DAMAGED.fullmatch(path.name):
            kept = _Kept(int(match["base"]), int(match["position"]), int(match["number"] or 0), path)
            place = kept.base, kept.position
            found[place] = max(kept, found.get(place, kept), key=lambda each: each.number)
    return sorted(found.values())


def _segment(kept: _Kept) -> Path:
    return kept.path.with_name(f"{offset_name(kept.base)}.log")


def _is_next(disk: Disk, kept: _Kept) -> bool:
    """Returns whether the segment ends where the bytes began, or with the first part of them, which an interrupted step put
    back."""
    segment, part = disk.open(str(_segment(kept))), disk.open(str(kept.path))
    there = segment.size - kept.position
    if not 0 <= there <= part.size:
        return False
    for at in range(0, there, COPY_BYTES):
        length = min(COPY_BYTES, there - at)
        if segment.pread(length, kept.position + at) != part.pread(length, at):
            return False
    return True


def _put_back_part(disk: Disk, kept: _Kept) -> None:
    segment, part = disk.open(str(_segment(kept))), disk.open(str(kept.path))
    at = segment.size - kept.position
    while at < part.size:
        data = part.pread(COPY_BYTES, at)
        written = segment.append([data])
        while written < len(data):
            written += segment.append([data[written:]])
        at += len(data)
    segment.sync()
    disk.remove(str(kept.path))
    disk.sync_dir(str(kept.path.parent))


def _put_back_segment(disk: Disk, kept: _Kept) -> None:
    disk.rename(str(kept.path), str(_segment(kept)))
    disk.sync_dir(str(kept.path.parent))
