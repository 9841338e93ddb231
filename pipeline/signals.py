"""Ctrl-C and SIGTERM for a job that goes on until it is told to end.

pyspark's own handler of SIGINT calls the JVM from within whatever call is being made, which breaks that connection: the job would
end in an error of Py4J. So a job that waits takes both signals itself, and ends its queries when it next looks.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def told_to_stop() -> Iterator[threading.Event]:
    """An event that is set by a signal, for as long as the block lasts. In another thread than the main one none can come."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
