"""The report of compatibility: what it reads, that its matrix names tests there are, that it never claims what was not run."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]

JUNIT = """<testsuites><testsuite>
<testcase classname="compat_tests.test_go.TestFranz" name="test_every_codec[ottla]" time="1.5"/>
<testcase classname="compat_tests.test_go.TestFranz" name="test_every_codec[kafka]" time="1.5"/>
<testcase classname="compat_tests.test_kcat" name="test_a_group[ottla-range]" time="1"><failure message="no"/></testcase>
<testcase classname="compat_tests.wire_diff.test_fetch" name="test_every_version[4]" time="1"/>
<testcase classname="compat_tests.test_java" name="test_left_out[ottla]" time="0"><skipped message="why"/></testcase>
</testsuite></testsuites>"""
AGAIN = """<testsuites><testsuite>
<testcase classname="compat_tests.test_kcat" name="test_a_group[ottla-range]" time="1"/>
</testsuite></testsuites>"""
BREAKS = {"control": 3, "breaks": [{"name": "a break", "promise": "kept", "caught": False, "by": "", "failed": 0, "cases": 1}]}


@pytest.fixture
def reporting(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    from compat_report import matrix, pages, results, sections

    class Modules:
        pass

    modules: Any = Modules()
    modules.matrix, modules.pages, modules.results, modules.sections = matrix, pages, results, sections
    return modules


def all_tests() -> set[str]:
    """`<file>::<name>` of every test of compat_tests, with a class's own and those it has from client_jobs.py."""
    found = set()
    jobs = _tests_in(ROOT / "compat_tests" / "client_jobs.py")
    for path in (ROOT / "compat_tests").rglob("test_*.py"):
        file = path.relative_to(ROOT / "compat_tests").as_posix()
        found |= {f"{file}::{name}" for name in _tests_in(path)}
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found |= {f"{file}::{node.name}::{name}" for name in jobs}
    return found


def _tests_in(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_tests_are_read_with_their_broker_and_a_second_try_counts(reporting: Any, tmp_path: Path) -> None:
    (tmp_path / "compat.xml").write_text(JUNIT)
    read = lambda: {test.name: test for test in reporting.results.read(tmp_path, tmp_path / "none", tmp_path / "none").tests}  # noqa: E731
    found = read()
    assert [(test.file, test.kind, test.outcome) for test in found.values()] == [
        ("test_go.py", "ottla", "passed"),
        ("test_go.py", "kafka", "passed"),
        ("test_kcat.py", "ottla", "failed"),
        ("wire_diff/test_fetch.py", "", "passed"),
        ("test_java.py", "ottla", "skipped"),
    ]
    assert "TestFranz::test_every_codec[ottla]" in found
    (tmp_path / "compat-again.xml").write_text(AGAIN)
    assert read()["test_a_group[ottla-range]"].outcome == "passed"


def test_every_pattern_of_the_matrix_finds_tests(reporting: Any) -> None:
    """Parameters are not looked at, so what a pattern wants of them is cut off."""
    tests = all_tests()
    cases = json.loads((ROOT / "compat_tests" / "suites" / "cases.json").read_text())
    tests |= {f"test_client_suites.py::test_kafka_python[ottla-{case}]" for case in cases["passes"]}
    tests |= {
        f"{test}[{who}]" for test in tests if "[" not in test for who in ("java", "librdkafka", "franz", "classic", "confluent")
    }
    tests |= {f"{test}[{who}]" for test in tests if "[" not in test for who in ("kafka_python", "aiokafka", "streams")}
    for client, cells in reporting.matrix.CLIENTS.items():
        assert tuple(cells) == reporting.matrix.CAPABILITIES, client
        for name, wanted in cells.items():
            if not isinstance(wanted, str):
                continue
            for pattern in _alternatives(wanted):
                assert any(re.search(pattern, test) for test in tests), f"{client}, {name}: nothing is {pattern}"


def _alternatives(pattern: str) -> list[str]:
    """Split at the outermost |, so that each must find something."""
    parts, depth = [""], 0
    for sign in pattern:
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def test_nothing_is_claimed_that_was_not_run(reporting: Any, tmp_path: Path) -> None:
    results = reporting.results.read(tmp_path, tmp_path / "none", tmp_path / "none")
    lines = reporting.sections.summary(results)
    assert all(line.kafka is None and line.ottla is None for line in lines)
    text = reporting.pages.markdown(reporting.sections.report(results, "Never."))
    assert "✔ 1" not in text
    assert "●" not in text.split("## APIs and versions")[1].split("| API |")[1]


def test_what_fails_is_shown_and_decides_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "compat.xml").write_text(JUNIT)
    (tmp_path / "breaks.json").write_text(json.dumps(BREAKS))
    command = [sys.executable, str(ROOT / "scripts" / "compat-report"), "--strict", "--results", str(tmp_path)]
    done = subprocess.run([*command, "--docs", str(tmp_path / "docs")], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    text = (tmp_path / "docs" / "compatibility.md").read_text()
    assert "| a break | kept | not caught |" in text
    assert "✘ 0 of 1 (Kafka 0 of 0)" in text
    assert "0 of 1" in done.stdout


def test_the_page_needs_nothing_else_and_the_picture_is_xml(reporting: Any, tmp_path: Path) -> None:
    (tmp_path / "compat.xml").write_text(JUNIT)
    blocks = reporting.sections.report(reporting.results.read(tmp_path), "Today & <now>.")
    page = reporting.pages.html("title", blocks)
    assert "Today &amp; &lt;now&gt;." in page
    assert not re.findall(r'(?:src|href)="', page)
    (picture,) = (block for block in blocks if hasattr(block, "svg"))
    ElementTree.fromstring(picture.svg)
    assert picture.svg in page
