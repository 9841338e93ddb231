"""Clients that ask again and again where partitions end, which must never be less than before (KIP-207).

What a broker says that does not know yet that another one leads does not count: no broker can help that, Kafka's neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from random import Random
from typing import Final

from compat_tests.anomalies.history import Event, Key, operations
from compat_tests.anomalies.records import Anomaly
from ottla.wire.messages import list_offsets
from tests.sim.client import Client, Lost
from tests.sim.cluster.client import ClusterClient
from tests.sim.cluster.controller import PartitionState
from tests.sim.cluster.world import ClusterWorld
from tests.sim.producers import place_of

_LATEST: Final = -1
_ASKED_AT_S: Final = 0.002
_ASKED: Final = 10
"""So often a new leader is asked if it does not answer: it hears of its election in some milliseconds."""


class EndWatcher:
    """Asks for the latest offsets of partitions."""

    def __init__(self, world: ClusterWorld, name: str, keys: list[Key]) -> None:
        self.world = world
        self.keys = keys
        self.random: Random = world.random(name)
        self.client: Client = world.client(name)
        self.process = world.process()
        self.latest = 0
        """The last answer."""

    async def once(self) -> None:
        """Asks for one of them."""
        await self._ask(self.random.choice(self.keys))

    async def _ask(self, key: Key) -> bool:
        """Asks for the latest offset of a partition; returns whether it was answered."""
        topic, partition = place_of(key)
        wanted = list_offsets.ListOffsetsPartition(partition, timestamp=_LATEST)
        request = list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic(topic, [wanted])])
        operation = self.world.recorder.invoke(self.process, "latest")
        try:
            answer = (await self.client.call(list_offsets, 6, request)).topics[0].partitions[0]
        except Lost:
            operation.info()
            return False
        if answer.error_code:
            operation.info(error=answer.error_code)
            return False
        self.latest = answer.offset
        assert isinstance(self.client, ClusterClient)
        if self.world.is_unaware(key, self.client.leader_of(place_of(key))):
            operation.info(unaware={key: answer.offset})
        else:
            operation.ok(latest={key: answer.offset})
        return True

    def restart(self) -> None:
        self.world.recorder.mark(self.process, "crash")
        self.client.close()
        self.process = self.world.process()


class ElectionWatcher(EndWatcher):
    """Asks each new leader of a partition for the latest offset, as soon as that broker knows that it leads."""

    def __init__(self, world: ClusterWorld, name: str, keys: list[Key]) -> None:
        super().__init__(world, name, keys)
        self._leaders: dict[Key, int] = {}
        self._elected: dict[Key, int] = {}
        self._is_elected = asyncio.Event()
        world.quorum.controller.on_change.append(self._note)

    def _note(self, state: PartitionState) -> None:
        if state.leader > 0 and self._leaders.get(state.key) != state.leader:
            self._leaders[state.key] = self._elected[state.key] = state.leader
            self._is_elected.set()

    async def ask_new_leaders(self) -> None:
        """Asks until the task is cancelled, as long as something may break."""
        assert isinstance(self.client, ClusterClient)
        while True:
            await self._is_elected.wait()
            self._is_elected.clear()
            elected, self._elected = self._elected, {}
            for key, leader in elected.items():
                for _ in range(_ASKED):
                    self.client.believe(place_of(key), leader)
                    if self.world.quiet or self._leaders[key] != leader or await self._ask(key):
                        break
                    await asyncio.sleep(_ASKED_AT_S)


def check_latest(events: Iterable[Event]) -> Iterator[Anomaly]:
    """Yields an anomaly for each latest offset that is less than one that was answered before it was asked for."""
    answers = [each for each in operations(events) if each.ok and "latest" in each.fields]
    for later in sorted(answers, key=lambda each: each.completed):
        for key, offset in later.fields["latest"].items():
            before = [
                each.fields["latest"][key] for each in answers if each.completed < later.invoked and key in each.fields["latest"]
            ]
            if max(before, default=0) > offset:
                yield Anomaly("latest-backwards", key, f"{offset} in {later}, after {max(before)}")
