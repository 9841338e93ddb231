"""The question that a page is given, and the answer that it returns.

A page is a function from an `Ask` to an `Answer`. It runs in a thread, asks the source, and returns the name of a template with
its values, a place to go to, or bytes to save. What a user wrote wrongly it reports by BadInput, in one line that names the
field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from ottla.console.broker.inside import NO_BROKER
from ottla.console.errors import BadInput

if TYPE_CHECKING:
    from ottla.console.broker.inside import Inside
    from ottla.console.cluster.source import Source
    from ottla.console.disk.directory import Directory
    from ottla.console.running.streams import Outlet

MAX_PAGE: Final = 1_000_000


class Page(NamedTuple):
    template: str
    values: Mapping[str, Any]
    status: int = 200


class Redirect(NamedTuple):
    path: str


class Download(NamedTuple):
    """Bytes to be saved, never to be shown: they are a stranger's."""

    data: bytes
    name: str


class Stream(NamedTuple):
    """An answer that comes bit by bit, as streams.py says: the function runs in a thread of its own until its outlet is over."""

    follow: Callable[[Outlet], None]


Answer = Page | Redirect | Download | Stream


@dataclass(frozen=True)
class Ask:
    """A request for a page: `args` are the parts of its path, `form` the fields of a POST. `audit` logs what was done.

    `directories` are the data directories beside the cluster, or instead of it (`has_cluster`). `inside` is that of
    the broker that runs the console; without one it is None, and `without_inside` says what would bring it.
    """

    source: Source
    path: str
    args: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    audit: Callable[[str], None] = lambda _: None
    directories: tuple[Directory, ...] = ()
    has_cluster: bool = True
    inside: Inside | None = None
    without_inside: str = NO_BROKER
    is_under_test: bool = False
    """True if that broker has a test kit, which pages may use."""
    resume: str = ""
    """The place at which a stream was when its connection broke, as the browser says."""

    def text(self, name: str, default: str = "") -> str:
        """Returns a parameter without spaces around it."""
        return self.query.get(name, default).strip()

    def number(self, name: str, default: int, low: int, high: int, *, label: str = "") -> int:
        """Returns a parameter that is a whole number from `low` to `high`. Raises BadInput."""
        return whole(self.query.get(name, ""), name, default, low, high, label=label)

    def link(self, **changed: object) -> str:
        """Returns the address of this page with other parameters; those that are None are left out."""
        after = {**self.query, **changed}
        words = urlencode([(name, str(value)) for name, value in after.items() if value is not None])
        return f"?{words}"


def whole(text: str, name: str, default: int, low: int, high: int, *, label: str = "") -> int:
    """Returns a whole number from `low` to `high`, or the default if the text is empty. Raises BadInput, which calls the field by
    its `label` where its name would say nothing."""
    if not (text := text.strip()):
        return default
    if not (text.isascii() and text.removeprefix("-").isdecimal() and len(text) <= 20) or not low <= int(text) <= high:
        raise BadInput(f"{label or name} has to be a whole number from {low} to {high}", name)
    return int(text)


class Paged(NamedTuple):
    """One page of a list: `shown` are its entries, `first` the number of the first, counted from 1."""

    shown: Sequence[Any]
    first: int
    total: int
    before: str | None
    after: str | None


def paged(ask: Ask, found: Sequence[Any], size: int) -> Paged:
    """Returns the page of the list that `?page=` asks for, or the last one if there are fewer. Raises BadInput."""
    last = max(1, -(-len(found) // size))
    page = min(ask.number("page", 1, 1, MAX_PAGE), last)
    begin = (page - 1) * size
    return Paged(
        found[begin : begin + size],
        begin + 1,
        len(found),
        ask.link(page=page - 1) if page > 1 else None,
        ask.link(page=page + 1) if page < last else None,
    )
