"""scripts/mutants.py: which changes there are and how they are spelled, which are drawn, and which test is said to catch one.

Nothing is mutated here but a tree of two files, and pytest is played, but where it is to end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import mutants
from scripts.mutants import ROOT, CannotJudgeError, Copy, Mutant, Run, failures, mutants_of


def changed(source: str) -> list[str]:
    """Each mutant of a source, whole."""
    text = source.encode()
    return [one.applied(text).decode() for one in mutants_of("a.py", text)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", ["a <= b"]),
        ("a not in b", ["a in b"]),
        ("a is not b", ["a is b"]),
        ("a < b <= c", ["a <= b <= c", "a < b < c"]),
        ("a and b or c", ["a or b or c", "a and b and c"]),
        ("(a) + (b)", ["(a) - (b)"]),
        ("a //= b", []),
        ("a += b", ["a -= b"]),
        ("not a", ["a"]),
        ("f(not a)", ["f(a)"]),
        ("not (a)", ["(a)"]),
        ("not(a)", ["(a)"]),
        ("x = True", ["x = False"]),
        ("x = 7", ["x = 8"]),
        ("x = max", ["x = min"]),
        ("def f(): return a", ["def f(): return None"]),
        ("def f(): return None", []),
        ("for a in b: break", ["for a in b: continue"]),
        ("x = 'é' if a == b else c", ["x = 'é' if a != b else c"]),
    ],
)
def test_changes(source: str, expected: list[str]) -> None:
    assert changed(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "assert a < 5",
        "logger.info('%d', 3)",
        "self.x: Literal[3]",
        "def f(a: Literal[3]) -> Literal[4]: ...",
        "@cached(3)\ndef f(): ...",
        "if TYPE_CHECKING:\n    x = 3",
        "'x' + f'{y}'",
    ],
)
def test_what_no_test_could_notice_stays(source: str) -> None:
    assert changed(source) == []


def test_a_mutant_says_what_it_is() -> None:
    (one,) = mutants_of("log/a.py", b"def f():\n    if not (a):\n        pass\n")
    assert str(one) == "log/a.py:2: not -> (nothing)   | if not (a):"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of two modules and their tests, in the project's place."""
    root = tmp_path / "tree"
    for name, text in {
        "log/a.py": "x = 1\ny = 2\nz = 3\n",
        "log/b.py": "x = 1\n",
        "tests/log/test_a.py": "",
        "tests/log/test_a_more.py": "",
        "tests/log/test_other.py": "from ottla.log import (b,\n    a)\n",
        "tests/log/test_last.py": "from ottla.log import b\n",
        "tests/sim/test_all.py": "",
        "tests/sim/test_planted.py": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(mutants, "ROOT", root)
    monkeypatch.setattr(mutants, "EQUIVALENTS", root / "equivalent.toml")
    return root


def test_the_same_seed_draws_the_same(tree: Path) -> None:
    assert mutants.draw("log", 3, 1) == mutants.draw("log", 3, 1)
    assert len({one for seed in range(20) for one in mutants.draw("log", 1, seed)}) == 4
    assert sorted(map(str, mutants.draw("log/a.py", 9, 1))) == [
        "log/a.py:1: 1 -> 2   | x = 1",
        "log/a.py:2: 2 -> 3   | y = 2",
        "log/a.py:3: 3 -> 4   | z = 3",
    ]


def test_equivalents_are_not_drawn(tree: Path) -> None:
    (tree / "equivalent.toml").write_text('[[equivalent]]\npath = "log/a.py"\nline = "y = 2"\nchange = "2 -> 3"\nreason = ""\n')
    assert [one.text for one in mutants.draw("log/a.py", 9, 1) if one.path == "log/a.py" and one.line == 2] == []
    assert len(mutants.draw("log", 9, 1)) == 3


def test_each_equivalent_is_a_mutant_of_the_source_as_it_is() -> None:
    known = mutants.equivalents()
    paths = {path for path, _, _ in known if (ROOT / path).exists()}
    drawn = {(one.path, one.text, one.change) for path in paths for one in mutants_of(path, (ROOT / path).read_bytes())}
    assert not (found := sorted(known - drawn)), f"no such line, or no such change of it; find it or take the entry out: {found}"


def test_the_nearest_tests_come_first(tree: Path) -> None:
    nearest = [["tests/log/test_a.py", "tests/log/test_a_more.py"], ["tests/log/test_other.py"], ["tests/log/test_last.py"]]
    assert mutants.test_stages("log/a.py", near=True) == nearest
    assert mutants.test_stages("log/a.py", near=False) == [*nearest, ["tests/sim/test_all.py"]]


def test_what_failed_is_read_off_the_summary() -> None:
    output = (
        "..F\nFAILED tests/a.py::test_x[a b] - assert 1\nFAILED tests/a.py::test_x[c]\nERROR tests/b.py - ImportError: FAILED x\n"
    )
    assert failures(output) == ("tests/a.py::test_x", "tests/b.py")
    assert failures("no tests ran\n") == ()


class Played(Copy):
    """A copy whose runs end as `ends` says, by the modules that run and by whether the source is mutated."""

    def __init__(self, tree: Path, ends: dict[tuple[str, bool], list[Run]]) -> None:
        super().__init__(tree.parent / "copy")
        self.ends = ends
        self.log: list[tuple[str, bool]] = []

    def run(self, tests: list[str], limit: float, *, to_the_end: bool = False) -> Run:
        left = " ".join(test.removeprefix("tests/log/") for test in tests if test not in self.aside)
        if not left:
            return Run(5, ())
        key = left, (self.root / "log/a.py").read_text() != "x = 1\ny = 2\nz = 3\n"
        self.log.append(key)
        waiting = self.ends.get(key, [])
        return waiting.pop(0) if waiting else Run(0, (), 1.0)

    def judge(self) -> str | None:
        return self.caught_by(Mutant("log/a.py", 1, 4, 5, "1", "2", "x = 1"), near=True)


NEAREST = "test_a.py test_a_more.py"
FAILS, BEGINS_NOT = Run(1, ("tests/log/test_a.py::test_x",)), Run(4, ())


def test_a_mutant_that_survives_after_all_stages(tree: Path) -> None:
    copy = Played(tree, {})
    assert copy.judge() is None
    stages = [NEAREST, "test_other.py", "test_last.py"]
    assert copy.log == [(stage, mutated) for stage in stages for mutated in (False, True)]
    assert copy.judge() is None
    assert copy.log[6:] == [(stage, True) for stage in stages], "the unmutated tree is tried once"
    assert (copy.root / "log/a.py").read_text() == "x = 1\ny = 2\nz = 3\n"


def test_a_test_that_fails_for_the_mutant_only_catches_it(tree: Path) -> None:
    copy = Played(tree, {(NEAREST, True): [FAILS]})
    assert copy.judge() == "tests/log/test_a.py::test_x"
    assert copy.log[2:] == [("test_a.py::test_x", False)]


@pytest.mark.parametrize("end", [BEGINS_NOT, Run(3, ()), Run(None, ())])
def test_a_run_that_fails_as_a_whole_for_the_mutant_only_catches_it(tree: Path, end: Run) -> None:
    assert Played(tree, {(NEAREST, True): [end]}).judge() == end.in_a_word


def test_what_fails_without_the_mutation_is_set_aside(tree: Path) -> None:
    unreadable = Run(2, ("tests/log/test_a_more.py",))
    copy = Played(tree, {(NEAREST, False): [unreadable], ("test_a.py", False): [FAILS]})
    assert copy.judge() is None
    assert copy.aside == {"tests/log/test_a_more.py", "tests/log/test_a.py::test_x"}
    assert copy.log[:4] == [(NEAREST, False), ("test_a.py", False), ("test_a.py", False), ("test_a.py", True)]


def test_a_test_that_fails_only_sometimes_does_not_catch_a_mutant(tree: Path) -> None:
    copy = Played(tree, {(NEAREST, True): [FAILS], ("test_a.py::test_x", False): [FAILS]})
    assert copy.judge() is None
    assert copy.aside == {"tests/log/test_a.py::test_x"}


@pytest.mark.parametrize("end", [Run(3, ()), BEGINS_NOT, Run(1, ()), Run(None, ()), Run(2, ())])
def test_a_tree_that_cannot_be_tested_says_nothing_about_mutants(tree: Path, end: Run) -> None:
    with pytest.raises(CannotJudgeError):
        Played(tree, {(NEAREST, False): [end]}).judge()


def test_nothing_is_set_aside_twice(tree: Path) -> None:
    """A test that fails though it was set aside would be run for ever."""
    with pytest.raises(CannotJudgeError):
        Played(tree, {(NEAREST, False): [FAILS, FAILS]}).judge()


def test_a_tree_where_much_fails_says_nothing_about_mutants(tree: Path) -> None:
    much = Run(1, tuple(f"tests/log/test_a.py::test_{number}" for number in range(21)))
    with pytest.raises(CannotJudgeError, match="21 tests fail without a mutation"):
        Played(tree, {(NEAREST, False): [much]}).judge()


def test_a_mutant_is_not_judged_where_pytest_fails_later_without_it(tree: Path) -> None:
    with pytest.raises(CannotJudgeError):
        Played(tree, {(NEAREST, True): [BEGINS_NOT], (NEAREST, False): [Run(0, ()), BEGINS_NOT]}).judge()


WAITING = """
import os, signal
from pathlib import Path

def test_that_does_not_end():
    with open({fifo!r}, "w") as told:
        print("begun", file=told, flush=True)
        signal.pause()
"""
MUTANTS = """
import sys
from pathlib import Path
from scripts import mutants

mutants.ROOT = Path({root!r})
sys.exit(mutants.main())
"""


def test_sigterm_ends_what_runs(tree: Path, tmp_path: Path) -> None:
    """pytest is in a group of processes of its own, which a signal to the script does not reach."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tree / "tests/log/test_a.py").write_text(WAITING.format(fifo=str(fifo)))
    command = [sys.executable, "-c", MUTANTS.format(root=str(tree)), "--part", "log/a.py", "--count", "3"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process, fifo.open() as told:
        assert told.readline() == "begun\n"
        process.terminate()
        assert told.read() == "", "at the end of the file nobody writes any more: pytest has ended"
        assert process.wait() == 1
