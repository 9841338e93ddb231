"""The broker's loggers as a resource of the config APIs (type 8): their levels can be read and set while it runs.

The names are those of Python's loggers below `ottla`, and `root`. The levels are log4j's: TRACE is the same as DEBUG here, and
FATAL is Python's CRITICAL. A change lasts until the broker stops, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

ROOT: Final = "root"
LEVELS: Final = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": logging.DEBUG,
    "WARN": logging.WARNING,
}
_NAMES: Final = {number: name for name, number in LEVELS.items() if name != "TRACE"}


def levels() -> dict[str, str]:
    """Returns the effective level of each logger by its name: its own, or else that of the nearest logger above it."""
    return {name: _level_name(_logger(name).getEffectiveLevel()) for name in sorted(_existing())}


def check(name: str, level: str | None) -> str | None:
    """Returns why `level` cannot be set, or, if it is None, why the level cannot be removed; None if it can."""
    if name not in _existing():
        return f"There is no logger {name}."
    if level is not None and level.upper() not in LEVELS:
        return f"{level} is not a level of a logger; the levels are {', '.join(LEVELS)}."
    return None


def set_level(name: str, level: str | None) -> None:
    """Sets the level of a logger. None removes it, so that the logger has the level of the one above it."""
    _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level.upper()])


def _existing() -> Iterable[str]:
    ours = [name for name in logging.root.manager.loggerDict if name == "ottla" or name.startswith("ottla.")]
    return [ROOT, *ours]


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _level_name(number: int) -> str:
    """Returns the name of the level at or above `number`, because a number between two levels filters like the upper one."""
    return next((name for level, name in sorted(_NAMES.items()) if level >= number), "FATAL")
