"""One simulated run, decided by its seed alone: which clients there are, what breaks and when, and how often it is asked.

The parts are in `world.py` (broker, disk, network), `producers.py`, `readers.py`, `members.py`, `sharers.py` and
`administrators.py` (clients). A run goes like this. The broker starts and the topics are made. Clients work while things break;
each kind of fault is there in some runs only, so that rare combinations come up as well. Then all is repaired, and every client
must get on. At the end share groups are given all that they have left, everything is read from the beginning, and the checker of
anomalies (compat_tests/anomalies) judges what the clients have seen.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Protocol

from compat_tests.anomalies.checker import check
from compat_tests.anomalies.history import Event, operations
from compat_tests.anomalies.records import Anomaly
from ottla.wire.batch import CorruptBatch
from tests.sim.administrators import Administrator, create_surely
from tests.sim.client import Client
from tests.sim.loop import Idle, VirtualLoop
from tests.sim.members import PARTITIONS, ClassicMember, Committer, ConsumerMember, StreamsMember, record_committed
from tests.sim.producers import RECORD_KEYS, IdempotentProducer, PlainProducer, TransactionalProducer
from tests.sim.readers import Consumer, Reader, read_whole
from tests.sim.sharers import ShareMember, begin_at_the_start, drain
from tests.sim.stage import Bugs, Stage, forget
from tests.sim.world import World

KEYS: Final = ["t-0", "t-1"]
TRIMMED: Final = "d-0"
COMPACTED: Final = {"c-0": RECORD_KEYS}
ALL_KEYS: Final = [*KEYS, TRIMMED, *COMPACTED]
STUCK_S: Final = 60
_ROUNDS_AFTER: Final = 3
_MOST_LIVES: Final = 8
"""After so many lives of the broker nothing breaks any more: a start costs more than most of what clients do."""
_PAUSE_S: Final = 0.5
_LAST_READ_S: Final = 60.0
_LIMIT_S: Final = 900.0
"""So much simulated time is enough for every run; what is not over then is stuck."""


Fault = Callable[[Random], Coroutine[Any, Any, None]]
"""Breaks something, as the generator says."""


class Working(Protocol):
    """A client of any kind."""

    client: Client
    random: Random
    process: int

    async def once(self) -> None:
        """Does one thing, or tries to."""
        ...

    def restart(self) -> None:
        """Crashes and comes back."""
        ...


@dataclass(slots=True)
class Outcome:
    """The outcome of a run. `found` are the anomalies, bugs of the broker among them (`exception`); `digest` is the same for two
    runs that did the same."""

    seed: int
    found: list[Anomaly]
    events: list[Event] = field(repr=False)
    lives: int
    seconds: float
    digest: str

    @property
    def names(self) -> set[str]:
        return {anomaly.name for anomaly in self.found}


def simulate(seed: int, said: Callable[[str], None] | None = None) -> Outcome:
    """Runs a seed to its end and returns what came of it. `said` gets a line for everything that happens."""
    loop = VirtualLoop(Random(f"{seed}/threads"))
    run = _Run(seed, loop)
    run.world.said = said
    world = run.world
    found = play(world, run.all())
    found += check(world.recorder.events, compacted=COMPACTED, stuck_ns=STUCK_S * 1_000_000_000)
    return outcome_of(world, found)


def play(world: Stage, story: Coroutine[Any, Any, None]) -> list[Anomaly]:
    """Runs a story on the world's loop to its end, and returns what went wrong but for what only the history shows."""
    found: list[Anomaly] = []
    loop = world.loop
    with Bugs(world):
        try:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(story)
        except (Idle, TimeoutError) as error:
            found.append(Anomaly("stuck", "the run", str(error) or "it does not end"))
        except CorruptBatch as error:
            found.append(Anomaly("corrupt", "what a client has fetched", str(error)))
        finally:
            forget(loop)
    errors = [(life, text) for life, text in loop.errors if life == 0 or world.goes_on(life)]
    found += [Anomaly("exception", f"life {life or world.lives}", text) for life, text in errors]
    return found + [Anomaly("exception", "the broker", text) for text in world.bugs]


async def run_to_end(story: Coroutine[Any, Any, None], beside: Sequence[Coroutine[Any, Any, None]], limit_s: float) -> None:
    """Runs a story with what goes on beside it. Raises what either raises, and TimeoutError if the story does not end in time."""
    others = [asyncio.ensure_future(each) for each in beside]
    telling = asyncio.ensure_future(story)
    await asyncio.wait((*others, telling), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    for task in (*others, telling):
        if task.done():
            task.result()
    if not telling.done():
        raise TimeoutError(f"it does not end within {limit_s} s")


async def repair(
    world: Stage, breaking: list[asyncio.Task[None]], healed: asyncio.Event, working: list[asyncio.Task[None]]
) -> None:
    """Has nothing break any more, repairs all, and waits until every client has got on. Raises what a client raises."""
    for task in breaking:
        task.cancel()
    world.heal()
    world.recorder.mark(0, "heal")
    world.say("all is repaired")
    healed.set()
    await asyncio.wait(working)
    for task in working:
        task.result()


async def get_on(world: Stage, client: Working, rounds: int, pause_s: float) -> None:
    """Has a client work on after the repair: at least so many rounds, and until it has had success or is stuck."""
    until, first = world.loop.time() + STUCK_S + 10.0, len(world.recorder.events)
    for turn in itertools.count():
        worked = world.last_ok.get(client.process, 0) >= first
        if turn >= rounds and (worked or world.loop.time() > until):
            return
        await client.once()
        await asyncio.sleep(client.random.random() * pause_s)


def outcome_of(world: Stage, found: list[Anomaly]) -> Outcome:
    """Returns what came of the run of a world."""
    digest = hashlib.sha256("\n".join(world.recorder.lines()).encode()).hexdigest()[:16]
    return Outcome(world.seed, found, world.recorder.events, world.lives, world.loop.time(), digest)


class _Run:
    """The plan of one seed."""

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        plan = self._plan = Random(f"{seed}/plan")
        small = plan.choice((1 << 20, 600, 2000))
        self._topic = {"internal_segment_bytes": str(small)} if small < 1 << 20 else {}
        self.world = World(seed, loop, every_flush=plan.random() < 0.6)
        self._rounds = plan.randint(8, 24)
        self._mean_s = plan.choice((0.7, 2.0, 5.0))
        self._clients = self._choose_clients()
        self._working = len(self._clients)
        self._broken_enough = asyncio.Event()

    def _choose_clients(self) -> list[Working]:
        """Returns some clients of some kinds, at least one that writes and one that reads."""
        plan, world = self._plan, self.world
        values = itertools.count(1)  # one for all: a value has one writer
        offsets = itertools.count(1)
        kinds: list[Callable[[str], list[Working]]] = [
            lambda name: [PlainProducer(world, name, ALL_KEYS, values)],
            lambda name: [IdempotentProducer(world, name, ALL_KEYS, values)],
            lambda name: [IdempotentProducer(world, f"{name}-{at}", KEYS, values) for at in range(2)],
            lambda name: [self._transactional(name, name, values)],
            lambda name: [self._transactional(f"{name}-{at}", name, values) for at in range(2)],
            lambda name: [ConsumerMember(world, f"{name}-{at}", "t", f"group-{name}") for at in range(2)],
            lambda name: [ClassicMember(world, f"{name}-{at}", "t", f"group-{name}") for at in range(2)],
            lambda name: [Committer(world, f"{name}-{at}", KEYS, "offsets", offsets) for at in range(2)],
            lambda name: [Administrator(world, name, TRIMMED)],
            lambda name: [StreamsMember(world, f"{name}-{at}", "t", f"group-{name}") for at in range(2)],
            lambda name: [ShareMember(world, f"{name}-{at}", "t", f"group-{name}") for at in range(2)],
        ]
        chosen: list[Working] = []
        for at in range(plan.randint(2, 4)):
            chosen += plan.choice(kinds)(f"client-{at}")
        chosen += plan.choice(kinds[1:5])("writer")
        for at in range(plan.randint(1, 2)):
            chosen.append(Consumer(world, f"reader-{at}", ALL_KEYS, committed=plan.random() < 0.6))
        return chosen

    def _transactional(self, name: str, transactional_id: str, values: Any) -> TransactionalProducer:
        world, reader = self.world, None
        if self._plan.random() < 0.5:
            reader = Reader(world.client(f"{name} reads"), world.random(f"{name} reads"))
        keys = self._plan.choice((KEYS, [*KEYS, TRIMMED], KEYS[:1]))
        modern = self._plan.random() < 0.6
        return TransactionalProducer(world, name, keys, values, transactional_id, modern=modern, reader=reader)

    # The run

    async def all(self) -> None:
        await run_to_end(self._story(), [self.world.server.keep_running()], _LIMIT_S)

    async def _story(self) -> None:
        world = self.world
        creator = world.client("creator")
        await create_surely(creator, "t", PARTITIONS, **self._topic)
        await create_surely(creator, "d", 1, **self._topic)
        await create_surely(creator, "c", 1, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms="3000")
        share_groups = sorted({client.group for client in self._clients if isinstance(client, ShareMember)})
        for group in share_groups:
            await begin_at_the_start(creator, group)
        healed = asyncio.Event()
        working = [asyncio.ensure_future(self._work(client, healed)) for client in self._clients]
        breaking = [asyncio.ensure_future(self._break(*fault, healed)) for fault in self._faults()]
        await self._broken_enough.wait()
        await repair(world, breaking, healed, working)
        for group in share_groups:
            await drain(world, "t", PARTITIONS, group, limit_s=_LAST_READ_S)
        for committed in (False, True):
            await read_whole(world, ALL_KEYS, committed=committed, limit_s=_LAST_READ_S)
        await self._read_groups()

    async def _read_groups(self) -> None:
        """Asks for every group's offsets once more, until there is an answer."""
        world, client = self.world, self.world.client("the last")
        done = operations(world.recorder.events)
        groups = {each.fields["group"] for each in done if "group" in each.fields and "offsets" in each.fields}
        for group in sorted(groups):
            process = world.process()
            for _ in range(40):
                if await record_committed(world, process, client, group, KEYS):
                    break
                await asyncio.sleep(0.5)

    async def _work(self, client: Working, healed: asyncio.Event) -> None:
        try:
            await self._work_while_things_break(client)
        finally:
            self._working -= 1
            if not self._working:
                self._broken_enough.set()
        await healed.wait()
        await get_on(self.world, client, _ROUNDS_AFTER, _PAUSE_S)

    async def _work_while_things_break(self, client: Working) -> None:
        for _ in range(self._rounds):
            if client.random.random() < 0.9:
                await self._until_it_serves()
            await client.once()
            await asyncio.sleep(client.random.random() * _PAUSE_S)
            if client.random.random() < 0.02:
                client.restart()

    async def _until_it_serves(self) -> None:
        """Waits for a broker, but not for ever."""
        for _ in range(50):
            if self.world.server.broker is not None:
                return
            await asyncio.sleep(0.1)

    # What breaks

    def _faults(self) -> list[tuple[str, Fault]]:
        """Returns the kinds of faults of this run, with names; a few runs have none."""
        kinds: list[tuple[str, Fault]] = [
            ("crash", self._crash),
            ("crash at a step", self._crash_at_a_step),
            ("stop", self._stop),
            ("disk", self._fail_disk),
            ("link", self._break_link),
            ("clock", self._set_clock),
        ]
        if self._plan.random() < 0.05:
            return []
        return [kind for kind in kinds if self._plan.random() < 0.45]

    async def _break(self, name: str, fault: Fault, healed: asyncio.Event) -> None:
        random = self.world.random(name)
        while not healed.is_set() and self.world.lives < _MOST_LIVES:
            await asyncio.sleep(random.expovariate(1 / self._mean_s))
            await fault(random)

    async def _crash(self, random: Random) -> None:
        self.world.server.crash()
        await asyncio.sleep(random.random() * 3)

    async def _crash_at_a_step(self, random: Random) -> None:
        server = self.world.server
        server.crash_at(random.choice((random.randrange(8), random.randrange(120))), server.crash)
        await asyncio.sleep(random.random() * 3)

    async def _stop(self, random: Random) -> None:
        await self.world.server.stop()
        await asyncio.sleep(random.random() * 4)

    async def _fail_disk(self, random: Random) -> None:
        self.world.server.fail_disk(random)

    async def _break_link(self, random: Random) -> None:
        client = random.choice(self._clients).client
        link = client.link
        if link is None or not link.open:
            return
        what = random.choice(("cut", "cut_after", "swallow", "slow_down", "half_close"))
        self.world.say(f"the connection of {client.name}: {what}")
        match what:
            case "cut_after":
                link.cut_after(random.randrange(200))
            case "slow_down":
                link.slow_down(random.choice((0.1, 1.5, 5.0)))
            case _:
                getattr(link, what)()

    async def _set_clock(self, random: Random) -> None:
        self.world.server.set_clock(random.choice((-2000, 0, 300, 5000)))
