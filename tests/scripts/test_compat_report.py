"""The report of compatibility: what it reads, that its matrix names tests there are, that it never claims what was not run."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from compat_tests.tools_diff import scripts
from compat_tests.tools_diff.differences import DIFFERENCES
from compat_tests.tools_diff.site import NOT_COMPARED
from compat_tests.wire_diff import same
from scripts.compat_report import __main__ as script
from scripts.compat_report import differences, matrix, pages, sections
from scripts.compat_report.blocks import Paragraph, Picture
from scripts.compat_report.results import Results
from scripts.compat_report.results import Test as Result
from scripts.compat_report.results import read as read_results

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

RUN = {"date": "2026-11-22", "commit": "1a2b3c4", "form": "short", "left_out": {}}
IN_SHORT = "compat_tests/test_x.py::test_slow[kafka]"


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


def test_tests_are_read_with_their_broker_and_a_second_try_counts(tmp_path: Path) -> None:
    (tmp_path / "compat.xml").write_text(JUNIT)

    def tests() -> dict[str, Result]:
        return {test.name: test for test in read(tmp_path).tests}

    found = tests()
    assert [(test.file, test.kind, test.outcome) for test in found.values()] == [
        ("test_go.py", "ottla", "passed"),
        ("test_go.py", "kafka", "passed"),
        ("test_kcat.py", "ottla", "failed"),
        ("wire_diff/test_fetch.py", "", "passed"),
        ("test_java.py", "ottla", "skipped"),
    ]
    assert "TestFranz::test_every_codec[ottla]" in found
    assert read(tmp_path).second_tries == ()
    (tmp_path / "compat-again.xml").write_text(AGAIN)
    os.utime(tmp_path / "compat.xml", (1.0, 1.0))
    assert tests()["test_a_group[ottla-range]"].outcome == "passed"
    (again,) = read(tmp_path).second_tries
    assert (again.test, again.failure) == (tests()["test_a_group[ottla-range]"], "no")


def test_what_a_test_has_tried_twice_by_itself_is_a_second_try_as_well(tmp_path: Path) -> None:
    said = '<properties><property name="second_try" value="it looked twice"/></properties>'
    case = f'<testcase classname="compat_tests.test_streams" name="test_it[kafka]" time="1">{said}</testcase>'
    (tmp_path / "compat.xml").write_text(JUNIT.replace("</testsuite>", f"{case}</testsuite>", 1))
    (again,) = read(tmp_path).second_tries
    assert (again.test.name, again.failure) == ("test_it[kafka]", "it looked twice")


def test_every_second_try_is_named_with_its_first_failure(tmp_path: Path) -> None:
    (tmp_path / "compat.xml").write_text(JUNIT.replace('message="no"', 'message="&#10;AssertionError: late | 7&#10;more"'))
    os.utime(tmp_path / "compat.xml", (1.0, 1.0))
    assert "No test needed a second try." in pages.markdown(sections.report(read(tmp_path)))
    (tmp_path / "compat-again.xml").write_text(AGAIN)
    text = pages.markdown(sections.report(read(tmp_path)))
    assert "5 cases, 1 skipped, 1 run a second time." in text
    assert "| `test_kcat.py::test_a_group[ottla-range]` | AssertionError: late \\| 7 | passed |" in text
    (tmp_path / "compat-again.xml").write_text(AGAIN.replace('time="1"/>', 'time="1"><error/></testcase>'))
    assert read(tmp_path).second_tries[0].test.outcome == "failed"
    assert "second try" not in pages.markdown(sections.report(read(tmp_path / "empty")))


def test_a_difference_of_tools_is_shown_in_words() -> None:
    shown = {row.name: differences.in_words(row.ours) for row in DIFFERENCES}
    assert len(shown) == len(DIFFERENCES) > 20
    assert shown["fewer partitions than before"] == (
        "Topic '<topic>' has <now> partition(s); the new number, <wanted>, must be larger."
    )
    assert shown["not a long"] == "<setting>: '<value>' is not a whole number of 64 bits; write it in digits"
    assert shown["a voter that is not one"].startswith("The only voter is node <voter> with the directory …, which cannot be")
    assert [text for text in shown.values() if re.search(r"\\|\(\?|\.\*", text)] == []
    text = pages.markdown(differences.known_differences())
    assert all(f"| {name} | `{words}` |" in text for name, words in shown.items())


def test_the_page_names_the_tools_that_are_not_compared_and_what_they_print_in_our_words() -> None:
    """`scripts/compat-report --texts` writes that without a run."""
    for name in ("compatibility.md", "compatibility.html"):
        page = unescape((ROOT / "docs" / name).read_text())
        assert "second try" in page, name
        missing = [what for what in (*NOT_COMPARED, *(row.name for row in DIFFERENCES)) if what not in page]
        assert missing == [], name


def test_texts_are_written_into_pages_that_are_there(tmp_path: Path) -> None:
    blocks = sections.from_source()
    script.write_pages(tmp_path, [Paragraph("measured"), *blocks])
    whole = {path.name: path.read_text() for path in tmp_path.iterdir()}
    old = {name: text.replace("JmxTool", "OtherTool") for name, text in whole.items()}
    for name, text in old.items():
        (tmp_path / name).write_text(text)
    script.write_texts(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == whole
    assert all("measured" in text and "JmxTool" in text for text in whole.values())


def test_every_mask_is_named() -> None:
    text = pages.markdown(differences.what_is_masked())
    for mask in scripts.all_masks():
        assert mask.why in text
    assert all(mask.what in text for mask in same.MASKS)
    assert "| `(id: 1) 127.0.0.1:23456 x` | `(id: 1) 127.0.0.1:PORT x` | each broker has ports of its own | every call |" in text
    assert all(call.unordered in text for call in scripts.calls())


def test_every_pattern_of_the_matrix_finds_tests() -> None:
    """Parameters are not looked at, so what a pattern wants of them is cut off."""
    tests = all_tests()
    cases = json.loads((ROOT / "compat_tests" / "suites" / "cases.json").read_text())
    tests |= {f"test_client_suites.py::test_kafka_python[ottla-{case}]" for case in cases["passes"]}
    tests |= {
        f"{test}[{who}]" for test in tests if "[" not in test for who in ("java", "librdkafka", "franz", "classic", "confluent")
    }
    tests |= {f"{test}[{who}]" for test in tests if "[" not in test for who in ("kafka_python", "aiokafka", "streams")}
    for client, cells in matrix.CLIENTS.items():
        assert tuple(cells) == matrix.CAPABILITIES, client
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


def test_nothing_is_claimed_that_was_not_run(tmp_path: Path) -> None:
    results = read_results(tmp_path, tmp_path / "none", tmp_path / "none")
    lines = sections.summary(results)
    assert all(line.kafka is None and line.ottla is None for line in lines)
    text = pages.markdown(sections.report(results))
    assert "✔ 1" not in text
    assert "●" not in text.split("## APIs and versions")[1].split("| API |")[1]


def test_what_fails_is_shown_and_decides_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "compat.xml").write_text(JUNIT)
    (tmp_path / "breaks.json").write_text(json.dumps(BREAKS))
    command = [str(ROOT / "scripts" / "compat-report"), "--strict", "--results", str(tmp_path)]
    done = subprocess.run([*command, "--docs", str(tmp_path / "docs")], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    text = (tmp_path / "docs" / "compatibility.md").read_text()
    assert "| a break | kept | not caught |" in text
    assert "✘ 0 of 1 (Kafka 0 of 0)" in text
    assert "0 of 1" in done.stdout


def test_the_page_needs_nothing_else_and_the_picture_is_xml(tmp_path: Path) -> None:
    (tmp_path / "compat.xml").write_text(JUNIT)
    (tmp_path / "compat.run.json").write_text(json.dumps(RUN | {"commit": "here & <now>"}))
    blocks = sections.report(read_results(tmp_path))
    page = pages.html("title", blocks)
    assert "here &amp; &lt;now&gt;: 5 cases, 1 skipped." in page
    assert not re.findall(r'(?:src|href)="', page)
    (picture,) = (block for block in blocks if isinstance(block, Picture))
    ElementTree.fromstring(picture.svg)
    assert picture.svg in page


def test_tests_of_others_are_counted_in_their_own_lines(tmp_path: Path) -> None:
    theirs = "".join(
        f'<testcase classname="compat_tests.{where}" name="{name}" time="1"/>'
        for where, name in (
            ("kafka_tests.test_kafka_tests", "test_class[ottla-x.Y]"),
            ("test_client_suites", "test_kafka_python[ottla-a]"),
        )
    )
    (tmp_path / "compat.xml").write_text(JUNIT.replace("</testsuite>", f"{theirs}</testsuite>", 1))
    cells = lines_of(read(tmp_path))
    assert cells["clients, tools and faults, black box over TCP"][:2] == ["1 of 1", "1 of 3"]
    assert cells["kafka-python's own integration tests"][1] == "1 of 1"


# Of which run it is


def read(folder: Path, *, kept: Path | None = None, kafka_tests: Path | None = None) -> Results:
    """Reads the results of this folder, with nothing kept unless the test says so."""
    return read_results(folder, kept or folder / "none", kafka_tests or folder / "none.json")


def lines_of(results: Results) -> dict[str, list[str]]:
    """The summary's table: the first words of a proof -> its cells."""
    rows = sections._summary_table(results).rows
    return {row[0].text: [text.text for text in row[1:]] for row in rows}


def test_each_line_says_of_which_run_it_is(tmp_path: Path) -> None:
    (tmp_path / "compat.xml").write_text(JUNIT)
    (tmp_path / "compat.run.json").write_text(json.dumps(RUN))
    (tmp_path / "breaks.json").write_text(json.dumps(BREAKS | {"ran": {"date": "2026-10-01", "commit": "0ld"}}))
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "random_walk.json").write_text(json.dumps({"requests": 3}))
    os.utime(kept / "random_walk.json", (86_400.0 * 365, 86_400.0 * 365))
    results = read(tmp_path, kept=kept)
    last = {part: cells[-1] for part, cells in lines_of(results).items()}
    assert last["clients, tools and faults, black box over TCP"] == "2026-11-22 at 1a2b3c4"
    assert last["deliberate breaks of ottla that the suite catches"] == "another run: 2026-10-01 at 0ld"
    assert last["random requests in lock-step without an unexplained difference"] == "another run: kept since 1971-01-01"
    assert last["Kafka's own integration tests"] == ""
    assert "The suite ran on 2026-11-22 at 1a2b3c4: 5 cases" in pages.markdown(sections.report(results))


def test_results_whose_words_were_changed_keep_the_day_of_their_run(tmp_path: Path) -> None:
    """So a row that is worded anew does not look as if it had been measured anew."""
    (tmp_path / "breaks.json").write_text(json.dumps(BREAKS | {"ran": {"date": "2026-10-01"}}))
    kept = tmp_path / "kafka_tests" / "results.json"
    kept.parent.mkdir()
    kept.write_text("[]")
    kept.with_suffix(".run.json").write_text('{"date": "2026-10-02"}')
    origins = read(tmp_path, kafka_tests=kept).origins
    assert (origins["breaks"], origins["kafka_tests"]) == ("2026-10-01", "merged from several runs, the last on 2026-10-02")


def test_a_suite_of_two_runs_says_both_and_a_run_without_a_commit_is_of_an_unknown_one(tmp_path: Path) -> None:
    (tmp_path / "compat.xml").write_text(JUNIT)
    assert read(tmp_path).origins["suite"].endswith(", unknown commit")
    (tmp_path / "compat.run.json").write_text(json.dumps(RUN))
    (tmp_path / "spark.run.json").write_text(json.dumps(RUN | {"commit": "2b"}))
    assert read(tmp_path).origins["suite"] == "2026-11-22 at 1a2b3c4; 2026-11-22 at 2b"


def test_what_only_the_long_form_runs_is_counted_and_named_with_its_command(tmp_path: Path) -> None:
    from compat_tests.forms import IN_FULL

    (tmp_path / "compat.xml").write_text(JUNIT)
    assert "CI" in lines_of(read(tmp_path))["clients, tools and faults, black box over TCP"]
    left_out = {IN_SHORT: IN_FULL, "compat_tests/test_y.py::test_never[kafka]": "it fails now and then"}
    (tmp_path / "compat.run.json").write_text(json.dumps(RUN | {"left_out": left_out}))
    results = read(tmp_path)
    place = "CI, except for 1 with Apache Kafka: `scripts/compat-report --run full`"
    assert place in lines_of(results)["clients, tools and faults, black box over TCP"]
    text = pages.markdown(sections.report(results))
    assert "| all but 1, run with ottla only | `scripts/compat-report --run full` |" in text
    assert f"| `{IN_SHORT}` |" in text
    assert "test_never" not in text


def test_cases_of_kafkas_that_wait_to_be_compared_are_a_figure_of_their_own(tmp_path: Path) -> None:
    row = {"class": "x.Y", "case": "a", "brokers": 1, "kafka": "passed", "ottla": "passed", "reason": "", "seconds": 1.0}
    rows = [row, row | {"case": "b", "kafka": None}, row | {"case": "c", "kafka": "failed", "reason": "why"}]

    def reported(rows: list[dict[str, Any]]) -> tuple[str, str, str]:
        (tmp_path / "k.json").write_text(json.dumps(rows))
        results = read(tmp_path, kafka_tests=tmp_path / "k.json")
        line = next(line for line in sections.readme_lines(results) if line.startswith("- Kafka's own"))
        text = pages.markdown(sections.report(results))
        return lines_of(results)["Kafka's own integration tests"][1], line, text

    cell, line, text = reported(rows)
    assert cell == "1 of 1; not yet compared: 1"
    assert line == "- Kafka's own integration tests: ottla 1 of 1; not yet compared: 1, Apache Kafka 1 of 1"
    assert "1 case is not counted" in text
    assert "not yet compared" not in "".join(reported([rows[0], rows[2]]))


def test_cases_of_kafkas_that_need_several_brokers_are_counted_apart(tmp_path: Path) -> None:
    row = {"class": "x.Y", "case": "a", "brokers": 3, "kafka": "failed", "ottla": "failed", "reason": "needs 3", "seconds": 1.0}
    kept = tmp_path / "kafka_tests"
    kept.mkdir()
    (kept / "results.json").write_text(json.dumps([row]))
    several = [row | {"kafka": "passed", "ottla": "passed"}, row | {"case": "b", "kafka": "excluded", "reason": "an object"}]
    (kept / "several.json").write_text(json.dumps(several))
    (kept / "several.run.json").write_text('{"date": "2026-11-27"}')
    results = read(tmp_path, kafka_tests=kept / "results.json")
    assert lines_of(results)["those of them that need several brokers"][:2] == ["1 of 1", "1 of 1"]
    assert results.origins["several"].endswith("2026-11-27")
    text = pages.markdown(sections.report(results))
    assert "| needs several brokers | 1 |" in text
    assert "| an object | 1 |" in text


@pytest.mark.parametrize(("form", "full"), [("short", None), ("full", "1")])
def test_the_long_form_is_asked_for(form: str, full: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, str | None] = {}
    monkeypatch.setattr(script, "KEPT", tmp_path)
    monkeypatch.setenv("OTTLA_FULL", "what was there before")
    monkeypatch.setattr(
        subprocess, "run", lambda command, env, **_: asked.update({" ".join(command[-2:]): env.get("OTTLA_FULL")})
    )
    script.run(form, tmp_path)
    assert asked["scripts/test compat"] == asked["scripts/test spark"] == full
    assert any("scripts.kafka_tests" in command for command in asked) == (form == "full")
