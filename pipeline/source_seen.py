"""Partitions as they were opened last, for who plans again and again: a stream, and a session that asks many queries.

To open a partition is to check what recovery would check, of a live directory the active segment (ottla.pipeline.segments): up
to 1 GiB to read. As long as its files and the broker's checkpoints are what they were, there is nothing new to find out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.log import checkpoint
from ottla.pipeline.segments import Place, with_log

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog

_T = TypeVar("_T")
_Print = tuple[tuple[str, int, int, int], ...]

_BESIDE: Final = (
    checkpoint.RECOVERY_POINTS,
    checkpoint.LOG_START_OFFSETS,
    checkpoint.CLEANER_OFFSETS,
    checkpoint.CLEAN_SHUTDOWN,
)


@dataclass(slots=True)
class _Seen:
    print: _Print
    log: PartitionLog


class SeenPartitions:
    """The partitions that were opened last, at most `most`, and by what to tell that they have changed.

    Each holds the indexes of its segments and a file or two.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._seen: dict[str, _Seen] = {}

    def with_log(self, place: Place, work: Callable[[PartitionLog], _T]) -> _T:
        """`work` with the partition, which is opened again only if one of its files has changed. SourceError."""
        try:
            seen, now = self._seen.get(place.path), _print(place)
            if seen is not None and seen.print == now:
                return work(seen.log)
        except FileNotFoundError:
            self._seen.pop(place.path, None)  # it changes right now, and is looked at anew

        def remember(log: PartitionLog) -> _T:
            done = work(log)
            if before == _print(place):
                self._seen.pop(place.path, None)
                if self._most is not None and len(self._seen) >= self._most:
                    self._seen.pop(next(iter(self._seen)))
                self._seen[place.path] = _Seen(before, log)
            return done

        before = _print(place) if os.path.isdir(place.path) else ()
        return with_log(place, remember)


def _print(place: Place) -> _Print:
    """Which files there are, and their sizes and times. FileNotFoundError."""
    found: list[tuple[str, int, int, int]] = []
    with os.scandir(place.path) as entries:
        for entry in entries:
            about = entry.stat()
            found.append((entry.name, about.st_ino, about.st_size, about.st_mtime_ns))
    for name in _BESIDE:
        try:
            about = os.stat(f"{os.path.dirname(place.path)}/{name}")
        except FileNotFoundError:
            continue
        found.append((name, about.st_ino, about.st_size, about.st_mtime_ns))
    return tuple(sorted(found))
