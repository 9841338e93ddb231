"""The slopes of the soak: what they are of series that are known, what stands in their way, and what the report makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from scripts.soak.report import (
    GROWS,
    LASTING,
    LEVEL,
    MACHINE,
    OPEN,
    Bound,
    lines_of,
    points_of,
    report,
)
from scripts.soak.slopes import Point, blocks, inflation, kendall_variance, slope

MEMORY = Bound("rss_mib", "MiB", 1.0)


def noisy(per_hour: float, seed: int = 1, points: int = 60) -> list[Point]:
    """Two hours of points around 50, with a deviation of 0.5."""
    random = Random(seed)
    return [(at / 30, 50 + per_hour * at / 30 + random.gauss(0, 0.5)) for at in range(points)]


def test_a_line_has_its_own_slope() -> None:
    found = slope([(float(x), 3.0 * x + 7) for x in range(10)])
    assert (found.value, found.low, found.high, found.points) == (3.0, 3.0, 3.0, 10)


def test_level_has_none_though_nothing_moves() -> None:
    assert slope([(float(x), 4.0) for x in range(10)]).high == 0


def test_a_fifth_of_the_points_may_be_anything() -> None:
    points = noisy(2.0)
    for at in range(0, len(points), 5):
        points[at] = points[at][0], 10_000.0
    assert 1.5 < slope(points).value < 2.5


def test_the_interval_holds_the_slope_as_often_as_it_says() -> None:
    held = sum(found.low <= 2 <= found.high for found in (slope(noisy(2.0, seed)) for seed in range(100)))
    assert held >= 90


def test_neighbours_that_are_alike_widen_the_interval() -> None:
    alike = [(at / 30, 50 + at // 10 % 2) for at in range(60)]
    mixed = [(at / 30, 50 + at % 2) for at in range(60)]
    assert inflation(mixed, 0.0) == 1.0
    assert inflation(alike, 0.0) > 3
    assert slope(alike).high - slope(alike).low > slope(mixed).high - slope(mixed).low


def test_the_variance_of_kendall_s_statistic() -> None:
    assert kendall_variance([1, 2, 3, 4]) == pytest.approx(4 * 3 * 13 / 18)
    assert kendall_variance([1, 1, 1, 1]) == 0


@pytest.mark.parametrize("points", [[], [(0.0, 1.0)] * 3, [(1.0, float(y)) for y in range(9)]])
def test_too_few_points_are_refused(points: list[Point]) -> None:
    with pytest.raises(ValueError, match="have no slope"):
        slope(points)


def test_blocks_are_medians_of_stretches() -> None:
    assert blocks([(0, 1), (1, 100), (2, 2), (10, 5), (35, 6)], 10) == [(1, 2), (10, 5), (35, 6)]


@pytest.mark.parametrize(("per_hour", "verdict"), [(0.0, LEVEL), (5.0, GROWS), (1.0, OPEN), (-5.0, LEVEL)])
def test_what_a_slope_means_beside_its_bound(per_hour: float, verdict: str) -> None:
    assert slope(noisy(per_hour)).verdict(1.0) == verdict


# The report


def rows(per_hour: float = 0.0, ruler: float = 0.0) -> list[dict[str, Any]]:
    """Two hours of samples, whose first half hour is wild."""
    measured = dict.fromkeys((bound.name for bound in LASTING), 50.0)
    random = Random(1)
    out: list[dict[str, Any]] = [{"kind": "start", "t": 0.0, "start_s": 1.0}]
    for at in range(0, 7200, 10):
        wild = 500 * (1 - at / 1800) if at < 1800 else 0.0
        now = {name: value + wild + per_hour * at / 3600 + random.gauss(0, 0.3) for name, value in measured.items()}
        now |= dict.fromkeys(("ruler_p50_ms", "ruler_p99_ms"), 1 + ruler * at / 3600)
        out.append({"kind": "sample", "t": float(at), "age_s": at + 1.0, "rounds": at, **now})
    return [*out, {"kind": "check", "t": 7200.0, "records": 1234}]


def test_the_warm_up_does_not_count() -> None:
    (line,) = lines_of(rows(), [MEMORY], 1800)
    assert line.verdict == LEVEL
    assert lines_of(rows(), [MEMORY], 0)[0].slope != line.slope


def test_memory_that_grows_is_found() -> None:
    (line,) = lines_of(rows(per_hour=3.0), [MEMORY], 1800)
    assert line.verdict == GROWS
    assert line.slope is not None
    assert line.slope.value == pytest.approx(3, abs=0.3)


def test_latency_is_the_machine_s_if_the_ruler_grows_as_well() -> None:
    bound = Bound("p50_ms", "ms", 0.1, relative=True, ruler="ruler_p50_ms")
    assert lines_of(rows(per_hour=20.0), [bound], 1800)[0].verdict == GROWS
    assert lines_of(rows(per_hour=20.0, ruler=3.0), [bound], 1800)[0].verdict == MACHINE


def test_a_short_run_says_nothing() -> None:
    (line,) = lines_of(rows()[:50], [MEMORY], 0)
    assert (line.verdict, line.slope) == (LEVEL, line.slope) or line.verdict == OPEN
    assert lines_of([], [MEMORY], 0)[0].verdict == OPEN


def test_what_a_start_took_is_the_first_sample_s_and_no_other_s() -> None:
    some = [
        {"kind": "start", "t": 100.0, "start_s": 0.9},
        {"kind": "sample", "t": 110.0, "age_s": 10.0, "cpu_s": 1.1, "rss_mib": 40.0},
        {"kind": "sample", "t": 120.0, "age_s": 20.0, "cpu_s": 0.2, "rss_mib": 45.0},
    ]
    assert points_of(some, "start_s", 0) == [(100 / 3600, 0.9)]
    assert points_of(some, "start_cpu_s", 0) == [(110 / 3600, 1.1)]
    assert points_of(some, "rss_mib", 0) == [(120 / 3600, 45.0)]
    assert points_of(some, "rss_mib", 121) == []


def test_the_report_fails_for_growth_and_for_what_failed(tmp_path: Path) -> None:
    def written(name: str, some: list[dict[str, Any]]) -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in some))
        return path

    text, wrong = report({"lasting": written("a", rows())}, 7200)
    assert not wrong, text
    assert "lasting: 2.00 h, 7,190 rounds, 0 kills, 1 checks of 1,234 promises" in text
    assert "| rss_mib " in text
    text, wrong = report({"lasting": written("b", rows(per_hour=3.0))}, 7200)
    assert wrong == [f"lasting: {bound.name} grows" for bound in LASTING if bound.at(50.0) < 3]
    text, wrong = report({"lasting": written("c", [*rows(), {"kind": "failed", "t": 7200, "what": "a record is gone"}])}, 7200)
    assert wrong == ["lasting: a record is gone"]
    assert "FAILED at 7200 s: a record is gone" in text
