"""Broker: one running broker, put together from its parts, started and stopped.

A start, in an order that matters:

1. lock the log directories, and make sure that they are this node's of this cluster, or format them;
2. open every partition on disk, recovering what was not stopped cleanly;
3. replay `__cluster_metadata-0` into the image and begin a new epoch of it;
4. bind the listeners, and serve the metrics if they are on, so that ports are known, and register the broker with them: it leads
   its partitions from here on;
5. bring logs in step with the image, load the groups, begin the recurring passes;
6. let clients in: no request is served by half a broker.

A stop goes the other way round, and what makes it a clean one, the marker in each log directory, is written last of all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from ottla.log.config import LogConfig
from ottla.log.disk.files import OsDisk
from ottla.log.errors import InconsistentMetadata, StorageError
from ottla.log.manager import LogManager
from ottla.server.base.clock import Clock, LoopClock
from ottla.server.base.randomness import from_system, random_uuid
from ottla.server.base.scheduler import Scheduler, flush_in_threads
from ottla.server.broker import parts
from ottla.server.broker.limits import limits_clients
from ottla.server.coordination.internal_topic import InternalTopicLog
from ottla.server.dispatch.routes import Dispatch
from ottla.server.group.coordinator import TOPIC as CONSUMER_OFFSETS
from ottla.server.group.coordinator import GroupCoordinator
from ottla.server.group.settings import GroupSettings
from ottla.server.handlers import CONTROLLER
from ottla.server.metadata.controller_settings import current_settings
from ottla.server.metadata.image import (
    BROKER,
    ConfigChanged,
    Endpoint,
    PartitionChanged,
    QuotasChanged,
    TopicCreated,
    TopicDeleted,
    TopicImage,
)
from ottla.server.metadata.names import SHARE_GROUP_STATE, TRANSACTION_STATE
from ottla.server.metadata.opening import open_standalone
from ottla.server.network.context import NetworkContext
from ottla.server.network.listener import Listener
from ottla.server.network.socket_settings import SocketSettings
from ottla.server.network.sockets import bound_socket
from ottla.server.partitions.fetch_sessions import FetchSessions
from ottla.server.partitions.replicas import Replicas
from ottla.server.requests.context import BrokerContext
from ottla.server.settings.listeners import PROTOCOLS, SPOKEN
from ottla.server.txn.producer_ids import ProducerIds
from ottla.wire.primitives import uuid_to_text

if TYPE_CHECKING:
    from random import Random

    from ottla.log.disk.directory import LogDirectory
    from ottla.log.disk.files import Disk
    from ottla.server.broker.quotas_in_force import QuotasInForce
    from ottla.server.metadata.cluster import Cluster
    from ottla.server.metrics.server import MetricsServer
    from ottla.server.metrics.sources import Sources
    from ottla.server.partitions.cleaning import LogCleaning
    from ottla.server.settings.broker_config import BrokerConfig

logger = logging.getLogger("ottla.server.broker")

STOP_GRACE_SECONDS: Final = 0.05
"""How long a stop lets requests in work finish."""
FLUSH_PASS_INTERVAL_MS: Final = 1_000
"""How often flushes that a roll or flush.ms made due are looked for, whatever log.flush.scheduler.interval.ms says."""
EXPIRE_TRANSACTIONAL_IDS: Final = "transaction.remove.expired.transaction.cleanup.interval.ms"
DELETE_PASS_INTERVAL_MS: Final = 1_000
"""How often files past their file.delete.delay.ms are looked for."""


class Broker:
    """See the module's docstring. `start` and `stop` once each, in a running event loop.

    `cluster_id` is for an empty directory; one that is formatted already must agree with it. None: any, or a new one.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        cluster_id: str | None = None,
        disk: Disk | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        self.config = config
        self.cluster_id = ""
        self.listeners: list[Listener] = []
        self.controller_listeners: list[Listener] = []
        """Those of `controller.listener.names`, for who administrates the controller. Clients of brokers are not told."""
        self.context: BrokerContext | None = None
        self.offline = asyncio.Event()
        """Set once every log directory has failed, or that of the metadata: whoever runs the broker should end it."""
        self._wanted_cluster_id = cluster_id or config.cluster_id
        self._disk = disk or OsDisk()
        self._clock = clock
        self._random = random or from_system()
        self._logs: LogManager | None = None
        self._scheduler: Scheduler | None = None
        self._cleaning: LogCleaning | None = None
        self._dispatch: Dispatch | None = None
        self._quotas: QuotasInForce | None = None
        self._metrics: MetricsServer | None = None
        self.sources: Sources | None = None
        """What the metrics are read from; None where they are off."""
        self._broker_epoch = -1
        self._new_topic: tuple[TopicImage, int] | None = None  # the last that was created, and with which offset of the metadata
        self._cluster: Cluster | None = None  # from its registration on

    @property
    def port(self) -> int:
        """Of the first listener."""
        return self.listeners[0].port

    @property
    def bootstrap(self) -> str:
        """host:port of the first advertised listener, as clients are to be given it."""
        endpoint = self._endpoints()[0]
        return f"{endpoint.host}:{endpoint.port}"

    @property
    def metrics_url(self) -> str | None:
        """Where /metrics, /healthz and /readyz are, without the path; None where they are off."""
        return self._metrics.url if self._metrics is not None else None

    async def start(self) -> None:
        """Serves when it returns. Raises StorageError and its kinds (locked, another cluster's), MetadataError, OSError where an
        address is not to be had, ConfigError where the metrics' is not; nothing is left open then.
        """
        try:
            await self._start()
        except BaseException:
            await self._close(clean=False)
            raise

    async def _start(self) -> None:
        clock = self._clock = self._clock or LoopClock()
        logs = await self._open_logs(clock)
        cluster = open_standalone(logs, self._disk, self.config, self.cluster_id, clock, self._random)
        image, values, node_id = cluster.image, self.config.values, self.config.node_id
        settings = current_settings(self.config, image)
        replicas = Replicas(logs, image, settings)
        groups = GroupCoordinator(
            InternalTopicLog(replicas, image, CONSUMER_OFFSETS),
            clock,
            GroupSettings.from_broker(values),
            node_id,
            image,
            self._random,
        )
        context = self.context = BrokerContext(
            config=self.config,
            settings=settings,
            metadata=image,
            controller=cluster.controller,
            replicas=replicas,
            groups=groups,
            producer_ids=ProducerIds(cluster.controller),
            fetch_sessions=FetchSessions(values["max.incremental.fetch.session.cache.slots"], clock.now_ms, self._random),
            clock=clock,
            random=self._random,
            wiring=parts,
        )
        self._dispatch = self._make_dispatch(context, logs)
        await self._open_listeners(context, self._dispatch)
        await self._open_metrics()
        self._broker_epoch = cluster.register(self._endpoints(), rack=self.config.rack)
        self._cluster = cluster
        self._start_replicas(context, cluster, logs)
        groups.refresh()
        if TRANSACTION_STATE in image.topics:
            context.transaction_coordinator().refresh()
        if SHARE_GROUP_STATE in image.topics:
            context.share_coordinator().refresh()
        self._reconfigure(context)
        image.subscribe(self._follow)
        self._begin_passes(context, logs, cluster)
        self._lose_directories(logs)
        for listener in self.listeners:
            await listener.accept()
        cluster.ready()
        await self._open_controller_listeners(context)
        if self.sources is not None:
            self.sources.serving = True

    async def _open_logs(self, clock: Clock) -> LogManager:
        values = self.config.values
        logs = self._logs = LogManager(
            self._disk,
            self.config.log_dirs,
            clock.now_ms,
            LogConfig.from_overrides({}, values),
            random=self._random,
            producer_expiration_ms=values["producer.id.expiration.ms"],
            metadata_dir=self.config.metadata_log_dir,
            recovery_threads=values["num.recovery.threads.per.data.dir"],
        )
        self._watch(logs)
        logs.lock()
        self.cluster_id = self._agree_on_cluster_id(logs)
        if None in logs.meta_properties().values():
            self._try_addresses()
        logs.format(self.cluster_id, self.config.node_id)
        if logs.needs_recovery:
            await self._recover(logs)
        else:
            logs.open_all()
        return logs

    def _try_addresses(self) -> None:
        """Before anything is formatted: OSError where an address is not to be had, so that such a start leaves nothing behind."""
        settings = SocketSettings.from_broker(self.config.values)
        for address in self.config.listeners:
            bound_socket(address.host, address.port, settings).close()

    @staticmethod
    async def _recover(logs: LogManager) -> None:
        """Opens the logs in a thread, for it may take minutes: who gives up the start meanwhile, at a signal, ends it at once."""
        opening = asyncio.get_running_loop().run_in_executor(None, logs.open_all)
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            logs.stop_opening()
            await asyncio.wait([opening])
            opening.exception()  # it was told to stop, and may have found something before it did
            raise

    def _watch(self, logs: LogManager) -> None:
        loop = asyncio.get_running_loop()

        def failed(_: LogDirectory) -> None:
            loop.call_soon_threadsafe(self._lose_directories, logs)  # a flush may fail in its thread

        for directory in logs.directories:
            directory.on_failure = failed

    def _lose_directories(self, logs: LogManager) -> None:
        """Log directories failed: their partitions have no leader any more. Without one that works, or without that of the
        metadata, the broker is at its end, as Kafka is.
        """
        failed = {directory.path for directory in logs.directories if directory.failed is not None}
        if self.config.metadata_log_dir in failed or failed.issuperset(self.config.log_dirs):
            if not self.offline.is_set():
                logger.critical("no log directory works, or not that of the metadata: %s", ", ".join(sorted(failed)))
                self.offline.set()
            return
        if failed and self._scheduler is not None and self.context is not None and self._cluster is not None:
            lost = self.context.replicas.drop_lost()
            try:
                self._cluster.lose_directories(failed, lost)
            except StorageError as error:
                logger.error("the metadata do not say yet that %s failed: %s", ", ".join(sorted(failed)), error)

    def _agree_on_cluster_id(self, logs: LogManager) -> str:
        found = {meta.cluster_id for meta in logs.meta_properties().values() if meta is not None}
        if not found:
            return self._wanted_cluster_id or uuid_to_text(random_uuid(self._random))
        cluster_id = found.pop()
        if found:
            raise InconsistentMetadata(f"the log directories belong to different clusters, {cluster_id} and {found.pop()}")
        if self._wanted_cluster_id not in (None, cluster_id):
            raise InconsistentMetadata(
                f"{', '.join(self.config.log_dirs)} belongs to cluster {cluster_id}, not to {self._wanted_cluster_id}"
            )
        return cluster_id

    def _start_replicas(self, context: BrokerContext, cluster: Cluster, logs: LogManager) -> None:
        """Between several log directories partitions may be on their way; the code for that is loaded only then."""
        if len(self.config.log_dirs) == 1:
            context.replicas.start()
            return
        from ottla.server.partitions.log_dirs import LogDirs, promote

        promote(logs, context.metadata, self.config.node_id)
        context.replicas.start()
        context.log_dirs = LogDirs(logs, context.replicas, cluster, context.metadata, context.clock, context.settings)
        context.log_dirs.start()

    async def _open_listeners(self, context: BrokerContext, dispatch: Dispatch) -> None:
        network = NetworkContext(context.clock, context.purgatory)
        settings = SocketSettings.from_broker(self.config.values)
        for address in self.config.listeners:
            listener = Listener(address.name, network, dispatch, settings)
            self.listeners.append(listener)
            await listener.open(address.host, address.port)

    @property
    def _all_listeners(self) -> list[Listener]:
        """In the order in which they were opened."""
        return [*self.listeners, *self.controller_listeners]

    async def _open_controller_listeners(self, context: BrokerContext) -> None:
        """One that cannot be had costs no client of the broker anything: a file that --port moved has its old address still.

        Port 0 stays closed, for the metadata tell where controllers are before any port is bound; and so does a listener whose
        protocol we do not speak.
        """
        settings = SocketSettings.from_broker(context.settings.values)
        dispatch = Dispatch(context, role=CONTROLLER)
        for address in self.config.controller_listeners:
            if address.port == 0 or address.protocol not in SPOKEN:
                continue
            listener = Listener(address.name, self.listeners[0].context, dispatch, settings)
            try:
                await listener.open(address.host, address.port)
                await listener.accept()
            except OSError as error:
                listener.stop_accepting()
                logger.warning("listeners: %s is not open, and the controller not to be reached by itself: %s", address, error)
            else:
                self.controller_listeners.append(listener)

    def _make_dispatch(self, context: BrokerContext, logs: LogManager) -> Dispatch:
        """Returns what serves the clients' listeners: where metrics are on, one that measures, from which they are read."""
        if self.config.values["ottla.metrics.port"] is None:
            return Dispatch(context)
        from ottla.server.dispatch.measured import MeasuredDispatch
        from ottla.server.metrics.sources import Sources

        dispatch = MeasuredDispatch(context, perf_counter_ns)
        self.sources = Sources(context, dispatch, self.listeners, logs)
        return dispatch

    async def _open_metrics(self) -> None:
        """Serves the metrics where they are wanted: their code is loaded only then."""
        if self.sources is None:
            return
        from ottla.server.metrics.server import MetricsServer

        self._metrics = MetricsServer(self.sources)
        await self._metrics.open(self.config.values["ottla.metrics.host"], self.config.values["ottla.metrics.port"])

    def _endpoints(self) -> list[Endpoint]:
        """What the broker registers: where clients reach each listener."""
        endpoints = []
        for listener in self.listeners:
            address = self.config.advertised_for(listener.name, listener.port)
            endpoints.append(Endpoint(address.name, address.host, address.port, PROTOCOLS[address.protocol]))
        return endpoints

    def _follow(self, event: object) -> None:
        """What the coordinators and the listeners have to know of the cluster."""
        assert self.context is not None
        match event:
            case TopicDeleted(topic=topic):
                self.context.groups.topic_deleted(topic.name)
                self.context.groups.topic_changed(topic.name)
                if topic.name == TRANSACTION_STATE:
                    self.context.transaction_coordinator().refresh()
                if self.context.share_state is not None:
                    self.context.share_state.topic_deleted(topic.name, topic.topic_id)
            case PartitionChanged(topic=topic, partition=index) if topic.name == CONSUMER_OFFSETS:
                self.context.groups.follow(index)
            case PartitionChanged(topic=topic, partition=index) if topic.name == TRANSACTION_STATE:
                self.context.transaction_coordinator().follow(index)
            case PartitionChanged(topic=topic, partition=index) if topic.name == SHARE_GROUP_STATE:
                self.context.share_coordinator().follow(index)
            case ConfigChanged(resource_type=kind) if kind == BROKER:
                self._reconfigure(self.context)
            case QuotasChanged():
                self._limit_clients(self.context)
        if isinstance(event, (TopicCreated, PartitionChanged)):
            self._tell_groups(event)

    def _tell_groups(self, event: TopicCreated | PartitionChanged) -> None:
        """That a topic is not what it was; once for a new one, whatever the number of its partitions."""
        assert self.context is not None
        seen = (event.topic, self.context.metadata.highest_offset)
        if isinstance(event, TopicCreated):
            self._new_topic = seen
        elif seen == self._new_topic or (event.previous is not None and event.previous.replicas == event.image.replicas):
            return
        self.context.groups.topic_changed(event.topic.name, is_new=isinstance(event, TopicCreated))

    def _reconfigure(self, context: BrokerContext) -> None:
        """The broker's settings that count at once; those that are defaults of topics' are the replicas' business."""
        assert self._logs is not None
        values = context.settings.values
        settings = SocketSettings.from_broker(values)
        for listener in self._all_listeners:
            listener.settings = settings
        self._logs.set_producer_expiration(values["producer.id.expiration.ms"])
        self._limit_clients(context)

    def _limit_clients(self, context: BrokerContext) -> None:
        """Clients' quotas, and how fast connections may come: their code is loaded with the first limit."""
        if self._quotas is None:
            if not limits_clients(self.config, context.metadata):
                return
            from ottla.server.broker.quotas_in_force import QuotasInForce

            assert self._dispatch is not None
            self._quotas = QuotasInForce(context, self._dispatch, self.listeners)
        self._quotas.refresh()

    def _begin_passes(self, context: BrokerContext, logs: LogManager, cluster: Cluster) -> None:
        values, settings, clock = self.config.values, context.settings, context.clock
        scheduler = self._scheduler = Scheduler(clock)

        def now(action: Callable[[int], object]) -> Callable[[], object]:
            return lambda: action(clock.now_ms())

        every = scheduler.every
        every("retention", values["log.retention.check.interval.ms"], now(logs.retention_pass))
        every(
            "flush",
            min(values["log.flush.scheduler.interval.ms"], FLUSH_PASS_INTERVAL_MS),
            now(lambda ms: flush_in_threads(logs, ms)),
        )
        every("checkpoint", values["log.flush.offset.checkpoint.interval.ms"], logs.checkpoint_pass)
        every("delete", DELETE_PASS_INTERVAL_MS, now(logs.delete_pass))
        every("producer expiration", values["producer.id.expiration.check.interval.ms"], now(logs.expiration_pass))
        if values["log.cleaner.enable"]:
            every("cleaner", lambda: settings["log.cleaner.backoff.ms"], self._clean)
        every("offset expiration", values["offsets.retention.check.interval.ms"], context.groups.expire)
        every("transaction timeout", values["transaction.abort.timed.out.transaction.cleanup.interval.ms"], self._abort_overdue)
        every("transactional id expiration", values[EXPIRE_TRANSACTIONAL_IDS], self._expire_transactional_ids)
        every("cold share partitions", values["share.coordinator.cold.partition.snapshot.interval.ms"], self._snapshot_cold)
        every("share state pruning", values["share.coordinator.state.topic.prune.interval.ms"], self._prune_share_state)
        for of_cluster in cluster.passes():
            every(of_cluster.name, of_cluster.interval_ms, of_cluster.action)

    def _abort_overdue(self) -> Awaitable[None] | None:
        transactions = self.context.transactions if self.context is not None else None
        return transactions.abort_overdue() if transactions is not None else None

    def _expire_transactional_ids(self) -> None:
        if self.context is not None and self.context.transactions is not None:
            self.context.transactions.expire()

    def _snapshot_cold(self) -> None:
        if self.context is not None and self.context.share_state is not None:
            self.context.share_state.snapshot_cold()

    def _prune_share_state(self) -> None:
        if self.context is not None and self.context.share_state is not None:
            self.context.share_state.prune()

    def _clean(self) -> Awaitable[None] | None:
        """Compacts logs. Without a compacted topic, nothing of the cleaner is loaded."""
        logs = self._logs
        assert logs is not None
        if self._cleaning is None:
            if not any("compact" in log.config.cleanup_policy for log in logs.logs.values()):
                return None
            from ottla.server.partitions.cleaning import LogCleaning

            assert self.context is not None
            settings, clock = self.context.settings, self.context.clock
            self._cleaning = LogCleaning(logs, self._disk, clock.now_ms, lambda: settings.values)
            if self.sources is not None:
                self.sources.cleaner = self._cleaning.cleaner
        return self._cleaning.run_pass()

    async def stop(self) -> None:
        """Stops serving, makes everything durable and marks the stop as a clean one. StorageError where that fails."""
        await self._close(clean=True)

    @staticmethod
    async def _settle(context: BrokerContext) -> None:
        """Flushes that run in threads come to their end before the logs are closed."""
        if context.flushing is not None:
            await context.flushing.settle()

    async def _close(self, *, clean: bool) -> None:
        """Each part is closed whatever became of those before it, also when the wait for them is given up."""
        async with contextlib.AsyncExitStack() as last_first:
            if self._logs is not None:
                last_first.callback(self._logs.close, clean, self._broker_epoch)
            if clean and self._cluster is not None:
                last_first.callback(self._cluster.leave)
            if self._metrics is not None:
                last_first.callback(self._metrics.close)
            if self.context is not None:
                last_first.callback(self.context.groups.close)
                last_first.push_async_callback(self._settle, self.context)
                if self.context.log_dirs is not None:
                    last_first.push_async_callback(self.context.log_dirs.stop)
            if self._scheduler is not None:
                last_first.push_async_callback(self._scheduler.stop)
            if self._cleaning is not None:
                last_first.callback(self._cleaning.stop)
            for listener in reversed(self._all_listeners):
                last_first.push_async_callback(listener.close, STOP_GRACE_SECONDS)
            if self.sources is not None:
                self.sources.serving = False
            for listener in self._all_listeners:
                listener.stop_accepting()
