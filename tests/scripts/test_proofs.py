"""The ledger of long proofs (scripts/proofs.py): runs add up, seeds go on, and the page says what the ledger holds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from scripts import fuzz, proofs, simulate
from scripts.proofs import (
    FUZZ,
    OUTSIDE,
    SIMULATED_CLUSTER,
    SIMULATION,
    SOAK,
    Ledger,
    as_ranges,
    kept_corpora,
    next_seed,
    page,
    pages,
    seeds_in,
)
from scripts.soak.__main__ import record as record_soak
from scripts.written_pages import outdated

ROOT = Path(__file__).parents[2]
ORIGIN = {"date": "2026-11-26", "commit": "1a2b3c4", "machine": "a machine"}
MOST_KEPT_BYTES = 1 << 20


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the ledger that scripts write to in this test."""
    path = tmp_path / "proofs.json"
    real = proofs.record
    monkeypatch.setattr(proofs, "record", lambda *given, **more: real(*given, **more, path=path))
    return path


@pytest.mark.parametrize(("ranges", "seeds"), [("", set()), ("7", {7}), ("0-2,5,9-10", {0, 1, 2, 5, 9, 10})])
def test_seeds_as_ranges(ranges: str, seeds: set[int]) -> None:
    assert seeds_in(ranges) == seeds
    assert as_ranges([*seeds, *seeds]) == ranges


def test_the_next_seeds_are_above_all_that_anybody_had() -> None:
    assert next_seed([]) == proofs.FIRST_SEED
    runs = [{"proof": SIMULATION, "seeds": "2000-2099,4"}, {"proof": OUTSIDE, "seeds": "9000"}, {"proof": FUZZ}]
    assert next_seed(runs) == 2100
    assert next_seed(runs, SIMULATED_CLUSTER) == proofs.FIRST_SEED
    runs.append({"proof": SIMULATED_CLUSTER, "seeds": "1000-4999"})
    assert (next_seed(runs), next_seed(runs, SIMULATED_CLUSTER)) == (2100, 5000)


def test_a_run_is_added_to_one_that_differs_in_counts_and_seeds_only(tmp_path: Path) -> None:
    path = tmp_path / "proofs.json"
    for seeds in (range(10), range(10, 20)):
        proofs.record(SIMULATION, ORIGIN, {"lives": 3, "events": 5, "virtual_s": 7.26}, seeds=seeds, path=path)
    later = {**ORIGIN, "date": "2026-11-27"}
    proofs.record(SIMULATION, later, {"lives": 1, "events": 1, "virtual_s": 1}, seeds=[20], found=["seed 20: lost"], path=path)
    read = json.loads(path.read_text())
    first = {"proof": SIMULATION, **ORIGIN, "lives": 6, "events": 10, "virtual_s": 14.52, "seeds": "0-19"}
    second = {"proof": SIMULATION, **later, "lives": 1, "events": 1, "virtual_s": 1, "seeds": "20"}
    assert read["runs"] == [first, second]
    assert read["findings"] == [{"proof": SIMULATION, "commit": "1a2b3c4", "what": "seed 20: lost", "outcome": ""}]
    assert len(path.read_text().splitlines()) == 9, "a line for each, so that branches merge"
    written = path.with_suffix(".md").read_text()
    assert "| simulated broker | 100,000 seeds | 21 seeds | 1 finding |" in written
    assert "| 1a2b3c4 | 2026-11-26 | 0-19 | 6 | 10 | 0.0 |" in written
    assert "- simulation, 1a2b3c4: seed 20: lost\n  Not looked at yet." in written


def test_there_is_a_page_before_there_is_a_run(tmp_path: Path) -> None:
    text = page(Ledger(tmp_path / "none"), {})
    assert "| soak | 2 hours in one go | not yet | nothing |" in text
    assert text.count("Nothing yet.") == 8


def test_what_scripts_add(recorded: Path, tmp_path: Path) -> None:
    failure = "...\n === Uncaught Python exception: ===\nAssertionError: (9, 769)\nTraceback ...\n"
    fuzz.record(fuzz.Outcome("cleaning", 90.0, 5000, 3, [], failure), ORIGIN)
    fuzz.record(fuzz.Outcome("cleaning", 30.0, 1000, 3, [], ""), ORIGIN)
    tally = simulate.Tally()
    for seed in (5, 6):
        found: list[Any] = [["lost-write", "q-0", "more"]] * (seed == 6)
        tally.add({"seed": seed, "found": found, "events": 10, "excused": seed, "lives": 2, "virtual_s": 1800})
    tally.record(ORIGIN)
    tally.record(ORIGIN, SIMULATED_CLUSTER)
    about = {"broker": "ottla", "faults": "pause, power (xfs)", "seconds each": "100"}
    counts = {"runs": 1, "lives": 3, "sends": 7, "transactions": 2, "anomalies": 1}
    proofs.record(OUTSIDE, {**ORIGIN, **about}, counts, seeds=[3], found=["ottla, seed 3: stuck"])
    lives = {}
    for name, seconds in (("lasting", 7200.0), ("killed", 7100.0)):
        lives[name] = tmp_path / name
        sample = {"kind": "sample", "rounds": 40, "age_s": 1.0, "cpu_s": 0.5}
        rows: list[dict[str, Any]] = [{"kind": "start", "start_s": 0.1}, {"kind": "check", "records": 5}, sample]
        lives[name].write_text("".join(json.dumps({"t": seconds, **row}) + "\n" for row in rows))
    record_soak(lives, [], ORIGIN, 7200)

    ledger = Ledger(recorded)
    assert [run["proof"] for run in ledger.runs] == [FUZZ, SIMULATION, SIMULATED_CLUSTER, OUTSIDE, SOAK]
    assert {key: ledger.runs[0][key] for key in ("target", "cpu_seconds", "inputs")} == {
        "target": "cleaning", "cpu_seconds": 120.0, "inputs": 6000,
    }  # fmt: skip
    assert [finding["what"] for finding in ledger.findings] == [
        "cleaning: AssertionError: (9, 769)",
        "seed 6: lost-write at q-0",
        "seed 6: lost-write at q-0",
        "ottla, seed 3: stuck",
    ]
    text = page(ledger, {"cleaning": (7, 2048)})
    assert "| fuzzing | 8 hours of CPU | 0.0 hours, 6,000 inputs | 1 finding |" in text
    assert "| `cleaning` | 2.0 | 6,000 | 7 inputs, 2 KiB |" in text
    assert "| 1a2b3c4 | 2026-11-26 | 5-6 | 4 | 20 | 1.0 |" in text
    assert "| ottla | pause, power (xfs) | 100 | 1 | 3 | 7 | 2 | 1 |" in text
    assert "| 1a2b3c4 | 2026-11-26 | 1.97 | 80 | 0 | 10 | nothing failed, and no slope" in text
    assert "| soak | 2 hours in one go | 1.97 hours | nothing |" in text
    assert "| lasting | rss_mib | 0.000 | 0.000 | 0.000 | too few |  | 1.000 | open |" in text
    assert "| simulated cluster | 10,000 seeds | 2 seeds | 1 finding |" in text
    assert "Of 20 events 11 were latest offsets of brokers that did not know of a new leader yet: excused." in text
    excused = "(11 excused: of brokers that did not know of a new leader yet)"
    assert str(tally).endswith(f" 20 events of clients {excused}, 1.0 simulated hours; 1 seeds found something")


def test_runs_on_clusters_are_counted_by_what_they_are_made_of(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    for name, seconds, runs in (("ooo", "100", 4), ("ook", "100", 2), ("okk", "100", 1), ("kkk", "100", 3), ("ooo", "30", 9)):
        about = {"broker": name, "faults": "cut", "seconds each": seconds}
        ledger.add(OUTSIDE, {**ORIGIN, **about}, {"runs": runs}, found=["ook, cut, seed 1: stuck"] * (name == "ook"))
    ledger.add(OUTSIDE, {**ORIGIN, "broker": "ottla", "faults": "kill", "seconds each": "100"}, {"runs": 5})
    text = page(ledger, {})
    assert "| 4 of ottla, 3 mixed, 3 of Kafka | 1 finding |" in text
    assert "| 5 runs of 100 s in all | nothing |" in text


def test_the_page_says_what_the_ledger_holds() -> None:
    """`python -m scripts.proofs` writes it again."""
    assert outdated(pages()) == []


def test_everything_that_was_found_has_an_outcome() -> None:
    for finding in Ledger().findings:
        assert finding["outcome"], f"say what became of it: {finding}"


def test_each_test_that_an_outcome_names_is_there() -> None:
    outcomes = "\n".join(finding["outcome"] for finding in Ledger().findings)
    named = re.findall(r"(tests/[\w/]+\.py)::(\w+)", outcomes)
    assert len(named) > 10
    assert [f"{path}::{name}" for path, name in named if f"def {name}(" not in (ROOT / path).read_text()] == []


def test_what_is_kept_of_the_corpora_is_small() -> None:
    kept = kept_corpora()
    assert set(kept) <= set(fuzz.names())
    assert sum(size for _, size in kept.values()) < MOST_KEPT_BYTES
