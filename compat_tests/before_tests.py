"""The preparations of both suites of tests before their first test (tests/conftest.py, compat_tests/conftest.py)."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def outdated() -> list[str]:
    """Returns the names of compiled modules whose source has changed since the library that they share was made."""
    built = [library for package in ("wire", "log", "server", "commands") for library in (ROOT / package).rglob("*.so")]
    made = max((library.stat().st_mtime for library in built), default=0.0)
    sources = [library.with_name(f"{library.name.partition('.')[0]}.py") for library in built]
    return [source.name for source in sources if source.exists() and source.stat().st_mtime > made]


def why_not_to_test() -> str:
    """Returns whether the machine code that setup.py made is that of the sources beside it, else what there was before would be
    tested.

    For a person; empty where there is nothing to say.
    """
    names = outdated()
    return f"compile first, python setup.py build_ext --inplace: {', '.join(names)} changed" if names else ""


def let_ctrl_c_through() -> None:
    """Ctrl-C means what it means at a terminal, for programs of tests as well: in a run that a shell began in the background
    it is ignored, and programs inherit that.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
