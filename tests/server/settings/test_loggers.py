"""Levels of loggers, read and set by log4j's names."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ottla.server.settings import loggers

NAME = "ottla.tests.loggers"


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(NAME)
    yield logger
    logger.setLevel(logging.NOTSET)


def test_a_logger_has_its_own_level_or_that_above_it(logger: logging.Logger) -> None:
    assert loggers.levels()[NAME] == loggers.levels()["root"]
    loggers.set_level(NAME, "error")
    assert loggers.levels()[NAME] == "ERROR"
    loggers.set_level(NAME, None)
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize(("level", "number"), [("TRACE", 10), ("WARN", 30), ("FATAL", 50)])
def test_levels_are_log4j_s(logger: logging.Logger, level: str, number: int) -> None:
    loggers.set_level(NAME, level)
    assert logger.level == number


def test_levels_between_two_and_beyond(logger: logging.Logger) -> None:
    logger.setLevel(25)
    assert loggers.levels()[NAME] == "WARN"
    logger.setLevel(60)
    assert loggers.levels()[NAME] == "FATAL"


def test_others_loggers_are_not_ours() -> None:
    logging.getLogger("somebody.elses")
    assert all(name == "root" or name.split(".")[0] == "ottla" for name in loggers.levels())


def test_check() -> None:
    assert loggers.check(NAME, "debug") is None
    assert loggers.check("root", None) is None
    assert loggers.check("ottla.nowhere", "INFO") == "There is no logger ottla.nowhere."
    assert (loggers.check(NAME, "LOUD") or "").startswith("LOUD is not a level of a logger; the levels are DEBUG, ERROR,")
