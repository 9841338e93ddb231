"""The cluster of a broker whose controllers are others: Apache Kafka's, in a KRaft quorum. `open_quorum` makes it.

The parts come in this order:

1. `open_quorum` loads the newest snapshot of our copy of the metadata log. Nothing goes over the network yet.
2. `register` begins to follow the log, waits until the image has what counts now, registers, begins to beat, and waits until the
   image has the registration. Before that nothing of the image is stale: what a restart finds is at least its own registration.
3. `ready` asks to be unfenced, and returns when the image says that the broker is: clients are sent here from then on.
4. `begin_leaving` asks to be let go, while clients are still served: the controllers give its leaderships to others first.
5. `leave` ends the heartbeat, `close` all the rest.

If the copy cannot be followed any further (a record that this version does not know, records lost by the quorum, a disk that
failed), the broker has to end: `on_failure` is called with the reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.log.errors import StorageError
from ottla.server.base.clock import Bell, wait_at_most
from ottla.server.base.randomness import random_uuid
from ottla.server.base.turns import Workers
from ottla.server.metadata.cluster import Cluster, Pass, Tie
from ottla.server.metadata.controller_settings import ControllerSettings, ListenerCheck
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.log_settings import metadata_log_config
from ottla.server.metadata.metadata_log import TOPIC_ID
from ottla.server.metadata.names import CLUSTER_METADATA
from ottla.server.peers.blocking import BlockingConnection
from ottla.server.peers.outcomes import Disconnected
from ottla.server.peers.peer import Peer, PeerSettings
from ottla.server.quorum.absence import Absence
from ottla.server.quorum.channel import Channel
from ottla.server.quorum.controllers import Controllers
from ottla.server.quorum.directories import Assignments
from ottla.server.quorum.finder import Address, Finder
from ottla.server.quorum.following_log import FollowingLog
from ottla.server.quorum.forwarding import QuorumController
from ottla.server.quorum.heartbeat import ALIVE_INTERVAL_MS, Heartbeat, State, Times
from ottla.server.quorum.isr_changes import Proposals
from ottla.server.quorum.metadata_fetcher import Fetching, MetadataFetcher
from ottla.server.quorum.no_room import should_stand_back
from ottla.server.quorum.registrar import register
from ottla.server.quorum.registration import UNKNOWN_EPOCH, registration
from ottla.server.quorum.waiting import ImageWaits
from ottla.wire.metadata_records import MetadataError

if TYPE_CHECKING:
    from random import Random

    from ottla.log.disk.files import Disk
    from ottla.log.management.manager import LogManager
    from ottla.server.base.clock import Cancellable, Clock
    from ottla.server.base.network import Network
    from ottla.server.metadata.image import Endpoint
    from ottla.server.metadata.snapshot_keeper import SnapshotKeeper
    from ottla.server.security.client import ClientSecurity
    from ottla.server.settings.broker_config import BrokerConfig

SNAPSHOT_PASS_INTERVAL_MS: Final = 1_000
"""The time between the broker's checks of whether its copy of the metadata log needs a snapshot."""
LEAVING_SECONDS: Final = 300.0
"""The time that the controllers may take to let the broker go, as long as they answer: five minutes, as in Kafka."""

logger = logging.getLogger("ottla.server.quorum")
_T = TypeVar("_T")


class QuorumCluster(Cluster):
    """A cluster with controllers of its own; see the module's docstring."""

    def __init__(
        self,
        logs: LogManager,
        log: FollowingLog,
        image: MetadataImage,
        config: BrokerConfig,
        disk: Disk,
        clock: Clock,
        random: Random,
        network: Network,
        security: ClientSecurity | None = None,
    ) -> None:
        self._security = security
        self._logs = logs
        self._log = log
        self._image = image
        self._config = config
        self._disk = disk
        self._clock = clock
        self._random = random
        self._network = network
        values = config.values
        self._peer_settings = PeerSettings.from_broker(values)
        self._broker_epoch = UNKNOWN_EPOCH
        self._finder = Finder(*quorum_addresses(config), random)
        self._waits = ImageWaits(clock, image)
        self._tasks: set[asyncio.Task[None]] = set()
        self._fetching: asyncio.Task[None] | None = None
        self._alive_timer: Cancellable | None = None
        self._keeper: SnapshotKeeper | None = None
        self._is_closing = False
        self._fetch_peers = Controllers(lambda address: self._peer(address, f"broker-{config.node_id}-metadata-fetcher"))
        self._peers = Controllers(lambda address: self._peer(address, f"broker-{config.node_id}-to-controller"))
        self._channel = Channel(self._finder, self._peers, clock, values["controller.quorum.retry.backoff.ms"])
        self._settings = ControllerSettings(config, self._used_ids(), network)
        timeout_ms = values["controller.socket.timeout.ms"]
        self._controller = QuorumController(
            self._channel, image, self._settings, clock, self._waits, self._epoch, timeout_ms, self._spawn, Workers()
        )
        self._assignments = Assignments(
            config.node_id,
            self._settings.directory_ids,
            self._channel,
            clock,
            self._epoch,
            timeout_ms,
            self._spawn,
            lambda: image.metadata_version,
            self._assigned,
        )
        self.withdrawals = self._assignments
        self.isr_changes = Proposals(config.node_id, self._channel, clock, self._epoch, timeout_ms, self._spawn)
        self._fetcher = MetadataFetcher(
            log, image, self._finder, self._fetch_peers, self._fetching_settings(), clock, random, self._note_progress
        )
        self._heartbeat: Heartbeat | None = None
        self._absence = Absence(clock.monotonic, _longest_pause_ms(values) / 1000, self._doubt)
        self.look = self._absence.look

    def _fetching_settings(self) -> Fetching:
        values, config = self._config.values, self._config
        return Fetching(
            config.node_id,
            self._image.cluster_id,
            self._logs.directory_ids[config.metadata_log_dir],
            max_bytes=values["controller.quorum.fetch.max.bytes"],
            snapshot_max_bytes=values["controller.quorum.fetch.snapshot.max.bytes"],
            request_timeout_ms=values["controller.quorum.request.timeout.ms"],
            retry_ms=values["controller.quorum.retry.backoff.ms"],
        )

    def _used_ids(self) -> dict[str, bytes]:
        """Returns the ids of the log directories that work, by path."""
        failed = {directory.path for directory in self._logs.directories if directory.failed is not None}
        ids = self._logs.directory_ids
        return {path: ids[path] for path in self._config.log_dirs if path in ids and path not in failed}

    def _peer(self, address: Address, client_id: str) -> Peer:
        return Peer(
            *address,
            client_id,
            network=self._network,
            clock=self._clock,
            random=self._random,
            settings=self._peer_settings,
            security=self._security,
        )

    def _epoch(self) -> int:
        return self._broker_epoch

    @property
    def image(self) -> MetadataImage:
        return self._image

    def check_listeners(self, check: ListenerCheck) -> None:
        self._settings.check_listeners = check

    @property
    def controller(self) -> QuorumController:
        return self._controller

    # Registration

    async def register(self, endpoints: Sequence[Endpoint], *, rack: str | None = None) -> int:
        values, node_id = self._config.values, self._config.node_id
        self._fetching = asyncio.ensure_future(self._fetcher.run())
        self._fetching.add_done_callback(self._fetching_ended)
        await self._unless_it_fails(self._fetcher.caught_up)
        previous = self._logs.previous_broker_epoch
        request = registration(
            node_id,
            self._image.cluster_id,
            random_uuid(self._random),
            endpoints,
            self._settings.directory_ids,
            rack=rack,
            previous_epoch=UNKNOWN_EPOCH if previous is None else previous,
        )
        timeout_ms = values["initial.broker.registration.timeout.ms"]
        registering = register(self._channel, request, self._clock, timeout_ms, self._attempt_ms)
        self._broker_epoch = await self._unless_it_fails(registering)
        logger.info("registered with the controllers as node %d, broker epoch %d", node_id, self._broker_epoch)
        self._begin_heartbeat()
        await self._until_image(self._is_registered)
        return self._broker_epoch

    def _begin_heartbeat(self) -> None:
        values, loop = self._config.values, asyncio.get_running_loop()
        self._heartbeat = Heartbeat(
            self._config.node_id,
            Times(values["broker.heartbeat.interval.ms"] / 1000, values["broker.session.timeout.ms"] / 1000),
            connect=self._dial,
            monotonic=self._clock.monotonic,
            bell=Bell(),
            post=loop.call_soon_threadsafe,
            lost=self._lose_leader,
            serving=self._absence.answered,
        )
        self._heartbeat.broker_epoch = self._broker_epoch
        self._note_progress()
        self._absence.begin()
        self._say_alive()
        self._heartbeat.start()

    @property
    def _attempt_ms(self) -> int:
        """Returns how long one controller may take to be connected, or to answer a registration: half a session."""
        return int(self._config.values["broker.session.timeout.ms"]) // 2

    def _dial(self, address: Address) -> BlockingConnection:
        """Opens a connection for the heartbeat's thread. Raises PeerError."""
        security, name = self._security, f"broker-{self._config.node_id}-heartbeat"
        context, login = (None, None) if security is None else (security.context(), security.login)
        try:
            sock = self._network.dial(address.host, address.port, self._attempt_ms / 1000, context)
        except (OSError, UnicodeError) as error:
            raise Disconnected(f"cannot connect to {address}: {error}") from error
        return BlockingConnection(sock, str(address), name, self._clock.monotonic, login)

    def _say_alive(self) -> None:
        """Stamps the time, for the heartbeat's thread and for `_absence` to see that the loop runs."""
        assert self._heartbeat is not None
        self._absence.run()
        self._let_others_lead()
        self._heartbeat.alive_at = self._clock.monotonic()
        self._alive_timer = self._clock.call_later(ALIVE_INTERVAL_MS / 1000, self._say_alive)

    def _let_others_lead(self) -> None:
        """Stands back while there is no room, and comes back afterwards."""
        assert self._heartbeat is not None
        stood_back = self._heartbeat.stands_back
        directories, node_id = self._logs.directories, self._config.node_id
        stands_back = should_stand_back(self._image, node_id, directories, stands_back=stood_back)
        if stands_back == stood_back:
            return
        self._heartbeat.stands_back = stands_back
        if stands_back:
            logger.error(
                "no log directory has room: this broker asks to be fenced, so that other in-sync replicas lead, until there is"
            )
            self._absence.stand_back()
        else:
            logger.info("there is room again: this broker asks to serve again")
            self._heartbeat.beat_now()

    def _doubt(self, in_doubt: bool) -> None:
        """Tells the broker that it does not know what it leads, or that it does, and hurries to find out."""
        assert self._heartbeat is not None
        self._heartbeat.alive_at = self._clock.monotonic()
        if self.on_doubt is not None:
            self.on_doubt(in_doubt)
        if in_doubt:
            self._heartbeat.beat_now()

    def _lose_leader(self, address: Address) -> None:
        self._finder.did_not_answer(address)
        self._note_progress()

    def _note_progress(self) -> None:
        """Passes on what may have changed: who leads, and how far the image has come."""
        self._absence.fetched(self._fetcher.applied_at)
        if self._heartbeat is not None:
            leader = self._finder.leader
            self._heartbeat.address = leader.address if leader is not None else None
            if not self._image.is_reporting:
                self._heartbeat.metadata_offset = self._image.highest_offset
        self._waits.look()

    def _is_registered(self) -> bool:
        broker = self._image.brokers.get(self._config.node_id)
        return broker is not None and broker.epoch == self._broker_epoch

    def _is_unfenced(self) -> bool:
        return self._is_registered() and not self._image.brokers[self._config.node_id].fenced

    async def ready(self) -> None:
        assert self._heartbeat is not None
        self._heartbeat.accept_clients()
        await self._unless_it_fails(self._heartbeat.unfenced)
        await self._until_image(self._is_unfenced)

    # The end

    async def begin_leaving(self) -> None:
        heartbeat = self._heartbeat
        if heartbeat is None or heartbeat.state not in (State.UNFENCING, State.SERVING):
            return
        if not self._config.values["controlled.shutdown.enable"]:
            return
        heartbeat.begin_shutdown()
        session_s = self._config.values["broker.session.timeout.ms"] / 1000
        until = self._clock.monotonic() + LEAVING_SECONDS
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heartbeat.may_stop.add_done_callback(lambda _: None if future.done() else future.set_result(None))
        while not await wait_at_most(self._clock, min(1.0, session_s), (future,)):
            now = self._clock.monotonic()
            if now > until or now - heartbeat.answered_at > session_s:
                logger.warning("the controllers do not let this broker go in time; it stops all the same")
                return
        logger.info("the controllers have let this broker go")

    async def leave(self) -> None:
        await self._end_heartbeat()

    async def _end_heartbeat(self) -> None:
        if self._alive_timer is not None:
            self._alive_timer.cancel()
        thread = self._heartbeat.stop() if self._heartbeat is not None else None
        if thread is not None and thread.is_alive():
            await asyncio.get_running_loop().run_in_executor(None, thread.join)

    async def close(self) -> None:
        self._is_closing = True
        await self._end_heartbeat()
        tasks = [*self._tasks] + ([self._fetching] if self._fetching is not None else [])
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._fetch_peers.close()
        await self._peers.close()

    def tie(self) -> Tie | None:
        heartbeat = self._heartbeat
        if heartbeat is None:
            return None
        now = self._clock.monotonic()
        age_s = now - heartbeat.answered_at
        longest_s = max(heartbeat.longest_gap_s, age_s)
        return Tie(age_s, longest_s, now - self._fetcher.applied_at, self._log.last_append_ms)

    # Directories

    def lose_directories(self, failed: Collection[str], lost: Mapping[tuple[str, int], str | None]) -> None:
        """See Cluster. The controllers take the leadership of what was in the directories, and of nothing else."""
        if self._heartbeat is not None:
            ids = self._settings.ids_by_path
            self._heartbeat.offline_log_dirs = tuple(ids[path] for path in failed if path in ids)
            self._heartbeat.beat_now()

    def _assigned(self, topic_id: bytes, index: int) -> bytes | None:
        partition = self._image.partition_by_id(topic_id, index)
        return None if partition is None else partition.directory_of(self._config.node_id)

    def assign_directories(self, assignments: Sequence[tuple[bytes, int, bytes]]) -> None:
        self._assignments.assign(assignments)

    # Recurring work

    def passes(self) -> Sequence[Pass]:
        return (Pass("metadata snapshot", SNAPSHOT_PASS_INTERVAL_MS, self._snapshot_pass),)

    def _snapshot_pass(self) -> Awaitable[None] | None:
        """Makes a snapshot of the metadata and deletes what it replaces, if either is due. Raises StorageError."""
        if self._log.is_in_transaction or self._image.is_reporting:
            return None
        if self._keeper is None:
            from ottla.server.metadata.snapshot_keeper import SnapshotKeeper

            self._keeper = SnapshotKeeper(self._log, self._image, self._disk, self._config.values, self._clock, self._random)
        return self._keeper.run()

    # Tasks

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("work for the controllers failed because of a bug", exc_info=error)

    def _fetching_ended(self, task: asyncio.Task[None]) -> None:
        """Ends the broker if its metadata cannot be followed any further."""
        if not task.cancelled() and not self._is_closing and (error := task.exception()) is not None and self.on_failure:
            if not isinstance(error, (MetadataError, StorageError)):
                logger.error("following the cluster's metadata failed because of a bug", exc_info=error)
            self.on_failure(f"the cluster's metadata cannot be followed any further: {error}")

    async def _until_image(self, condition: Callable[[], bool]) -> None:
        async def wait() -> None:
            while not await self._waits.until(condition, 1.0):
                pass

        await self._unless_it_fails(wait())

    async def _unless_it_fails(self, work: Awaitable[_T]) -> _T:
        """Returns what `work` returns. Raises what it raises, or what ended the fetching of the metadata, if that came first."""
        assert self._fetching is not None
        waiting = asyncio.ensure_future(work)
        try:
            await asyncio.wait((waiting, self._fetching), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not waiting.done():
                waiting.cancel()
        if waiting.done():
            return waiting.result()
        self._fetching.result()
        raise AssertionError("the fetching ends only by an exception")


def _longest_pause_ms(values: Mapping[str, Any]) -> int:
    """Returns how long the event loop may stand still without the session ending: the last heartbeat may be an interval old, and
    what says that the loop runs is no more exact than its own interval."""
    until_over_ms = int(values["broker.session.timeout.ms"] - values["broker.heartbeat.interval.ms"]) - ALIVE_INTERVAL_MS
    return max(until_over_ms, 2 * ALIVE_INTERVAL_MS)


def quorum_addresses(config: BrokerConfig) -> tuple[dict[int, Address], list[Address]]:
    """Returns the addresses of static voters by id, and those of `controller.quorum.bootstrap.servers`."""
    voters: dict[int, Address] = {}
    for text in config.values["controller.quorum.voters"]:
        node_id, _, address = text.partition("@")
        voters[int(node_id)] = _address(address)
    return voters, [_address(text) for text in config.values["controller.quorum.bootstrap.servers"]]


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))


def open_quorum(
    logs: LogManager,
    disk: Disk,
    config: BrokerConfig,
    cluster_id: str,
    clock: Clock,
    random: Random,
    network: Network,
    security: ClientSecurity | None = None,
) -> QuorumCluster:
    """Returns the cluster, with the newest snapshot of its metadata in the image. `logs` must be formatted and have opened what
    is on disk; `security` is that of connections to the controllers. Raises MetadataError or StorageError; then the broker must
    not start."""
    partition_log = logs.create(CLUSTER_METADATA, 0, TOPIC_ID, metadata_log_config(config.values), is_new=False)
    voters, _ = quorum_addresses(config)
    log = FollowingLog(partition_log, disk, sorted(voters))
    image = MetadataImage(cluster_id)
    log.load(image)
    return QuorumCluster(logs, log, image, config, disk, clock, random, network, security)
