"""JSON in pieces that can be folded: they are the whole text in order, balanced, and no more than so many."""

from __future__ import annotations

import json

import pytest

from compat_tests.console.hostile import HOSTILE
from ottla.console.rendering.folding import LEAST_LINES, MAX_FOLDS, OPEN_LINES, Piece, folded
from ottla.console.rendering.text import MAX_SHOWN_BYTES, shown


def indented(value: object) -> str:
    found = shown(json.dumps(value).encode())
    assert found.kind == "json"
    return found.text


def whole(pieces: list[Piece]) -> str:
    return "\n".join(piece.text for piece in pieces if piece.kind != "close")


def depths(pieces: list[Piece]) -> list[int]:
    """Returns how deep each fold is; they have to be balanced."""
    found, depth = [], 0
    for piece in pieces:
        if piece.kind == "open":
            depth += 1
            found.append(depth)
        elif piece.kind == "close":
            depth -= 1
        assert depth >= 0
    assert depth == 0
    return found


def test_what_is_short_is_open_and_what_is_long_is_folded() -> None:
    text = indented({"short": [1, 2, 3], "tiny": [1], "long": {str(number): number for number in range(OPEN_LINES + 1)}})
    assert folded(text) == [
        Piece("text", "{"),
        Piece("open", '  "short": [', "3 elements", is_open=True),
        Piece("text", "    1,\n    2,\n    3\n  ],"),
        Piece("close"),
        Piece("text", '  "tiny": [\n    1\n  ],'),
        Piece("open", '  "long": {', f"{OPEN_LINES + 1} members", is_open=False),
        Piece(
            "text",
            "\n".join(f'    "{number}": {number},' for number in range(OPEN_LINES)) + f'\n    "{OPEN_LINES}": {OPEN_LINES}\n  }}',
        ),
        Piece("close"),
        Piece("text", "}"),
    ]


def test_members_are_counted_and_not_lines() -> None:
    (fold,) = [piece for piece in folded(indented({"a": [[1], {"b": 2}]})) if piece.kind == "open"]
    assert (fold.text, fold.inside) == ('  "a": [', "2 elements")


def test_the_whole_value_is_never_folded() -> None:
    assert [piece.kind for piece in folded(indented(list(range(1000))))] == ["text"]


def test_brackets_in_strings_are_none() -> None:
    value = {"a [": "] }", "b": ["[", "{", "]", "}", "],", "\\", '"['], "[": {"]": "[", "}": "{", "{": "}"}}
    text = indented(value)
    pieces = folded(text)
    assert whole(pieces) == text
    assert depths(pieces) == [1, 1]


def test_of_many_the_outer_ones_can_be_folded() -> None:
    value = [[[1, 2, 3], [1, 2, 3]] for _ in range(MAX_FOLDS // 2)]
    assert depths(folded(indented(value))) == [1] * (MAX_FOLDS // 2)
    value.append([])
    few = [[1, 2, 3]] * MAX_FOLDS
    assert depths(folded(indented(few))) == [1] * MAX_FOLDS
    assert depths(folded(indented([*few, [1, 2, 3]]))) == []


@pytest.mark.parametrize("deep", [3, 15, 30])
def test_it_is_as_deep_as_the_text_is(deep: int) -> None:
    value: object = 1
    for _ in range(deep):
        value = [value, 1, 1]
    text = indented(value)
    pieces = folded(text)
    assert whole(pieces) == text
    assert depths(pieces) == list(range(1, deep))


def test_whatever_the_value_is_its_text_stays() -> None:
    values: list[object] = [
        HOSTILE,
        {value: value for value in HOSTILE},
        {"a": [{value: [value] * LEAST_LINES} for value in HOSTILE[:40]]},
    ]
    for value in values:
        data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
        if len(data) <= MAX_SHOWN_BYTES:
            text = shown(data).text
            assert whole(folded(text)) == text
            depths(folded(text))
