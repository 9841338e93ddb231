"""Every deliberate break still applies, and names a test that there is: the source moves on, and the table must follow."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from compat_tests.breaks.table import BREAKS, Break

ROOT = Path(__file__).resolve().parents[2]
FEWEST = 10


def test_there_are_enough_and_no_two_are_alike() -> None:
    assert len(BREAKS) >= FEWEST
    assert len({change.name for change in BREAKS}) == len({(change.file, change.old) for change in BREAKS}) == len(BREAKS)


@pytest.mark.parametrize("change", BREAKS, ids=lambda change: change.name)
def test_it_applies_once_and_leaves_python(change: Break) -> None:
    text = (ROOT / change.file).read_text()
    assert text.count(change.old) == 1
    ast.parse(text.replace(change.old, change.new))


@pytest.mark.parametrize("change", BREAKS, ids=lambda change: change.name)
def test_its_test_exists(change: Break) -> None:
    file, name = change.test.split("[")[0].split("::")
    tests = {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
    assert name in tests
