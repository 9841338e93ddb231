"""Nothing that the sources cite is missing: rows of Kafka's behaviour are on their page, no page is outside the repository."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from compat_tests.wire_diff.differences import DELIBERATE, KAFKA_FAILS
from compat_tests.wire_diff.edge_cases import TESTS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "kafka-behaviour.md"
TREES = ["wire", "log", "security", "server", "pipeline", "commands", "console", "scripts", "tests", "compat_tests"]
WIRE_DIFF = ROOT / "compat_tests" / "wire_diff"
NO_ROWS = {"ES256", "G0", "G1a", "G1c", "LZ4", "MD5", "PBKDF2", "PKCS12", "PS256", "RE2", "RS256", "RS512", "T0", "V1", "XXH3"}
"""Words that look like rows; those with G are Adya's names of anomalies, those with S algorithms of signatures."""
NOT_ON_THE_PAGE = "these look like rows, and docs/kafka-behaviour.md has no such rows: add them there"


def rows() -> set[str]:
    return set(re.findall(r"^\| <a id=[^>]*></a>([^|]*) \|", PAGE.read_text(), re.MULTILINE))


CITED = re.compile(r"(?<![\w./-])[A-Z]{1,5}\d{1,2}[a-e]?(?![\w./%-])")
"""The pattern of what looks like a row in a text. The letters are not those of the page: a family of which it has no row would
not be seen."""
LIKE_A_ROW = re.compile(r"[A-Z]+-?\d+[a-z]?(?: .*)?", re.DOTALL)
"""A whole string that is a row, or a row and the words that tell two cases of it apart."""
WORDS = re.compile(r"(?:[a-z][\w.']*|[A-Z][a-z]\w*),? .*", re.DOTALL)
"""The name of a comparison that has no row: several words, the first of which is no abbreviation of ours."""
COMPARISONS = {"same_answer": 0, "check": 1, "compare": 0}
"""The functions of same.py, and which argument says what is compared."""


def texts(path: Path) -> Iterator[str]:
    """The comments and docstrings of a source file: what stands on lines of its own, or behind code as a comment."""
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
                yield token.string


def beginning(node: ast.expr) -> str | None:
    """Returns a string that the source has as it is, or an f-string's text before its first value; None if it begins with one."""
    if isinstance(node, ast.JoinedStr):
        return beginning(node.values[0])
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def compared(function: ast.stmt) -> Iterator[str]:
    """Yields what the comparisons go by that a function makes, or is made into by its decorator."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in COMPARISONS:
            name = beginning(node.args[COMPARISONS[node.func.id]])
            if name is not None:
                yield name


def strings_like_rows(path: Path) -> Iterator[str]:
    """Yields the strings of a source file that look like rows: cases in tables, which comparisons get by a variable."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and LIKE_A_ROW.fullmatch(node.value):
            yield node.value


def row_of(name: str) -> str:
    return name.split(" ", maxsplit=1)[0]


def sources(tree: str) -> list[Path]:
    return [path for path in sorted((ROOT / tree).rglob("*.py")) if path != Path(__file__)]


@cache
def cited(tree: str) -> list[tuple[str, str]]:
    """Returns (file, row) for each row that the comments and docstrings of a tree cite."""
    return [(str(path.relative_to(ROOT)), row) for path in sources(tree) for text in texts(path) for row in CITED.findall(text)]


@pytest.mark.parametrize("tree", TREES)
def test_each_row_that_is_cited_is_on_the_page(tree: str) -> None:
    there = rows() | NO_ROWS
    assert not [each for each in cited(tree) if each[1] not in there], NOT_ON_THE_PAGE


def test_each_comparison_goes_by_a_row_of_the_page_or_by_words() -> None:
    there = rows()
    names = [
        (path.name, name)
        for path in sources("compat_tests/wire_diff")
        for function in ast.parse(path.read_text()).body
        for name in compared(function)
    ]
    names += [("differences.py", name) for name in (*DELIBERATE, *KAFKA_FAILS)]
    assert len(names) > 300
    assert not [(file, name) for file, name in names if row_of(name) not in there and not WORDS.fullmatch(name)], NOT_ON_THE_PAGE


def test_each_row_that_a_difference_cites_is_on_the_page() -> None:
    """In words, or as the whole of a reason."""
    reasons = [each.why for each in DELIBERATE.values()] + [each.why for each in KAFKA_FAILS.values()]
    cited_rows = {row for why in reasons for row in re.findall(r"(?:\brow |^(?=[\w-]+$))([\w-]+)", why)}
    assert "MDzero" in cited_rows
    assert cited_rows <= rows()


def test_the_page_says_of_each_row_that_ottla_answers_otherwise_what_it_answers() -> None:
    lines = re.findall(r"^\| <a id=[^>]*></a>([^|]*) \| (.*)", PAGE.read_text(), re.MULTILINE)
    assert {row for row, text in lines if "Not copied: " in text or "ottla" in text} == rows() & set(DELIBERATE)


def test_each_string_like_a_row_is_one_of_the_page() -> None:
    there = rows() | NO_ROWS
    found = [(path.name, row_of(text)) for path in sources("compat_tests") for text in strings_like_rows(path)]
    assert len(found) > 100
    assert not [each for each in found if each[1] not in there], NOT_ON_THE_PAGE


@pytest.mark.parametrize("path", sorted(WIRE_DIFF.glob("test_*.py")), ids=lambda path: path.stem)
def test_each_comparison_goes_by_a_row_that_its_test_has_in_the_table(path: Path) -> None:
    """A row that a comparison goes by is one of those that edge_cases.py gives to its test; in tables, to a test of its file."""
    there = rows()
    of_file = {row for test, ids in TESTS.items() if test.startswith(f"{path.name}::") for row in ids.split()}
    elsewhere = {row_of(text) for text in strings_like_rows(path)} & there - of_file
    for function in ast.parse(path.read_text()).body:
        if isinstance(function, ast.FunctionDef):
            own = TESTS.get(f"{path.name}::{function.name}", "").split()
            elsewhere |= {row for name in compared(function) if (row := row_of(name)) in there and row not in own}
    assert not elsewhere, f"{path.name} compares by rows that TESTS of edge_cases.py does not give to these tests: add them there"


def test_citations_are_found() -> None:
    """The pattern finds what the sources do cite."""
    assert {"I3", "F11", "F13", "P1", "P42", "IAC12"} <= {row for tree in ("log", "tests") for _, row in cited(tree)}


@pytest.mark.parametrize("tree", [*TREES, "docs"])
def test_no_page_outside_the_repository_is_cited(tree: str) -> None:
    outside = re.compile(r"shared/(?:protocol|design|research)|(?<!\w)design/\w+\.md")
    files = [*(ROOT / tree).rglob("*.py"), *(ROOT / tree).rglob("*.md")]
    assert files
    assert not [str(path.relative_to(ROOT)) for path in files if path != Path(__file__) and outside.search(path.read_text())]


def test_every_row_has_its_anchor() -> None:
    for id_, row in re.findall(r'^\| <a id="([^"]*)"></a>([^|]*) \|', PAGE.read_text(), re.MULTILINE):
        assert id_ == row.replace(" ", "-")
