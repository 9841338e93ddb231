"""JSON that has a line for each member, as it is indented by text.py, in pieces that a page can fold: `<details>`, so no script.

A list or an object of some lines can be folded; a long one is folded at first, so that what is around it is seen. The whole value
never is. There are so many folds and no more: the outer levels have them, and what is deeper stays text, which is all there
in any case.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from ottla.commands.output import counted

LEAST_LINES: Final = 3
"""The fewest lines between the brackets of what can be folded."""
OPEN_LINES: Final = 12
"""The most lines of what is not folded at first."""
MAX_FOLDS: Final = 200


class Piece(NamedTuple):
    """A piece of a value: `kind` is "text" (lines), "open" (the line that begins what can be folded) or "close" (its end, which
    has no text). `inside` says what is between the brackets, and `is_open` whether it is seen at first."""

    kind: str
    text: str = ""
    inside: str = ""
    is_open: bool = False


class _Fold(NamedTuple):
    """Lines of a value: from `begin`, which opens a bracket, to `end`, which closes it."""

    begin: int
    end: int
    depth: int
    members: int

    @property
    def lines(self) -> int:
        return self.end - self.begin - 1


def folded(text: str) -> list[Piece]:
    """Returns the pieces of indented JSON in order. Their texts joined by line ends are the text."""
    lines = text.split("\n")
    by_begin = {fold.begin: fold for fold in _few(_folds(lines))}
    ends = {fold.end for fold in by_begin.values()}
    pieces: list[Piece] = []
    plain: list[str] = []

    def end_text() -> None:
        if plain:
            pieces.append(Piece("text", "\n".join(plain)))
            plain.clear()

    for at, line in enumerate(lines):
        if at in by_begin:
            end_text()
            fold = by_begin[at]
            what = counted(fold.members, "element" if line.endswith("[") else "member")
            pieces.append(Piece("open", line, what, fold.lines <= OPEN_LINES))
        else:
            plain.append(line)
        if at in ends:
            end_text()
            pieces.append(Piece("close"))
    end_text()
    return pieces


def _folds(lines: list[str]) -> list[_Fold]:
    """Returns what may be folded. A line that ends with a bracket opens it, since a string ends with its quote; one
    that begins with one closes it."""
    found: list[_Fold] = []
    opened: list[tuple[int, int]] = []
    for at, line in enumerate(lines):
        if line.lstrip(" ")[:1] in {"]", "}"} and opened:
            begin, members = opened.pop()
            if opened and at - begin > LEAST_LINES:
                found.append(_Fold(begin, at, len(opened), members))
        elif opened:
            begin, members = opened.pop()
            opened.append((begin, members + 1))
        if line.endswith(("[", "{")):
            opened.append((at, 0))
    return found


def _few(folds: list[_Fold]) -> list[_Fold]:
    """Returns the folds of the outer levels, as many of these as there is room for."""
    room, deepest = MAX_FOLDS, 0
    for depth, count in sorted(Counter(fold.depth for fold in folds).items()):
        if count > room:
            break
        room, deepest = room - count, depth
    return [fold for fold in folds if fold.depth <= deepest]
