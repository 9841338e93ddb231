"""scripts/kafka_tests.py: what is run in which order, what is kept when, and who gets a second try. Without a JVM."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compat_tests.kafka_tests import results, runner
from scripts import kafka_tests
from scripts.kafka_tests import Batch

ROOT = Path(__file__).resolve().parents[2]

OWNER = "org.x.SomeTest"


def case(name: str, result: str = "passed", brokers: int = 1, reason: str = "") -> runner.Case:
    return runner.Case(OWNER, name, result, reason, brokers, 1.0)


def row(name: str, owner: str = OWNER, **fields: Any) -> results.Row:
    return {"class": owner, "case": name, "brokers": 1, "kafka": None, "ottla": None, "reason": "", "seconds": 1.0} | fields


def known(path: Path) -> dict[str, tuple[str | None, str | None]]:
    """Case -> what became of it with Kafka and with ottla."""
    return {each["case"]: (each["kafka"], each["ottla"]) for each in results.load(path)}


class Runs:
    """Stands for runner.run: each run gives the next of these lists, or dies."""

    def __init__(self, *of: list[runner.Case], dies: bool = False) -> None:
        self.of, self.dies = list(of), dies
        self.asked: list[list[str]] = []

    def __call__(
        self, kind: str, classes: Any, place: Path, *, cases: Any = None, told: Any = None, **_: Any
    ) -> list[runner.Case]:
        self.asked.append(list(cases or ()))
        found = self.of.pop(0)
        for each in found:
            (told or (lambda case: None))(each)
        if self.dies:
            raise KeyboardInterrupt
        return found


@pytest.fixture
def batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Runs one of the cases a and b with Kafka; the file that results are kept in."""

    def run(runs: Runs, *rows: results.Row) -> Path:
        kept = tmp_path / "results.json"
        results.save(list(rows), kept)
        monkeypatch.setattr(runner, "run", runs)
        kafka_tests.run_batch("kafka", kafka_tests.Batch(OWNER, ("a", "b")), tmp_path, kept)
        return kept

    return run


def test_a_run_that_is_killed_has_kept_what_it_did(batch: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        batch(Runs([case("a"), case("b", "failed")], dies=True), row("a"), row("b"))
    assert known(tmp_path / "results.json") == {"a": ("passed", None), "b": (None, None)}
    assert json.loads((tmp_path / "results.run.json").read_text()).keys() == {"date", "commit"}


def test_a_failure_is_believed_the_second_time(batch: Callable[..., Path]) -> None:
    runs = Runs([case("a", "failed"), case("b", "failed")], [case("a"), case("b", "failed")])
    assert known(batch(runs, row("a", ottla="passed"), row("b"))) == {"a": ("passed", "passed"), "b": ("failed", None)}
    assert runs.asked == [[f"{OWNER}#a", f"{OWNER}#b"]] * 2


def test_what_the_other_kind_failed_too_is_believed_at_once(batch: Callable[..., Path]) -> None:
    runs = Runs([case("a"), case("b", "failed")])
    assert known(batch(runs, row("a"), row("b", ottla="failed"))) == {"a": ("passed", None), "b": ("failed", "failed")}
    assert len(runs.asked) == 1


def test_a_case_that_does_not_end_stays_missing(batch: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    runs = Runs([case("a", "failed")], [])
    assert known(batch(runs, row("a"), row("b"))) == {"a": (None, None), "b": (None, None)}
    assert capsys.readouterr().out.splitlines() == [f"kafka {OWNER}#{name} did not end in its time" for name in "ab"]


def test_the_quick_ones_come_first_and_what_the_other_kind_failed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "classes", lambda part: ["New", "Quick", "Slow"])
    rows = [
        row("a", "Slow", seconds=9.0),
        row("b", "Slow", kafka="passed"),
        row("a", "Quick", ottla="failed"),
        row("b", "Quick", ottla="passed"),
    ]
    arguments = argparse.Namespace(several=False, set=["clients"], only="", again="missing")
    assert [(each.name, each.cases) for each in kafka_tests.picked(arguments, rows, "kafka")] == [
        ("Quick", ("b",)),
        ("Slow", ("a",)),
        ("Quick", ("a",)),
        ("New", None),
    ]


def test_several_brokers_are_for_cases_that_ask_for_them_and_fail_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        row("one", kafka="failed"),
        row("passes", brokers=3, kafka="passed"),
        row("fails", brokers=3, kafka="failed"),
        row("second", brokers=2, kafka="excluded", reason="a second broker"),
        row("authorizer", brokers=3, kafka="excluded", reason="needs an authorizer"),
    ]
    monkeypatch.setattr(results, "load", lambda: rows)
    arguments = argparse.Namespace(several=True, only="", again=None)
    assert kafka_tests.picked(arguments, [], "ottla") == [Batch(OWNER, ("fails", "second"))]
    arguments.again = "missing"
    assert kafka_tests.picked(arguments, [row("fails", ottla="passed")], "ottla") == [Batch(OWNER, ("second",))]
    arguments.again = "failed"
    assert kafka_tests.picked(arguments, [row("fails", ottla="failed")], "ottla") == [Batch(OWNER, ("fails",))]


def test_several_brokers_are_no_reason_where_a_case_has_them() -> None:
    failed = case("a", "failed", brokers=3, reason="it says so")
    assert results.merged([], "ottla", [failed])[0]["reason"] == "needs 3 brokers or controllers; it says so"
    assert results.merged([], "ottla", [failed], several=True)[0]["reason"] == "it says so"


def test_cases_without_a_cluster_are_no_rows() -> None:
    assert results.merged([row("a"), row("b")], "ottla", [case("a", brokers=0), case("c", brokers=0)]) == [row("b")]


def test_why_kafka_itself_fails_is_said_in_words_and_why_ottla_does_is_not() -> None:
    pattern, why = next(iter(results.OUT.items()))
    owner, _, name = pattern.partition("#")
    failed = runner.Case(owner, name, "failed", "it says so", 1, 1.0)
    ours = results.merged([], "ottla", [failed])
    assert ours[0]["reason"] == "it says so"
    assert results.merged(ours, "kafka", [failed])[0]["reason"] == why


def test_half_a_line_is_not_read_yet(tmp_path: Path) -> None:
    written = tmp_path / "results.jsonl"
    whole = '{"class": "X", "case": "a", "result": "failed", "reason": "one\u2028line", "brokers": 1, "seconds": 1.0}\n'
    written.write_text(whole + whole[:20])
    assert [each.name for each in runner.read(written)] == ["X#a"]


def test_what_is_decided_by_chance_is_out() -> None:
    """Whichever way it went, and with a reason; a case of the same class that is not among them stays."""
    owner = "org.apache.kafka.clients.consumer.PlaintextConsumerTest"
    names = ("testAsyncConsumeCoordinatorFailover[1]", "testClassicConsumerCoordinatorFailover[1]", "testSeek[1]")
    rows: list[results.Row] = []
    for kind, result in (("kafka", "passed"), ("ottla", "failed")):
        rows = results.merged(rows, kind, [runner.Case(owner, name, result, "why", 3, 1.0) for name in names])
    assert [(row["kafka"], row["ottla"]) for row in rows] == [("excluded", "excluded")] * 2 + [("passed", "failed")]
    assert all(row["reason"] for row in rows)


def test_a_batch_has_twice_the_time_that_it_took_last() -> None:
    assert kafka_tests.Batch(OWNER, ("a", "b"), seconds_each=1.0).timeout_s == 2 * kafka_tests.CASE_TIMEOUT_S
    assert kafka_tests.Batch(OWNER, ("a", "b"), seconds_each=100.0).timeout_s == 400


def test_what_is_decided_by_chance_is_kept_so() -> None:
    kept = results.load()
    for pattern, why in results.BY_CHANCE.items():
        rows = [row for row in kept if re.search(pattern, f"{row['class']}#{row['case']}")]
        assert {(row["kafka"], row["ottla"], row["reason"]) for row in rows} == {("excluded", "excluded", why)}


def test_what_is_excluded_for_several_brokers_is_so_after_the_next_run() -> None:
    """And not by hand: a run that it passes would bring it back."""
    for row in results.load():
        if row["kafka"] == row["ottla"] == "excluded" and re.match(r"needs (a second|\d) broker", row["reason"]):
            again = results.merged([row], "kafka", [runner.Case(row["class"], row["case"], "passed", "", row["brokers"], 1.0)])
            assert again[0]["kafka"] == "excluded", row
