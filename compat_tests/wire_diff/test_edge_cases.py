"""The tables of edge_cases.py: every test exists, every row has one or a reason, and the rows are those of the page."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from compat_tests.wire_diff.edge_cases import NO_ERROR, NO_SUCCESS, NOT_ASKED, TESTS, all_served, excused, rows

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "kafka-behaviour.md"


@pytest.mark.parametrize("file", sorted({test.split("::")[0] for test in TESTS}))
def test_the_tests_exist(file: str) -> None:
    there = {node.name for node in ast.parse((HERE / file).read_text()).body if isinstance(node, ast.FunctionDef)}
    named = {test.split("::")[1] for test in TESTS if test.split("::")[0] == file}
    assert named <= there, f"{file} has no {', '.join(sorted(named - there))}"


def test_no_row_has_both_a_test_and_a_reason_why_there_is_none() -> None:
    assert not rows().keys() & NOT_ASKED.keys()


def test_each_row_of_the_page_has_a_test_or_a_reason() -> None:
    ids = re.findall(r"^\| <a id=[^>]*></a>([^|]*) \|", PAGE.read_text(), re.MULTILINE)
    assert len(ids) == len(set(ids))
    known = {*rows(), *NOT_ASKED}
    assert not set(ids) - known, (
        "rows of the page that no test has: add them to TESTS of edge_cases.py, or to NOT_ASKED with a reason"
    )
    assert not known - set(ids), "edge_cases.py has rows that are not on the page: add them to docs/kafka-behaviour.md"


def test_reasons_are_for_versions_that_there_are() -> None:
    apis = all_served().values()
    versions = {(api.module, version) for api in apis for version in range(api.min_version, api.max_version + 1)}
    assert {*excused(NO_ERROR), *excused(NO_SUCCESS)} <= versions
