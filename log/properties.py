"""Java's `.properties` files, in which the settings of brokers and clients are written.

The grammar is that of java.util.Properties: `#` and `!` begin comments, a backslash at the end of a line continues it, the key
ends at the first `=`, `:` or white space, `\\t`, `\\n`, `\\uXXXX` and so on mean what they do in Java. Of two lines with the same
key the last one counts, which is left to the caller. Kafka reads the file as Latin-1; ottla takes it as UTF-8 if that is valid,
because that is what people write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ottla.log.config_def import ConfigError

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPACE: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


def parse_properties(raw: bytes) -> Iterator[tuple[str, str, int]]:
    """Yields (key, value, number of the first line) of each entry, in the file's order. Raises ConfigError for a broken `\\u`."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    for line, number in _logical_lines(text):
        end, value_at = _key_end(line)
        yield _unescaped(line[:end], number), _unescaped(line[value_at:], number), number


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Yields lines joined with their continuations, without comments and blank lines, and the number of the first line of
    each."""
    whole, begun = "", 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_SPACE)
        if not begun:
            if not line or line[0] in "#!":
                continue
            begun = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            whole += line[:-1]
            continue
        yield whole + line, begun
        whole, begun = "", 0
    if begun:  # the last line ends in a backslash
        yield whole, begun


def _key_end(line: str) -> tuple[int, int]:
    """Returns where the key ends and where the value begins: between them white space, and at most one `=` or `:`."""
    at = 0
    while at < len(line) and line[at] not in "=:" and line[at] not in _SPACE:
        at += 2 if line[at] == "\\" else 1
    end = min(at, len(line))
    rest = line[end:].lstrip(_SPACE)
    if rest and rest[0] in "=:":
        rest = rest[1:].lstrip(_SPACE)
    return end, len(line) - len(rest)


def _unescaped(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    parts, at = [], 0
    while at < len(text):
        char = text[at]
        if char != "\\" or at + 1 == len(text):
            parts.append(char)
            at += 1
        elif text[at + 1] == "u":
            digits = text[at + 2 : at + 6]
            if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                raise ConfigError(
                    f"line {line}: '\\u{digits}' is not a character; \\u needs four hexadecimal digits, or write \\\\u"
                )
            parts.append(chr(int(digits, 16)))
            at += 6
        else:
            parts.append(_ESCAPES.get(text[at + 1], text[at + 1]))
            at += 2
    # Java's characters are UTF-16: two surrogates are one character.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
