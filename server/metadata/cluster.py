"""Cluster: the broker's place in a cluster, whoever its controllers are.

A broker opens its cluster, registers, serves, and leaves; in between it follows the image and asks the controller for changes.
What may have to ask controllers over the network is a coroutine; a cluster of one awaits nothing in it.
`broker/start.py` chooses the implementation; nothing else knows which it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.server.metadata.controller import Controller
    from ottla.server.metadata.image import Endpoint, MetadataImage


class Pass(NamedTuple):
    """Recurring work of the cluster, for the broker's scheduler."""

    name: str
    interval_ms: int
    action: Callable[[], object]
    """A plain or an async function. It may raise StorageError, which the scheduler logs."""


class Cluster(ABC):
    """See the module's docstring."""

    @property
    @abstractmethod
    def image(self) -> MetadataImage:
        """Returns the metadata as this broker knows them now, replayed from its log. Subscribers hear of every change."""

    @property
    @abstractmethod
    def controller(self) -> Controller:
        """Who changes the metadata."""

    @abstractmethod
    async def register(self, endpoints: Sequence[Endpoint], *, rack: str | None = None) -> int:
        """Registers this broker, which can be reached at `endpoints` (advertised listeners), and returns its new broker epoch.

        Call it once a start, when the ports are known and before the first request. Raises StorageError.
        """

    @abstractmethod
    async def ready(self) -> None:
        """Says that the broker accepts requests now: it need not be fenced any longer."""

    @abstractmethod
    async def begin_leaving(self) -> None:
        """Asks others to lead this broker's partitions, as in Kafka's controlled shutdown, while it still serves its clients.

        Raises nothing: a broker that cannot reach its controllers stops all the same.
        """

    @abstractmethod
    async def leave(self) -> None:
        """Says that the broker has stopped serving: it leads nothing and is fenced, as after Kafka's controlled shutdown.

        A broker that the metadata shows as alive would keep an Apache Kafka that takes the directory over waiting for its
        session's end (9 s). Raises StorageError; without a directory to write it to, nothing happens.
        """

    @abstractmethod
    def lose_directories(self, failed: Collection[str], lost: Mapping[tuple[str, int], str | None]) -> None:
        """Says that this broker's log directories in `failed`, absolute paths, do not work any more. `lost` are the partitions
        that it led and has no log of now, each with its directory as far as that is known. Raises StorageError.
        """

    @abstractmethod
    def assign_directories(self, assignments: Sequence[tuple[bytes, int, bytes]]) -> None:
        """Says where replicas of this broker lie: (topic id, partition, directory id). What is gone is left out. Raises
        StorageError."""

    @abstractmethod
    def passes(self) -> Sequence[Pass]:
        """Returns the recurring work that the cluster asks of this broker, from its registration on."""
