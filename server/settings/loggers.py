"""The broker's loggers as a resource of the config APIs (type 8): their levels can be read and set while it runs.

Names are those of Python's logging below `ottla`, and `root`. Levels are log4j's: TRACE and DEBUG are one here, FATAL is
CRITICAL. What is set lasts until the broker stops, as in Kafka.
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
    """Level by name of logger, as it counts: its own, or that of the nearest above it."""
    return {name: _level_name(_logger(name).getEffectiveLevel()) for name in sorted(_existing())}


def check(name: str, level: str | None) -> str | None:
    """Why `level` cannot be set, or with None the level be removed; None if it can."""
    if name not in _existing():
        return f"There is no logger {name}."
    if level is not None and level.upper() not in LEVELS:
        return f"{level} is no level of a logger; levels are {', '.join(LEVELS)}."
    return None


def set_level(name: str, level: str | None) -> None:
    """None gives the logger the level of the one above it."""
    _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level.upper()])


def _existing() -> Iterable[str]:
    ours = [name for name in logging.root.manager.loggerDict if name == "ottla" or name.startswith("ottla.")]
    return [ROOT, *ours]


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _level_name(number: int) -> str:
    """Returns the level at or above `number`: between two of them lies what the upper one lets through."""
    return next((name for level, name in sorted(_NAMES.items()) if level >= number), "FATAL")
