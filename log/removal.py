"""Taking away: segments, the log's tail, the whole directory. Renamed at once, removed after `file.delete.delay.ms`.

The delay lets readers finish that hold only a name (Kafka's do; ours hold the open file), and gives an operator a minute to
regret. A restart removes what carries these names: `.deleted` files, and directories `<topic>-<partition>.<32 hex
digits>-delete`. `-stray` are those that no topic claims (a crash came between a topic's end and that of its files, or the
metadata is gone): as in Kafka they are out of the way and never removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.log.errors import StorageError
from ottla.log.segment import SNAPSHOT_SUFFIX, Segment, offset_name

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog

DELETE_DIR_SUFFIX: Final = "-delete"
STRAY_DIR_SUFFIX: Final = "-stray"
FUTURE_DIR_SUFFIX: Final = "-future"
"""Of a copy on its way to another log directory: log/moving.py."""
_MAX_NAME_BYTES: Final = 255


def check_usable(log: PartitionLog) -> None:
    """StorageError if the log was closed, deleted or set aside, or if its directory is offline.

    Whoever still holds a log that is gone must not look for its files: not to find them would take the directory offline, and to
    find them after a clean stop would be worse.
    """
    log.directory.check()
    if log.closed:
        raise StorageError(f"{log.topic}-{log.partition} is closed")


def drop_segments(log: PartitionLog, segments: list[Segment], keep_snapshot: int = -1) -> None:
    """Marks the files of segments that left `log.segments`, and removes their producer snapshots but for that of offset
    `keep_snapshot`. OSError."""
    due_ms = log.now_ms() + log.config.file_delete_delay_ms
    disk = log.directory.disk
    for segment in segments:
        for path in segment.rename_deleted():
            log.directory.remove_later(path, due_ms)
        snapshot = f"{log.path}/{offset_name(segment.base_offset)}{SNAPSHOT_SUFFIX}"
        if segment.base_offset != keep_snapshot and disk.exists(snapshot):
            disk.remove(snapshot)
    log.unsynced.names_in(log.path)


def cut_segments(log: PartitionLog, offset: int) -> None:
    """The segments end at `offset`; where they all begin later, one empty segment there takes their place. OSError.

    Durable when it returns, and what the cleaner knew of the tail is forgotten before. If a crash could bring the old tail back
    behind a segment that was rolled meanwhile, recovery, which begins at the new segment, would never look at it.
    """
    log.directory.lower_cleaned((log.topic, log.partition), offset)
    segments = log.segments
    if offset < segments.first.base_offset:
        drop_segments(log, segments.replace_all(log.new_segment(offset)))
    else:
        drop_segments(log, segments.drop_after(segments.floor(offset)))
        segments.active.truncate_to(offset)
        if segments.active.size == 0:
            segments.active.created_ms = log.now_ms()  # it waits for its roll from here on
        segments.active.sync()
        segments.forget_hints()
    log.directory.disk.sync_dir(log.path)


def delete_directory(log: PartitionLog) -> None:
    """Renames the partition's directory, durably, so that a topic of the same name can be made again. OSError."""
    renamed = rename_directory(log, DELETE_DIR_SUFFIX)
    log.directory.remove_later(renamed, log.now_ms() + log.config.file_delete_delay_ms)


def rename_directory(log: PartitionLog, ending: str) -> str:
    """Gives the partition's directory, durably, a name that is no partition's; returns its new path. OSError."""
    directory = log.directory
    suffix = f"-{log.partition}.{log.random.getrandbits(128):032x}{ending}"
    renamed = f"{directory.path}/{log.topic[: _MAX_NAME_BYTES - len(suffix)]}{suffix}"
    directory.disk.rename(log.path, renamed)
    directory.disk.sync_dir(directory.path)
    return renamed
