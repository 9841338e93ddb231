"""Tests of which operations a fault of the disk fails, and when, and what a test may not ask for."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from ottla.log.disk.files import StateUnknown
from ottla.server.testkit.disk.disk_faults import CHANGE, GROW, READ, SYNC, DiskFaults
from ottla.server.testkit.fields import Refused

LOG = "/kit/data/orders-0/00000000000000000000.log"


def installed(**sent: Any) -> DiskFaults:
    faults = DiskFaults()
    faults.install(sent)
    return faults


def failing(faults: DiskFaults, path: str = LOG) -> list[str]:
    """The operations that fail on a path."""
    failed = []
    for operation in (GROW, CHANGE, READ, SYNC):
        try:
            faults.check(operation, path)
        except OSError:
            failed.append(operation)
    return failed


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"fail": "enospc"}, [GROW]),
        ({"fail": "eio"}, [GROW, CHANGE, READ, SYNC]),
        ({"fail": "eio", "operations": ["read"]}, [READ]),
        ({"fail": "eio", "operations": ["write", "sync"]}, [GROW, CHANGE, SYNC]),
        ({"fail": "eio", "after_bytes": 1}, []),
        ({"fail": "eio", "times": 2}, [GROW, CHANGE]),
        ({"fsync_ms": 1}, []),
    ],
)
def test_what_fails(sent: dict[str, Any], expected: list[str]) -> None:
    assert failing(installed(**sent)) == expected


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        (None, True),
        ("orders-*", True),
        ("order", False),
        ("*.log", True),
        ("orders-0/*.log", True),
        ("/orders-0/*.log", True),
        ("orders-0/*.index", False),
        ("orders-0/", False),
    ],
)
def test_a_pattern_fits_any_name_of_a_path_or_its_end(pattern: str | None, matches: bool) -> None:
    assert bool(failing(installed(fail="enospc", path=pattern))) is matches


def test_the_last_append_that_has_room_is_short() -> None:
    faults = installed(fail="enospc", after_bytes=10)
    assert faults.room(LOG, 6) == 6
    assert faults.room(LOG, 6) == 4
    with pytest.raises(OSError, match="the disk fault d1 of the test kit") as refused:
        faults.room(LOG, 6)
    assert (refused.value.errno, refused.value.filename) == (errno.ENOSPC, LOG)
    assert faults.all[0].describe()["hits"] == 1


def test_a_small_file_is_written_whole_or_not_at_all() -> None:
    faults = installed(fail="enospc", after_bytes=10)
    with pytest.raises(OSError, match="No space left"):
        faults.room(LOG, 11, whole=True)
    assert faults.room(LOG, 10, whole=True) == 10


def test_a_fault_that_has_failed_often_enough_lets_everything_pass() -> None:
    faults = installed(fail="enospc", times=1)
    with pytest.raises(OSError, match="No space left"):
        faults.room(LOG, 1)
    assert faults.room(LOG, 5) == 5
    assert failing(faults) == []


def test_after_an_fsync_that_failed_nobody_knows_what_the_disk_holds() -> None:
    with pytest.raises(StateUnknown):
        installed(fail="eio", operations=["sync"]).sync(LOG)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({}, "either fail, which is enospc or eio, or fsync_ms"),
        ({"fail": "eio", "fsync_ms": 5}, "either fail"),
        ({"fail": "enospace"}, "did you mean enospc"),
        ({"fail": "eio", "operations": ["fsync"]}, "operations: there is no 'fsync'; did you mean sync"),
        ({"fail": "enospc", "operations": ["read"]}, "operations are for eio"),
        ({"fsync_ms": 5, "after_bytes": 1}, "after_bytes is for fail"),
        ({"fsync_ms": 0}, "fsync_ms"),
        ({"fail": "eio", "times": 0}, "times must be between 1"),
        ({"fail": "eio", "pat": "x"}, "did you mean path"),
        ([], "the body must be an object"),
    ],
)
def test_what_is_refused(sent: object, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        DiskFaults().install(sent)


def test_faults_are_removed_by_their_id_or_all_at_once() -> None:
    faults = DiskFaults()
    for _ in range(3):
        faults.install({"fail": "eio"})
    assert faults.remove("d2").id == "d2"
    with pytest.raises(Refused, match="there is no disk fault d2; there are d1, d3"):
        faults.remove("d2")
    assert [each.id for each in faults.clear()] == ["d1", "d3"]
    assert failing(faults) == []
