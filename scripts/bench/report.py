"""The table and the plot of a comparison."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compat_tests.provenance import stamp
from scripts.bench.rows import ALL_ROWS, ROWS, Row

UNKNOWN = "at some time before 2026-11-28"
DOCS = Path(__file__).resolve().parents[2] / "docs"
NAMES = {"ottla": "ottla", "kafka": "Apache Kafka 4.4.0", "kfake": "kfake", "floor": "floor"}
COLOURS = {"ottla": "#1f77b4", "kfake": "#bbbbbb"}

Medians = Mapping[str, Mapping[str, Mapping[str, float]]]
"""broker -> load -> figure -> median of the rounds"""


def medians_of(found: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]) -> Medians:
    """Returns the medians of figures that have a value a round."""
    return {
        kind: {load: {name: statistics.median(values) for name, values in of_load.items()} for load, of_load in loads.items()}
        for kind, loads in found.items()
    }


def value(medians: Medians, kind: str, row: Row) -> float | None:
    return medians.get(kind, {}).get(row.load, {}).get(row.figure)


def ratio(medians: Medians, kind: str, row: Row) -> float | None:
    """Returns the ratio to Kafka's figure, None if one of them has no figure or Kafka's is 0."""
    own, kafka = value(medians, kind, row), value(medians, "kafka", row)
    return own / kafka if own is not None and kafka else None


def held(medians: Medians, row: Row) -> bool | None:
    """Returns whether ottla's figure meets the row's target, which no figure of a load that was run does not; None where there is
    no target, or nothing to compare."""
    if row.load not in medians.get("ottla", {}) or row.has_no_target:
        return None
    own, times = value(medians, "ottla", row), ratio(medians, "ottla", row)
    if own is None:
        return False
    if row.absolute is not None:
        return own <= row.absolute
    if row.no_less is not None:
        return own >= row.no_less
    if times is None:
        return None
    if row.at_most is not None:
        return times <= row.at_most
    return None if row.at_least is None else times >= row.at_least


def table(medians: Medians, rows: Sequence[Row] = ROWS) -> tuple[str, int]:
    """Returns the table as markdown, and how many targets are missed."""
    kinds = [kind for kind in NAMES if kind in medians]
    lines = ["| load | " + " | ".join(NAMES[kind] for kind in kinds) + " | ottla to Kafka | target |"]
    lines.append("|---|" + "---|" * (len(kinds) + 2))
    missed = 0
    for row in rows:
        cells = [_number(value(medians, kind, row), row.unit) for kind in kinds]
        times, ok = ratio(medians, "ottla", row), held(medians, row)
        missed += ok is False
        mark = {True: "", False: " **missed**", None: ""}[ok]
        lines.append(f"| {row.title} | {' | '.join(cells)} | {'' if times is None else f'{times:.2f}'} | {_target(row)}{mark} |")
    return "\n".join(lines), missed


def _number(figure: float | None, unit: str) -> str:
    if figure is None:
        return "-"
    digits = 0 if figure >= 100 else 1 if figure >= 10 else 2
    return f"{figure:,.{digits}f} {unit}".replace(" /s", "/s")


def _target(row: Row) -> str:
    if row.absolute is not None:
        return f"at most {row.absolute:g} {row.unit}"
    if row.no_less is not None:
        return f"at least {row.no_less:g} {row.unit}"
    if row.at_most is not None:
        return f"at most {row.at_most:g} ×"
    return "" if row.at_least is None else f"at least {row.at_least:g} ×"


def tell(found: Mapping[str, Any], rows: Sequence[Row], *, docs: bool) -> int:
    """Prints the table of loads that are measured apart; with `docs` it goes there, too. Exit code 1: a target is missed."""
    text, missed = table(medians_of(found), rows)
    print(text)
    if docs:
        add_docs(found)
    return 1 if missed else 0


def add_docs(found: Mapping[str, Any]) -> None:
    """Puts the figures of some loads beside those of the last full comparison, and writes docs/benchmarks.* anew."""
    before = _documented()
    figures = {kind: dict(loads) for kind, loads in before["figures"].items()}
    for kind, loads in found.items():
        figures.setdefault(kind, {}).update(loads)
    _write(figures, before["rounds"], before["measured"] | _measured_now(found))


def write_docs(found: Mapping[str, Any], rounds: int) -> None:
    """Writes docs/benchmarks.md, .svg and .json. Loads that were not measured this time stay as they were."""
    figures, before = {kind: dict(loads) for kind, loads in found.items()}, _documented()
    for kind, loads in before["figures"].items():
        for load in {row.load for row in ALL_ROWS} - {row.load for row in ROWS}:
            if load in loads:
                figures.setdefault(kind, {}).setdefault(load, loads[load])
    _write(figures, rounds, before["measured"] | _measured_now(found))


def _documented() -> dict[str, Any]:
    """Returns what was last written: `figures`, by broker, load and figure one value a round; `rounds`; and `measured`, by load
    when, and of which commit."""
    path = DOCS / "benchmarks.json"
    written: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return {"figures": {}, "rounds": 0, "measured": {}} | written


def _measured_now(found: Mapping[str, Any]) -> dict[str, str]:
    now = stamp()
    return dict.fromkeys((load for loads in found.values() for load in loads), f"{now['date']} at {now['commit']}")


def _write(figures: Mapping[str, Any], rounds: int, measured: Mapping[str, str]) -> None:
    medians = medians_of(figures)
    DOCS.mkdir(exist_ok=True)
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}"
    shown = [row for row in ALL_ROWS if row in ROWS or row.load in medians.get("ottla", {})]
    text = f"""# Benchmarks

Written by `python -m scripts.bench.compare --docs`: the same requests at wire level (`scripts/bench/kload.py`) against each
broker, one broker after the other, in {rounds} rounds after a warm-up; figures are medians. {machine}. CPU is that of the whole
broker process. What counts is the ratio to Kafka's figure in the same run; lower is better, except for rates.
`docs/benchmarks.json` has every round. If a load was run again alone (`--loads`), its rows are from that run, for both brokers.
Starts with many partitions are measured by `scripts/bench/opening.py`, in a run of their own. kfake keeps everything in memory.
`floor` is not a broker: it receives a Produce, checks the CRC, writes the batch and answers (`scripts/bench/floor`), so
nearly all its CPU is the kernel's.

{table(medians, shown)[0]}

{_when(shown, measured)}

![ratios to Apache Kafka](benchmarks.svg)
"""
    (DOCS / "benchmarks.md").write_text(text)
    content = {"machine": machine, "rounds": rounds, "measured": measured, "figures": figures}
    (DOCS / "benchmarks.json").write_text(json.dumps(content, indent=1) + "\n")
    plot(medians, DOCS / "benchmarks.svg")


def _when(rows: Sequence[Row], measured: Mapping[str, str]) -> str:
    """Returns when the rows were measured, and of which commit, as a list: first the run of most rows, which are not named."""
    titles = {row.load: row.title for row in reversed(rows)}  # a load's first row has its name
    runs: dict[str, list[str]] = {}
    for load in reversed(titles):
        runs.setdefault(measured.get(load, UNKNOWN), []).append(titles[load])
    most = max(runs, key=lambda run: len(runs[run]))
    others = [f"- Measured {run}: {'; '.join(runs[run])}." for run in sorted(runs, reverse=True) if run != most]
    return "\n".join([f"- Measured {most}: all{' but the following' if others else ''}.", *others])


def plot(medians: Medians, path: Path) -> None:
    """Draws bars of each row's ratio to Kafka's figure, on a logarithmic scale around 1."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "ottla"  # the same figures, the same file
    from matplotlib import pyplot

    kinds = [kind for kind in COLOURS if kind in medians]
    rows = [row for row in ALL_ROWS if ratio(medians, "ottla", row)][::-1]
    figure, axes = pyplot.subplots(figsize=(10, 0.45 * len(rows) + 1.5), layout="constrained")
    height = 0.8 / len(kinds)
    for place, kind in enumerate(kinds):
        at = [number + 0.4 - height * (place + 0.5) for number in range(len(rows))]
        ratios = [ratio(medians, kind, row) or 1.0 for row in rows]  # 1: no bar, where a broker has no such figure
        bars = axes.barh(at, [each - 1 for each in ratios], height, left=1, color=COLOURS[kind], label=NAMES[kind])
        axes.bar_label(bars, ["" if each == 1 else f"{each:.2f}" for each in ratios], padding=3, fontsize=8)
    for number, row in enumerate(rows):
        if target := row.at_most or row.at_least:
            axes.plot([target, target], [number - 0.45, number + 0.45], color="#d62728", linewidth=2)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [f"{row.title} ({row.unit.lstrip('/')})" for row in rows], fontsize=8)
    axes.set_xlabel("times Apache Kafka's figure in the same run (red: the target)")
    axes.legend(loc="lower right")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
