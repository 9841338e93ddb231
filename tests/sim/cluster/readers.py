"""A client that asks again and again where partitions end, which must never be less than before (KIP-207)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Final

from compat_tests.anomalies.history import Event, Key, operations
from compat_tests.anomalies.records import Anomaly
from ottla.wire.messages import list_offsets
from tests.sim.client import Client, Lost
from tests.sim.producers import place_of
from tests.sim.stage import Stage

_LATEST: Final = -1


class EndWatcher:
    """Asks for the latest offsets of partitions."""

    def __init__(self, world: Stage, name: str, keys: list[Key]) -> None:
        self.world = world
        self.keys = keys
        self.random: Random = world.random(name)
        self.client: Client = world.client(name)
        self.process = world.process()

    async def once(self) -> None:
        """Asks for one of them."""
        key = self.random.choice(self.keys)
        topic, partition = place_of(key)
        wanted = list_offsets.ListOffsetsPartition(partition, timestamp=_LATEST)
        request = list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic(topic, [wanted])])
        operation = self.world.recorder.invoke(self.process, "latest")
        try:
            answer = (await self.client.call(list_offsets, 6, request)).topics[0].partitions[0]
        except Lost:
            operation.info()
            return
        if answer.error_code:
            operation.info(error=answer.error_code)
        else:
            operation.ok(latest={key: answer.offset})

    def restart(self) -> None:
        self.world.recorder.mark(self.process, "crash")
        self.client.close()
        self.process = self.world.process()


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
