"""Regular expressions that strangers send: compiling and matching them takes bounded time and memory.

They are RE2's, as in Kafka, whose time is linear in the text whatever the expression; a factor remains, which is the size of the
program that an expression is compiled to, and which a few characters can make large (`.{1000}`). So an expression is refused
where it weighs more than MAX_WEIGHT, its program needs more than MAX_MEMORY, or it names more than MAX_NAMED groups. Kafka has no
such bounds; its clients get the error of an expression that is not valid, which they know. Other groups are not captured.

The binding holds Python's lock while it compiles, so that no thread would help there: MAX_WEIGHT bounds it to about eight
milliseconds, twice that where it is tried for ASCII first. It lets go of the lock while it matches, so a text that may take
longer than a turn is matched in a thread (`matching`). Nothing is kept: RE2's binding has a cache of its own, which is emptied
after each expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from ottla.server.base.turns import Steps, Workers, call_in_thread

MAX_WEIGHT: Final = 8_000
"""The most that an expression may weigh: a byte of it weighs 1, and what is expanded some more (`weight`)."""
MAX_MEMORY: Final = 128 * 1024
"""RE2's `max_mem`: the most bytes of an expression's program and of the states that are kept while it is matched. There is
room for some 10,800 instructions."""
MAX_NAMED: Final = 10
"""The most named groups. RE2 captures these, and keeps as many positions for each instruction."""
AT_ONCE: Final = 300_000
"""So many instructions times characters `matching` leaves to the event loop: a tenth of a millisecond as a rule, two at the
worst. A topic's name, which is short, may take eight times as long with the largest program."""
A_JOB: Final = 10_000_000
"""So many are matched by one job in a thread, or one text if it alone takes more: other clients' expressions wait for the same
thread."""

_REPETITIONS: Final = 80
_CLASSES: Final = 200
_CLASS: Final = re.compile(rb"\\[pP]")
_TREE_BYTES: Final = 64
"""About the memory of what RE2 makes of one byte of an expression besides its program."""


class ExpressionError(ValueError):
    """RE2 does not accept the expression, or it is beyond a bound; the text says why."""


class Expression:
    """A compiled expression, which matches whole texts."""

    __slots__ = ("_pattern", "_work", "memory")

    def __init__(self, pattern: Any, size: int) -> None:
        self._pattern = pattern
        self._work: int = pattern.programsize * (1 + pattern.groups)
        self.memory = MAX_MEMORY + size * _TREE_BYTES
        """The most bytes that it takes, roughly."""

    def matches(self, text: str) -> bool:
        return self._pattern.fullmatch(text) is not None

    def work(self, text: str) -> int:
        """Returns the most work of matching the text: instructions times characters."""
        return self._work * len(text)


def weight(expression: bytes) -> int:
    """Returns what an expression weighs: its bytes, and as much for each repetition and class of Unicode as these take longer to
    compile, since they stand for up to a thousand copies and hundreds of ranges."""
    repetitions = expression.count(b"{")
    return len(expression) + _REPETITIONS * repetitions + _CLASSES * len(_CLASS.findall(expression))


def compile_expression(expression: str, *, of_ascii: bool = False) -> Expression:
    """Compiles an expression. Raises ExpressionError. It will only be matched with texts of ASCII if `of_ascii` is true: then its
    program is a tenth as large where it has dots, which may stand for any character of Unicode otherwise."""
    encoded = expression.encode(errors="surrogatepass")
    if weight(encoded) > MAX_WEIGHT:
        raise ExpressionError(
            f"it is too long: it may have {MAX_WEIGHT:,} bytes, of which a repetition counts {_REPETITIONS + 1} and a class of "
            f"Unicode {_CLASSES + 1}"
        )
    if of_ascii and expression.isascii():
        with suppress(ExpressionError):  # it may name a character that Latin-1 does not have, by its number
            return _compile(encoded, in_latin1=True)
    return _compile(encoded)


def _compile(encoded: bytes, *, in_latin1: bool = False) -> Expression:
    import re2  # with the first expression

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MAX_MEMORY
    if in_latin1:
        options.encoding = re2.Options.Encoding.LATIN1
    try:
        pattern = re2.compile(encoded, options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else ""
        raise ExpressionError(reason.partition(":")[0]) from error
    finally:
        re2.purge()
    if pattern.groups > MAX_NAMED:
        raise ExpressionError(f"it names more than {MAX_NAMED} groups")
    return Expression(pattern, len(encoded))


def matching(expression: Expression, texts: Iterable[str], workers: Callable[[], Workers]) -> Steps[set[str]]:
    """Makes steps that return those texts that the expression matches. What is too much for the event loop, threads match."""
    found: set[str] = set()
    long: list[str] = []
    work = 0

    def match_long(some: list[str]) -> list[str]:
        return [text for text in some if expression.matches(text)]

    for text in texts:
        each = expression.work(text)
        if each <= AT_ONCE:
            if expression.matches(text):
                found.add(text)
            yield None
            continue
        if long and work + each > A_JOB:
            found.update((yield from call_in_thread(partial(match_long, long), workers)))
            long, work = [], 0
        long.append(text)
        work += each
    if long:
        found.update((yield from call_in_thread(partial(match_long, long), workers)))
    return found
