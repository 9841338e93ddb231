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
from collections.abc import Container
from typing import TYPE_CHECKING

from ottla.log.management.identity import METADATA_TOPIC

if TYPE_CHECKING:
    from ottla.log.disk.checkpoint import TopicPartition
    from ottla.log.management.manager import LogManager
    from ottla.log.partition import PartitionLog

_log = logging.getLogger("ottla.log.manager")


def lose_removed(manager: LogManager) -> list[TopicPartition]:
    """Closes the partitions whose files somebody has removed or replaced, and returns them. From then on they count as
    `unavailable`. A log directory that is gone, or has lost the metadata log, is offline."""
    lost = []
    for directory in manager.directories:
        if directory.failed is not None:
            continue
        try:
            names = frozenset(directory.disk.list(directory.path))
        except OSError as error:
            directory.fail("listing it", error)
            continue
        for name, log in list(manager.logs.items()):
            if log.directory is not directory or log.closed or not _is_removed(log, names):
                continue
            if log.topic == METADATA_TOPIC:
                gone = FileNotFoundError(errno.ENOENT, "somebody has removed it while it was in use", log.path)
                directory.fail(f"writing {log.path}", gone)
                break
            _lose(manager, log)
            lost.append(name)
    return lost


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
    """Returns whether the log's directory is not among the names in its log directory, or the active segment has none."""
    file = log.segments.active.file
    return log.path.rpartition("/")[2] not in names or (file is not None and not file.has_name())


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
