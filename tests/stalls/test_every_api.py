"""No request keeps everybody else waiting for longer than 50 ms, whatever it is about and however much it names.

That is counted in work, not in time (work.py): the most calls of functions that the broker does between two looks at the network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from ottla.server.handlers import BROKER, served
from ottla.wire.api import Api
from tests.stalls.refused import ALWAYS_REFUSED
from tests.stalls.state import QUESTIONS
from tests.stalls.sweep import SCALE, Seen
from tests.stalls.work import UNITS_A_SECOND

pytestmark = pytest.mark.slow

BOUND_MS: Final = 50.0


def milliseconds(units: int) -> float:
    """Returns how long so much work takes with as many items as a request may have."""
    return units * SCALE * 1000 / UNITS_A_SECOND


def see(*arguments: str) -> list[Seen]:
    """Returns what a process of its own saw."""
    command = [sys.executable, "-m", "tests.stalls", *arguments]
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True, timeout=280, env=environment)
    return [Seen(*json.loads(line)) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def seen() -> dict[str, list[Seen]]:
    """Returns what was seen of each API."""
    found: dict[str, list[Seen]] = defaultdict(list)
    for one in see():
        found[one.api].append(one)
    return found


@pytest.mark.parametrize("api", served(BROKER).values(), ids=lambda api: api.module)
def test_every_api(api: Api, seen: dict[str, list[Seen]]) -> None:
    longest: dict[str, float] = defaultdict(float)
    for one in seen[api.name]:
        path = f"{one.api}.{one.path}"
        longest[path] = max(longest[path], milliseconds(one.units))
    assert {path: round(ms) for path, ms in longest.items() if ms > BOUND_MS} == {}, "more at once than others should wait for"


def test_all_long_requests_are_answered(seen: dict[str, list[Seen]]) -> None:
    """Otherwise nothing is known of them."""
    assert [one for api in seen.values() for one in api if not one.outcome.startswith(("answered", "refused"))] == []


def test_no_long_request_is_only_refused(seen: dict[str, list[Seen]]) -> None:
    """A request that is refused as a whole costs nothing, and says nothing of what others cost. For weeks, that was all that was
    known of access rules and quotas."""
    outcomes: dict[str, set[str]] = defaultdict(set)
    for one in (one for api in seen.values() for one in api):
        outcomes[f"{one.api}.{one.path}"].add(one.outcome)
    refused = {path for path, found in outcomes.items() if "answered" not in found}
    names = {name: {path for path in refused if f"{path}.".startswith(f"{name}.")} for name in ALWAYS_REFUSED}
    assert refused - set().union(*names.values()) == set()
    assert [name for name, paths in names.items() if not paths] == [], "they are accepted now"


def test_a_broker_that_holds_much_keeps_nobody_waiting_either() -> None:
    """Short requests about all that there is, and what the broker does by itself."""
    found = see("--state")
    assert {one.api: round(milliseconds(one.units)) for one in found if milliseconds(one.units) > BOUND_MS} == {}
    assert {one.outcome for one in found} == {"answered"}
    assert len(found) > len(QUESTIONS)
