"""Rules that a machine can keep for us: sizes that may only shrink, symlinks that hold the package together, no stray hosts.

A function has at most 60 lines and a handwritten file at most 500. What is longer stands in the ratchet below with the
length it has; it may get shorter, never longer, and an entry that is no longer needed must go.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 500

# path, or path::function -> lines allowed
RATCHET: dict[str, int] = {}


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", "--", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def is_generated(text: str) -> bool:
    return "generated" in text.partition("\n")[0].lower()


def measured() -> Iterator[tuple[str, int, int]]:
    """(name, lines, limit) of every handwritten file and function."""
    for path in tracked_files():
        text = path.read_text()
        if is_generated(text):
            continue
        name = path.relative_to(ROOT).as_posix()
        yield name, len(text.splitlines()), MAX_FILE_LINES
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name}::{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1, MAX_FUNCTION_LINES


def test_sizes_only_shrink() -> None:
    too_long = {name: lines for name, lines, limit in measured() if lines > RATCHET.get(name, limit)}
    assert not too_long, f"too long (functions {MAX_FUNCTION_LINES}, files {MAX_FILE_LINES} lines): {too_long}"


def test_ratchet_holds_no_stale_entry() -> None:
    limits = {name: (lines, limit) for name, lines, limit in measured() if name in RATCHET}
    stale = [name for name in RATCHET if name not in limits or limits[name][0] <= limits[name][1]]
    assert not stale, f"no longer too long, take them out: {stale}"


@pytest.mark.parametrize("folder", ["wire", "log", "server", "pipeline", "commands"])
def test_the_package_reaches_its_folders_by_relative_symlinks(folder: str) -> None:
    link = ROOT / "ottla" / folder
    assert link.is_symlink()
    assert link.readlink() == Path("..") / folder


def test_every_module_tells_its_story() -> None:
    silent = []
    for path in tracked_files():
        text = path.read_text()
        if path.name != "__init__.py" and ast.get_docstring(ast.parse(text)) is None:
            silent.append(path.relative_to(ROOT).as_posix())
    assert not silent, f"no module docstring: {silent}"
