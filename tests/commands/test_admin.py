"""commands/admin.py: selecting names, reporting alterations, asking for confirmation, all without a cluster.

compat_tests/test_commands_admin.py has the commands with one.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence

import pytest
import typer
from confluent_kafka.admin import AlterConfigOpType

from ottla.commands import admin
from ottla.commands.admin import Change, Operation, Outcome
from ottla.commands.output import Failure

NAMES = ["a1", "a2", "b1", "__own", "x*"]


@pytest.mark.parametrize(
    ("wanted", "regex", "found", "missing"),
    [
        ([], False, ["a1", "a2", "b1", "x*"], []),
        (["a*"], False, ["a1", "a2"], []),
        (["?1", "a2", "?1"], False, ["a1", "a2", "b1"], []),
        (["[!a]1"], False, ["b1"], []),
        (["zz", "a1", "zz*"], False, ["a1"], ["zz"]),
        (["__own"], False, ["__own"], []),
        (["__*"], False, [], []),
        (["x*"], False, ["x*"], []),  # a name that exists is no pattern
        ([".1"], True, ["a1", "b1"], []),
        (["a"], True, [], []),  # the whole name must match
        (["__own"], True, [], []),
    ],
)
def test_which_names_are_meant(wanted: list[str], regex: bool, found: list[str], missing: list[str]) -> None:
    assert admin.select(NAMES, wanted, regex=regex, hidden=["__own"]) == (found, missing)


@pytest.mark.parametrize(("wanted", "regex"), [([""], False), (["\udcff"], False), (["("], True)])
def test_names_that_are_wrong_usage(wanted: list[str], regex: bool) -> None:
    with pytest.raises(typer.BadParameter):
        admin.select(NAMES, wanted, regex=regex)


def test_pairs() -> None:
    assert admin.pairs(["a=1", "b=", "c=x=y"], "-c") == {"a": "1", "b": "", "c": "x=y"}
    for words in (["a"], ["=1"], ["a=1", "a=2"], ["a=\udcff"]):
        with pytest.raises(typer.BadParameter):
            admin.pairs(words, "-c")


def test_batches() -> None:
    assert list(admin.batches([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
    assert list(admin.batches([], 2)) == []


def test_changes_are_what_librdkafka_takes() -> None:
    changes = [Change("a", Operation.SET, "1"), Change("b", Operation.DELETE), Change("c", Operation.APPEND, "x")]
    entries = admin.incremental(changes)
    assert [(entry.name, entry.value, entry.incremental_operation) for entry in entries] == [
        ("a", "1", AlterConfigOpType.SET),
        ("b", None, AlterConfigOpType.DELETE),
        ("c", "x", AlterConfigOpType.APPEND),
    ]


OUTCOMES = [Outcome("a", "deleted"), admin.failed("b", "why")]


def test_outcomes_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    admin.report("topic", OUTCOMES[:1], as_json=False)
    assert capsys.readouterr() == ("", "topic a: deleted\n")
    with pytest.raises(typer.Exit) as end:
        admin.report("topic", OUTCOMES, as_json=False)
    assert end.value.exit_code == 1
    assert capsys.readouterr() == ("", "topic a: deleted\nottla: topic b: why\n")


def test_outcomes_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        admin.report("topic", OUTCOMES, as_json=True)
    out, errors = capsys.readouterr()
    assert json.loads(out) == [
        {"name": "a", "result": "deleted", "error": None},
        {"name": "b", "result": "failed", "error": "why"},
    ]
    assert errors == "ottla: topic b: why\n"
    admin.report("", [Outcome("broker 1", "set")], as_json=True, names=[{"kind": "broker", "name": "1"}])
    assert json.loads(capsys.readouterr().out) == [{"kind": "broker", "name": "1", "result": "set", "error": None}]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "goes_on"), [("y\n", True), ("YES\n", True), ("\n", False), ("", False), ("n\n", False)])
def test_asking(monkeypatch: pytest.MonkeyPatch, answer: str, goes_on: bool) -> None:
    said = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", said)
    if goes_on:
        admin.confirm("Delete?", yes=False)
    else:
        with pytest.raises(Failure, match="nothing was changed"):
            admin.confirm("Delete?", yes=False)
    assert said.getvalue() == "Delete? [y/N] "


def test_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(typer.BadParameter, match="--yes"):
        admin.confirm("Delete?", yes=False)
    admin.confirm("Delete?", yes=True)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a"], "topic a"),
        (["a", "b"], "topics a, b"),
        (list("abcdef"), "6 topics: a, b, c, d, e, ..."),
    ],
)
def test_a_list_for_a_question(names: Sequence[str], text: str) -> None:
    assert admin.listed(names, "topic") == text


def test_a_bar_only_for_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # on a dumb terminal, as some CI has, rich draws none
    for total, is_shown in ((200, False), (201, True)):
        said = Terminal()
        monkeypatch.setattr(sys, "stderr", said)
        with admin.progress("describing", total) as advance:
            advance(1)
        assert ("describing" in said.getvalue()) is is_shown
