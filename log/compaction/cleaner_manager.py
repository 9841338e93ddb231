"""Chooses the log to clean next and puts the results of a cleaning into place, as the class of the same name does in Kafka. The
cleaning itself is done by `log.compaction.cleaner`.

All of it runs where the logs live, on one thread; only `Cleaner.groups` and the syncs of a swap may run elsewhere. A log has at
most one cleaning at a time, which goes through these calls:

    `choose`          chooses the dirtiest log that is due
    `prepare`         makes the job that can be sent; before it, what `flush_job` names must be made durable
    `swap`            is called once for each group that the cleaner has made, and moves the checkpoint to the group's end
    `finish`          moves the checkpoint to where the cleaning ended
    `give_up`         is called instead: what was swapped in stays, and so does the checkpoint, which says how far that is

A log that is cut, closed, deleted or moved makes its cleaning void at once; nobody waits for the worker, which finds out when it
next asks. A log that is being copied to another directory is not cleaned: the copy would have records twice below the offset up
to which it counts as clean. While a log is being cleaned, retention leaves it alone; retention of compacted logs runs in
`delete_old`, after the cleanings, as in Kafka. A log that cannot be cleaned (because it is damaged, or has a batch that no map
holds or that decompresses to more than the bound) is left alone until the broker starts again, and is counted in the metrics.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.log.compaction.cleaner import Cleaner, Throttle
from ottla.log.compaction.cleaning_job import CleanedGroup, CleaningAborted, CleaningJob, CleaningStats, MapTooSmall
from ottla.log.compaction.key_hash import SEED_BITS
from ottla.log.compaction.plan import CleaningPlan, is_compacted, is_due, plan
from ottla.log.compaction.swap import SegmentSwap, remove_unfinished, settle
from ottla.log.disk.checkpoint import TopicPartition
from ottla.log.errors import CorruptRecord, StorageError
from ottla.log.management.passes import Steps, run_pass
from ottla.log.transactions import collect_aborted

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator
    from random import Random

    from ottla.log.flush import FlushJob
    from ottla.log.management.manager import LogManager
    from ottla.log.partition import PartitionLog

_log = logging.getLogger("ottla.log.cleaner")

_MAX_MAP_BYTES: Final = 2**31 - 1
_LEAST_BUFFER_BYTES: Final = 64 * 1024
# Kafka bounds neither setting; at zero the map would have no slots, and a throttled cleaning would never end.
_LEAST_LOAD_FACTOR: Final = 0.01
_LEAST_BYTES_PER_SECOND: Final = 1.0


@dataclass(slots=True)
class CleanerSettings:
    """The broker's `log.cleaner.*` settings; memory and speed are those of all threads together, as in Kafka."""

    threads: int = 1
    dedupe_buffer_size: int = 134_217_728
    io_buffer_load_factor: float = 0.9
    io_buffer_size: int = 524_288
    io_max_bytes_per_second: float = 1.7976931348623157e308
    backoff_ms: int = 15_000


class Cleaning:
    """A cleaning of one log that is under way. `job` may be used once it is prepared."""

    __slots__ = ("_cuts", "_job", "began_ms", "log", "logs", "partition", "plan")

    def __init__(self, logs: LogManager, log: PartitionLog, plan: CleaningPlan, now_ms: int) -> None:
        self.logs = logs
        self.log = log
        self.plan = plan
        self.partition: TopicPartition = (log.topic, log.partition)
        self.began_ms = now_ms
        self._job: CleaningJob | None = None
        self._cuts = log.cuts

    def __repr__(self) -> str:
        return f"Cleaning({self.partition[0]}-{self.partition[1]}, from {self.plan.dirty_offset})"

    @property
    def job(self) -> CleaningJob:
        assert self._job is not None, "not prepared"
        return self._job

    @job.setter
    def job(self, job: CleaningJob) -> None:
        self._job = job

    def flush_job(self) -> FlushJob | None:
        """Returns the flush that must be done before the cleaning is prepared, None if there is nothing to flush. Raises
        StorageError."""
        if self.log.recovery_point >= self.plan.uncleanable_offset:
            return None
        return self.log.start_flush(self.plan.uncleanable_offset)

    @property
    def is_void(self) -> bool:
        """Returns whether the log has changed in a way that makes the cleaning's results useless: it was cut, closed or moved."""
        log = self.log
        return (
            log.closed
            or log.cuts != self._cuts
            or log.directory.failed is not None
            or self.logs.logs.get(self.partition) is not log
            or self.partition in self.logs.futures
        )


class LogCleanerManager:
    """The module's docstring describes it. The plain numbers are for the metrics."""

    def __init__(
        self, logs: LogManager, now_ms: Callable[[], int], random: Random, settings: CleanerSettings | None = None
    ) -> None:
        self._logs = logs
        self._now_ms = now_ms
        self._random = random
        self.settings = settings or CleanerSettings()
        self.uncleanable: dict[TopicPartition, str] = {}
        """The logs that are left alone because they cannot be cleaned, each with the reason."""
        self.last_run_ms = now_ms()
        self.max_dirty_ratio = 0.0
        self.max_delay_ms = 0
        self.last: CleaningStats = CleaningStats()
        """The statistics of the last cleaning that was finished."""
        self.last_took_ms = 0
        self.cleanings = 0
        self.bytes_read = 0
        self.bytes_written = 0

    # Choosing

    def next_cleaning(self, but: Container[TopicPartition] = ()) -> Cleaning | None:
        """Does what `choose` does, at once."""
        return run_pass(self.choose(but))

    def choose(self, but: Container[TopicPartition] = ()) -> Generator[None, None, Cleaning | None]:
        """Begins a cleaning of the dirtiest log that is due and returns it; None if no log is due. Logs in `but` are passed
        over. Looks at a log a step; others may come in between."""
        while True:
            now_ms = self.last_run_ms = self._now_ms()
            dirtiest: PartitionLog | None = None
            dirtiest_ratio = max_dirty_ratio = 0.0
            max_delay_ms = 0
            for log in self._logs_now():
                yield
                found = self._look(log, now_ms)
                if found is None:
                    continue
                max_dirty_ratio = max(max_dirty_ratio, found.dirty_ratio)
                max_delay_ms = max(max_delay_ms, found.delay_ms)
                if (log.topic, log.partition) in but or not is_due(log, found):
                    continue
                if dirtiest is None or found.dirty_ratio > dirtiest_ratio:
                    dirtiest, dirtiest_ratio = log, found.dirty_ratio
            self.max_dirty_ratio, self.max_delay_ms = max_dirty_ratio, max_delay_ms
            if dirtiest is None:
                return None
            found = self._look(dirtiest, now_ms)  # anew, because it may have changed since, or somebody else cleans it
            if found is not None and is_due(dirtiest, found):
                cleaning = Cleaning(self._logs, dirtiest, found, now_ms)
                self._logs.in_cleaning.add(cleaning.partition)
                return cleaning

    def _logs_now(self) -> list[PartitionLog]:
        """Returns all logs, and forgets which of those that are gone could not be cleaned."""
        for partition in [partition for partition in self.uncleanable if partition not in self._logs.logs]:
            del self.uncleanable[partition]
        return list(self._logs.logs.values())

    def _look(self, log: PartitionLog, now_ms: int) -> CleaningPlan | None:
        """Returns how far a log may be cleaned; None if it cannot be cleaned now or has nothing to clean."""
        if len(log.segments) == 1 or not self._may_clean(log):  # only the active one: most logs, most of the time
            return None
        try:
            return self._plan(log, now_ms)
        except StorageError:  # logged where the directory went offline
            return None
        except CorruptRecord as error:
            self.leave_alone(log, str(error))
            return None

    def _may_clean(self, log: PartitionLog) -> bool:
        """Returns whether the log is compacted, can be cleaned, and is not being cleaned or moved."""
        logs, partition = self._logs, (log.topic, log.partition)
        return (
            is_compacted(log)
            and logs.logs.get(partition) is log
            and partition not in logs.in_cleaning
            and partition not in logs.futures
            and partition not in logs.found_futures
            and partition not in self.uncleanable
            and log.directory.failed is None
            and not log.closed
        )

    def _plan(self, log: PartitionLog, now_ms: int) -> CleaningPlan:
        directory, partition = log.directory, (log.topic, log.partition)
        with directory.guard(f"looking at {log.path}"):
            found = plan(log, directory.cleaned.get(partition), now_ms)
        if found.checkpoint_is_wrong:
            directory.set_cleaned(partition, found.dirty_offset)
        return found

    def prepare(self, cleaning: Cleaning) -> None:
        """Writes the cleaning's job. Raises CleaningAborted, CorruptRecord or StorageError."""
        if cleaning.is_void:
            raise CleaningAborted("the log has changed")
        settle(cleaning.log)
        remove_unfinished(cleaning.log)  # files of a worker whose partition was deleted and then made again
        # After a crash, recovery accepts gaps in offsets only below the recovery point in the checkpoint.
        cleaning.log.directory.save_recovery_points()
        cleaning.job = self._job(cleaning.log, cleaning.plan, cleaning.began_ms)

    def _job(self, log: PartitionLog, found: CleaningPlan, now_ms: int) -> CleaningJob:
        config, settings = log.config, self.settings
        below = log.segments.between(0, found.uncleanable_offset)
        return CleaningJob(
            topic=log.topic,
            partition=log.partition,
            path=log.path,
            segments=[(segment.base_offset, segment.size) for segment in below],
            dirty_offset=found.dirty_offset,
            uncleanable_offset=found.uncleanable_offset,
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            producers=[(state.producer_id, state.last_offset, state.producer_epoch) for state in log.producers],
            aborted=list(collect_aborted(log, log.first_base_offset, found.uncleanable_offset)),
            map_bytes=min(settings.dedupe_buffer_size // settings.threads, _MAX_MAP_BYTES),
            load_factor=min(max(_LEAST_LOAD_FACTOR, settings.io_buffer_load_factor), 1.0),
            buffer_bytes=max(settings.io_buffer_size // settings.threads // 2, _LEAST_BUFFER_BYTES),
            bytes_per_second=max(_LEAST_BYTES_PER_SECOND, settings.io_max_bytes_per_second / settings.threads),
            max_decompressed_batch_bytes=config.max_decompressed_batch_bytes,
            hash_seed=self._random.getrandbits(SEED_BITS),
        )

    # Using the results

    def swap(self, cleaning: Cleaning, group: CleanedGroup) -> SegmentSwap:
        """Returns the steps that put a new segment into the log; they are void if the cleaning is."""
        swap = SegmentSwap(cleaning.log, group)
        if cleaning.is_void:
            swap.call_off()
        return swap

    def finish(self, cleaning: Cleaning, stats: CleaningStats) -> None:
        """Ends a cleaning after all its groups were swapped in. Raises StorageError."""
        if cleaning.is_void:
            self.give_up(cleaning)
            return
        self._logs.in_cleaning.discard(cleaning.partition)
        cleaning.log.directory.set_cleaned(cleaning.partition, stats.end_offset)
        self.last = stats
        self.last_took_ms = max(0, self._now_ms() - cleaning.began_ms)
        self.cleanings += 1
        self.bytes_read += stats.bytes_read + stats.map_bytes_read
        self.bytes_written += stats.bytes_written
        _log.info(
            "%s-%d is compacted up to offset %d in %d ms: %d of %d records are left, %d of %d bytes",
            *cleaning.partition,
            stats.end_offset,
            self.last_took_ms,
            stats.records_written,
            stats.records_read,
            stats.bytes_written,
            stats.bytes_read,
        )
        if stats.keyless_records:
            _log.warning("%s-%d had %d records without a key, which were removed", *cleaning.partition, stats.keyless_records)

    def give_up(self, cleaning: Cleaning) -> None:
        """Ends a cleaning that was not finished, and removes the files that it left. Nothing may be writing them any more. Raises
        StorageError."""
        self._logs.in_cleaning.discard(cleaning.partition)
        log = cleaning.log
        if log.closed or log.directory.failed is not None:
            return  # the next start removes them
        remove_unfinished(log)

    def leave_alone(self, log: PartitionLog, reason: str) -> None:
        """Excludes a log that cannot be cleaned from compaction until the broker starts again."""
        _log.error("%s-%d is no longer compacted: %s", log.topic, log.partition, reason)
        self.uncleanable[log.topic, log.partition] = reason

    def delete_old(self) -> Steps:
        """Applies retention, and deletes what lies below the log's start, for compacted logs, one a step; returns how many
        segments went."""
        deleted = 0
        for log in self._logs_now():
            if self._may_clean(log):
                try:
                    deleted += log.apply_retention(self._now_ms())
                except StorageError:  # logged where the directory went offline
                    pass
                except CorruptRecord as error:
                    self.leave_alone(log, str(error))
            yield
        return deleted

    def uncleanable_in(self, directory_path: str) -> list[PartitionLog]:
        """Returns the logs of a directory that cannot be cleaned and are left alone."""
        logs = [self._logs.logs.get(partition) for partition in self.uncleanable]
        return [log for log in logs if log is not None and log.directory.path == directory_path]

    def uncleanable_bytes(self, directory_path: str) -> int:
        """Returns the bytes of those logs' inactive segments that no cleaning went through."""
        total = 0
        for log in self.uncleanable_in(directory_path):
            dirty_offset = log.directory.cleaned.get((log.topic, log.partition), log.log_start_offset)
            segments = log.segments
            total += sum(each.size for each in segments.between(segments.floor(dirty_offset), segments.active.base_offset))
        return total

    # Cleaning on the calling thread

    def clean_pass(self, throttle: Callable[[CleaningJob], Throttle] | None = None) -> int:
        """Cleans every log that is due on the calling thread, then calls `delete_old`; returns how many logs were cleaned. The
        caller waits, so this is for tests and small logs. Raises StorageError."""
        cleaned = 0
        while (cleaning := self.next_cleaning()) is not None:
            cleaned += self.clean_here(cleaning, throttle)
        run_pass(self.delete_old())
        return cleaned

    def clean_here(self, cleaning: Cleaning, throttle: Callable[[CleaningJob], Throttle] | None = None) -> bool:
        """Does a cleaning on the calling thread; returns False if it had to be given up. Raises StorageError."""
        log = cleaning.log
        try:
            log.flush(cleaning.plan.uncleanable_offset)
            self.prepare(cleaning)
            cleaner = Cleaner(log.directory.disk, cleaning.job, (throttle or unthrottled)(cleaning.job))
            with log.directory.guard(f"compacting {log.path}"):
                whole = all(self.swap(cleaning, group).run() for group in cleaner.groups())
        except (CorruptRecord, MapTooSmall) as error:
            self.give_up(cleaning)
            self.leave_alone(log, str(error))
            return False
        except StorageError:
            self.give_up(cleaning)
            raise
        if not whole:
            self.give_up(cleaning)
            return False
        self.finish(cleaning, cleaner.stats)
        return not cleaning.is_void


def unthrottled(_: CleaningJob) -> Throttle:
    """Returns a throttle without a bound, for a cleaning that cannot be called off."""
    return Throttle(float("inf"), lambda: 0.0, lambda seconds: None)
