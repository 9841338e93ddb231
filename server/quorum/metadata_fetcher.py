"""`MetadataFetcher`: follows the metadata log of the quorum as an observer, for as long as the broker runs (KIP-595, KIP-630).

One Fetch at a time, to the leader if it is known, or else to the next controller that the node was told:

| answer | what follows |
|---|---|
| batches | they are appended, and what the high watermark covers is applied to the image |
| a diverging epoch | the end of our log is cut off where it parts from the leader's |
| a snapshot id | our end lies before the leader's start: the snapshot is fetched, and becomes the image |
| an error about the epoch or the leader | the answer names both: they are taken over, and the leader is asked |
| INCONSISTENT_CLUSTER_ID | these are not our controllers: before the first success that ends the start |
| no answer | another controller is asked, after the pause of the peer's backoff |

A node that is no voter does not wait for elections: it learns their outcome from these answers, and so does everything else here
that asks the active controller, through the Finder.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from ottla.log.errors import CorruptRecord, NoRoom
from ottla.server.base.clock import TURN_NS, sleep
from ottla.server.base.promise import Promise
from ottla.server.base.scheduler import flush_in_thread
from ottla.server.metadata.cluster import CannotJoin
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.metadata_log import TOPIC_ID
from ottla.server.metadata.names import CLUSTER_METADATA
from ottla.server.metadata.snapshot import SnapshotId
from ottla.server.peers.outcomes import PeerError, UnsupportedVersion
from ottla.server.quorum.controller_outage import ControllerOutage
from ottla.server.quorum.finder import NO_EPOCH, NOBODY
from ottla.server.quorum.image_swap import swap
from ottla.server.quorum.snapshot_fetch import SnapshotGone, fetch_snapshot
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData, ReplicaState

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from ottla.server.base.clock import Clock
    from ottla.server.quorum.controllers import Controllers
    from ottla.server.quorum.finder import Address, Finder
    from ottla.server.quorum.following_log import FollowingLog

MAX_WAIT_MS: Final = 500
"""The time for which the leader holds a Fetch that has nothing to answer: the same as Kafka's observers ask for."""
OLDEST_FETCH: Final = 13
"""The oldest version that names topics by id; Kafka 4.0 has newer ones."""
NO_ROOM_SECONDS: Final = 1.0
"""The pause after a disk had no room for what was fetched. It is fetched again then."""

logger = logging.getLogger("ottla.server.quorum")
T = TypeVar("T")


class Fetching(NamedTuple):
    """The fields of a Fetch about this node, and the settings of fetching."""

    node_id: int
    cluster_id: str
    directory_id: bytes
    max_bytes: int
    snapshot_max_bytes: int
    request_timeout_ms: int
    retry_ms: int


class MetadataFetcher:
    """Follows the log and keeps the image; see the module's docstring. `on_progress` is called whenever the image or the leader
    may have changed.
    """

    def __init__(
        self,
        log: FollowingLog,
        image: MetadataImage,
        finder: Finder,
        controllers: Controllers,
        settings: Fetching,
        clock: Clock,
        random: Random,
        on_progress: Callable[[], object],
    ) -> None:
        self.caught_up: Promise[None] = Promise()
        """Kept when the image first has everything up to the high watermark of the present leader."""
        self.applied_at = self._sent_at = clock.monotonic()
        """The time at which the last Fetch was sent whose answer has been applied as far as it counts."""
        self._log = log
        self._image = image
        self._finder = finder
        self._controllers = controllers
        self._settings = settings
        self._clock = clock
        self._random = random
        self._on_progress = on_progress
        self._outage = ControllerOutage(clock)
        self._saved: tuple[int, int, int] | None = None
        """The epoch, the leader and the form of quorum-state."""

    async def run(self) -> None:
        """Fetches until it is cancelled. Raises MetadataError or StorageError: then the broker cannot go on."""
        while True:
            leader = self._finder.leader
            address = self._finder.whom_to_ask()
            self._sent_at = self._clock.monotonic()
            try:
                answer = await self._controllers.at(address).call(
                    self._request(), self._settings.request_timeout_ms + MAX_WAIT_MS, min_version=OLDEST_FETCH
                )
            except PeerError as error:
                self._finder.did_not_answer(address)
                self._outage.go_on(error)
                if leader is not None:
                    self._on_progress()
                if isinstance(error, UnsupportedVersion):  # after anything else the peer makes a pause
                    await sleep(self._clock, self._settings.retry_ms / 1000)
                continue
            self._outage.end()
            try:
                goes_on = await self._take(answer, address)
            except NoRoom as error:
                logger.error("the cluster's metadata are out of date until there is room: %s", error)
                await sleep(self._clock, NO_ROOM_SECONDS)
                continue
            if not goes_on:
                await sleep(self._clock, self._settings.retry_ms / 1000)

    def _request(self) -> FetchRequest:
        log, settings = self._log, self._settings
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=max(self._finder.epoch, 0),
            fetch_offset=log.end_offset,
            last_fetched_epoch=log.last_epoch,
            log_start_offset=log.partition_log.log_start_offset,
            partition_max_bytes=settings.max_bytes,
            replica_directory_id=settings.directory_id,
            high_watermark=log.high_watermark,
        )
        return FetchRequest(
            cluster_id=settings.cluster_id,
            replica_id=settings.node_id,  # below version 15, which has replica_state in its place
            replica_state=ReplicaState(settings.node_id, -1),
            max_wait_ms=MAX_WAIT_MS,
            max_bytes=settings.max_bytes,
            topics=[FetchTopic(CLUSTER_METADATA, TOPIC_ID, [partition])],
        )

    async def _take(self, answer: FetchResponse, address: Address) -> bool:
        """Takes an answer; returns whether the next one may follow at once. Raises CannotJoin, MetadataError, StorageError."""
        partitions = [partition for topic in answer.responses for partition in topic.partitions]
        if answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            return self._refuse_cluster(address)
        if answer.error_code != ErrorCode.NONE or len(partitions) != 1:
            logger.warning("%s answers a Fetch of the metadata with error %d", address, answer.error_code)
            self._finder.did_not_answer(address)
            return False
        partition = partitions[0]
        moved = self._learn(partition.current_leader, answer.node_endpoints)
        if partition.error_code != ErrorCode.NONE:
            if not moved and self._finder.leader is not None:
                self._finder.did_not_answer(address)
            self._on_progress()
            return moved
        await self._follow(partition, address)
        self._on_progress()
        return True

    def _refuse_cluster(self, address: Address) -> bool:
        text = (
            f"{address} belongs to another cluster than {self._settings.cluster_id}, for which log.dirs is formatted: check "
            "controller.quorum.bootstrap.servers, or name other log.dirs"
        )
        if not self.caught_up.done():
            raise CannotJoin(text)
        logger.error("%s", text)
        self._finder.did_not_answer(address)
        return False

    def _learn(self, current: Any, endpoints: Iterable[Any]) -> bool:
        """Takes over what an answer to Fetch or FetchSnapshot says of the leader; returns whether that is news. Raises
        StorageError."""
        leader_id, epoch = (NOBODY, NO_EPOCH) if current is None else (current.leader_id, current.leader_epoch)
        addresses = [(each.node_id, each.host, each.port) for each in endpoints]
        moved = self._finder.learn(epoch, leader_id, addresses)
        leader = self._finder.leader
        if leader is not None and (leader.epoch, leader.node_id, self._log.kraft_version) != self._saved:
            self._saved = leader.epoch, leader.node_id, self._log.kraft_version
            self._log.note_leader(leader.epoch, leader.node_id)
        if moved and leader is not None:
            logger.info("controller %d at %s leads the quorum in epoch %d", leader.node_id, leader.address, leader.epoch)
        return moved

    async def _follow(self, partition: PartitionData, address: Address) -> None:
        """Brings log and image further with what the leader sent. Raises MetadataError and StorageError."""
        if partition.snapshot_id is not None and partition.snapshot_id.end_offset >= 0:
            await self._fetch_snapshot(SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch), address)
            return
        diverging = partition.diverging_epoch
        if diverging is not None and diverging.end_offset >= 0:
            end_offset = min(diverging.end_offset, self._log.end_offset_for(diverging.epoch))
            logger.info("the metadata log ends at %d, where it parts from the leader's", end_offset)
            self._log.truncate(end_offset)
            return
        job = None
        try:
            if partition.records:
                job = self._log.append(partition.records)  # type: ignore[arg-type]  # never a region: it was received
        except CorruptRecord as error:
            logger.error("%s sent metadata that cannot be right, which is fetched again: %s", address, error)
            self._finder.did_not_answer(address)
        self._log.note_high_watermark(partition.high_watermark)
        await self._apply()
        if job is not None:
            await flush_in_thread(job)
        if self._log.applied >= partition.high_watermark >= 0:
            self.applied_at = self._sent_at
            if not self.caught_up.done():
                self.caught_up.set_result(None)

    async def _apply(self) -> None:
        """Applies what counts. Raises MetadataError and StorageError."""
        await self._in_slices(self._log.apply(self._image))

    async def _in_slices(self, steps: Generator[Any, None, T]) -> T:
        """Takes steps, none of which has to wait, to their end, with a turn of the event loop where they take long; returns what
        they return."""
        until = self._clock.ticks_ns() + TURN_NS
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return cast(T, end.value)
            if self._clock.ticks_ns() >= until:
                await asyncio.sleep(0)
                until = self._clock.ticks_ns() + TURN_NS

    async def _fetch_snapshot(self, snapshot_id: SnapshotId, address: Address) -> None:
        """Fetches a snapshot and makes it the image. Raises MetadataError and StorageError."""
        settings, log = self._settings, self._log
        peer = self._controllers.at(address)
        logger.info("fetching snapshot %s of the metadata from %s", snapshot_id, address)
        try:
            await fetch_snapshot(
                lambda request: peer.call(request, settings.request_timeout_ms),
                log.partition_log.directory,
                log.partition_log.path,
                snapshot_id,
                cluster_id=settings.cluster_id,
                node_id=settings.node_id,
                leader_epoch=max(self._finder.epoch, 0),
                max_bytes=settings.snapshot_max_bytes,
                random=self._random,
            )
        except SnapshotGone as gone:
            logger.info("%s does not go on with snapshot %s: %s", address, snapshot_id, gone)
            for topic in gone.answer.topics:
                for partition in topic.partitions:
                    self._learn(partition.current_leader, gone.answer.node_endpoints)
            await sleep(self._clock, settings.retry_ms / 1000)
            return
        except PeerError as error:
            self._finder.did_not_answer(address)
            self._outage.go_on(error)
            return
        data = await asyncio.get_running_loop().run_in_executor(None, log.read_snapshot, snapshot_id)
        new = MetadataImage(self._image.cluster_id)
        contents = await self._in_slices(log.load_snapshot(snapshot_id, data, new))
        await self._in_slices(swap(self._image, new, lambda: log.begin_at(snapshot_id, contents)))
