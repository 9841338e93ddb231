"""Manages several log directories: it records in the metadata which partition is in which directory, and moves partitions
between them (KIP-113, KIP-858).

A new partition's directory is chosen when its log is created (log/management/manager.py takes the one with the fewest
partitions), and the metadata learns it afterwards, just as Kafka's broker reports it to its controller. If the `directories` of a
partition say anything else, they are corrected, in one operation for everything that a turn of the event loop brought. The same
happens at a start, for partitions that were moved by hand.

A move (`move`) is a task: it reads a MiB of the log in a thread, appends it to the copy in slices of a millisecond
(log/management/moving.py), and waits as long as `replica.alter.log.dirs.io.max.bytes.per.second` requires (move_pace.py).
`num.replica.alter.log.dirs.threads` limits how many moves run at once, by default to one per directory; the others wait. When
nothing is left to copy, the copy is synced in a thread. Then, within one turn of the loop, so that no append can come between:
the rest is copied and synced, the metadata changed, the copy put in the log's place, and its readers are woken. A move ends early
if its partition is deleted or is to go somewhere else.

The module is loaded if there is more than one log directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from ottla.log.disk.files import remove_tree
from ottla.log.errors import LogError, StorageError, TruncatedSlice
from ottla.log.management.moving import FutureLog, create_future, open_future, remove_future, take_plain_name
from ottla.server.base.scheduler import flush_in_thread
from ottla.server.metadata.image import BROKER, ConfigChanged, PartitionChanged
from ottla.server.partitions.move_pace import Pace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ottla.log.disk.checkpoint import TopicPartition
    from ottla.log.management.manager import LogManager
    from ottla.server.base.clock import Clock
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.replica import Replica
    from ottla.server.partitions.replicas import Replicas
    from ottla.server.settings.current import CurrentSettings

logger = logging.getLogger("ottla.server.log_dirs")

_MAX_TAIL_BYTES: Final = 1 << 20
"""The most bytes that may be left to copy in the last step, during which everything else waits."""


class Assigns(Protocol):
    """The part of the controller that writes directory assignments to the metadata."""

    def assign_directories(self, assignments: Sequence[tuple[bytes, int, bytes]]) -> None:
        """Records the directories of this broker's replicas, as (topic id, partition, directory id). Raises StorageError."""
        ...


class LogDirs:
    """Manages the log directories (see the module's docstring). Call `start` once the replicas exist, and `stop` before the logs
    are closed.
    """

    def __init__(
        self,
        logs: LogManager,
        replicas: Replicas,
        controller: Assigns,
        image: MetadataImage,
        clock: Clock,
        settings: CurrentSettings,
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._controller = controller
        self._image = image
        self._clock = clock
        self._node_id = settings.config.node_id
        self._to_assign: dict[TopicPartition, None] = {}
        self._moves: dict[TopicPartition, asyncio.Task[None]] = {}
        threads: int | None = settings["num.replica.alter.log.dirs.threads"]
        self._turns = asyncio.Semaphore(threads or len(logs.directories))
        self._pace = Pace(clock, lambda: int(settings["replica.alter.log.dirs.io.max.bytes.per.second"]))
        self._stopped = False

    # Which partition is where

    def start(self) -> None:
        for replica in self._replicas:
            self._note(replica)
        self._image.subscribe(self._follow)
        self._replicas.on_made = self._note
        self._remove_more_futures()
        for topic_partition in list(self._logs.found_futures):
            self._spawn(topic_partition, partial(self._resume, topic_partition))

    def _remove_more_futures(self) -> None:
        """Removes surplus copies. A move has one copy; further ones of a partition that has its log were left by failed moves."""
        for name, directory, directory_name in self._logs.more_futures:
            if self._replicas.get(*name) is None:
                logger.warning(
                    "%s/%s is a copy of a partition that is not on this broker, so it is left in place",
                    directory.path,
                    directory_name,
                )
                continue
            logger.info("removing %s/%s, a surplus copy of its partition", directory.path, directory_name)
            try:
                remove_future(directory, directory_name, self._clock.now_ms())
            except StorageError as error:
                logger.warning("cannot remove %s/%s: %s", directory.path, directory_name, error)
        self._logs.more_futures.clear()

    def _follow(self, event: object) -> None:
        if isinstance(event, PartitionChanged):
            replica = self._replicas.get(event.topic.name, event.partition)
            if replica is not None:
                self._note(replica)
        elif isinstance(event, ConfigChanged) and event.resource_type == BROKER:
            self._pace.look_again()

    def _note(self, replica: Replica) -> None:
        if self._assigned(replica) == self._logs.directory_ids[replica.log.directory.path]:
            return
        if not self._to_assign:
            self._clock.call_later(0, self._assign)
        self._to_assign[replica.topic, replica.partition] = None

    def _assigned(self, replica: Replica) -> bytes | None:
        partition = self._image.partition(replica.topic, replica.partition)
        return None if partition is None else partition.directory_of(self._node_id)

    def _assign(self) -> None:
        waiting, self._to_assign = self._to_assign, {}
        found = [replica for name in waiting if (replica := self._replicas.get(*name)) is not None]
        wrong = [
            (replica.topic_id, replica.partition, directory_id)
            for replica in found
            if (directory_id := self._logs.directory_ids[replica.log.directory.path]) != self._assigned(replica)
        ]
        if wrong and not self._stopped:
            try:
                self._controller.assign_directories(wrong)
            except StorageError as error:
                logger.error("cannot record the log directories of %d partitions in the metadata: %s", len(wrong), error)

    # Moving

    def move(self, replica: Replica, path: str) -> None:
        """Begins to move the partition into the directory `path`, or lets a move there go on; if the partition is already in it,
        cancels any move. Raises StorageError.
        """
        name = replica.topic, replica.partition
        future = self._logs.futures.get(name)
        found = self._logs.found_futures.get(name)
        target = future.log.directory.path if future is not None else found[0].path if found is not None else None
        if target == path and name in self._moves:
            return
        if target is not None:
            self._cancel(name)
        if replica.log.directory.path == path:
            return
        offline = next((directory for directory in self._logs.directories if directory.failed is not None), None)
        if offline is not None:  # it may hold a copy already
            raise StorageError(f"no partition is moved while a log directory is offline: {offline.failed}")
        directory = next(directory for directory in self._logs.directories if directory.path == path)
        opening = self._logs.opening_of_future(*name, replica.topic_id)
        try:
            future = create_future(directory, replica.log, opening)
        except StorageError:
            with contextlib.suppress(OSError):  # the disk may be full, and a half-made copy would take up space for ever
                remove_tree(directory.disk, f"{path}/{opening.directory_name}")
            raise
        self._logs.futures[name] = future
        self._logs.preferred.pop(name, None)
        logger.info("moving %s-%d to %s", *name, path)
        self._spawn(name, partial(self._run, future))

    def _cancel(self, name: TopicPartition) -> None:
        task = self._moves.pop(name, None)
        if task is not None:
            task.cancel()
        logger.info("%s-%d stays where it is", *name)
        self._logs.drop_future(name)

    def _spawn(self, name: TopicPartition, work: Callable[[], Awaitable[None]]) -> None:
        task = self._moves[name] = asyncio.get_running_loop().create_task(self._guarded(name, work))
        task.add_done_callback(lambda done: self._moves.pop(name, None) if self._moves.get(name) is done else None)

    async def _guarded(self, name: TopicPartition, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except LogError as error:
            logger.error("cannot move %s-%d: %s", *name, error)

    async def _resume(self, name: TopicPartition) -> None:
        """Goes on with a move that the last stop interrupted."""
        found = self._logs.found_futures.get(name)
        if found is None:  # the topic was deleted first
            return
        directory, directory_name = found
        replica = self._replicas.get(*name)
        if replica is None:
            logger.warning(
                "%s/%s is a copy of a partition that is not on this broker, so it is left in place",
                directory.path,
                directory_name,
            )
            return
        if replica.log.directory is directory or self._logs.previous_broker_epoch is None:
            self._logs.drop_future(name)
            if replica.log.directory is not directory:
                self.move(replica, directory.path)
            return
        opening = self._logs.opening_of_future(*name, replica.topic_id, directory_name)
        # Not in a thread: if the move were cancelled meanwhile, its files would be deleted while the thread reads them.
        log = open_future(directory, opening, True)
        del self._logs.found_futures[name]
        future = self._logs.futures[name] = FutureLog(replica.log, log)
        await self._run(future)

    async def _run(self, future: FutureLog) -> None:
        async with self._turns:
            loop = asyncio.get_running_loop()
            while not future.is_over():
                found = future.next_read()
                if found is None:
                    if await self._finish(future):
                        return
                    continue
                try:
                    data = await loop.run_in_executor(None, future.read, found)
                except TruncatedSlice:  # the log was truncated meanwhile: look again
                    continue
                await self._pace.take(len(data))
                for _ in future.take(data):
                    await asyncio.sleep(0)  # let everything else have a turn
                    if future.is_over():
                        return

    async def _finish(self, future: FutureLog) -> bool:
        """Puts the copy in the log's place, unless too much was appended meanwhile. Returns whether the move is over. Raises
        StorageError.
        """
        job = future.log.start_flush()
        if job is not None:
            await flush_in_thread(job)
        if future.is_over():
            return True
        tail_bytes = 0
        while (found := future.next_read()) is not None:  # nothing else runs from here on
            tail_bytes += len(found)
            if tail_bytes > _MAX_TAIL_BYTES:
                return False
            for _ in future.take(future.read(found)):
                pass
        self._swap(future)
        return True

    def _swap(self, future: FutureLog) -> None:
        name = future.source.topic, future.source.partition
        replica = self._replicas.get(*name)
        if replica is None:
            return
        future.settle()
        directory_id = self._logs.directory_ids[future.log.directory.path]
        if self._assigned(replica) != directory_id:
            self._controller.assign_directories([(replica.topic_id, replica.partition, directory_id)])
        try:
            future.swap()
        finally:
            if future.source.closed:  # if the copy could not be renamed, its directory has failed and has logged that
                self._logs.adopt(future.log)
                replica.replace_log(future.log)

    async def stop(self) -> None:
        """Interrupts all moves; the next start goes on with them."""
        self._stopped = True
        tasks = list(self._moves.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def promote(logs: LogManager, image: MetadataImage, node_id: int) -> None:
    """Finishes swaps that a crash interrupted between their two renames; it is called before the replicas are created. A copy
    that is in the directory which the metadata names, and that has no log beside it any more, gets the log's plain name. A
    partition whose copy cannot be opened is unavailable, and so is one that has several copies: nothing tells which of them is
    complete.
    """
    for name, directory, directory_name in logs.more_futures:
        if name not in logs.logs and name not in logs.unavailable and image.partition(*name) is not None:
            logs.unavailable[name] = f"it has no log but several copies, one of them {directory.path}/{directory_name}"
            logger.error("%s-%d stays offline: %s", *name, logs.unavailable[name])
    for name, (directory, directory_name) in list(logs.found_futures.items()):
        partition = image.partition(*name)
        if name in logs.logs or name in logs.unavailable or partition is None:
            continue
        if partition.directory_of(node_id) != logs.directory_ids[directory.path]:
            continue
        topic_id = image.topics[name[0]].topic_id
        opening = logs.opening_of_future(*name, topic_id, directory_name)
        try:
            log = open_future(directory, opening, logs.previous_broker_epoch is not None)
            take_plain_name(log)
        except LogError as error:
            logger.error("%s stays offline: %s", directory_name, error)
            logs.unavailable[name] = str(error)
            continue
        del logs.found_futures[name]
        logs.adopt(log)
        logger.warning("finished moving %s-%d to %s, which a crash had interrupted", *name, directory.path)
