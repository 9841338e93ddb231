"""The random walk of both brokers in its short form, and every difference that a walk has ever found, as the script it shrank to.

The full form is scripts/random_walk.py. The brokers are this file's own: a walk lists what there is.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.brokers import Address, one_of_each
from compat_tests.wire_diff.conftest import warm
from compat_tests.wire_diff.random_walk.lockstep import Pair, kept_scripts, shrink, walk
from compat_tests.wire_diff.random_walk.steps import SESSION_STEPS, STEPS, Script, session_script

KEPT = kept_scripts()
SEEDS = (1, 2, 3, 4)
REQUESTS = 900  # of each seed: a minute on two quiet cores for all


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with one_of_each(tmp_path_factory.mktemp("own")) as brokers:
        addresses: list[Address] = warm(brokers)
        yield Pair(addresses)


@pytest.mark.parametrize("name", KEPT)
def test_kept(pair: Pair, name: str) -> None:
    found = pair.play(name, KEPT[name])
    assert found is None, f"{name}: {found}"


@pytest.mark.parametrize("seed", SEEDS)
def test_walks(pair: Pair, seed: int) -> None:
    figures = walk(pair, seed, pair.requests + REQUESTS, most=1)
    assert not figures.unexplained, figures.unexplained[0]
    assert not figures.once, f"seen, but not again: {figures.once[0]}"


def test_a_session_is_the_same_for_everybody_and_all_steps_are_drawn() -> None:
    scripts = [session_script(f"seed {n}", SESSION_STEPS) for n in range(60)]
    assert scripts == [session_script(f"seed {n}", SESSION_STEPS) for n in range(60)]
    assert {name for script in scripts for name, _ in script} == set(STEPS)


def test_shrinking_leaves_what_is_needed() -> None:
    script: Script = [(f"step {n}", {}) for n in range(90)]
    needed = {"step 3", "step 50", "step 51"}
    tries = 0

    def still(part: Script) -> bool:
        nonlocal tries
        tries += 1
        return needed <= {name for name, _ in part}

    assert [name for name, _ in shrink(script, still)] == ["step 3", "step 50", "step 51"]
    assert tries < 90
