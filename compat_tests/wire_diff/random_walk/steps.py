"""The registry of the walk's steps, and how a session is drawn.

A step is registered with its family, its weight in it, and `draw`, which makes its arguments from a random generator alone: no
state of a broker decides what is sent. A session mixes a few families, so that its steps meet in the same topics and groups.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ottla.wire.api import BY_MODULE

if TYPE_CHECKING:
    from compat_tests.wire_diff.random_walk.session import Session

Arguments: TypeAlias = dict[str, Any]
Script: TypeAlias = list[tuple[str, Arguments]]
Draw: TypeAlias = Callable[[random.Random], Arguments]
Play: TypeAlias = Callable[..., Any]

TOPICS: Final = ("t0", "t1", "t2")
PARTITIONS: Final = 3


class Step(NamedTuple):
    family: str
    weight: int
    draw: Draw
    play: Play


STEPS: Final[dict[str, Step]] = {}
MIXES: Final = (
    ("topics", "log", "idempotent"),
    ("topics", "log", "sessions"),
    ("log", "sessions", "idempotent"),
    ("transactions", "log"),
    ("transactions", "offsets", "log"),
    ("classic", "offsets"),
    ("classic", "offsets", "topics"),
    ("consumer",),
    ("share",),
    ("topics", "settings", "log"),
    ("settings", "quotas", "topics"),
    ("transactions", "sessions", "topics", "idempotent"),
)
"""Families that make up a session. Consumer and share groups are alone: assignments follow the topics that there are."""
SESSION_STEPS: Final = 90
SETUP: Final[dict[str, Any]] = {"partitions": 2, "configs": {}, "version": 7, "validate": False}


def step(family: str, weight: int, draw: Draw) -> Callable[[Play], Play]:
    def register(play: Play) -> Play:
        assert play.__name__ not in STEPS, play.__name__
        STEPS[play.__name__] = Step(family, weight, draw, play)
        return play

    return register


def version_of(module: str) -> Callable[[random.Random], int]:
    """Any stable version of an API, the newest in half of all cases."""
    api = BY_MODULE[module]
    return lambda rng: api.max_version if rng.random() < 0.5 else rng.randint(api.min_version, api.max_version)


def some(*choices: Any) -> Callable[[random.Random], Any]:
    return lambda rng: rng.choice(choices)


def drawn(rng: random.Random, fields: Mapping[str, Any]) -> Arguments:
    """`fields` with every function in it replaced by what it draws."""
    return {name: value(rng) if callable(value) else value for name, value in fields.items()}


def draws(**fields: Any) -> Draw:
    return lambda rng: drawn(rng, fields)


def session_script(seed: str, length: int) -> Script:
    """The steps of one session. A string seeds the same on every machine and in every process."""
    rng = random.Random(seed)
    families = rng.choice(MIXES)
    names = [name for name, each in STEPS.items() if each.family in families]
    weights = [STEPS[name].weight for name in names]
    topics: Script = (
        [("create", {"topic": topic, **SETUP}) for topic in TOPICS[:2]] if families not in (("consumer",), ("share",)) else []
    )
    chosen = rng.choices(names, weights, k=length - len(topics))
    return topics + [(name, STEPS[name].draw(rng)) for name in chosen]


def play(session: Session, name: str, arguments: Arguments) -> Any:
    return STEPS[name].play(session, **arguments)
