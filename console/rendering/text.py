"""Text of strangers, made safe to look at: what cannot be seen is written out, and bytes are shown as what they seem to be.

A character that is invisible, that controls a terminal, or that changes the direction of what follows is shown as its picture
(`␀`, `␛`) or its number (`⟨U+202E⟩`). Line ends and tabs stay, since HTML treats them as space, or as lines where that is meant.
Markup is none of this module's business: the templates escape everything.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

MAX_SHOWN_BYTES: Final = 65_536
"""The most bytes of a key, a value or a header is decoded and shown."""
MAX_PREVIEW: Final = 300
"""The most characters of it that a list shows."""
MAX_HEX_BYTES: Final = 4096
_MAX_DEPTH: Final = 64
_MAX_TIMES: Final = 4
_ALWAYS: Final = 4096
"""JSON that is nested deeper stays on its line, and so does what would be more than so many times its size when it is indented,
if that is more than `_ALWAYS` characters."""

_IGNORED: Final = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Characters that Unicode counts as letters or marks, and that leave no trace on a screen."""
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)


def visible(text: str) -> str:
    """Returns the text with everything written out that a reader could not see, or that would move what is seen."""
    if text.replace("\n", "").replace("\t", "").isprintable() and _IGNORED.search(text) is None:
        return text
    return "".join([one if one in "\n\t" or (one.isprintable() and not _IGNORED.match(one)) else _mark(one) for one in text])


def _mark(one: str) -> str:
    number = ord(one)
    if number < 0x20:
        return chr(0x2400 + number)
    return "␡" if number == 0x7F else f"⟨U+{number:04X}⟩"


class Shown(NamedTuple):
    """Bytes as a page shows them. `kind` is null, empty, text, json or hex; `size` the number of all bytes."""

    kind: str
    text: str
    size: int
    is_cut: bool = False
    """True if `text` is only the beginning."""


def shown(data: bytes | None) -> Shown:
    """Returns bytes as text if they are UTF-8, indented if they are JSON, else in hex; at most MAX_SHOWN_BYTES of them."""
    if data is None:
        return Shown("null", "", 0)
    if not data:
        return Shown("empty", "", 0)
    text = None if isinstance(data, Raw) else _decoded(data)
    if text is None:
        return Shown("hex", hex_lines(data), len(data), len(data) > MAX_HEX_BYTES)
    if len(data) > MAX_SHOWN_BYTES:
        return Shown("text", text, len(data), is_cut=True)
    indented = indented_json(text)
    return Shown("text", text, len(data)) if indented is None else Shown("json", indented, len(data))


class Beginning(bytes):
    """The beginning of bytes, as far as `preview` shows them; `size` is that of all."""

    size: int


class Raw(bytes):
    """Bytes that are shown in hex, even if they could be text."""

    __slots__ = ()


class RawBeginning(Beginning):
    """The beginning of Raw."""


def beginning(data: bytes | None) -> bytes | None:
    """Returns what a list needs of a key, a value or a header, so that a page does not keep megabytes that it does not show."""
    if data is None or len(data) <= 4 * MAX_PREVIEW + 1:
        return data
    found = (RawBeginning if isinstance(data, Raw) else Beginning)(data[: 4 * MAX_PREVIEW + 1])
    found.size = len(data)
    return found


def preview(data: bytes | None) -> Shown:
    """Returns the beginning of bytes for a line in a list: as text, or as plain hex."""
    if data is None:
        return Shown("null", "", 0)
    if not data:
        return Shown("empty", "", 0)
    size = data.size if isinstance(data, Beginning) else len(data)
    is_raw = isinstance(data, Raw | RawBeginning)
    text = None if is_raw else _decoded(data[: 4 * MAX_PREVIEW], is_cut=len(data) > 4 * MAX_PREVIEW)
    if text is None:
        return Shown("hex", data[: MAX_PREVIEW // 3].hex(" "), size, size > MAX_PREVIEW // 3)
    return Shown("text", text[:MAX_PREVIEW], size, len(text) > MAX_PREVIEW or len(data) > 4 * MAX_PREVIEW)


def _decoded(data: bytes, *, is_cut: bool = False) -> str | None:
    """Returns the beginning of the bytes as text; None if they are not UTF-8. A character may be cut in two at the end."""
    if len(data) > MAX_SHOWN_BYTES:
        data, is_cut = data[:MAX_SHOWN_BYTES], True
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if is_cut and error.start >= len(data) - 3 and error.reason == "unexpected end of data":
            return data[: error.start].decode()
        return None


def hex_lines(data: bytes) -> str:
    """Returns the first MAX_HEX_BYTES as lines of 16: where they are, in hex, and as far as they are ASCII in letters."""
    lines = []
    for at in range(0, min(len(data), MAX_HEX_BYTES), 16):
        part = data[at : at + 16]
        letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<47}  {letters}")
    return "\n".join(lines)


def indented_json(text: str) -> str | None:
    """Returns a JSON object or array with a line for each member, every token as it was written; None if it is no JSON, or
    would be too large."""
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    parts: list[str] = []
    depth = 0
    left = max(_MAX_TIMES * len(text), _ALWAYS)
    tokens = _TOKEN.findall(text)
    for at, token in enumerate(tokens):
        if token in {"{", "["}:
            depth += 1
            if depth > _MAX_DEPTH:
                return None
            is_empty = tokens[at + 1] in {"}", "]"}
            parts.append(token if is_empty else f"{token}\n{'  ' * depth}")
        elif token in {"}", "]"}:
            depth -= 1
            parts.append(token if tokens[at - 1] in {"{", "["} else f"\n{'  ' * depth}{token}")
        elif token == ",":
            parts.append(f",\n{'  ' * depth}")
        else:
            parts.append(": " if token == ":" else token)
        left -= len(parts[-1])
        if left < 0:
            return None
    return "".join(parts)
