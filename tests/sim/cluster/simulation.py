"""One simulated run of a cluster, decided by its seed alone: which clients there are, and what breaks and when.

A run goes like that of one broker (`simulation.py` one folder up): clients work while things break, then all is repaired, every
client must get on, and everything is read from the beginning. The checker of anomalies judges what the clients saw, and a
`Watcher` what the brokers have (`watching.py`). The high watermark of a Fetch may go back after an election, in Kafka as well;
what ListOffsets answers may not. Members of groups and share groups, committers and transactions are simulated with one broker
only: here no client has to find a coordinator, and no internal topic has replicas.
"""

from __future__ import annotations

import asyncio
import itertools
import warnings
from collections.abc import Callable
from random import Random
from typing import Final
from unittest.mock import patch

from compat_tests.anomalies.checker import check
from compat_tests.anomalies.history import Key
from tests.sim.administrators import Administrator
from tests.sim.cluster.faults import FAULTS, Fault
from tests.sim.cluster.heartbeat import TimedHeartbeat
from tests.sim.cluster.loop import ClusterLoop
from tests.sim.cluster.readers import ElectionWatcher, EndWatcher, check_latest
from tests.sim.cluster.watching import Watcher
from tests.sim.cluster.world import ClusterWorld
from tests.sim.producers import IdempotentProducer, PlainProducer
from tests.sim.readers import Consumer, read_whole
from tests.sim.simulation import STUCK_S, Outcome, Working, get_on, outcome_of, play, repair, run_to_end
from tests.sim.stage import until

KEYS: Final = ["t-0", "t-1"]
TRIMMED: Final = "d-0"
ALL_KEYS: Final = [*KEYS, TRIMMED]
_MAY_GO_BACK: Final = frozenset(("hw-backwards", "lso-backwards"))
_ROUNDS_AFTER: Final = 2
_MOST_LIVES: Final = 12
"""After so many lives of brokers nothing breaks any more: a start costs more than most of what clients do."""
_PAUSE_S: Final = 0.6
_LOOKED_AT_S: Final = 0.05
_LAST_READ_S: Final = 60.0
_LIMIT_S: Final = 600.0
"""So much simulated time is enough for every run; what is not over then is stuck."""


def simulate(seed: int, said: Callable[[str], None] | None = None) -> Outcome:
    """Runs a seed to its end and returns what came of it. `said` gets a line for everything that happens."""
    with patch("ottla.server.quorum.cluster.Heartbeat", TimedHeartbeat), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "coroutine .* was never awaited")  # what a process had begun that was killed
        world = ClusterWorld(seed, ClusterLoop(Random(f"{seed}/threads")))
        world.said = said
        run = _Run(world)
        found = play(world, run.all())
    found += run.watcher.found
    events = world.recorder.events
    found += [each for each in check(events, stuck_ns=STUCK_S * 1_000_000_000) if each.name not in _MAY_GO_BACK]
    found += check_latest(events)
    return outcome_of(world, found)


class _Run:
    """The plan of one seed."""

    def __init__(self, world: ClusterWorld) -> None:
        self.world = world
        self.watcher = Watcher(world)
        plan = self._plan = world.random("plan")
        self._segment_bytes = plan.choice((1 << 20, 600, 2000))
        self._rounds = plan.randint(8, 20)
        self._mean_s = plan.choice((0.8, 2.0, 4.0))
        self._clients = self._choose_clients()
        self._faults = self._choose_faults()

    def _choose_clients(self) -> list[Working]:
        """Returns some clients that write, some that read, and one that watches the logs' ends."""
        plan, world = self._plan, self.world
        values = itertools.count(1)  # one for all: a value has one writer
        chosen: list[Working] = [
            *(PlainProducer(world, f"plain-{at}", ALL_KEYS, values, leader_lasts=False) for at in range(plan.randint(1, 2))),
            *(IdempotentProducer(world, f"idempotent-{at}", ALL_KEYS, values) for at in range(plan.randint(1, 2))),
            *(Consumer(world, f"reader-{at}", ALL_KEYS, committed=plan.random() < 0.3) for at in range(plan.randint(1, 2))),
        ]
        if plan.random() < 0.5:
            chosen.append(Trimmer(world, "trimmer", TRIMMED))
        return [*chosen, EndWatcher(world, "ends", ALL_KEYS)]

    def _choose_faults(self) -> list[Fault]:
        """Returns the kinds of faults of this run; a few runs have none."""
        return [] if self._plan.random() < 0.05 else [fault for fault in FAULTS if self._plan.random() < 0.4]

    async def all(self) -> None:
        elections = ElectionWatcher(self.world, "elections", ALL_KEYS)
        await run_to_end(self._story(), [self.world.keep_running(), self._look(), elections.ask_new_leaders()], _LIMIT_S)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOKED_AT_S)
            self.watcher.look()

    async def _story(self) -> None:
        world = self.world
        await until(lambda: all(node.broker is not None for node in world.nodes.values()))
        settings = {"min_insync_replicas": "2", "internal_segment_bytes": str(self._segment_bytes)}
        world.quorum.controller.create_topic("t", [[1, 2, 3], [2, 3, 1]], **settings)
        world.quorum.controller.create_topic("d", [[3, 1, 2]], **settings)
        await self._until_whole("new topics")
        healed = asyncio.Event()
        working = [asyncio.ensure_future(self._work(client, healed)) for client in self._clients]
        breaking = [asyncio.ensure_future(self._break(fault)) for fault in self._faults]
        await asyncio.wait([asyncio.ensure_future(self._broken_enough(working))])
        await repair(world, breaking, healed, working)
        await self._until_whole("the end")
        for committed in (False, True):
            await read_whole(world, ALL_KEYS, committed=committed, limit_s=_LAST_READ_S)
        await asyncio.sleep(1.0)  # for the followers to hear of the last high watermark and log start
        self.watcher.look_at_the_end()

    async def _until_whole(self, when: str) -> None:
        """Waits until all replicas are in sync and have what their leaders have. Raises TimeoutError if that takes too long."""
        over_at = self.world.loop.time() + STUCK_S
        await until(lambda: self.world.is_settled() or self.world.loop.time() > over_at)
        if not self.world.is_settled():
            raise TimeoutError(f"not all is replicated at {when}: {self.world.describe()}")

    async def _broken_enough(self, working: list[asyncio.Task[None]]) -> None:
        over_at = self.world.loop.time() + self._rounds * _PAUSE_S * 1.5
        await until(lambda: self.world.loop.time() >= over_at or all(task.done() for task in working), 0.2)

    async def _work(self, client: Working, healed: asyncio.Event) -> None:
        while not healed.is_set():
            await client.once()
            await asyncio.sleep(client.random.random() * _PAUSE_S)
            if client.random.random() < 0.01:
                client.restart()
        await get_on(self.world, client, _ROUNDS_AFTER, _PAUSE_S)

    async def _break(self, fault: Fault) -> None:
        random = self.world.random(fault.__name__)
        while self.world.lives < _MOST_LIVES:
            await asyncio.sleep(random.expovariate(1 / self._mean_s))
            await until(lambda: not self.world.is_weak())
            await fault(self.world, random)


class Trimmer(Administrator):
    """Deletes records and lists topics. What it wants to delete is often all, or nearly all."""

    def __init__(self, world: ClusterWorld, name: str, trimmed: Key) -> None:
        super().__init__(world, name, trimmed)
        self._ends = EndWatcher(world, f"{name} ends", [trimmed])

    async def once(self) -> None:
        await self.random.choice((self._list, self._trim))()

    async def choose_trim(self) -> int:
        if self.random.random() < 0.3:
            return await super().choose_trim()
        await self._ends.once()
        return max(1, self._ends.latest - self.random.randrange(4))
