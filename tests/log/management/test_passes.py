"""log/management/passes.py: what each pass does, and that it pauses after each log or file."""

from __future__ import annotations

from itertools import islice

import pytest

from ottla.log.management.passes import Steps, delete_steps, expiration_steps, retention_steps, run_pass
from tests.log.support import NOW_MS, TOPIC_ID, Rig, batch, settings

SIZE = len(batch())
DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS


@pytest.fixture
def rig() -> Rig:
    """Three logs of three segments each, the last of them with a producer."""
    rig = Rig(settings(segment_bytes=3 * SIZE, file_delete_delay_ms=0))
    for partition in range(3):
        log = rig.manager.create("t", partition, TOPIC_ID, rig.config)
        for _ in range(7):
            log.append_as_leader(batch(), leader_epoch=0)
    log.append_as_leader(batch(producer=(5, 0, 0)), leader_epoch=0)
    return rig


def count_steps(steps: Steps) -> int:
    return sum(1 for _ in steps)


def test_retention(rig: Rig) -> None:
    assert run_pass(retention_steps(rig.manager, NOW_MS)) == 0
    assert run_pass(retention_steps(rig.manager, NOW_MS + WEEK_MS + 1)) == 9


def test_expiration(rig: Rig) -> None:
    assert run_pass(expiration_steps(rig.manager, NOW_MS + DAY_MS - 1)) == 0
    assert run_pass(expiration_steps(rig.manager, NOW_MS + DAY_MS)) == 1


def test_removal(rig: Rig) -> None:
    rig.manager.delete("t", 0)
    rig.manager.delete("t", 1)
    assert run_pass(delete_steps(rig.manager, NOW_MS - 1)) == 0
    assert run_pass(delete_steps(rig.manager, NOW_MS)) == 2


def test_a_pass_pauses_after_each_log_and_a_removal_after_each_file(rig: Rig) -> None:
    assert count_steps(retention_steps(rig.manager, NOW_MS)) == 3
    assert count_steps(expiration_steps(rig.manager, NOW_MS)) == 3
    rig.manager.delete("t", 0)
    (path,) = (name for name in rig.disk.list("/data") if name.endswith("-delete"))
    files = rig.disk.list(f"/data/{path}")
    assert count_steps(delete_steps(rig.manager, NOW_MS)) == len(files) + 1


def test_what_a_pass_has_left_after_a_pause_is_done_by_the_next_one(rig: Rig) -> None:
    late_ms = NOW_MS + WEEK_MS + 1
    assert len(list(islice(retention_steps(rig.manager, late_ms), 2))) == 2
    assert run_pass(retention_steps(rig.manager, late_ms)) == 3


def test_a_log_that_goes_during_a_pause_is_left_out(rig: Rig) -> None:
    steps = retention_steps(rig.manager, NOW_MS + WEEK_MS + 1)
    next(steps)
    rig.manager.delete("t", 1)
    assert run_pass(steps) == 6


def test_retention_leaves_out_what_is_being_cleaned(rig: Rig) -> None:
    rig.manager.in_cleaning.add(("t", 1))
    assert run_pass(retention_steps(rig.manager, NOW_MS + WEEK_MS + 1)) == 6
