"""Changes one token of the source at a time and runs the unit tests: do they notice?

    python -m scripts.mutants --part pipeline --count 20 --seed 1
    python -m scripts.mutants --part server/txn --count 10 --seed 4 --near

A mutant is one comparison turned, one number one higher, one `and` for an `or`, one answer of None. It is caught if a test of the
same part fails: first those of the mirrored test module, then those that import the mutated module, then those of its room, then
(without --near) the rest of the part; the first failure ends the run, and a run far longer than usual is a failure as well. Which
mutants are drawn depends on the seed and the source only. All of it happens in copies of the tree, uncompiled.

Tests run without a mutation first. Those that fail even so are named and set aside. If there are more than a few, if pytest
itself fails, or if such a run does not end, nothing can be said about a mutant, and the exit code is 2.

A survivor is a question to the tests, or an equivalent: a program that behaves as before. Equivalents are judged by hand and
stand in scripts/equivalent_mutants.toml, each with its reason; they are not drawn. The exit code is 1 if less than 90 % are
caught.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tokenize
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("log", "security", "server", "pipeline")
EQUIVALENTS = ROOT / "scripts" / "equivalent_mutants.toml"
ALSO = {"log": ["tests/sim", "tests/server/settings"]}
"""Tests of a part that stand elsewhere than in its mirror; tests/server/settings compares the topics' table with Kafka's."""
NOT_ABOUT_MUTANTS = ("test_planted.py", "test_simulation.py")
"""Tests that run hundreds of seeds of a simulated broker: they take many minutes for each mutant that the others do not notice.
So a few that only such a seed would catch are called survivors."""
GOAL = 0.9
LONGEST_SHOWN = 50
SLOW_START, TIMES_AS_LONG = 60.0, 4
"""A run may take so many seconds, or this many times as long as the same tests took without a mutation."""
LONGEST_BASELINE = 1800.0
"""The most seconds that tests may take without a mutation."""
MOST_ASIDE = 20
"""So many tests may fail without a mutation."""

SWAPS: Final = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "in": "not in", "not in": "in", "is": "is not",
    "is not": "is", "+": "-", "-": "+", "*": "//", "//": "*", "%": "//", "&": "|", "|": "&", "<<": ">>", ">>": "<<",
    "and": "or", "or": "and", "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|=", "break": "continue", "continue": "break",
    "min": "max", "max": "min", "True": "False", "False": "True",
}  # fmt: skip


class Mutant(NamedTuple):
    """One change: what stands from `start` to `end` (bytes of the file) becomes `new`."""

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str
    text: str
    """The line as it is in the source, without its indentation."""

    @property
    def change(self) -> str:
        old = " ".join(self.old.split())
        return f"{old if len(old) <= LONGEST_SHOWN else old[:LONGEST_SHOWN] + '…'} -> {self.new or '(nothing)'}"

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.change}   | {self.text}"


class _Source:
    """A source file: where its lines begin, in bytes, and where its operators stand."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.begins = [0]
        for line in text.splitlines(keepends=True):
            self.begins.append(self.begins[-1] + len(line))
        decoded = text.decode().splitlines(keepends=True)
        self.operators: list[tuple[int, int, str]] = []
        for token in tokenize.generate_tokens(io.StringIO(text.decode()).readline):
            if token.type == tokenize.OP or (token.type == tokenize.NAME and token.string in ("and", "or", "not", "in", "is")):
                at = self.begins[token.start[0] - 1] + len(decoded[token.start[0] - 1][: token.start[1]].encode())
                self.operators.append((at, at + len(token.string), token.string))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.begins[node.lineno - 1] + node.col_offset, self.begins[node.end_lineno - 1] + node.end_col_offset

    def between(self, start: int, end: int) -> tuple[int, int, str] | None:
        """Returns the operator between two operands, brackets aside; `not in` and `is not` are one."""
        found = [one for one in self.operators if start <= one[0] and one[1] <= end and one[2] not in "()"]
        return (found[0][0], found[-1][1], " ".join(one[2] for one in found)) if found else None


def _spots(source: _Source, node: ast.AST) -> Iterator[tuple[int, int, str]]:
    """Yields (start, end, new text) of what may be changed at a node."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    match node:
        case ast.Compare(left=left, comparators=rest):
            pairs = list(zip([left, *rest], rest, strict=False))
        case ast.BoolOp(values=values):
            pairs = list(pairwise(values))
        case ast.BinOp(left=left, right=right) if not any(isinstance(side, ast.JoinedStr | ast.List) for side in (left, right)):
            pairs = [(left, right)]
        case ast.AugAssign(target=target, value=value):
            pairs = [(target, value)]
        case ast.UnaryOp(op=ast.Not()):
            start, end = source.span(node)
            word = len(b"not")
            yield start, end - len(source.text[start + word : end].lstrip()), ""
        case ast.Constant(value=bool() as value):
            yield *source.span(node), str(not value)
        case ast.Constant(value=int() as number):
            yield *source.span(node), str(number + 1)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield *source.span(value), "None"
        case ast.Name(id="min" | "max" as name):
            yield *source.span(node), SWAPS[name]
        case ast.Break() | ast.Continue():
            yield *source.span(node), SWAPS[type(node).__name__.lower()]
    for left, right in pairs:
        if (found := source.between(source.span(left)[1], source.span(right)[0])) and found[2] in SWAPS:
            yield found[0], found[1], SWAPS[found[2]]


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the children of a node without annotations, assertions, code for the type checker and what is logged."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            match child:
                case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assert():
                    continue
                case ast.Call(func=ast.Attribute(value=ast.Name(id="log" | "logger" | "_log" | "_logger" | "LOG"))):
                    continue
                case ast.AST():
                    yield child


def mutants_of(path: str, text: bytes) -> list[Mutant]:
    """Returns all mutants of a source file, in its order."""
    source = _Source(text)
    lines = text.decode().splitlines()
    found: list[Mutant] = []
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        waiting.extend(_children(node))
        for start, end, new in _spots(source, node):
            line = text.count(b"\n", 0, start) + 1
            old = text[start:end].decode()
            if old.strip() != new:
                found.append(Mutant(path, line, start, end, old.strip(), new, lines[line - 1].strip()))
    return sorted(found, key=lambda one: (one.start, one.end, one.new))


def sources(part: str) -> list[str]:
    """Returns the handwritten modules of a part, by path from the root."""
    paths = [ROOT / part] if part.endswith(".py") else sorted((ROOT / part).rglob("*.py"))
    return [str(path.relative_to(ROOT)) for path in paths]


def equivalents() -> set[tuple[str, str, str]]:
    """Returns (path, line of the source, change) of the mutants that behave as the source does."""
    if not EQUIVALENTS.exists():
        return set()
    return {(one["path"], one["line"], one["change"]) for one in tomllib.loads(EQUIVALENTS.read_text()).get("equivalent", [])}


def draw(part: str, count: int, seed: int) -> list[Mutant]:
    """Draws so many mutants of a part, each as likely as any other."""
    known = equivalents()
    all_of_them = [one for path in sources(part) for one in mutants_of(path, (ROOT / path).read_bytes())]
    drawn = random.Random(f"{seed} {part}").sample(all_of_them, len(all_of_them))
    fitting = (one for one in drawn if (one.path, one.text, one.change) not in known and _compiles(one))
    return list(islice(fitting, count))


def _compiles(mutant: Mutant) -> bool:
    try:
        ast.parse(mutant.applied((ROOT / mutant.path).read_bytes()))
    except SyntaxError:
        return False
    return True


def test_stages(path: str, *, near: bool) -> list[list[str]]:
    """Returns the test modules for a source file, nearest first, none twice."""
    source = Path(path)
    module = ".".join(("ottla", *source.with_suffix("").parts))
    part = Path("tests", source.parts[0])
    room = Path("tests", *source.parts[: 2 if source.parts[0] == "server" else 1])
    mirror = Path("tests") / source.parent
    parent, _, name = module.rpartition(".")
    imported = re.compile(rf"\b{re.escape(module)}\b|from {re.escape(parent)} import (\([^)]*|[^\n]*)\b{re.escape(name)}\b")
    folders = [str(part), *ALSO.get(source.parts[0], [])]
    found = (path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("test_*.py"))
    modules = sorted(path for path in found if path.name not in NOT_ABOUT_MUTANTS)
    nearest = [one for one in modules if one.parent == mirror and re.match(rf"test_{source.stem}(_|\.)", one.name)]
    naming = [one for one in modules if imported.search((ROOT / one).read_text())]
    beside = [one for one in modules if mirror in one.parents]
    in_room = [one for one in modules if room in one.parents]
    stages: list[list[str]] = []
    done: set[Path] = set()
    for stage in (nearest, naming, beside, in_room, [] if near else modules):
        if fresh := [one for one in stage if one not in done]:
            stages.append([str(one) for one in fresh])
            done.update(fresh)
    return stages


class CannotJudgeError(Exception):
    """The tests say nothing about mutants: pytest fails, or too much fails without a mutation."""


class Run(NamedTuple):
    """The result of a run of pytest."""

    code: int | None
    """The exit code; None if it did not end in time."""
    failed: tuple[str, ...]
    """The tests that failed, without their parameters, and the test modules that could not be read, as `pytest` takes them."""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.code in (0, 5)  # 5: there was no test

    @property
    def in_a_word(self) -> str:
        return self.failed[0] if self.failed else "(it did not end)" if self.code is None else f"(exit code {self.code})"


def failures(output: str) -> tuple[str, ...]:
    """Returns the tests and modules that the summary of a run names as failed, each once."""
    return tuple(dict.fromkeys(re.findall(r"^(?:FAILED|ERROR) ([^\s\[]+)", output, re.MULTILINE)))


class Copy:
    """A copy of the tree in which one mutant after another is tried."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        leave = shutil.ignore_patterns(".git", ".venv", "*.so", "__pycache__", ".*_cache", "build", "results")
        shutil.copytree(ROOT, folder, symlinks=True, ignore=leave)
        self.aside: set[str] = set()
        """The tests, and the modules of tests, that fail without a mutation."""
        self.baselines: list[tuple[frozenset[str], float]] = []
        """The modules of tests that ran without a mutation, as they ran together, and the seconds that took."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._has_ended = False

    def caught_by(self, mutant: Mutant, *, near: bool) -> str | None:
        """Returns the test that fails for a mutant; None if all pass. Raises CannotJudgeError."""
        target = self.root / mutant.path
        text = target.read_bytes()
        for stage in test_stages(mutant.path, near=near):
            self.run_unmutated(stage)
            limit = max(SLOW_START, TIMES_AS_LONG * sum(seconds for tests, seconds in self.baselines if tests & set(stage)))
            while True:
                self._replace(target, mutant.applied(text))
                try:
                    run = self.run(stage, limit)
                finally:
                    self._replace(target, text)
                if run.passed:
                    break
                if not self._fails_anyway(run, stage):
                    return run.in_a_word
        return None

    def run_unmutated(self, tests: list[str]) -> None:
        """Runs those of the test modules that have not run yet, until what is not set aside passes. Raises CannotJudgeError."""
        fresh = [test for test in tests if not any(test in together for together, _ in self.baselines)]
        if not fresh:
            return
        while not (run := self.run(fresh, LONGEST_BASELINE, to_the_end=True)).passed:
            self._put_aside(run)
        self.baselines.append((frozenset(fresh), run.seconds))

    def _fails_anyway(self, run: Run, tests: list[str]) -> bool:
        """Says whether a failure is not the mutant's: then the test is set aside. Raises CannotJudgeError."""
        if run.code is None:
            return False
        again = self.run(list(run.failed[:1]) or tests, LONGEST_BASELINE)
        if again.passed:
            return False
        self._put_aside(again)
        return True

    def _put_aside(self, run: Run) -> None:
        """Sets aside what failed without a mutation. Raises CannotJudgeError if that is nothing new, or too much."""
        new = [test for test in run.failed if test not in self.aside]
        if run.code not in (1, 2) or not new:  # 3 and 4: pytest failed, or could not begin
            raise CannotJudgeError(f"without a mutation, pytest says {run.in_a_word}, and nothing that could be set aside")
        self.aside.update(new)
        print(f"set aside, fails without a mutation: {', '.join(new)}", file=sys.stderr, flush=True)
        if len(self.aside) > MOST_ASIDE:
            raise CannotJudgeError(f"{len(self.aside)} tests fail without a mutation")

    @staticmethod
    def _replace(target: Path, text: bytes) -> None:
        """Writes a source and removes what was compiled of it: one second and one length would pass for the same source."""
        for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*.pyc"):
            compiled.unlink()
        target.write_bytes(text)

    def run(self, tests: list[str], limit: float, *, to_the_end: bool = False) -> Run:
        """Runs tests but those set aside, in so many seconds, until one fails or to the end. Raises CannotJudgeError
        after `end`."""
        left = [test for test in tests if test not in self.aside]
        if not left:
            return Run(5, ())
        without = [f"--deselect={test}" for test in sorted(self.aside) if "::" in test]
        command = [sys.executable, "-m", "pytest", *([] if to_the_end else ["-x"]), "-q", "--no-header", "--tb=no"]
        command += ["-p", "no:cacheprovider", "-o", "timeout=60"]
        command += ["-k", "uncompiled or not compiled"]  # there is no machine code in the copy
        began = time.monotonic()
        with self._lock:
            self._refuse_after_end()
            process = self._process = subprocess.Popen(
                [*command, *without, *left],
                cwd=self.root,
                env={**os.environ, "PYTHONPATH": str(self.root)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self._kill()
            process.communicate()
            return Run(None, ())
        finally:
            self._process = None
        self._refuse_after_end()
        return Run(process.returncode, failures(output), time.monotonic() - began)

    def end(self) -> None:
        """Ends what runs, and runs nothing any more."""
        with self._lock:
            self._has_ended = True
        self._kill()

    def _refuse_after_end(self) -> None:
        if self._has_ended:
            raise CannotJudgeError("ended before all mutants were tried")

    def _kill(self) -> None:
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


class Verdict(NamedTuple):
    mutant: Mutant
    test: str | None


def judge(mutants: list[Mutant], folder: Path, *, jobs: int, near: bool) -> Iterator[Verdict]:
    """Tries the mutants, as many at a time as there are jobs, each job in its own copy of the tree."""
    copies: SimpleQueue[Copy] = SimpleQueue()
    made = [Copy(folder / str(number)) for number in range(jobs)]
    for copy in made:
        copies.put(copy)

    def judged(mutant: Mutant) -> Verdict:
        copy = copies.get()
        try:
            return Verdict(mutant, copy.caught_by(mutant, near=near))
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(jobs) as pool:
        try:
            yield from pool.map(judged, mutants)
        finally:  # also where a signal ends it: the pool would wait for what runs, in groups of processes of its own
            for copy in made:
                copy.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", help=f"a folder or a file, by default each of {', '.join(PARTS)}")
    parser.add_argument("--count", type=int, default=20, help="mutants of each part")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--near", action="store_true", help="only the tests of the mutated module's room")
    parser.add_argument("--list", action="store_true", help="only say which mutants are drawn")
    parser.add_argument("--json", type=Path, help="write the verdicts to this file, too")
    arguments = parser.parse_args()
    drawn = [mutant for part in arguments.part or PARTS for mutant in draw(part.rstrip("/"), arguments.count, arguments.seed)]
    if arguments.list:
        print("\n".join(map(str, drawn)))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what runs ends with it, and is not left behind
    verdicts: list[Verdict] = []
    try:
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            for verdict in judge(drawn, Path(folder), jobs=arguments.jobs, near=arguments.near):
                verdicts.append(verdict)
                print(f"{'caught  ' if verdict.test else 'SURVIVED'} {verdict.mutant}   {verdict.test or ''}", flush=True)
    except CannotJudgeError as error:
        print(error, file=sys.stderr)
        return 2
    caught = sum(verdict.test is not None for verdict in verdicts)
    print(f"{caught} of {len(verdicts)} caught")
    if arguments.json:
        arguments.json.write_text(json.dumps([{**one.mutant._asdict(), "test": one.test} for one in verdicts], indent=1))
    return 0 if caught >= GOAL * len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
