"""The text of one generated module while it grows: lines, fixed layouts, and fresh local names."""

from __future__ import annotations

import builtins
import keyword
import textwrap
from collections.abc import Callable

from compat_tests.reference.definitions import SIZES

# Names that generated functions use themselves; a field's local must not hide them.
_RESERVED = frozenset(
    (
        "buf",
        "pos",
        "end",
        "msg",
        "out",
        "put",
        "count",
        "tag",
        "size",
        "after",
        "view",
        "body",
        "part",
        "parts",
        "pack",
        "unpack_from",
    )
)

WIDTH = 130


class Writer:
    """Collects lines of Python. `run` holds the fixed-width values that will go through one `struct` call."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.helper_lines: list[str] = []  # functions that the one under way calls; they stand before it
        self.formats: set[str] = set()
        self.helpers: dict[tuple[object, ...], str] = {}
        self.run: list[tuple[str, str]] = []
        self.taken: set[str] = set()

    def put(self, depth: int, text: str) -> None:
        self.lines += wrapped(depth, text) if text else [""]

    def begin_function(self) -> None:
        assert not self.run
        self.taken = set(_RESERVED)

    def helper(self, key: tuple[object, ...], name: str, emit: Callable[[], None]) -> str:
        """Returns the name of a function that the one under way calls; the first request for `key` writes it, in front of its
        caller."""
        if key not in self.helpers:
            self.helpers[key] = name
            outer = self.lines, self.run, self.taken
            self.lines, self.run = [], []
            self.begin_function()
            emit()
            self.helper_lines += [*self.lines, "", ""]
            self.lines, self.run, self.taken = outer
        return self.helpers[key]

    def name(self, stem: str) -> str:
        """Returns a local name: the stem itself where it is free, else stem_2, stem_3, ..."""
        name, k = stem, 1
        while name in self.taken or keyword.iskeyword(name) or hasattr(builtins, name):
            k += 1
            name = f"{stem}_{k}"
        self.taken.add(name)
        return name

    def format(self, text: str) -> str:
        """Returns the module-level name of the `Struct` with this big-endian format."""
        self.formats.add(text)
        return "_" + text.replace("?", "T")

    def flush_reads(self, depth: int) -> None:
        """Writes one unpack_from for the fixed-width values that are waiting."""
        if not self.run:
            return
        names = ", ".join(name for _, name in self.run)
        fmt = self.format("".join(c for c, _ in self.run))
        self.put(depth, f"{names}{',' if len(self.run) == 1 else ''} = {fmt}.unpack_from(buf, pos)")
        self.put(depth, f"pos += {sum(SIZES[c] for c, _ in self.run)}")
        self.run.clear()

    def flush_writes(self, depth: int) -> None:
        """Writes one pack for the fixed-width values that are waiting; pad bytes alone are a constant."""
        if not self.run:
            return
        text = "".join(c for c, _ in self.run)
        if set(text) == {"x"}:
            self.put(depth, f"put({_bytes(text.count('x'))})")
        else:
            self.put(depth, f"put({self.format(text)}.pack({', '.join(value for c, value in self.run if c != 'x')}))")
        self.run.clear()


def wrapped(depth: int, text: str) -> list[str]:
    """Returns a statement as one line, or broken inside its parentheses (made for it if need be) where it is longer than
    WIDTH."""
    pad = "    " * depth
    if len(pad) + len(text) <= WIDTH:
        return [pad + text]
    names, equals, call = text.partition(" = ")
    if call.endswith(".unpack_from(buf, pos)"):
        head, inner, tail = "(", names + ",", f"){equals}{call}"
    elif text.startswith("if "):
        head, inner, tail = "if (", text[3:-1], "):"
    else:
        first, last = text.index("("), text.rindex(")")
        head, inner, tail = text[: first + 1], text[first + 1 : last], text[last:]
    body = textwrap.wrap(inner, WIDTH - len(pad) - 4, break_long_words=False, break_on_hyphens=False)
    return [pad + head, *(f"{pad}    {line}" for line in body), pad + tail]


def _bytes(count: int) -> str:
    return 'b"' + "\\0" * count + '"'
