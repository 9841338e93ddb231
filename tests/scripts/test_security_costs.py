"""The table of what security costs: ratios are those of pairs, and a target is met or missed by them."""

from __future__ import annotations

import pytest

from scripts.bench.security_costs.table import Figures, Row, holds, line, table

FOUND: Figures = {("ottla", "cpu"): [1.0, 4.0, 3.0], ("kafka", "cpu"): [2.0, 5.0, 10.0], ("ottla", "mib"): [30.0, 10.0]}


@pytest.mark.parametrize(
    ("figure", "target", "held"),
    [
        ("cpu", {"at_most": 0.5}, True),  # 0.5, 0.8 and 0.3, though the medians are 3 and 5
        ("cpu", {"at_most": 0.49}, False),
        ("cpu", {"at_least": 0.5}, True),
        ("cpu", {"at_least": 0.51}, False),
        ("cpu", {}, None),
        ("mib", {"absolute": 20}, True),
        ("mib", {"absolute": 19}, False),
        ("mib", {"at_most": 0.5}, None),  # nothing to compare with
        ("other", {"at_most": 0.5}, None),
        ("other", {"absolute": 1}, None),
    ],
)
def test_what_holds(figure: str, target: dict[str, float], held: bool | None) -> None:
    assert holds(FOUND, Row("title", "ottla", figure, "s", "kafka", **target)) is held


def test_lines() -> None:
    assert line(FOUND, Row("t", "ottla", "cpu", "s/GiB", "kafka", at_most=0.49)) == (
        "| t | 3 s/GiB | 5 s/GiB | 0.50 (0.30 to 0.80) | at most 0.49 × **missed** |"
    )
    assert line(FOUND, Row("t", "ottla", "mib", "MiB", absolute=50)) == "| t | 20 MiB |  |  | at most 50 MiB |"
    assert line({("a", "r"): [1234.5]}, Row("t", "a", "r", "/s")) == "| t | 1,234/s |  |  |  |"


def test_only_what_was_measured_is_shown() -> None:
    rows = [Row("one", "ottla", "cpu", "s"), Row("two", "ottla", "other", "s")]
    assert table(FOUND, rows, "ottla", "Kafka").splitlines()[0] == "| load | ottla | Kafka | ratio | target |"
    assert [each.split(" | ")[0] for each in table(FOUND, rows, "ottla", "Kafka").splitlines()[2:]] == ["| one"]
