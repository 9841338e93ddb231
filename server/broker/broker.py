"""Puts one broker together from its parts, starts it and stops it.

A start takes these steps, in an order that matters:

1. lock the log directories, and check that they belong to this node and this cluster, or format them;
2. open every partition on disk, with recovery after an unclean stop;
3. replay `__cluster_metadata-0` into the image and begin a new epoch of it;
4. bind the listeners, and serve the metrics if they are on, so that the ports are known, and register the broker with them: from
   here on it leads its partitions;
5. bring the logs in step with the image, load the groups, begin the recurring passes;
6. let clients connect, so that no request is served by half a broker.

A stop first asks others to lead, while clients are still served; then it takes these steps in the opposite order. The marker in
each log directory that makes it a clean stop is written last of all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.log.config import LogConfig
from ottla.log.disk.files import OsDisk
from ottla.log.errors import StorageError
from ottla.log.management.manager import LogManager
from ottla.log.producers import PRODUCER_BYTES
from ottla.server.base.clock import Clock, LoopClock
from ottla.server.base.network import Network, OsNetwork
from ottla.server.base.randomness import from_system
from ottla.server.base.scheduler import Scheduler
from ottla.server.broker.controller_listeners import open_controller_listeners
from ottla.server.broker.coordinator_updates import CoordinatorUpdates
from ottla.server.broker.idle_settings import IdleSettings
from ottla.server.broker.open_listeners import warn_of_open_listeners
from ottla.server.broker.passes import Compaction, schedule_passes
from ottla.server.broker.quotas_configured import quotas_configured
from ottla.server.broker.start import (
    check_membership,
    find_endpoints,
    follow_partitions,
    format_directories,
    lead_partitions,
    make_context,
    open_cluster,
    open_partitions,
    reach_other_brokers,
    recovery_config,
    secure_connections,
    settle,
    share_client_memory,
    start_replicas,
)
from ottla.server.dispatch.chain import Chain
from ottla.server.dispatch.routes import Dispatch
from ottla.server.handlers import BROKER as BROKER_ROLE
from ottla.server.handlers import CONTROLLER
from ottla.server.metadata.image import BROKER, ConfigChanged, Endpoint, QuotasChanged
from ottla.server.network.context import NetworkContext
from ottla.server.network.listener import Listener
from ottla.server.network.owner import Serves
from ottla.server.network.socket_settings import SocketSettings, max_own_connections
from ottla.server.requests.context import BrokerContext
from ottla.server.settings.listeners import ENCRYPTED, LOGS_IN

if TYPE_CHECKING:
    from random import Random

    from ottla.log.disk.directory import LogDirectory
    from ottla.log.disk.files import Disk
    from ottla.server.broker.logins import ListenerLogins
    from ottla.server.broker.quotas_in_force import QuotasInForce
    from ottla.server.broker.secured_listeners import SecuredListeners
    from ottla.server.broker.simulated_nodes import SimulatedNodes
    from ottla.server.metadata.cluster import Cluster
    from ottla.server.metrics.server import MetricsServer
    from ottla.server.metrics.sources import Sources
    from ottla.server.security.client import ClientSecurity
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.server.settings.listeners import ListenerAddress

logger = logging.getLogger("ottla.server.broker")

Around = Callable[["Broker", Dispatch], Serves]
"""Takes a broker that starts and what serves the requests of its listeners; returns what is to serve them instead."""

STOP_GRACE_SECONDS: Final = 0.05
"""The time for which a stop waits for running requests to finish."""


class Broker:
    """Runs one broker; see the module's docstring. Call `start` and `stop` once each, in a running event loop.

    `cluster_id` is given to empty log directories; formatted ones must have this id. With None they may have any, and empty ones
    get a new one. `around` is what a test puts around the requests of all listeners (server/testkit), and `nodes` are those that
    it has this broker simulate.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        cluster_id: str | None = None,
        disk: Disk | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        network: Network | None = None,
        around: Around | None = None,
        nodes: SimulatedNodes | None = None,
    ) -> None:
        self.config = config
        self.cluster_id = ""
        self.listeners: list[Listener] = []
        self.controller_listeners: list[Listener] = []
        """The listeners of `controller.listener.names`, for administrators. They are not advertised to clients of brokers."""
        self.simulated_listeners: list[Listener] = []
        """The listeners of the nodes that this broker simulates besides itself."""
        self.chain = Chain()
        """The links that stand around the handlers on all listeners."""
        self.context: BrokerContext | None = None
        self.offline = asyncio.Event()
        """Set once every log directory, or the one of the metadata log, has failed, or the broker cannot go on in its cluster:
        the program should then end the broker."""
        self.failure: str | None = None
        """The reason why the broker cannot go on in its cluster."""
        self._wanted_cluster_id = cluster_id or config.cluster_id
        self._disk = disk or OsDisk()
        self._clock = clock
        self._random = random or from_system()
        self._network = network or OsNetwork()
        self._around = around
        self._nodes = nodes
        self._logs: LogManager | None = None
        self._network_context: NetworkContext | None = None
        self._scheduler: Scheduler | None = None
        self._compaction: Compaction | None = None
        self._quotas: QuotasInForce | None = None
        self._logins: ListenerLogins | None = None
        self._metrics: MetricsServer | None = None
        self.sources: Sources | None = None
        """The objects from which the metrics are read; None if they are off."""
        self._for_controllers: list[tuple[ListenerAddress, Listener]] = []  # those that are to be opened
        self.secured: SecuredListeners | None = None
        """The listeners that are not PLAINTEXT; None if there are none."""
        self.endpoints: list[Endpoint] = []  # from the opening of the listeners on
        self._broker_epoch = -1  # that of the last stop until the broker is registered, if that stop was clean
        self._found_clean = False
        self._coordinators: CoordinatorUpdates | None = None
        self.cluster: Cluster | None = None
        """The cluster of a broker that was started."""
        self._registered = False
        self._accepts = False  # clients, from the last steps of the start on
        self._idle_settings: IdleSettings | None = None

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self.listeners[0].port

    @property
    def bootstrap(self) -> str:
        """The host:port of the first advertised listener, for clients to bootstrap from; of all nodes if it simulates several."""
        if self._nodes is not None:
            return self._nodes.bootstrap()
        endpoint = self.endpoints[0]
        return f"{endpoint.host}:{endpoint.port}"

    @property
    def metrics_url(self) -> str | None:
        """The URL of /metrics, /healthz and /readyz, without the path; None if they are off."""
        return self._metrics.url if self._metrics is not None else None

    async def start(self) -> None:
        """Starts the broker; it serves clients when this returns.

        Raises StorageError and its subclasses (a directory is locked, or belongs to another cluster), MetadataError, OSError if
        an address cannot be bound, and ConfigError if that of the metrics cannot. Nothing is then left open. If it is cancelled
        when clients are let in already, the stop is as clean as one after the start: the broker may lead partitions by then, and
        others are to take them over at once. Before the registration nothing is appended, so a start that ends there, also by an
        error, leaves the log directories as clean as it found them: controllers take a broker whose last stop was not clean out
        of the eligible leader replicas (KIP-966).
        """
        try:
            await self._start()
        except BaseException as error:
            given_up = isinstance(error, asyncio.CancelledError)
            clean = (given_up and self._accepts) if self._registered else self._found_clean
            if given_up and not clean:
                logger.warning("stopped before the start was complete, so the next start will run recovery")
            await self._close(clean=clean)
            raise

    async def _start(self) -> None:
        clock = self._clock = self._clock or LoopClock()
        if any(address.protocol in ENCRYPTED for address in self.config.all_listeners):
            from ottla.server.broker.secured_listeners import check_before_formatting

            check_before_formatting(self.config, self._disk, clock)
        self._load_logins(clock)
        security = secure_connections(self.config, self._disk, clock, self._random)
        logs = await self._open_logs(clock, security.controllers)
        nodes, make = (None, None) if self._nodes is None else (self._nodes.ids, self._nodes.make_cluster)
        cluster = await open_cluster(
            logs, self._disk, self.config, self.cluster_id, clock, self._random, self._network, security.controllers, make
        )
        self.cluster = cluster
        cluster.on_failure = self._fail
        context = self.context = make_context(self.config, cluster, logs, clock, self._random, nodes)
        lead_partitions(context, cluster)
        self._watch_absence(context, cluster)
        reach_other_brokers(context, self._network, security.brokers)
        self._authorize(context)
        self._measure_requests(context, logs, cluster)
        await self._open_listeners(context)
        self.endpoints = find_endpoints(self.config, self.listeners, self._network)
        if self._nodes is not None:
            await self._nodes.open(self)
        await self._open_metrics()
        self._broker_epoch = await cluster.register(self.endpoints, rack=self.config.rack)
        self._registered = True
        follow_partitions(context, cluster, self._network, security.brokers)
        start_replicas(context, cluster, logs)
        self._coordinators = CoordinatorUpdates(context)
        self._coordinators.start()
        self._reconfigure(context)
        self._idle_settings = IdleSettings(context.metadata, asks_clients=self.config.values["ottla.client.metrics"])
        self._idle_settings.log_present()
        context.metadata.subscribe(self._follow)
        self._begin_passes(context, logs, cluster)
        self._lose_directories(logs)
        self._accepts = True
        for listener in (*self.listeners, *self.simulated_listeners):
            await listener.accept()
        await cluster.ready()
        if context.authorizer is not None:
            from ottla.server.broker.authorization import warn_of_anonymous_brokers

            warn_of_anonymous_brokers(context)
        settings = SocketSettings.from_broker(context.settings.values)
        await open_controller_listeners(self._for_controllers, settings, self.controller_listeners)
        if self.sources is not None:
            self.sources.serving = True

    async def _open_logs(self, clock: Clock, security: ClientSecurity | None) -> LogManager:
        """Locks and formats the log directories and opens their partitions, the first two steps of a start. `security` is that of
        connections to controllers."""
        values = self.config.values
        logs = self._logs = LogManager(
            self._disk,
            self.config.log_dirs,
            clock.now_ms,
            LogConfig.from_overrides({}, values),
            random=self._random,
            producer_expiration_ms=values["producer.id.expiration.ms"],
            max_producers=values["ottla.producer.ids.per.partition"],
            max_producers_in_all=share_client_memory(values).producers // PRODUCER_BYTES,
            metadata_dir=self.config.metadata_log_dir,
            follows_metadata=self.config.follows_controllers,
            recovery_threads=values["num.recovery.threads.per.data.dir"],
            max_damaged_bytes=values["ottla.damaged.files.max.bytes"],
            recovery_config_for=partial(recovery_config, self._disk, self.config),
        )
        self._watch(logs)
        if self.config.follows_controllers:
            await check_membership(self._disk, self.config, self._wanted_cluster_id, clock, self._random, self._network, security)
        logs.lock()
        self.cluster_id = format_directories(logs, self.config, self._wanted_cluster_id, self._random, self._network)
        await open_partitions(logs)
        if logs.previous_broker_epoch is not None:
            self._found_clean, self._broker_epoch = True, logs.previous_broker_epoch
        return logs

    def _watch(self, logs: LogManager) -> None:
        loop = asyncio.get_running_loop()

        def failed(_: LogDirectory) -> None:
            loop.call_soon_threadsafe(self._lose_directories, logs)  # a flush may fail in another thread

        for directory in logs.directories:
            directory.on_failure = failed

    def _fail(self, reason: str) -> None:
        """Has the program end the broker, because it cannot go on in its cluster."""
        logger.critical("the broker cannot go on: %s", reason)
        self.failure = reason
        self.offline.set()

    def _lose_directories(self, logs: LogManager) -> None:
        """Handles failed log directories: their partitions no longer have a leader. If no directory works any more, or the one of
        the metadata log does not, the broker has to end, as in Kafka.
        """
        failed = {directory.path for directory in logs.directories if directory.failed is not None}
        if self.config.metadata_log_dir in failed or failed.issuperset(self.config.log_dirs):
            if not self.offline.is_set():
                logger.critical(
                    "the broker cannot go on, because these log directories have failed: %s", ", ".join(sorted(failed))
                )
                self.offline.set()
            return
        if failed and self._scheduler is not None and self.context is not None and self.cluster is not None:
            lost = self.context.replicas.drop_lost()
            try:
                self.cluster.lose_directories(failed, lost)
            except StorageError as error:
                logger.error("could not record in the metadata yet that %s failed: %s", ", ".join(sorted(failed)), error)

    def _serving(self, context: BrokerContext, role: str) -> Serves:
        """Returns what serves the requests of the listeners of a role."""
        dispatch = Dispatch(context, self.chain, role)
        return dispatch if self._around is None else self._around(self, dispatch)

    async def _open_listeners(self, context: BrokerContext) -> None:
        values = self.config.values
        self._network_context = NetworkContext(
            context.clock,
            context.purgatory,
            self._network,
            max_client_bytes=share_client_memory(values).connections,
            max_request_bytes=values["socket.request.max.bytes"],
        )
        await self.open_node(context if self._nodes is None else self._nodes.own_context(context), self.listeners)
        controller, settings = self._serving(context, CONTROLLER), SocketSettings.from_broker(values)
        for address in self.config.controller_listeners:
            if address.port:
                listener = self._make_listener(address, controller, settings)
                self._for_controllers.append((address, listener))
                if self._logins is not None:
                    self._logins.serve(listener, context, CONTROLLER)
        warn_of_open_listeners(self.config.listeners, context.settings)
        if self.secured is not None or self._logins is not None:
            assert self.cluster is not None
            self.cluster.check_listeners(self._check_listeners)

    async def open_node(self, context: BrokerContext, listeners: list[Listener]) -> None:
        """Opens the addresses of the broker, or of a node that it simulates, and adds their listeners; they do not accept yet.
        `context` is what their requests are served from, and has the settings. Raises OSError if an address cannot be bound."""
        dispatch, settings = self._serving(context, BROKER_ROLE), SocketSettings.from_broker(context.config.values)
        for address in context.config.listeners:
            listener = self._make_listener(address, dispatch, settings)
            listeners.append(listener)
            if self._logins is not None:
                self._logins.serve(listener, context, BROKER_ROLE)
            await listener.open(address.host, address.port)

    def _check_listeners(self, texts: Mapping[str, str], values: Mapping[str, Any], written: Collection[str]) -> None:
        """Checks the settings of security that would count, before a client's change is made that writes those in `written`.
        Raises ConfigError."""
        if self.secured is not None:
            self.secured.check(texts, values, written)
        if self._logins is not None:
            self._logins.check(texts, values, written)

    def _make_listener(self, address: ListenerAddress, dispatch: Serves, settings: SocketSettings) -> Listener:
        """Returns the listener of this address; the code of security protocols is loaded with the first that has one. Raises
        ConfigError if a listener cannot be secured as the settings say."""
        network = self._network_context
        assert network is not None
        if address.protocol not in ENCRYPTED:
            return Listener(address.name, network, dispatch, settings)
        if self.secured is None:
            from ottla.server.broker.secured_listeners import SecuredListeners

            assert self.context is not None
            self.secured = SecuredListeners(self.context.settings, self._disk, self.context.clock)
        return self.secured.make(address, network, dispatch, settings)

    @property
    def all_listeners(self) -> list[Listener]:
        """All listeners, in the order in which they were opened."""
        return [*self.listeners, *self.simulated_listeners, *self.controller_listeners]

    def _authorize(self, context: BrokerContext) -> None:
        """Has requests authorised if there is an authorizer; its code is loaded only then."""
        if not self.config.values["authorizer.class.name"]:
            return
        from ottla.server.broker.authorization import authorize

        authorize(context, self.chain)

    def _watch_absence(self, context: BrokerContext, cluster: Cluster) -> None:
        """Has it noticed when this broker stood still while others could take over; the code for that is loaded only then."""
        if cluster.look is None:
            return
        from ottla.server.broker.absence import watch_absence

        def reload() -> None:
            if self._coordinators is not None:  # else the start does it
                self._coordinators.start()

        watch_absence(cluster, self.chain, context.replicas, reload)

    def _load_logins(self, clock: Clock) -> None:
        """Reads how clients log in, if they have to on any listener; the code for that is loaded only then. Raises
        ConfigError."""
        if not any(address.protocol in LOGS_IN for address in self.config.all_listeners):
            return
        from ottla.server.broker.logins import ListenerLogins

        self._logins = ListenerLogins(self.config, clock, self._random, self._disk.read_bytes, self._network)

    def _measure_requests(self, context: BrokerContext, logs: LogManager, cluster: Cluster) -> None:
        """Has the requests on all listeners measured, if the metrics are on that will read this."""
        if self.config.values["ottla.metrics.port"] is None:
            return
        from ottla.server.dispatch.measured import RequestMetrics
        from ottla.server.metrics.sources import Sources

        requests = RequestMetrics(context.clock.ticks_ns)
        self.chain.measure(requests.make_route)
        self.sources = Sources(context, requests, self.listeners, logs, cluster=cluster)

    async def _open_metrics(self) -> None:
        """Serves the metrics if they are on; their code is loaded only then."""
        if self.sources is None:
            return
        from ottla.server.metrics.server import MetricsServer

        self._metrics = MetricsServer(self.sources, self._network)
        await self._metrics.open(self.config.values["ottla.metrics.host"], self.config.values["ottla.metrics.port"])

    def _follow(self, event: object) -> None:
        """Passes a change of the metadata on to coordinators, listeners and the limits of clients."""
        assert self.context is not None
        assert self._coordinators is not None
        self._coordinators.follow(event)
        if isinstance(event, ConfigChanged):
            assert self._idle_settings is not None
            self._idle_settings.log_new(event.resource_type, event.name)
            if event.resource_type == BROKER:
                self._reconfigure(self.context)
        elif isinstance(event, QuotasChanged):
            self._limit_clients(self.context, event)

    def _reconfigure(self, context: BrokerContext) -> None:
        """Applies the broker's settings that take effect at once. The replicas apply those that are defaults of topics."""
        assert self._logs is not None
        values = context.settings.values
        settings = SocketSettings.from_broker(values)
        for listener in self.all_listeners:
            listener.settings = settings
            listener.max_own_connections = max_own_connections(listener.name, context.settings.texts)
        if self.secured is not None and self._scheduler is not None:
            self.secured.reload()
        if self._logins is not None:
            self._logins.reconfigure(context)
        self._logs.set_producer_expiration(values["producer.id.expiration.ms"])
        if context.fetchers is not None:
            context.fetchers.resize(values["num.replica.fetchers"])
            context.fetchers.throttle.limit = values["follower.replication.throttled.rate"]
        self._limit_clients(context)
        if context.leading is not None:
            context.leading.throttle.limit = values["leader.replication.throttled.rate"]

    def _limit_clients(self, context: BrokerContext, changed: QuotasChanged | None = None) -> None:
        """Applies the limits of clients and of new connections, after a change of quotas or settings; their code is loaded with
        the first limit."""
        if self._quotas is None:
            if not quotas_configured(self.config, context.metadata):
                return
            from ottla.server.broker.quotas_in_force import QuotasInForce

            self._quotas = QuotasInForce(context, self.chain, self.listeners, self._network)
            changed = None  # it has read all quotas that there are now
        self._quotas.refresh(changed)

    def _begin_passes(self, context: BrokerContext, logs: LogManager, cluster: Cluster) -> None:
        scheduler = self._scheduler = Scheduler(context.clock)
        self._compaction = Compaction(context, logs, self._disk, self.sources)
        schedule_passes(scheduler, context, logs, self._compaction, cluster.passes())
        if self.secured is not None:
            scheduler.every("TLS reload", self.secured.interval_ms, self.secured.reload)

    async def stop(self) -> None:
        """Stops serving, makes everything durable and marks the stop as clean. Raises StorageError if that fails."""
        await self._close(clean=True)

    async def drop(self) -> None:
        """Closes all connections and files at once and writes nothing more, so that the log directories are left as by a process
        that was killed. The next start runs recovery."""
        for listener in self.all_listeners:
            listener.drop()
        await self._close(clean=False)

    async def _close(self, *, clean: bool) -> None:
        """Closes all parts, each of them even if closing an earlier one failed or the wait for it was cancelled."""
        async with contextlib.AsyncExitStack() as last_first:
            if self._logs is not None:
                last_first.callback(self._logs.close, clean, self._broker_epoch)
            if self.context is not None:
                last_first.callback(self.context.replicas.close, clean=clean)
            if self.cluster is not None:
                last_first.push_async_callback(self.cluster.close)
            if clean and self.cluster is not None and self._registered:
                last_first.push_async_callback(self.cluster.leave)
            if self._metrics is not None:
                last_first.callback(self._metrics.close)
            if self.context is not None:
                last_first.callback(self.context.close_groups)
                last_first.push_async_callback(settle, self.context)
                if self.context.log_dirs is not None:
                    last_first.push_async_callback(self.context.log_dirs.stop)
                for peers in (self.context.other_brokers, self.context.fetchers):
                    if peers is not None:
                        last_first.push_async_callback(peers.close)
            if self._scheduler is not None:
                last_first.push_async_callback(self._scheduler.stop)
            if self._compaction is not None:
                last_first.callback(self._compaction.stop)
            last_first.callback(self.chain.close)
            if self._logins is not None:
                last_first.callback(self._logins.close)
            for listener in reversed(self.all_listeners):
                last_first.push_async_callback(listener.close, STOP_GRACE_SECONDS)
            for listener in reversed(self.all_listeners):
                last_first.callback(listener.stop_accepting)
            if clean and self.cluster is not None and self._registered:
                last_first.push_async_callback(self.cluster.begin_leaving)
            if self.sources is not None:
                self.sources.serving = False
