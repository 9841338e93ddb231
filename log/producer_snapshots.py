"""The snapshots of a log's producers: files that say what the producers had done up to an offset, so that a start need not read
the whole log again (log/producers.py has their format).

A log takes one where a segment ends, when it is closed, and after a cut. log/rebuild.py loads them; the snapshot of a segment
that is dropped goes with the segment's files (log/local_log.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.log.names import SNAPSHOT_SUFFIX, offset_name
from ottla.log.rebuild import load_producers

if TYPE_CHECKING:
    from ottla.log.local_log import LocalLog
    from ottla.log.producers import ProducerStates


class ProducerSnapshots:
    """Takes the snapshots of one log. `newest` is the offset of the latest one, or where the log began if there is none."""

    __slots__ = ("_local", "newest")

    def __init__(self, local: LocalLog, newest: int) -> None:
        self._local = local
        self.newest = newest

    def take(self, producers: ProducerStates) -> None:
        """Saves the producers as `<end offset>.snapshot`, unsynced, unless there is a snapshot of that offset. Raises OSError."""
        local, offset = self._local, producers.end_offset
        if offset <= self.newest:
            return
        path = f"{local.path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"
        local.directory.disk.write_bytes(path, producers.snapshot_bytes(), sync=False)
        local.unsynced.paths.append(path)
        local.unsynced.names_in(local.path)
        self.newest = offset

    def reload(self, producers: ProducerStates, start_offset: int, end_offset: int, expiration_ms: int) -> None:
        """Fills `producers` with what they had done up to `end_offset`, where the log was cut, and takes a snapshot of that,
        because it can no longer be replayed once the log starts later. Raises CorruptRecord or OSError.
        """
        local = self._local
        self.newest = load_producers(
            local.directory.disk,
            local.path,
            local.segments,
            producers,
            start_offset=start_offset,
            end_offset=end_offset,
            now_ms=local.now_ms(),
            expiration_ms=expiration_ms,
        )
        self.take(producers)
