"""LogManager: all partitions of the broker, over all its log directories, and the flushes and checkpoints that keep them safe.

At the start `open_all` takes each directory's `.lock` and opens every partition that is there (log/opening/start.py), after an
unclean stop in `recovery_threads` threads a directory; a partition that cannot be opened is kept in `unavailable` and answers
StorageError, and the others are served. Then the server's scheduler calls the passes, those here and the longer ones of
log/management/passes.py; each goes in steps, so that who runs it can do other things in between, and its jobs with the disk may
run in a thread. At the end `close` flushes, writes the checkpoints and then, last of all, the marker of a clean shutdown.

Nothing here knows the cluster: the metadata decides which partitions should exist and with which settings (`create`, `delete`,
`PartitionLog.config`). A directory on disk that the metadata does not name is opened all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final

from ottla.log.config_def import LONG_MAX
from ottla.log.disk import checkpoint
from ottla.log.disk.checkpoint import MetaProperties, TopicPartition
from ottla.log.disk.directory import CHECKPOINTS, LogDirectory, SavingSteps, do_at_once
from ottla.log.disk.files import Disk, Lock, OpenFiles, remove_tree
from ottla.log.errors import InconsistentMetadata, NoRoom, StorageError
from ottla.log.flush import FlushJob
from ottla.log.management.clean_shutdown import sync_all
from ottla.log.management.identity import METADATA_TOPIC, check_empty, check_owner, make_directory, meta_path, write_identity
from ottla.log.names import DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX
from ottla.log.open_options import Opening
from ottla.log.opening.recovery import create_log
from ottla.log.opening.start import Start
from ottla.log.partition import PartitionLog
from ottla.log.producers import UNLIMITED, ProducerTotal

if TYPE_CHECKING:
    from ottla.log.config import LogConfig
    from ottla.log.management.moving import FutureLog

_log = logging.getLogger("ottla.log.manager")

DEFAULT_OPEN_FILES: Final = 512
DEFAULT_DAMAGED_BYTES: Final = 10 * 1024**3
_SYNC_THREADS: Final = 16  # they only wait for the disk, which handles their fsyncs together
_MAX_PREFERRED: Final = 10_000  # bounded, because any client may name partitions that are never made


class LogManager:
    """Manages the open partitions, which are `logs`. `config_for` returns a topic's settings when its partitions are opened; the
    metadata may be unknown then, and sets `PartitionLog.config` later. `recovery_config_for` returns them even then, at some
    cost, for a log in which recovery finds damage. `max_open_files` bounds the descriptors for segments, `max_damaged_bytes` what
    is kept of damaged logs in each directory. `metadata_dir` is where the metadata log lies: by default the first of `log_dirs`,
    which hold everything else, or a directory of its own. `follows_metadata` says that it is a copy of others' log, so that one
    append may have several batches."""

    def __init__(
        self,
        disk: Disk,
        log_dirs: Sequence[str],
        now_ms: Callable[[], int],
        config: LogConfig,
        *,
        random: Random,
        config_for: Callable[[str], LogConfig] | None = None,
        recovery_config_for: Callable[[str], LogConfig] | None = None,
        producer_expiration_ms: int = 86_400_000,
        max_producers: int = UNLIMITED,
        max_producers_in_all: int = UNLIMITED,
        max_open_files: int = DEFAULT_OPEN_FILES,
        metadata_dir: str | None = None,
        follows_metadata: bool = False,
        recovery_threads: int = 1,
        max_damaged_bytes: int = DEFAULT_DAMAGED_BYTES,
    ) -> None:
        assert log_dirs
        self._log_dirs = frozenset(log_dirs)
        self._metadata_dir = metadata_dir or log_dirs[0]
        self._follows_metadata = follows_metadata
        self._disk = disk
        self._now_ms = now_ms
        self._config_for = config_for or (lambda topic: config)
        self._recovery_config_for = recovery_config_for or self._config_for
        self._max_damaged_bytes = max_damaged_bytes
        self._random = random
        self._producer_expiration_ms = producer_expiration_ms
        self._max_producers = max_producers
        self._producer_total = ProducerTotal(max_producers_in_all, lambda: [log.producers for log in self.logs.values()])
        self.open_files = OpenFiles(max_open_files)
        self.directories = [LogDirectory(disk, path, self.open_files) for path in dict.fromkeys((*log_dirs, self._metadata_dir))]
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.unavailable: dict[TopicPartition, str] = {}
        """Partitions that are on disk and could not be opened, each with the reason."""
        self.directory_ids: dict[str, bytes] = {}
        """The id of each directory, by path; empty before `format`."""
        self.futures: dict[TopicPartition, FutureLog] = {}
        """Copies on their way to another directory."""
        self.found_futures: dict[TopicPartition, tuple[LogDirectory, str]] = {}
        """Copies that the start found and that are not opened yet: their log directory, and the name of their own."""
        self.more_futures: list[tuple[TopicPartition, LogDirectory, str]] = []
        """Further copies of partitions that have one in `found_futures` already."""
        self.preferred: dict[TopicPartition, str] = {}
        """Paths of directories that were chosen for partitions which do not exist yet."""
        self.cordoned: frozenset[str] = frozenset()
        """Paths of directories that get no new partition while another directory can take it."""
        self.previous_broker_epoch: int | None = None
        """The broker epoch of the last stop (-1 if it was not recorded); None if that stop was not clean in every directory."""
        self.in_cleaning: set[TopicPartition] = set()
        """Partitions whose segments the cleaner is working on."""
        self._locks: dict[str, Lock] = {}
        self.opening = Start(
            disk,
            self.directories,
            partitions=self._partition_directories,
            opening=self._opening_of,
            now_ms=now_ms,
            threads=recovery_threads,
        )
        self._threads = recovery_threads

    # Identity

    def lock(self) -> None:
        """Makes the directories and takes their locks. A directory that cannot be made or written is offline from the start.
        Raises LogDirLocked, and OSError if it is the directory of the metadata, or if the disk is not to blame.
        """
        if self._locks:
            return
        for directory in self.directories:
            try:
                make_directory(self._disk, directory.path)
                self._locks[directory.path] = self._disk.lock(f"{directory.path}/{checkpoint.LOCK}")
            except OSError as error:
                if directory.path != self._metadata_dir:
                    directory.fail("locking it", error)
                if directory.failed is None:
                    raise

    def meta_properties(self) -> dict[str, MetaProperties | None]:
        """Returns the meta.properties of each directory by its path, None if it was never formatted. An offline directory is
        included only if its file can be read. Raises InconsistentMetadata or OSError.
        """
        found = {}
        for directory in self.directories:
            try:
                meta = checkpoint.read_meta_properties(self._disk, meta_path(directory.path))
            except OSError:
                if directory.failed is None:
                    raise
                continue
            if meta is not None or directory.failed is None:
                found[directory.path] = meta
        return found

    def format(self, cluster_id: str, node_id: int) -> dict[str, MetaProperties]:
        """Formats the directories that are new as this broker's, if the others are its own. Raises InconsistentMetadata, before
        anything is written, or OSError."""
        found = self.meta_properties()
        check_owner({path: meta for path, meta in found.items() if meta is not None}, cluster_id, node_id)
        new = [path for path, meta in found.items() if meta is None]
        for path in new:
            check_empty(self._disk, path, found.values())
        for path in new:
            self._disk.makedirs(path)
            found[path] = write_identity(self._disk, path, cluster_id, node_id, self._random, self._now_ms())
        result = {path: meta for path, meta in found.items() if meta is not None}
        self.directory_ids = {path: checkpoint.uuid_bytes(meta.directory_id) for path, meta in result.items()}
        return result

    # Partitions

    @property
    def needs_recovery(self) -> bool:
        """Returns whether the last stop was unclean in a directory that works and holds partitions, so that `open_all` may take
        long. Raises OSError.
        """
        disk, paths = self._disk, [directory.path for directory in self.directories if directory.failed is None]
        paths = [path for path in paths if not disk.exists(f"{path}/{checkpoint.CLEAN_SHUTDOWN}")]
        return any(disk.is_dir(f"{path}/{name}") for path in paths for name in disk.list(path))

    def open_all(self) -> None:
        """Opens every partition on disk (log/opening/start.py). A directory that fails once it is locked is offline, and the
        others are opened. Raises LogDirLocked or OSError, OpeningStopped after `stop_opening`, and what `Start.run` raises."""
        self.lock()
        self.previous_broker_epoch = self.opening.run()
        for log in self.opening.logs:
            self._add(log.directory, log)
        self._producer_total.count()
        self.unavailable |= self.opening.unavailable
        self._note_boot()

    def _note_boot(self) -> None:
        """Notes that from here on only another power cut can lose what is written, but not of a directory with partitions that
        wait for room: nobody has seen yet what the last cut has left of them."""
        waiting = {job.directory.path for job in self.opening.without_room.values()}
        for directory in self.directories:
            if directory.failed is None and directory.path not in waiting:
                try:
                    self._locks[directory.path].note_boot()
                except OSError as error:  # the disk may be full; then the next start takes every damage for that of a power cut
                    _log.warning("cannot write %s/%s: %s", directory.path, checkpoint.LOCK, error)

    def stop_opening(self) -> None:
        """Ends an `open_all` or `opening.open_again` that runs in another thread. When an `open_all` has ended so, call
        `close(clean=False)`."""
        self.opening.stop()

    def _opening_of(self, directory: LogDirectory, topic_partition: TopicPartition) -> Opening:
        topic = topic_partition[0]
        opening = self._opening(*topic_partition, None, self._config_for(topic))
        opening.every_append_synced = topic == METADATA_TOPIC and not self._follows_metadata
        opening.same_boot = self._locks[directory.path].same_boot
        opening.is_flushed = lambda: self._recovery_config_for(topic).flush_messages < LONG_MAX
        return opening

    def _partition_directories(self, directory: LogDirectory) -> list[TopicPartition]:
        """Returns the partitions that have a directory here; directories of deleted partitions are scheduled for removal."""
        found = []
        for name in self._disk.list(directory.path):
            path = f"{directory.path}/{name}"
            if not self._disk.is_dir(path):
                continue
            if name.endswith(DELETE_DIR_SUFFIX):
                directory.remove_later(path, self._now_ms())
            elif name.endswith(FUTURE_DIR_SUFFIX):
                self._found_future(directory, name)
            elif (topic_partition := checkpoint.parse_directory_name(name)) is not None:
                found.append(topic_partition)
            else:
                _log.warning("%r is not a partition and is left as it is", path)  # %r, because a name need not be valid text
        return found

    def _found_future(self, directory: LogDirectory, name: str) -> None:
        from ottla.log.names import parse_future_name  # imported here, because few brokers ever move a partition

        topic_partition = parse_future_name(name)
        if topic_partition is None:
            _log.warning("%r is not a partition and is left as it is", f"{directory.path}/{name}")
        elif topic_partition in self.found_futures:
            self.more_futures.append((topic_partition, directory, name))
        else:
            self.found_futures[topic_partition] = directory, name

    def opening_of_future(self, topic: str, partition: int, topic_id: bytes | None, name: str = "") -> Opening:
        """Returns how to open a partition's copy on its way to another log directory. `name` is that of the copy's own directory,
        if it exists already."""
        opening = self._opening(topic, partition, topic_id, self._config_for(topic))
        opening.directory = name
        return opening

    def prefer(self, topic: str, partition: int, path: str) -> None:
        """Notes the log directory in which the partition is to be made, if it ever is."""
        if len(self.preferred) < _MAX_PREFERRED:
            self.preferred[topic, partition] = path

    def adopt(self, log: PartitionLog) -> None:
        """Takes over a partition's log that was not opened here: a copy that has taken the partition's name, or a log that could
        not be opened with the others."""
        name = log.topic, log.partition
        self.futures.pop(name, None)
        self.unavailable.pop(name, None)
        log.directory.unopened.pop(name, None)
        self._add(log.directory, log)
        if log.producers.total is None:
            self._producer_total.include(log.producers)

    def _opening(self, topic: str, partition: int, topic_id: bytes | None, config: LogConfig) -> Opening:
        return Opening(
            topic,
            partition,
            topic_id,
            config,
            self._now_ms,
            self._random,
            producer_expiration_ms=self._producer_expiration_ms,
            max_damaged_bytes=self._max_damaged_bytes,
            max_producers=self._max_producers,
            producer_total=self._producer_total,
        )

    def _add(self, directory: LogDirectory, log: PartitionLog) -> None:
        name = log.topic, log.partition
        self.logs[name] = log
        if log.topic != METADATA_TOPIC:  # Kafka does not list the metadata log in its checkpoints
            directory.partitions[name] = log

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self.logs.get((topic, partition))

    def create(
        self, topic: str, partition: int, topic_id: bytes | None, config: LogConfig, *, is_new: bool = True
    ) -> PartitionLog:
        """Returns the partition's log, and makes it first if it does not exist, in the directory with the fewest partitions among
        those that are not cordoned, and among these of those that were not found full.

        A log that exists gets `config`, and `topic_id` if it has none. Raises InconsistentMetadata if it has another id: the
        caller deletes it first. Raises StorageError if it exists and is unavailable, or if no directory works, and NoRoom if
        there was no room or no descriptor; then nothing is left of it. A partition that is not new (`is_new`) is not made while a
        directory is offline, because its records may lie in that one; this raises StorageError, too.
        """
        log = self.logs.get((topic, partition))
        if log is not None:
            log.directory.check()
            self._adopt(log, topic_id, config)
            return log
        if (topic, partition) in self.unavailable:
            raise StorageError(self.unavailable[topic, partition])
        offline = next((directory for directory in self._places(topic) if directory.failed is not None), None)
        if offline is not None and not is_new:
            raise StorageError(
                f"{topic}-{partition} is in no working directory and may be in one that is offline: {offline.failed}"
            )
        for directory in self.directories:
            if not is_new and directory.had((topic, partition)):
                _log.error("%s-%d was in %s and has disappeared: it starts again, empty", topic, partition, directory.path)
        directory = self._directory_for(topic, partition)
        opening = self._opening(topic, partition, topic_id, config)
        opening.clean = True
        directory.forget((topic, partition))
        path = f"{directory.path}/{opening.directory_name}"
        is_first = not self._disk.exists(path)
        try:
            log = create_log(directory, opening)
        except OSError as error:
            failure = directory.fail(f"creating {topic}-{partition}", error)
            if is_first and isinstance(failure, NoRoom):
                self._remove_half_made(directory, path, (topic, partition))
            raise failure from error
        self._add(directory, log)
        return log

    def _remove_half_made(self, directory: LogDirectory, path: str, name: TopicPartition) -> None:
        """Removes what there is of a new partition that could not be made, because the next attempt may choose another directory.
        If that fails, too, the next attempt completes it.
        """
        try:
            if self._disk.exists(path):
                remove_tree(self._disk, path)
        except OSError:
            self.preferred[name] = directory.path

    def _places(self, topic: str) -> list[LogDirectory]:
        """Returns the log directories that partitions of this topic may lie in."""
        paths = {self._metadata_dir} if topic == METADATA_TOPIC else self._log_dirs
        return [directory for directory in self.directories if directory.path in paths]

    def _directory_for(self, topic: str, partition: int) -> LogDirectory:
        online = [directory for directory in self._places(topic) if directory.failed is None]
        if not online:
            raise StorageError(
                f"{self._metadata_dir} is offline" if topic == METADATA_TOPIC else "every log directory is offline"
            )
        preferred = self.preferred.pop((topic, partition), None)
        chosen = [directory for directory in online if directory.path == preferred and topic != METADATA_TOPIC]
        open_ones = chosen or [directory for directory in online if directory.path not in self.cordoned] or online
        with_room = [directory for directory in open_ones if not directory.full]
        return min(with_room or open_ones, key=lambda candidate: len(candidate.partitions))

    def _adopt(self, log: PartitionLog, topic_id: bytes | None, config: LogConfig) -> None:
        if topic_id is not None and log.topic_id is not None and log.topic_id != topic_id:
            ours, theirs = checkpoint.uuid_text(log.topic_id), checkpoint.uuid_text(topic_id)
            raise InconsistentMetadata(f"{log.path} belongs to topic id {ours}, not {theirs}")
        if log.config is not config:
            log.config = config
        if topic_id is not None and log.topic_id is not None:
            log.topic_id = topic_id  # the bytes that all partitions of the topic share
        elif topic_id is not None:
            path = f"{log.path}/{checkpoint.PARTITION_METADATA}"
            try:
                self._disk.write_bytes(path, checkpoint.encode_partition_metadata(topic_id))
            except OSError as error:
                raise log.directory.fail(f"writing {path}", error) from error
            log.topic_id = topic_id

    def delete(self, topic: str, partition: int, *, synced: bool = True) -> None:
        """Deletes the partition if it exists; its files are removed after file.delete.delay.ms. The deletion is durable if
        `synced`, or else with `sync_deletions`. Raises StorageError."""
        log = self.logs.pop((topic, partition), None)
        try:
            self.drop_future((topic, partition))
        finally:  # also if dropping the copy failed, because that may lie in another log directory
            if log is not None:
                log.directory.partitions.pop((topic, partition), None)
                log.delete(synced=synced)
                log.directory.forget_cleaned((topic, partition))

    def sync_deletions(self) -> None:
        """Makes the deletions durable that were not synced."""
        for directory in self.directories:
            try:
                directory.sync_renames()
            except StorageError as error:
                _log.error("deleted partitions may come back after a power cut, as strays: %s", error)

    def drop_future(self, topic_partition: TopicPartition) -> None:
        """Gives up a move to another log directory: deletes the copy if there is one. Raises StorageError."""
        future = self.futures.pop(topic_partition, None)
        if future is not None:
            future.log.delete()
        found = self.found_futures.pop(topic_partition, None)
        if found is not None:
            from ottla.log.management.moving import remove_future

            remove_future(*found, self._now_ms())

    def set_aside(self, topic: str, partition: int, reason: str = "belongs to no topic") -> str:
        """Closes a partition that is not, or not certainly, the topic's; its files are kept in a directory of another name, whose
        path this returns. Raises StorageError."""
        log = self.logs.pop((topic, partition))
        log.directory.partitions.pop((topic, partition), None)
        return log.set_aside(reason)

    # Passes, which the server's scheduler calls. A directory that fails in a pass is offline; the pass goes on with the others.

    def online_logs(self) -> Iterator[PartitionLog]:
        """Yields the logs that are open and in a working directory, for a pass: logs may come and go between two of them."""
        for log in list(self.logs.values()):
            if log.directory.failed is None and not log.closed:
                yield log

    def set_producer_expiration(self, expiration_ms: int) -> None:
        """Sets a new producer.id.expiration.ms for all logs."""
        self._producer_expiration_ms = expiration_ms
        for log in self.logs.values():
            log.producer_expiration_ms = expiration_ms

    def flush_steps(self, now_ms: int) -> Iterator[FlushJob | None]:
        """Looks at a log a step; yields the flush that is due by flush.messages, flush.ms or a roll, or None. The caller calls
        `run` of each in a thread, then `finish` on the event loop."""
        for log in self.online_logs():
            job = None
            upto = log.flush_due(now_ms)
            if upto is not None and log.unsynced.in_flight is None:
                with suppress(StorageError):  # logged where the directory went offline
                    job = log.start_flush(upto)
            yield job

    def flush_pass(self, now_ms: int) -> int:
        """Does the flushes that are due, on the calling thread (every log.flush.scheduler.interval.ms); returns how many."""
        flushed = 0
        for job in list(self.flush_steps(now_ms)):
            if job is None:
                continue
            try:
                job.run()
            except StorageError:  # logged where the directory went offline
                job.give_up()
                continue
            job.finish()
            flushed += 1
        return flushed

    def checkpoint_steps(self, names: Iterable[str] = CHECKPOINTS) -> SavingSteps:
        """Writes those of the checkpoint files that changed, as `LogDirectory.save_in_steps` does: all of them every
        log.flush.offset.checkpoint.interval.ms. Where there are other replicas, a start has to know what they have, too, so the
        high watermarks are written every replica.high.watermark.checkpoint.interval.ms."""
        for directory in self.directories:
            if directory.failed is None:
                try:
                    yield from directory.save_in_steps(names)
                except StorageError:  # logged where the directory went offline
                    continue

    def checkpoint_pass(self, names: Iterable[str] = CHECKPOINTS) -> None:
        """Does what `checkpoint_steps` do, at once and on the calling thread."""
        do_at_once(self.checkpoint_steps(names))

    def close(self, clean: bool = True, broker_epoch: int = -1) -> None:
        """Closes every partition and releases the locks. If `clean`, directories that still work get what a start without
        recovery needs and, last of all, the marker with `broker_epoch`. A directory in which something could not be written, for
        want of room or descriptors, gets no marker."""
        unclean: set[str] = set()
        if clean and self._threads > 1:
            sync_all([*self.logs.values(), *(future.log for future in self.futures.values())], _SYNC_THREADS, self._locks)
        for log in (*self.logs.values(), *(future.log for future in self.futures.values())):
            try:
                log.close(clean and log.directory.failed is None)
            except StorageError as error:
                _log.error("%s-%d was not closed cleanly: %s", log.topic, log.partition, error)
                unclean.add(log.directory.path)
                log.close(clean=False)
        if clean:
            for directory in self.directories:
                if directory.failed is None and directory.path not in unclean:
                    self._finish(directory, broker_epoch)
        self.logs.clear()
        while self._locks:
            self._locks.popitem()[1].release()

    def _finish(self, directory: LogDirectory, broker_epoch: int) -> None:
        try:
            directory.save_all()
            if directory.unopened:
                return  # with the marker, the next start would open a damaged log without checking it
            marker = f"{directory.path}/{checkpoint.CLEAN_SHUTDOWN}"
            self._disk.write_bytes(marker, checkpoint.encode_clean_shutdown(broker_epoch))
        except StorageError:  # logged where the directory went offline
            return
        except OSError as error:
            directory.fail("writing the clean-shutdown marker", error)
            with suppress(OSError):  # it may have its name already
                self._disk.remove(marker)
