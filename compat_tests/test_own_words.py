"""The texts of the packages that we ship are our own: none is one of Kafka's, apart from those that a program looks for.

Kafka's texts are the string constants in the class files of its broker, clients and tools; ours are the string literals that are
no docstrings. Only words count, not capitals, nor what stands between the words: punctuation, digits, places for values. What has
up to three words is nobody's. A text of ours may be neither one of Kafka's, nor have one of five words or more in it, nor share
six words in a row with one, nor, from seven words on, be nearly one.
"""

from __future__ import annotations

import ast
import difflib
import functools
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from compat_tests.reference import maven

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("wire", "log", "security", "server", "pipeline", "commands", "console")
LEAST_WORDS: Final = 4
IN_A_ROW: Final = 6
LEAST_NEAR: Final = 7
NEAR: Final = 0.72
"""The share of the words of two texts, taken together, that is the same in the same order if one is a copy with small changes. A
text of ours that is none reaches 0.71: that a group does not exist."""
NO_WORD: Final = re.compile(r"[^a-z\s]+")
HOLE: Final = re.compile("\x01|\\{\\}|%[-+,.0-9]*[a-z]")
"""The place at which a value is put into a text: by Java's concatenation, by a logger, by a format. For our f-strings we write
the first."""

TEXT: Final = 1
SIZES: Final = {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 8: 3, 9: 5, 10: 5, 11: 5, 12: 5, 15: 4, 16: 3, 17: 5, 18: 5, 19: 3, 20: 3}
TWICE: Final = (5, 6)
"""The constants of a class file: the tag of a text, the sizes of the others by tag, and the tags of those that count as two."""

KEPT: Final = {
    "cannot update these configs dynamically": "ConfigCommandIntegrationTest",
    "cant downgrade to a newer version": "FeatureCommandTest",
    "cant downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade": (
        "FeatureCommandTest"
    ),
    "invalid update version for feature": "FeatureCommandTest",
    "number of partitions of repartition topic doesnt match number of partitions of the source topic": (
        "KStreamRepartitionIntegrationTest"
    ),
    "the update failed for all features since the following feature had an error": "FeatureCommandTest",
}
"""The texts of Kafka's that stay, each with the test of Kafka's that we run (kafka_tests/) and that looks for it: in what
kafka-configs and kafka-features print, and in the error that ends Kafka Streams."""

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


def in_jars(*jars: str, ending: str = ".class") -> Iterator[str]:
    """Yields the words of Kafka's texts in the class files whose names end so, as wholes and in pieces."""
    for jar in (path for each in jars for path in maven.jar_dir(each).glob("*kafka*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith(ending):
                    for text in constants(archive.read(name)):
                        yield from pieces(text)


def rows(text: str, length: int) -> list[str]:
    """Returns every so many words of a text that stand in a row."""
    parts = text.split()
    return [" ".join(parts[at : at + length]) for at in range(len(parts) - length + 1)]


class Kafkas:
    """The words of all texts of Kafka's, by the words that they begin with and by words in a row."""

    def __init__(self, texts: set[str]) -> None:
        self.by_beginning: dict[str, list[str]] = {}
        self.by_pair: dict[str, set[str]] = {}
        self.in_a_row: set[str] = set()
        for text in texts:
            self.by_beginning.setdefault(" ".join(text.split()[:LEAST_WORDS]), []).append(text)
            self.in_a_row.update(rows(text, IN_A_ROW))
            for pair in rows(text, 2):
                self.by_pair.setdefault(pair, set()).add(text)

    def near(self, text: str) -> set[str]:
        """Returns the texts of five words or more that this one is nearly. Those with too few pairs of words in common are not
        looked at closely."""
        mine = text.split()
        common = Counter(theirs for pair in set(rows(text, 2)) for theirs in self.by_pair.get(pair, ()))
        close = [
            theirs.split()
            for theirs, pairs in common.items()
            if pairs >= max(2, len(mine) // 3) and theirs.count(" ") >= LEAST_WORDS
        ]
        return {
            " ".join(theirs)
            for theirs in close
            if 2 * min(len(mine), len(theirs)) >= NEAR * (len(mine) + len(theirs))
            and difflib.SequenceMatcher(None, theirs, mine, autojunk=False).ratio() >= NEAR
        }


@functools.cache
def kafkas() -> Kafkas:
    return Kafkas(set(in_jars("kafka", "kafka-tools")))


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
            beginning = " ".join(left[:LEAST_WORDS])
            same = [theirs for theirs in kafkas().by_beginning.get(beginning, ()) if f"{rest} ".startswith(f"{theirs} ")]
            found.update(theirs for theirs in same if theirs == piece or theirs.count(" ") >= LEAST_WORDS)
            del left[0]
        found.update(row for row in rows(piece, IN_A_ROW) if row in kafkas().in_a_row)
        if not found and piece.count(" ") >= LEAST_NEAR - 1:
            found |= kafkas().near(piece)
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
    assert any(text in looked_for for looked_for in in_jars("kafka-tests", ending=f"/{KEPT[text]}.class"))


def test_copies_are_found() -> None:
    source = """
def check(level, least):
    '''Value must be at least something.'''
    raise Refused(f"{level}: Value must be at least {least}", "Feature version is too low: %s", "Can't downgrade"
                  " to a newer version.", f"No such topic as {least}", "There is no such topic as this",
                  "It is so. Can't downgrade to a newer version.", "Value must not be at least",
                  "We were unable to locate field topics which we need", "We need topics and were unable to locate which",
                  "The manual assignment names a broker more than once.", "The manual assignment has the same broker twice.")
"""
    found = {text: copied(text) for _, text in literals(source)}
    assert {text: theirs for text, theirs in found.items() if theirs} == {
        "\x01: Value must be at least \x01": {"value must be at least"},
        "Can't downgrade to a newer version.": {"cant downgrade to a newer version"},
        "No such topic as \x01": {"no such topic as"},
        "It is so. Can't downgrade to a newer version.": {"cant downgrade to a newer version"},
        "We were unable to locate field topics which we need": {"unable to locate field topics which"},
        "The manual assignment names a broker more than once.": {
            "the manual partition assignment includes the broker more than once"
        },
    }
