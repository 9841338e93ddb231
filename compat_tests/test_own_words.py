"""The texts of the packages that we ship are our own: none is one of Kafka's, apart from those that a program looks for.

Kafka's texts are the string constants in the class files of its broker, clients and tools; ours are the string literals that are
no docstrings. Only words count, not capitals, nor what stands between the words: punctuation, digits, places for values. A text
of Kafka's of five words or more may not be part of ours, either. What has up to three words is nobody's.
"""

from __future__ import annotations

import ast
import functools
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from compat_tests.reference import maven

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("wire", "log", "server", "pipeline", "commands")
LEAST_WORDS: Final = 4
NO_WORD: Final = re.compile(r"[^a-z\s]+")
HOLE: Final = re.compile("\x01|\\{\\}|%[-+,.0-9]*[a-z]")
"""Where a value is put into a text: by Java's concatenation, by a logger, by a format. For our f-strings we write the first."""

TEXT: Final = 1
SIZES: Final = {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 8: 3, 9: 5, 10: 5, 11: 5, 12: 5, 15: 4, 16: 3, 17: 5, 18: 5, 19: 3, 20: 3}
TWICE: Final = (5, 6)
"""The constants of a class file: the tag of a text, the sizes of the others by tag, and the tags of those that count as two."""

FEATURES: Final = "FeatureCommandTest compares what kafka-features prints with it"
KEPT: Final = {
    "cannot update these configs dynamically": "ConfigCommandIntegrationTest looks for it in what kafka-configs prints",
    "cant downgrade to a newer version": FEATURES,
    "cant downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade": FEATURES,
    "invalid update version for feature": FEATURES,
    "number of partitions of repartition topic doesnt match number of partitions of the source topic": (
        "KStreamRepartitionIntegrationTest looks for it in the error that ends Kafka Streams"
    ),
    "the update failed for all features since the following feature had an error": FEATURES,
}
"""The texts of Kafka's that stay, each with the test of Kafka's that we run (kafka_tests/) and that acts on it."""

pytestmark = pytest.mark.reference


def words(text: str) -> str:
    """Returns the words of a text in lower case, with only a space between each two. A name with dots is one word."""
    return " ".join(NO_WORD.sub("", text.lower()).split())


def pieces(text: str) -> Iterator[str]:
    """Yields the words of a text without the values, and those of each piece between two values, if they are enough."""
    parts = HOLE.split(text)
    for part in (" ".join(parts), *(parts if len(parts) > 1 else ())):
        found = words(part)
        if found.count(" ") >= LEAST_WORDS - 1 and len(found) >= 2 * found.count(" ") + 2:  # a row of single letters has no words
            yield found


def constants(data: bytes) -> Iterator[str]:
    """Yields the strings in the constant pool of a class file that can have enough words (Java Virtual Machine Specification,
    4.4)."""
    count, at, number = data[8] << 8 | data[9], 10, 1
    while number < count:
        tag = data[at]
        number += 2 if tag in TWICE else 1
        if tag != TEXT:
            at += SIZES[tag]
            continue
        begin = at + 3
        at = begin + (data[at + 1] << 8 | data[at + 2])
        if data.count(b" ", begin, at) >= LEAST_WORDS - 1:
            yield data[begin:at].decode(errors="replace")


@functools.cache
def kafkas() -> dict[str, list[str]]:
    """The words of all texts of Kafka's, as wholes and in pieces, by the words that they begin with."""
    found: set[str] = set()
    for jar in (path for jars in ("kafka", "kafka-tools") for path in maven.jar_dir(jars).glob("*kafka*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith(".class"):
                    found.update(piece for text in constants(archive.read(name)) for piece in pieces(text))
    by_beginning: dict[str, list[str]] = {}
    for text in found:
        by_beginning.setdefault(" ".join(text.split()[:LEAST_WORDS]), []).append(text)
    return by_beginning


def literals(source: str) -> Iterator[tuple[int, str]]:
    """Yields the line and the text of each string in a module that is no docstring; f-strings have a hole for each value."""
    nodes = list(ast.walk(ast.parse(source)))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    parts |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(str(part.value) if isinstance(part, ast.Constant) else "\x01" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def copied(text: str) -> set[str]:
    """Returns the words that a text of ours has from Kafka; of two of which one has the other, only the longer."""
    found: set[str] = set()
    for piece in pieces(text):
        left = piece.split()
        while len(left) >= LEAST_WORDS:
            rest = " ".join(left)
            same = [theirs for theirs in kafkas().get(" ".join(left[:LEAST_WORDS]), ()) if f"{rest} ".startswith(f"{theirs} ")]
            found.update(theirs for theirs in same if theirs == piece or theirs.count(" ") >= LEAST_WORDS)
            del left[0]
    return {theirs for theirs in found if not any(theirs != other and theirs in other for other in found)}


@functools.cache
def ours() -> dict[str, list[str]]:
    """The texts of Kafka's in the packages that we ship, each with its places."""
    paths = [*(ROOT / "ottla").glob("*.py"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))]
    found: dict[str, list[str]] = {}
    for path in sorted(paths):
        for line, text in literals(path.read_text()):
            for theirs in copied(text):
                found.setdefault(theirs, []).append(f"{path.relative_to(ROOT)}:{line}")
    return found


def test_no_text_is_kafkas() -> None:
    found = {text: places for text, places in ours().items() if text not in KEPT}
    assert not found, "word these yourself; only what a program acts on may stand in KEPT"


@pytest.mark.parametrize("text", KEPT)
def test_what_is_kept_is_needed(text: str) -> None:
    assert text in ours(), "no text of ours is this any more"


def test_copies_are_found() -> None:
    source = """
def check(level, least):
    '''Value must be at least something.'''
    raise Refused(f"{level}: Value must be at least {least}", "Feature version is too low: %s", "Can't downgrade"
                  " to a newer version.", f"No such topic as {least}", "There is no such topic as this",
                  "It is so. Can't downgrade to a newer version.", "Value must not be at least")
"""
    found = {text: copied(text) for _, text in literals(source)}
    assert {text: theirs for text, theirs in found.items() if theirs} == {
        "\x01: Value must be at least \x01": {"value must be at least"},
        "Can't downgrade to a newer version.": {"cant downgrade to a newer version"},
        "No such topic as \x01": {"no such topic as"},
        "It is so. Can't downgrade to a newer version.": {"cant downgrade to a newer version"},
    }
