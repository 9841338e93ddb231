"""A `Setting` describes one setting: how its text is read, checked and written back. Tables of them are the only place where
settings are described.

`log/config.py` has the table of topic settings, `server/settings/table/` that of the broker's settings. The properties file, the
environment, DescribeConfigs, IncrementalAlterConfigs, `ottla serve --help` and the documentation all use these tables, so they
cannot disagree about a name, a default or a bound.

Values always arrive as text (from files, the environment, requests, ConfigRecords), and their grammar is that of Java's
`Integer.parseInt` and its relatives, not of Python's `int()`: "1_000" is refused, "+5" and " 7 " are accepted, "0.5f" is a
double. Which texts are refused is the same as in Kafka (docs/kafka-behaviour.md, rows IAC3 to IAC12; the rest was found out with
Kafka 4.4.0's ConfigDef). The messages are our own: one line that begins with the setting's name and says what would be accepted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple, NoReturn


class Secret:
    """The value of a PASSWORD, which nothing shows by accident: only `reveal` returns it. In messages, logs and tracebacks it is
    `[hidden]`, and it cannot be pickled. An empty one is false.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Returns the secret itself, for the code that signs, decrypts or compares with it."""
        return self._text

    def __repr__(self) -> str:
        return "[hidden]"

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written down")


Value = bool | int | float | str | Secret | tuple[str, ...] | None
"""The parsed value of a setting: a LIST is a tuple, CLASS is text, PASSWORD a Secret."""


class ConfigType(IntEnum):
    """The types of settings, with their numbers in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(IntEnum):
    """The time at which a new value takes effect, and the brokers for which it can be set."""

    READ_ONLY = 0
    """A new value takes effect at the next start."""
    PER_BROKER = 1
    """A new value takes effect at once; it can be set for one broker or for all."""
    CLUSTER_WIDE = 2
    """A new value takes effect at once; it should be set for all brokers, but can be tried with one."""


class ConfigError(ValueError):
    """A setting cannot be accepted. The error's text is for the user who starts a broker, and for clients."""


class InvalidSetting(ConfigError):
    """A value does not fit its setting. The message is `name: 'text' reason`, where the reason completes a sentence about the
    text.
    """

    def __init__(self, name: str, text: object, reason: str) -> None:
        super().__init__(f"{name}: '{text}' {reason}")
        self.name = name
        self.text = text
        self.reason = reason


INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
DOUBLE_MAX: Final = 1.7976931348623157e308

_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_INTEGER: Final = re.compile(r"[+-]?\d+")
_DOUBLE: Final = re.compile(
    r"(?P<decimal>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?"
    r"|(?P<hex>[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?"
    r"|(?P<word>[+-]?(?:NaN|Infinity))",
    re.ASCII,
)
_COMMA: Final = re.compile(r"\s*,\s*", re.ASCII)


class Setting(NamedTuple):
    """A setting as the tables describe it.

    `default` is the parsed value, in the setting's own unit; None means "not set". `low` and `high` are inclusive; `choices` are
    the words allowed (for each element of a LIST). `synonyms` are the broker's settings that give the default of a topic's or a
    group's setting, in order of precedence. `check` checks what bounds cannot express, and returns the reason for an
    InvalidSetting, or None. `effective` is False if the broker accepts the setting but ignores it. `internal` settings are not
    shown to clients. A `unique` list drops repetitions and refuses empty elements; a `required` setting may not be empty itself.
    """

    name: str
    type: ConfigType
    default: Value
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()
    doc: str = ""
    update: Update = Update.CLUSTER_WIDE
    effective: bool = True
    internal: bool = False
    unique: bool = False
    required: bool = False
    check: Callable[[Value], str | None] | None = None

    @property
    def dynamic(self) -> bool:
        """Says whether a change takes effect without a restart."""
        return self.update is not Update.READ_ONLY

    @property
    def sensitive(self) -> bool:
        """Says whether the value must never be shown."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """Returns the value of a text. Raises ConfigError, whose text begins with the name."""
        value = self._read(text)
        self._check(value)
        return value

    def format(self, value: Value) -> str | None:
        """Returns the text of a value as Kafka writes it; None if it is not set, or if the setting is sensitive."""
        return None if self.sensitive else text_of(value)

    def _read(self, raw: str) -> Value:
        """Parses a text by the type alone. Surrounding white space is ignored, but shown in the message if the text is
        refused.
        """
        text = raw.strip()
        match self.type:
            case ConfigType.BOOLEAN:
                if text.lower() not in ("true", "false"):
                    raise InvalidSetting(self.name, raw, "is neither true nor false")
                return text.lower() == "true"
            case ConfigType.INT | ConfigType.LONG | ConfigType.SHORT:
                number, bits = _whole_number(text), _BITS[self.type]
                if number is None or not -(1 << bits - 1) <= number < 1 << bits - 1:
                    raise InvalidSetting(self.name, raw, f"is not a whole number of {bits} bits; write it in digits")
                return number
            case ConfigType.DOUBLE:
                match = _DOUBLE.fullmatch(text)
                if match is None:
                    raise InvalidSetting(self.name, raw, "is not a number; write one such as 0.5")
                return _from_hex(match["hex"]) if match["hex"] else float(match["decimal"] or match["word"])
            case ConfigType.LIST:
                words = _COMMA.split(text) if text else []
                return tuple(dict.fromkeys(words) if self.unique else words)
            case ConfigType.PASSWORD:
                return Secret(text)
            case _:
                return text

    def _check(self, value: Value) -> None:
        match value:
            case bool():
                pass
            case int() | float():
                self._check_bounds(value)
            case tuple():
                self._check_list(value)
            case str():
                self._check_choice(value)
        if self.check is not None and (reason := self.check(value)) is not None:
            raise InvalidSetting(self.name, text_of(value), reason)

    def _check_bounds(self, value: float) -> None:
        if self.low is not None and value < self.low:
            raise InvalidSetting(self.name, text_of(value), f"is too small; the least is {self.low}")
        if self.high is not None and value > self.high:
            raise InvalidSetting(self.name, text_of(value), f"is too large; the most is {self.high}")

    def _check_list(self, value: tuple[str, ...]) -> None:
        if self.required and not value:
            remedy = f"choose from {', '.join(self.choices)}" if self.choices else "name at least one element"
            raise ConfigError(f"{self.name}: an empty list is not accepted; {remedy}")
        for word in value:
            if self.unique and not word:
                raise ConfigError(f"{self.name}: an element of the list is empty; remove the extra comma")
            self._check_choice(word)

    def _check_choice(self, word: str) -> None:
        if self.required and not word:
            raise InvalidSetting(self.name, word, "is empty; give it a value")
        if self.choices and word not in self.choices:
            raise InvalidSetting(self.name, word, f"is not one of {', '.join(self.choices)}")


def _whole_number(text: str) -> int | None:
    """Returns the number, or None if the text is not a number or has more digits than Python is ready to read."""
    try:
        return int(text) if _INTEGER.fullmatch(text) else None
    except ValueError:
        return None


def _from_hex(text: str) -> float:
    """Returns the number of a hexadecimal text, or infinity if it is too large, as in Java."""
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def text_of(value: Value) -> str | None:
    """Returns a value as Kafka writes it, for DescribeConfigs and messages."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case float():
            return _java_double(value)
        case _:
            return str(value)


def _java_double(value: float) -> str:
    """Returns a number as Java's Double.toString does: plain from 0.001 up to 10,000,000, otherwise with one digit before the
    point and an exponent.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest = next(text for text in (f"{value:.{precision}e}" for precision in range(17)) if float(text) == value)
    digits, _, exponent = shortest.partition("e")
    return f"{digits}{'' if '.' in digits else '.0'}E{int(exponent)}"
