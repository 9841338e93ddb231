"""`Cluster`, the interface between a broker and its cluster, whichever nodes are its controllers.

A broker opens its cluster, registers, serves, leaves, and closes it; in between it follows the image and asks the controller for
changes.
What may have to ask controllers over the network is a coroutine; a cluster of one awaits nothing in it. `broker/start.py` chooses
the implementation, and nothing else knows which it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.log.errors import StorageError

if TYPE_CHECKING:
    from ottla.server.metadata.controller import Controller
    from ottla.server.metadata.controller_settings import ListenerCheck
    from ottla.server.metadata.image import Endpoint, MetadataImage
    from ottla.server.metadata.isr_changes import IsrChanges
    from ottla.server.metadata.withdrawals import Withdrawals


class CannotJoin(StorageError):
    """The broker cannot join its cluster. The text is one line for whoever starts it, and names the setting."""


class Pass(NamedTuple):
    """Recurring work of the cluster, for the broker's scheduler."""

    name: str
    interval_ms: int
    action: Callable[[], object]
    """A plain or an async function. It may raise StorageError, which the scheduler logs."""


class Tie(NamedTuple):
    """The tie between a broker and controllers on other nodes, as metrics show it: how well the broker keeps up."""

    heartbeat_age_s: float
    """Time since a controller last answered a heartbeat."""
    longest_gap_s: float
    """The longest time between two answered heartbeats."""
    metadata_age_s: float
    """Time since the Fetch was sent whose answer the image has in full."""
    last_applied_ms: int
    """The time at which the controllers wrote the last record that the image has, by their clock."""


class Cluster(ABC):
    """The broker's view of its cluster; the module's docstring says how it is used."""

    isr_changes: IsrChanges | None = None
    """The channel that takes changes of in-sync replicas to the controllers; None where this broker is its own, since then nobody
    follows."""
    withdrawals: Withdrawals | None = None
    """The channel that has other brokers lead damaged replicas; None where this broker is its own controller."""
    look: Callable[[], None] | None = None
    """Is to be called before each request is served: it notices that this broker stood still, while others may have taken over.
    None where nobody can."""
    on_doubt: Callable[[bool], object] | None = None
    """Is called with True when it is not known any more what this broker leads, and with False when it is."""
    on_failure: Callable[[str], object] | None = None
    """Is called, with the reason, if the broker cannot go on in this cluster and has to end."""

    @property
    @abstractmethod
    def image(self) -> MetadataImage:
        """The metadata as this broker knows it now, replayed from its log. Subscribers are called for every change."""

    @property
    @abstractmethod
    def controller(self) -> Controller:
        """The controller, which changes the metadata."""

    @abstractmethod
    def check_listeners(self, check: ListenerCheck) -> None:
        """Has changes of this broker's settings refused if `check` raises ConfigError."""

    @abstractmethod
    async def register(self, endpoints: Sequence[Endpoint], *, rack: str | None = None) -> int:
        """Registers this broker, which can be reached at `endpoints` (advertised listeners), and returns its new broker epoch.

        It is called once, at the start, when the ports are known and before the first request. When it returns, the image is as
        the controllers have it now, with this registration; until then it may be behind. Raises StorageError, and MetadataError
        if the metadata cannot be read.
        """

    @abstractmethod
    async def ready(self) -> None:
        """Announces that the broker accepts requests now and need not be fenced any longer."""

    @abstractmethod
    async def begin_leaving(self) -> None:
        """Asks others to lead this broker's partitions, as in Kafka's controlled shutdown, while it still serves its clients.

        Raises nothing: a broker that cannot reach its controllers stops all the same.
        """

    @abstractmethod
    async def leave(self) -> None:
        """Announces that the broker has stopped serving: it leads nothing and is fenced, as after Kafka's controlled shutdown.

        If the metadata showed the broker as alive, an Apache Kafka that takes over the directory would wait for the end of its
        session (9 s). Raises StorageError; if there is no directory to write to, nothing happens.
        """

    @abstractmethod
    async def close(self) -> None:
        """Ends what the cluster keeps running: connections, tasks, threads. It is called once, after `leave`, or without it if
        the stop is not clean or the start failed, and while the logs are still open. Raises nothing.
        """

    @abstractmethod
    def lose_directories(self, failed: Collection[str], lost: Mapping[tuple[str, int], str | None]) -> None:
        """Announces that this broker's log directories in `failed`, absolute paths, do not work any more. `lost` are the
        partitions that it led and whose logs are gone, each with its directory as far as that is known. Raises StorageError.
        """

    @abstractmethod
    def assign_directories(self, assignments: Sequence[tuple[bytes, int, bytes]]) -> None:
        """Announces in which directories replicas of this broker lie: (topic id, partition, directory id). Partitions that no
        longer exist are ignored. Raises StorageError."""

    def tie(self) -> Tie | None:
        """Returns how close this broker is to its controllers; None if it is its own, or has not registered yet."""
        return None

    @abstractmethod
    def passes(self) -> Sequence[Pass]:
        """Returns the recurring work that the cluster asks of this broker, from its registration on."""
