"""The passes over all logs that come back again and again and may be long: retention, producers that expire, files to remove.

Each is a generator that pauses after every log or file, so that who runs it can do other things in between, and that returns what
it amounts to in the end. A log directory that fails in a pass is offline, and the pass goes on with the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from ottla.log.errors import CorruptRecord, StorageError

if TYPE_CHECKING:
    from ottla.log.management.manager import LogManager
    from ottla.log.partition import PartitionLog

_log = logging.getLogger("ottla.log.manager")

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, int]


def retention_steps(manager: LogManager, now_ms: int) -> Steps:
    """Deletes the segments that retention allows to (every log.retention.check.interval.ms); returns how many. A log that is
    being cleaned is left out; its turn comes after the cleanings (log/compaction/cleaner_manager.py)."""
    return _on_each_log(
        manager,
        lambda log: 0 if (log.topic, log.partition) in manager.in_cleaning else log.apply_retention(now_ms),
        lambda log: log.check_times(now_ms),
    )


def expiration_steps(manager: LogManager, now_ms: int) -> Steps:
    """Forgets producers that have long been silent (every producer.id.expiration.check.interval.ms); returns how many."""
    return _on_each_log(manager, lambda log: log.forget_expired_producers(now_ms))


def _on_each_log(
    manager: LogManager,
    action: Callable[[PartitionLog], int],
    first: Callable[[PartitionLog], Iterable[None]] = lambda log: (),
) -> Steps:
    """Does `action` with each log, after the steps of `first`."""
    done = 0
    for log in manager.online_logs():
        try:
            yield from first(log)
            done += 0 if log.closed else action(log)
        except StorageError:  # logged where the directory went offline
            continue
        except CorruptRecord as error:
            _log.error("%r is damaged: %s", log, error)
            continue
        yield
    return done


def delete_steps(manager: LogManager, now_ms: int) -> Steps:
    """Removes files and directories whose file.delete.delay.ms is over; returns how many."""
    removed = 0
    for directory in manager.directories:
        if directory.failed is None:
            try:
                removed += yield from directory.removals(now_ms)
            except StorageError:  # logged where the directory went offline
                continue
    return removed


def run_pass(steps: Generator[None, None, T]) -> T:
    """Takes all steps at once, for a program that has nothing else to do meanwhile; returns what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
