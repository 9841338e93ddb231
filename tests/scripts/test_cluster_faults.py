"""Tests of what scripts/cluster_faults.py and its parts in compat_tests decide without a cluster: whether what was written is
what was read, which leaders are late, what the ledger of proofs gets, and that all room of a file system is taken."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from compat_tests.cluster.fault_rounds import Round
from compat_tests.cluster.traffic import Traffic
from compat_tests.rooms import Room
from scripts import proofs
from scripts.cluster_faults import bound_s, record
from scripts.proofs import CLUSTER, MOVE, Ledger, kept_corpora, page

ORIGIN = {"date": "2026-11-27", "commit": "1a2b3c4", "machine": "a machine"}


def traffic() -> Traffic:
    """Two partitions that took and gave three records."""
    made = Traffic("nowhere:1", "t", partitions=2, bytes_a_second=1)
    made.produced = 3
    made.acknowledged.update({0: {0: 0, 1: 2}, 1: {0: 1}})
    made.read.update({0: [(0, 0), (1, 2)], 1: [(0, 1)]})
    return made


def test_what_was_read_once_and_in_order_passes() -> None:
    traffic().check()


def test_what_was_read_and_not_acknowledged_is_too_few() -> None:
    made = traffic()
    made.produced = 4
    made.read[1].append((1, 3))
    with pytest.raises(AssertionError, match="1 records were not acknowledged"):
        made.check()


@pytest.mark.parametrize(
    ("read", "said"),
    [
        ([(0, 0)], r"1 acknowledged records were not read, the first is \(1, 2\)"),
        ([(0, 0), (2, 2)], "1 acknowledged records were not read"),
        ([(0, 0), (1, 2), (2, 2)], "twice or out of order"),
        ([(1, 2), (0, 0)], "twice or out of order"),
        ([(0, 0), (1, 2), (2, 5)], "more was read than was produced"),
    ],
)
def test_what_is_lost_twice_or_out_of_order_is_found(read: list[tuple[int, int]], said: str) -> None:
    made = traffic()
    made.read[0] = read
    with pytest.raises(AssertionError, match=said):
        made.check()


def test_leaders_have_the_session_and_a_little_longer_or_two_seconds_after_sigterm() -> None:
    assert [bound_s(fault, 6.0) for fault in ("kill", "pause", "cut-to", "stop", "full")] == [7.5, 7.5, 7.5, 2.0, 7.5]


def test_rounds_are_recorded_by_cluster_fault_and_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = tmp_path / "proofs.json", proofs.record
    monkeypatch.setattr(proofs, "record", lambda *given, **more: real(*given, **more, path=path))
    rounds = [Round("kill", "ottla", 6.1, 7.0), Round("kill", "ottla", 7.6, 6.5), Round("full", "kafka", 5.0, 8.0)]
    record("ook", rounds, 300, ["ook, kill of 1: lost"], 6.0, ORIGIN)
    record("ook", [Round("kill", "ottla", 6.0, 6.2)], 100, [], 6.0, ORIGIN)
    proofs.record(MOVE, {**ORIGIN, "megabytes": "10", "load": "5 MB/s"}, {}, most={"records": 9, "there_s": 1, "back_s": 2})
    ledger = Ledger(path)
    assert [run["proof"] for run in ledger.runs] == [CLUSTER, CLUSTER, MOVE]
    assert [finding["what"] for finding in ledger.findings] == ["ook, kill of 1: lost"]
    text = page(ledger, kept_corpora())
    assert "| ook | kill | ottla | 6 s | 3 | 300 | 7.60 s | 1 | 7.0 s |" in text
    assert "| ook | full | kafka | 6 s | 1 | 100 | 5.00 s | 0 | 8.0 s |" in text
    assert "| clusters under faults | 20 rounds of each fault | 1 rounds or more of each | 1 finding |" in text
    assert "| 1a2b3c4 | 2026-11-27 | 10 | 5 MB/s | 1.0 s | 2.0 s | 9 |" in text


def test_all_room_is_taken_though_too_large_a_piece_gets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on tmpfs, which undoes what it had allocated of a piece."""
    free = 10_000_000

    def allocate(descriptor: int, offset: int, length: int) -> None:
        nonlocal free
        if length > free:
            raise OSError(errno.ENOSPC, "no room")
        free -= length
        os.truncate(descriptor, offset + length)

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    Room(tmp_path).take()
    assert free < 4096
    assert (tmp_path / "filler").stat().st_size == 10_000_000 - free
    Room(tmp_path).give_back()
    assert not (tmp_path / "filler").exists()
