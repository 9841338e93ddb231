"""What a test run needs of its process."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Ctrl-C means what it means at a terminal, for programs that tests start as well: a shell that starts a run in the background
    has it ignored, and a program inherits that."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
