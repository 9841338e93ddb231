"""Notices that somebody removed a partition's files under a running broker, and takes the partition offline.

A process can go on writing into a file that has no name any more, and everything is lost with the last descriptor. Apache Kafka
finds out when it next has to make a file there, and then the whole log directory is offline. Here the log directories are listed
every few seconds instead, which costs about a microsecond a partition and nothing on the way of an append, and only the partition
is lost. A directory or segment that was put in the place of the old one is not what is open either, so an active segment that is
open must still have a name.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING

from ottla.log.management.identity import METADATA_TOPIC

if TYPE_CHECKING:
    from ottla.log.disk.checkpoint import TopicPartition
    from ottla.log.disk.directory import LogDirectory
    from ottla.log.management.manager import LogManager
    from ottla.log.partition import PartitionLog

_log = logging.getLogger("ottla.log.manager")


def lose_removed(manager: LogManager, lost: Callable[[TopicPartition], object]) -> Iterator[Callable[[], None] | None]:
    """Closes the partitions whose files somebody has removed or replaced, and calls `lost` with each. From then on they count as
    `unavailable`. A log directory that is gone, or has lost the metadata log, is offline. Yields None where it may pause, and a
    job that is to be done before the next step, in any thread."""
    for directory in manager.directories:
        if directory.failed is not None:
            continue
        listing = _Listing(directory)
        yield listing.run
        if listing.error is not None:
            directory.fail("listing it", listing.error)
            continue
        for name, log in list(manager.logs.items()):
            is_here = log.directory is directory and manager.logs.get(name) is log and not log.closed
            if is_here and _is_removed(log, listing.names):
                if log.topic == METADATA_TOPIC:
                    gone = FileNotFoundError(errno.ENOENT, "somebody has removed it while it was in use", log.path)
                    directory.fail(f"writing {log.path}", gone)
                    break
                _lose(manager, log)
                lost(name)
            yield None


class _Listing:
    """Lists a log directory: `names` is what is in it, or `error` why that is not known. Partitions that came since the listing
    began may be missing."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self.names: frozenset[str] = frozenset()
        self.error: OSError | None = None

    def run(self) -> None:
        """Does it, in any thread."""
        try:
            self.names = frozenset(self._directory.disk.list(self._directory.path))
        except OSError as error:
            self.error = error


def forget_removed(manager: LogManager, name: TopicPartition) -> None:
    """Forgets a partition that is not available and is deleted, so that another topic of its name can have it. While a directory
    is there in its place, it stays unavailable: a start decides what becomes of that.
    """
    holding = [directory for directory in manager.directories if name in directory.unopened]
    own = f"{name[0]}-{name[1]}"
    if any(directory.failed is not None or directory.disk.exists(f"{directory.path}/{own}") for directory in holding):
        return
    manager.unavailable.pop(name, None)
    for directory in holding:
        del directory.unopened[name]


def _is_removed(log: PartitionLog, names: Container[str]) -> bool:
    """Returns whether the log's directory is gone, which is looked up only if it is not among the names in its log directory, or
    the active segment has no name."""
    file = log.segments.active.file
    is_gone = log.path.rpartition("/")[2] not in names and not log.directory.disk.exists(log.path)
    return is_gone or (file is not None and not file.has_name())


def _lose(manager: LogManager, log: PartitionLog) -> None:
    name = log.topic, log.partition
    reason = manager.unavailable[name] = f"{log.path}, or a file in it, was removed while the broker was using it"
    _log.error(
        "%s-%d goes offline: %s, so what is written there would be lost; stop the broker before you put it back from a copy, "
        "otherwise the partition begins again, empty, at the next start",
        *name,
        reason,
    )
    del manager.logs[name]
    log.directory.partitions.pop(name, None)
    log.directory.unopened[name] = log  # its lines in the checkpoints stay, for files that are put back
    log.close(clean=False)
