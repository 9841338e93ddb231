"""Nothing that the sources cite is missing: rows of Kafka's behaviour are on their page, no page is outside the repository."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "kafka-behaviour.md"
TREES = ["wire", "log", "server", "pipeline", "commands", "scripts", "tests", "compat_tests"]
NO_ROWS = {"MD5", "T0"}
"""Words that look like rows."""


def rows() -> set[str]:
    return set(re.findall(r"^\| <a id=[^>]*></a>([^|]*) \|", PAGE.read_text(), re.MULTILINE))


FAMILIES = sorted({found[1] for row in rows() if (found := re.fullmatch(r"([A-Z]+)\d+[a-e]?", row))}, key=len, reverse=True)
CITED = re.compile(rf"(?<![\w./-])(?:{'|'.join(FAMILIES)})\d{{1,2}}[a-e]?(?![\w./%-])")


def texts(path: Path) -> Iterator[str]:
    """The comments and docstrings of a source file: what stands on lines of its own, or behind code as a comment."""
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
                yield token.string


def sources(tree: str) -> list[Path]:
    return [path for path in sorted((ROOT / tree).rglob("*.py")) if path != Path(__file__)]


@pytest.mark.parametrize("tree", TREES)
def test_each_row_that_is_cited_is_on_the_page(tree: str) -> None:
    there = rows() | NO_ROWS
    missing = [
        f"{path.relative_to(ROOT)}: {id_}"
        for path in sources(tree)
        for text in texts(path)
        for id_ in CITED.findall(text)
        if id_ not in there
    ]
    assert not missing


def test_citations_are_found() -> None:
    """The pattern finds what the sources do cite."""
    cited = {id_ for tree in ("log", "tests") for path in sources(tree) for text in texts(path) for id_ in CITED.findall(text)}
    assert {"I3", "F11", "F13", "P1", "P42", "IAC12"} <= cited


@pytest.mark.parametrize("tree", [*TREES, "docs"])
def test_no_page_outside_the_repository_is_cited(tree: str) -> None:
    outside = re.compile(r"shared/(?:protocol|design|research)|(?<!\w)design/\w+\.md")
    files = [*(ROOT / tree).rglob("*.py"), *(ROOT / tree).rglob("*.md")]
    assert files
    assert not [str(path.relative_to(ROOT)) for path in files if path != Path(__file__) and outside.search(path.read_text())]


def test_every_row_has_its_anchor() -> None:
    for id_, row in re.findall(r'^\| <a id="([^"]*)"></a>([^|]*) \|', PAGE.read_text(), re.MULTILINE):
        assert id_ == row.replace(" ", "-")
