"""What a test run needs of its process."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def outdated() -> list[str]:
    """Compiled modules whose source has changed since the library that they share was made: a test would not see the change."""
    built = [library for package in ("wire", "log", "server") for library in (ROOT / package).rglob("*.so")]
    made = max((library.stat().st_mtime for library in built), default=0.0)
    sources = [library.with_name(f"{library.name.partition('.')[0]}.py") for library in built]
    return [source.name for source in sources if source.exists() and source.stat().st_mtime > made]


def pytest_configure() -> None:
    if names := outdated():
        raise pytest.UsageError(f"compile first, python setup.py build_ext --inplace: {', '.join(names)} changed")
    let_ctrl_c_through()


def let_ctrl_c_through() -> None:
    """Ctrl-C means what it means at a terminal, for programs of tests as well: in a run that a shell began in the background
    it is ignored, and programs inherit that.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
