"""Tests of the core that each broker of `ottla cluster --cores` gets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.commands.cluster import cores
from ottla.commands.cluster.errors import ClusterError


def topology(folder: Path, siblings: dict[int, str]) -> Path:
    for cpu, text in siblings.items():
        (folder / f"cpu{cpu}" / "topology").mkdir(parents=True)
        (folder / f"cpu{cpu}" / "topology" / "thread_siblings_list").write_text(f"{text}\n")
    return folder


def test_a_second_thread_of_a_core_comes_after_all_cores(tmp_path: Path) -> None:
    neighbours = topology(tmp_path / "a", {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"})
    assert cores.cores_first([3, 2, 1, 0], neighbours) == [0, 2, 1, 3]
    halves = topology(tmp_path / "b", {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"})
    assert cores.cores_first(range(4), halves) == [0, 1, 2, 3]


def test_only_what_the_process_may_use_counts(tmp_path: Path) -> None:
    neighbours = topology(tmp_path, {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"})
    assert cores.cores_first({1, 2, 3}, neighbours) == [1, 2, 3]
    assert cores.cores_first({2, 3}, neighbours) == [2, 3]


def test_where_the_system_does_not_say_each_cpu_is_a_core(tmp_path: Path) -> None:
    assert cores.cores_first([10, 9, 2], tmp_path) == [2, 9, 10]


def test_each_broker_gets_a_core_and_shares_one_only_where_there_are_too_few() -> None:
    assert cores.shared_out([4, 6, 5, 7], 3) == [4, 6, 5]
    assert cores.shared_out([4, 6], 5) == [4, 6, 4, 6, 4]


def test_those_of_this_process_are_found() -> None:
    assert sorted(cores.usable()) == sorted(os.sched_getaffinity(0))


def test_a_system_without_the_call_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    with pytest.raises(ClusterError, match=r"^--cores: .*leave the option out"):
        cores.usable()
