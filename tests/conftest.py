"""What a test run needs of its process."""

from __future__ import annotations

import signal

import pytest

from scripts.compiled import why_not_to_test


def pytest_configure() -> None:
    if why_not := why_not_to_test():
        raise pytest.UsageError(why_not)
    let_ctrl_c_through()


def let_ctrl_c_through() -> None:
    """Ctrl-C means what it means at a terminal, for programs of tests as well: in a run that a shell began in the background
    it is ignored, and programs inherit that.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
