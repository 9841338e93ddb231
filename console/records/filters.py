"""The filters by which a page shows records: a text or a regular expression in key, value or a header, and conditions on fields
of JSON values.

Conditions are written as `$.order.id = 4711 and $.items[*].price > 10`; a record fits if all of them hold.

| | holds if |
|---|---|
| `$.a.b`, `$.a.b exists` | the field is there, even if it is null |
| `$.a = 4711`, `$.a = "x y"`, `$.a = paid`, `= null` | it is equal; a number without quotes also to a string like it |
| `$.a != 4711` | it is there and not equal |
| `$.a < 5`, `<=`, `>`, `>=` | numbers by size, strings by their letters |
| `$.a in 5..10` | it is between them, or one of them |
| `$.a ~ "^x"` | it is a string that the regular expression matches somewhere |

A path goes by names (`.order`, `["order id"]`), places in lists (`[0]`), and `[*]` for any element. Its `$.` may be left out.

Regular expressions are RE2's, whose time grows with the text and not with what the expression is, so that nobody can write one
that never ends. A page's time is bounded beside that (reading.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.console.errors import BadInput

Headers = Sequence[tuple[str, bytes | None]]
Matches = Callable[[bytes], bool]
"""Returns whether bytes are as wanted."""

MAX_PATTERN: Final = 1000
"""The most characters that a filter may have."""
MAX_DECODED_BYTES: Final = 1 << 20
"""A larger value is not read as JSON: no condition on its fields holds."""
MAX_CONDITIONS: Final = 20
_MAX_REGEX_BYTES: Final = 8 << 20
FIELDS: Final = ("key", "value", "header", "where", "regex")
"""The names of a form's fields for filters."""
_LABELS: Final = {"where": "JSON fields"}
"""The words of the form for them, where these are other words."""


class Header(NamedTuple):
    """A header that has to be there, with these bytes in its value, or one that `matches`."""

    name: str
    value: bytes = b""
    matches: Matches | None = None

    def fits(self, headers: Headers | None) -> bool:
        return any(name == self.name and _fits(value, self.value, self.matches) for name, value in headers or ())


class Condition(NamedTuple):
    """A condition that has to hold for the values at a path; `every` if it has to hold for all of them."""

    steps: tuple[str | int | None, ...]
    """Names, places in lists, and None for any element."""
    holds: Callable[[Any], bool]
    every: bool = False

    def fits(self, document: Any) -> bool:
        found = list(_at(document, self.steps))
        return bool(found) and (all if self.every else any)(map(self.holds, found))


class Filter(NamedTuple):
    """Bytes that have to be in the key and in the value, or what these have to match; a header; and conditions on fields."""

    key: bytes = b""
    value: bytes = b""
    key_matches: Matches | None = None
    value_matches: Matches | None = None
    header: Header | None = None
    where: tuple[Condition, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.key or self.value or self.key_matches or self.value_matches or self.header or self.where)

    def fits(self, key: bytes | None, value: bytes | None, headers: Callable[[], Headers | None] = tuple) -> bool:
        """Returns whether a record is wanted. `headers` is called only if they count."""
        if not (_fits(key, self.key, self.key_matches) and _fits(value, self.value, self.value_matches)):
            return False
        if self.header is not None and not self.header.fits(headers()):
            return False
        return not self.where or self._holds(value)

    def _holds(self, value: bytes | None) -> bool:
        if value is None or len(value) > MAX_DECODED_BYTES:
            return False
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            return False
        return all(one.fits(document) for one in self.where)


def _fits(data: bytes | None, part: bytes, matches: Matches | None) -> bool:
    return part in (data or b"") and (matches is None or matches(data or b""))


def filter_of(query: Mapping[str, str]) -> Filter:
    """Returns the filter that a form's fields describe. Raises BadInput, which names the field."""
    for name in FIELDS:
        if len(query.get(name, "")) > MAX_PATTERN:
            raise BadInput(f"{_LABELS.get(name, name)} is longer than {MAX_PATTERN:,} characters", name)
    by_regex = query.get("regex") == "1"
    parts: dict[str, bytes] = {}
    patterns: dict[str, Matches | None] = {}
    for name in ("key", "value"):
        text = query.get(name, "")
        parts[name] = b"" if by_regex else _encoded(text, name)
        patterns[name] = regex(text, name) if by_regex and text else None
    return Filter(
        parts["key"],
        parts["value"],
        patterns["key"],
        patterns["value"],
        _header(query.get("header", "").strip(), by_regex=by_regex),
        conditions(query.get("where", "")),
    )


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{name} has to be text", name) from None


def _header(text: str, *, by_regex: bool) -> Header | None:
    if not text:
        return None
    name, _, value = text.partition("=")
    name, value = name.strip(), value.strip()
    if not name:
        raise BadInput("header has to be a name, or name=text", "header")
    if by_regex and value:
        return Header(name, b"", regex(value, "header"))
    return Header(name, _encoded(value, "header"))


def regex(text: str, field: str) -> Matches:
    """Returns what finds this regular expression in bytes. Raises BadInput for one that RE2 does not take."""
    import re2  # with the first filter that needs it

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # captures are not needed, and cost time
    options.max_mem = _MAX_REGEX_BYTES
    try:
        compiled = re2.compile(_encoded(text, field), options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        raise BadInput(f"{_LABELS.get(field, field)}: {text!r} is not a regular expression: {why}", field) from None
    finally:
        re2.purge()  # or it would keep the last 128, each with up to _MAX_REGEX_BYTES
    return lambda data: compiled.search(data) is not None


# Conditions

_STEP: Final = re.compile(r"""\.?(?:([^\W\d][\w-]*)|\[(?:(\d{1,9})|(\*)|("(?:[^"\\]|\\.)*"))\])""")
_FIRST: Final = re.compile(r"\$|(?=[^\W\d]|\[)")
_OPERATOR: Final = re.compile(r"!=|<=|>=|==?|<|>|~|in\b|exists\b")
_LITERAL: Final = re.compile(r"""("(?:[^"\\]|\\.)*")|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)(?=\s|$|\.\.)|((?:(?!\.\.)[^\s"])+)""")
_TO: Final = re.compile(r"\.\.")
_AND: Final = re.compile(r"(?:and\b|&&)", re.IGNORECASE)
_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}


class _Literal(NamedTuple):
    """A value as it was written; `text` is None for one that is no text to a string either."""

    value: Any
    text: str | None

    def equals(self, found: Any) -> bool:
        if isinstance(found, str):
            return found == self.text
        if found is None or isinstance(found, bool) or isinstance(self.value, bool) or self.value is None:
            return found is self.value
        return _is_number(found) and _is_number(self.value) and found == self.value

    def orders(self, found: Any) -> bool:
        """Returns whether what was found can be compared with this by size."""
        return (_is_number(found) and _is_number(self.value)) or (isinstance(found, str) and isinstance(self.value, str))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


def conditions(text: str) -> tuple[Condition, ...]:
    """Parses conditions. Raises BadInput that says where they cannot be understood."""
    if not text.strip():
        return ()
    parser = _Parser(text.strip())
    found = [parser.condition()]
    while not parser.is_over:
        parser.take(_AND, "and, or nothing more,")
        found.append(parser.condition())
    if len(found) > MAX_CONDITIONS:
        raise BadInput(f"JSON fields: there are more than {MAX_CONDITIONS} conditions", "where")
    return tuple(found)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._text)

    def take(self, what: re.Pattern[str], name: str) -> re.Match[str]:
        """Takes what comes next, and the space behind it. Raises BadInput if it is something else."""
        found = what.match(self._text, self._at)
        if found is None:
            there = "at the end" if self.is_over else f"at {self._text[self._at : self._at + 20]!r}"
            raise BadInput(f"JSON fields: {name} is expected {there}; write it as $.order.id = 4711", "where")
        self._at = found.end()
        self._skip_space()
        return found

    def _skip_space(self) -> None:
        while not self.is_over and self._text[self._at].isspace():
            self._at += 1

    def condition(self) -> Condition:
        steps = self._path()
        if self.is_over or _AND.match(self._text, self._at):
            return Condition(steps, lambda _: True)
        operator = self.take(_OPERATOR, "one of = != < <= > >= in ~ exists")[0]
        if operator == "exists":
            return Condition(steps, lambda _: True)
        if operator == "~":
            matches = regex(str(self._literal().text or ""), "where")
            return Condition(steps, lambda found: isinstance(found, str) and matches(found.encode("utf-8", "surrogatepass")))
        literal = self._literal()
        if operator in {"=", "=="}:
            return Condition(steps, literal.equals)
        if operator == "!=":
            return Condition(steps, lambda found: not literal.equals(found), every=True)
        if operator == "in":
            self.take(_TO, ".. between two values")
            high = self._literal()
            return Condition(
                steps,
                lambda found: literal.orders(found) and high.orders(found) and literal.value <= found <= high.value,
            )
        compare = _COMPARE[operator]
        return Condition(steps, lambda found: literal.orders(found) and compare(found, literal.value))

    def _path(self) -> tuple[str | int | None, ...]:
        steps: list[str | int | None] = []
        self.take(_FIRST, "a path such as $.order.id")
        while (found := _STEP.match(self._text, self._at)) is not None:
            name, place, _, quoted = found.groups()
            if quoted is not None:
                steps.append(_unquoted(quoted))
            else:
                steps.append(name if name is not None else None if place is None else int(place))
            self._at = found.end()
        self._skip_space()
        return tuple(steps)

    def _literal(self) -> _Literal:
        found = self.take(_LITERAL, "a value")
        quoted, number, word = found.groups()
        if quoted is not None:
            text = _unquoted(quoted)
            return _Literal(text, text)
        if number is not None:
            return _Literal(json.loads(number) if _is_json(number) else number, number)
        return _Literal(_WORDS[word], None) if word in _WORDS else _Literal(word, word)


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        raise BadInput(f"JSON fields: {text} is not text as JSON writes it", "where") from None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _at(document: Any, steps: Sequence[str | int | None]) -> Iterator[Any]:
    """Yields the values at a path."""
    if not steps:
        yield document
        return
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        if isinstance(document, dict) and step in document:
            yield from _at(document[step], rest)
    elif isinstance(document, list):
        if step is None:
            for one in document:
                yield from _at(one, rest)
        elif step < len(document):
            yield from _at(document[step], rest)
