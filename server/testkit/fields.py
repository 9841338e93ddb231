"""Reads what a test sends to the kit, field by field, and refuses what is wrong by the name of the field.

A wrong name is answered with the nearest one that is known, because a misspelt fault that is silently ignored makes a test pass
that should not.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any, Final, TypeVar, overload

T = TypeVar("T")
D = TypeVar("D")

MOST_NAMES: Final = 40
"""The most known names that the refusal of a wrong one lists."""
NO_OTHER: Final = ", nor any other"
"""The end of a sentence about a wrong name where no name would be right."""
_MISSING: Final = object()
_WORDS: Final[dict[type, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    dict: "an object",
    list: "a list",
}


class Refused(Exception):
    """Refuses what a test asked of the kit; its text says which field is wrong, and what would be right. `status` is HTTP's."""

    def __init__(self, text: str, status: int = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(text)
        self.status = int(status)


def nearest(wrong: object, known: Iterable[str]) -> str:
    """Returns the end of a sentence about a wrong name: the known name that is nearest to it, or else all of them, or
    the first of very many, or that there is none."""
    names = sorted(known)
    lower = {name.lower(): name for name in names}
    found = get_close_matches(str(wrong).lower(), lower, 1)
    if found:
        return f"; did you mean {lower[found[0]]}?"
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"; there are {', '.join(names[:MOST_NAMES])}{more}" if names else NO_OTHER


def _is_whole(text: str) -> bool:
    """Returns whether there are bytes for a text: JSON may have half of a surrogate pair in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Fields:
    """Holds the fields of an object that a test sent. Each is taken once, and `done` refuses those that nobody took.

    `where` is the path of the object in what was sent, such as `on`, and is empty for the outermost one.
    """

    def __init__(self, values: object, where: str = "") -> None:
        if not isinstance(values, Mapping):
            raise Refused(f"{where or 'the body'} must be an object, not {values!r:.50}")
        self._left = dict(values)
        self.where = where
        self._known: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._left

    @overload
    def take(self, name: str, kind: type[T]) -> T: ...

    @overload
    def take(self, name: str, kind: type[T], default: D) -> T | D: ...

    def take(self, name: str, kind: type[Any], default: Any = _MISSING) -> Any:
        """Takes out the value of a field, or returns the default if it is not there or null. Raises Refused if the value is of
        another kind, or is not there and has no default. A whole number may stand for a number, but true is none.
        """
        self._known.add(name)
        value = self._left.pop(name, None)
        if value is None:
            if default is _MISSING:
                raise Refused(f"{self.path(name)} is missing; it must be {_WORDS[kind]}")
            return default
        wrong = type(value) not in (int, float) if kind is float else type(value) is not kind
        if wrong:
            raise Refused(f"{self.path(name)} must be {_WORDS[kind]}, not {value!r:.50}")
        if kind is str and not value.isascii() and not _is_whole(value):
            raise Refused(f"{self.path(name)} has half of a surrogate pair, which no bytes stand for")
        return value

    def take_number(self, name: str, default: int | None = None, *, low: int = 0, high: int = 2**53) -> int:
        """Takes out a whole number between two bounds; without a default it must be there. Raises Refused."""
        value: int = self.take(name, int) if default is None else self.take(name, int, default)
        if value != default and not low <= value <= high:
            raise Refused(f"{self.path(name)} must be between {low} and {high}, not {value}")
        return value

    @overload
    def take_choice(self, name: str, choices: Collection[str]) -> str: ...

    @overload
    def take_choice(self, name: str, choices: Collection[str], default: D) -> str | D: ...

    def take_choice(self, name: str, choices: Collection[str], default: Any = _MISSING) -> Any:
        """Takes out one of some words, or returns the default if it is not there. Raises Refused."""
        value = self.take(name, str, default)
        if value is not default and value not in choices:
            raise Refused(f"{self.path(name)}: there is no {value!r:.50}{nearest(value, choices)}")
        return value

    def only_one(self, names: Collection[str]) -> str:
        """Returns which one of these fields is there. Raises Refused if it is none or several."""
        there = [name for name in names if name in self]
        if len(there) != 1:
            for name in names:
                self.take_any(name)
            self.done()  # which names a field that is misspelt
            raise Refused(f"{self.where} must have exactly one of {', '.join(names)}")
        return there[0]

    def take_any(self, name: str) -> Any:
        """Takes out a value of any kind, None if it is not there."""
        self._known.add(name)
        return self._left.pop(name, None)

    def all(self) -> dict[str, Any]:
        """Returns the fields that are not taken yet, with their values."""
        return dict(self._left)

    def inside(self, name: str) -> Fields:
        """Takes out a field that is an object, empty if it is not there; returns its fields. Raises Refused."""
        return Fields(self.take(name, dict, {}), self.path(name))

    def path(self, name: str) -> str:
        """Returns the path of a field, as messages have it."""
        return f"{self.where}.{name}" if self.where else name

    def only(self, *names: str) -> None:
        """Raises Refused if there are other fields. It is for objects of which a field must be there: a misspelt one is
        then reported, rather than the right one as missing."""
        self._known.update(names)
        for name in self._left:
            if name not in self._known:
                self._refuse(name)

    def done(self) -> None:
        """Raises Refused if there are fields that nobody took."""
        for name in self._left:
            self._refuse(name)

    def _refuse(self, name: object) -> None:
        raise Refused(f"{self.path(str(name))} is no field here{nearest(name, self._known) if self._known else ''}")


class QueryFields(Fields):
    """The fields of a query, which are texts: what is to be anything else is read as JSON has it."""

    def take(self, name: str, kind: type[Any], default: Any = _MISSING) -> Any:
        """See Fields."""
        text = self._left.get(name)
        if isinstance(text, str) and kind is not str:
            with contextlib.suppress(ValueError, RecursionError):  # then it is refused as a text
                self._left[name] = json.loads(text)
        return super().take(name, kind, default)
