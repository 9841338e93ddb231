"""The faults of a run and their times, decided by the seed alone.

kill    the broker is killed with SIGKILL and started again after a while
pause   the broker stands still (SIGSTOP) for a while
full    its file system has no room for a while; now and then it is killed meanwhile, and started when there is room again
power   its machine loses its power, and with it all that was not synced (with the machine of scripts/powercut)

In a cluster, each of these befalls one of the brokers, mostly for longer than its session with the controller:

kill, pause
cut        no packet passes between the broker and the other nodes; clients reach it all the time
cut-from   the same for packets from it only
cut-to     the same for packets to it only
clock      its clock of the time of day is wrong for a while
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Final, NamedTuple

KINDS: Final = ("kill", "pause", "full", "power")
LONGEST_S: Final = {"kill": 2.0, "pause": 5.0, "full": 8.0, "power": 1.0}
"""The longest time that a fault of the only broker lasts. A pause is shorter than what clients wait for an answer
(`clients.PATIENCE_S`): a commit of offsets that was given up and repeated could otherwise come into force after a later one,
which no broker can know."""
OF_CLUSTERS: Final = ("kill", "pause", "cut", "cut-from", "cut-to", "clock")
LONGEST_OF_CLUSTERS_S: Final = {"kill": 9.0, "pause": 9.0, "cut": 12.0, "cut-from": 12.0, "cut-to": 12.0, "clock": 15.0}
FURTHEST_S: Final = 3000.0
"""So far a clock is moved at most, in either direction. Brokers refuse records that are an hour ahead of their clock
(`message.timestamp.after.max.ms`), and forget by design what is old enough by it: producers after a day, records after a week.
"""
_SHORTEST_S: Final = {"kill": 0.0, "pause": 0.3, "full": 1.0, "power": 0.0}
_SHORTEST_OF_CLUSTERS_S: Final = 1.0
_SHORTEST_GAP_S, _LONGEST_GAP_S = 2.0, 12.0
_KILLED_WHILE_FULL: Final = 0.3


class Fault(NamedTuple):
    """`at_s`: seconds from the run's beginning. `killed`: of a full disk, whether the broker is killed before there is room.
    `node`: which of the brokers, counted from 0. `moved_s`: how far a clock is moved, ahead if this is positive.
    """

    at_s: float
    kind: str
    lasts_s: float
    killed: bool = False
    node: int = 0
    moved_s: float = 0.0

    def __str__(self) -> str:
        moved = f" moved by {self.moved_s:+.0f} s" if self.moved_s else ""
        return f"{self.kind}{moved} for {self.lasts_s:.1f} s"


def plan(seed: int, seconds: float, kinds: Collection[str], nodes: int = 1) -> list[Fault]:
    """Returns the faults of a run, in order, none beginning before the one ahead of it is over. If there is room for more than
    one fault, each of `kinds` comes up. Raises ValueError for a kind that there is not with so many brokers.
    """
    known = KINDS if nodes == 1 else OF_CLUSTERS
    if unknown := set(kinds) - set(known):
        raise ValueError(f"no such faults: {sorted(unknown)}")
    if not kinds:
        return []
    random = Random(f"{seed}/faults")
    ordered = [kind for kind in known if kind in kinds]
    due: list[str] = []
    faults: list[Fault] = []
    at_s = random.uniform(_SHORTEST_GAP_S, _LONGEST_GAP_S / 2)
    while True:
        if not due:  # each kind once, then each once more: what comes by chance alone is missing in a short run
            due = random.sample(ordered, len(ordered))
        kind = due.pop()
        if nodes == 1:
            lasts_s = random.uniform(_SHORTEST_S[kind], LONGEST_S[kind])
        else:
            lasts_s = random.uniform(_SHORTEST_OF_CLUSTERS_S, LONGEST_OF_CLUSTERS_S[kind])
        if at_s + lasts_s > seconds:
            return faults
        fault = Fault(at_s, kind, lasts_s, killed=kind == "full" and random.random() < _KILLED_WHILE_FULL)
        if nodes > 1:
            moved_s = random.uniform(-FURTHEST_S, FURTHEST_S) if kind == "clock" else 0.0
            fault = fault._replace(node=random.randrange(nodes), moved_s=moved_s)
        faults.append(fault)
        at_s += lasts_s + random.uniform(_SHORTEST_GAP_S, _LONGEST_GAP_S)
