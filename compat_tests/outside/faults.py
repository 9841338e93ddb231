"""What breaks in a run, and when: decided by the seed alone.

kill    the broker is killed with SIGKILL and started again after a while
pause   the broker stands still (SIGSTOP) for a while
full    its file system has no room for a while; now and then it is killed meanwhile, and started when there is room again
power   its machine loses its power, and with it all that was not synced (with the machine of scripts/powercut)
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Final, NamedTuple

KINDS: Final = ("kill", "pause", "full", "power")
LONGEST_S: Final = {"kill": 2.0, "pause": 5.0, "full": 8.0, "power": 1.0}
"""How long a fault lasts at most. A pause is shorter than what clients wait for an answer (`clients.PATIENCE_S`): a commit of
offsets that was given up and repeated could otherwise come into force after a later one, which no broker can know."""
_SHORTEST_S: Final = {"kill": 0.0, "pause": 0.3, "full": 1.0, "power": 0.0}
_SHORTEST_GAP_S, _LONGEST_GAP_S = 2.0, 12.0
_KILLED_WHILE_FULL: Final = 0.3


class Fault(NamedTuple):
    """`at_s`: seconds from the run's beginning. `killed`: of a full disk, whether the broker is killed before there is room."""

    at_s: float
    kind: str
    lasts_s: float
    killed: bool = False


def plan(seed: int, seconds: float, kinds: Collection[str]) -> list[Fault]:
    """Returns the faults of a run, in order, none beginning before the one ahead of it is over. If there is room for more than
    one fault, each of `kinds` comes up. Raises ValueError for a kind that there is not.
    """
    if unknown := set(kinds) - set(KINDS):
        raise ValueError(f"no such faults: {sorted(unknown)}")
    if not kinds:
        return []
    random = Random(f"{seed}/faults")
    ordered = [kind for kind in KINDS if kind in kinds]
    due: list[str] = []
    faults: list[Fault] = []
    at_s = random.uniform(_SHORTEST_GAP_S, _LONGEST_GAP_S / 2)
    while True:
        if not due:  # each kind once, then each once more: what comes by chance alone is missing in a short run
            due = random.sample(ordered, len(ordered))
        kind = due.pop()
        lasts_s = random.uniform(_SHORTEST_S[kind], LONGEST_S[kind])
        if at_s + lasts_s > seconds:
            return faults
        faults.append(Fault(at_s, kind, lasts_s, killed=kind == "full" and random.random() < _KILLED_WHILE_FULL))
        at_s += lasts_s + random.uniform(_SHORTEST_GAP_S, _LONGEST_GAP_S)
