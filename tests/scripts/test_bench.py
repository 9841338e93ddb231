"""The comparison of brokers: what counts as a missed target, and that the load generator ends where a broker refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing import Broker
from scripts.bench import report
from scripts.bench.rows import Row

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("target", "ottla", "kafka", "held"),
    [
        ({"absolute": 0.3}, {"x": 0.3}, {}, True),
        ({"absolute": 0.3}, {"x": 0.31}, {}, False),
        ({"at_most": 0.5}, {"x": 1.0}, {"x": 2.0}, True),
        ({"at_most": 0.5}, {"x": 1.1}, {"x": 2.0}, False),
        ({"at_least": 1.4}, {"x": 1.4}, {"x": 1.0}, True),
        ({"at_least": 1.4}, {"x": 1.3}, {"x": 1.0}, False),
        ({"at_most": 0.5}, {"x": 1.0}, {}, None),
        ({}, {"x": 1.0}, {"x": 1.0}, None),
        ({"at_most": 0.5}, {}, {"x": 2.0}, False),  # it was run, and ottla did not do it
        ({"absolute": 0.3}, {}, {}, False),
    ],
)
def test_what_holds_a_target(
    target: dict[str, float], ottla: dict[str, float], kafka: dict[str, float], held: bool | None
) -> None:
    row = Row("title", "load", "x", "ms", **target)
    assert report.held({"ottla": {"load": ottla}, "kafka": {"load": kafka}}, row) is held
    assert report.held({"ottla": {}, "kafka": {"load": kafka}}, row) is None  # not run


def test_loads_that_were_run_again_alone_replace_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "DOCS", tmp_path)
    monkeypatch.setattr(report, "plot", lambda _medians, _path: None)
    days = iter(("2026-11-01", "2026-11-02"))
    monkeypatch.setattr(report, "stamp", lambda: {"date": next(days), "commit": "1a2b3c4"})

    def figures(p50_ms: float, stable_s: float) -> dict[str, dict[str, list[float]]]:
        return {"e2e": {"e2e_p50_ms": [p50_ms]}, "group": {"stable_s": [stable_s]}}

    report.write_docs({"ottla": figures(0.3, 2), "kafka": figures(0.5, 1)}, 3)
    report.add_docs({kind: {"e2e": {"e2e_p50_ms": [p50_ms]}} for kind, p50_ms in (("ottla", 0.2), ("kafka", 0.4))})
    written = json.loads((tmp_path / "benchmarks.json").read_text())
    assert (written["rounds"], written["figures"]) == (3, {"ottla": figures(0.2, 2), "kafka": figures(0.4, 1)})
    shown = (tmp_path / "benchmarks.md").read_text()
    assert "| 0.20 ms | 0.40 ms | 0.50 | at most 0.5 × |" in shown
    assert "| 2.00 s | 1.00 s | 2.00 | at most 1 × **missed** |" in shown
    assert written["measured"] == {"e2e": "2026-11-02 at 1a2b3c4", "group": "2026-11-01 at 1a2b3c4"}
    assert "- Measured 2026-11-02 at 1a2b3c4: end to end at 500/s: p50." in shown


def kload(broker: Broker, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts.bench.kload", "--bootstrap", broker.bootstrap, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("scenario", "figure"),
    [
        (("produce", "--seconds", "0"), "requests"),
        (("fetch", "--mib", "1", "--passes", "1", "--records", "10"), "requests"),
        (("e2e", "--seconds", "0.1"), "records"),
        (("metadata", "--topics", "2", "--seconds", "0"), "requests"),
        (("group", "--members", "3"), "generation"),
        (("group-storm", "--groups", "3", "--members", "4"), "generations"),
        (("commits", "--conns", "2", "--partitions", "3", "--seconds", "0"), "requests"),
        (("transactions", "--conns", "2", "--seconds", "0"), "transactions"),
        (("idle", "--conns", "3", "--seconds", "0"), "conns"),
        (("ready",), "ready_s"),
    ],
)
def test_every_scenario_has_its_figures(kafka_broker: Broker, scenario: tuple[str, ...], figure: str) -> None:
    """However late a machine is: what runs for some seconds asks once at least."""
    ran = kload(kafka_broker, *scenario)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)[figure] > 0


@pytest.mark.parametrize("scenario", ["produce", "fetch", "e2e"])
@pytest.mark.kafka_broker(message_max_bytes=1000)
def test_a_broker_that_refuses_ends_the_run(kafka_broker: Broker, scenario: str) -> None:
    ran = kload(kafka_broker, scenario, "--record-bytes", "2000", "--seconds", "1")
    assert (ran.returncode, ran.stderr) == (1, f"kload {scenario}: Produce: error 10\n")
