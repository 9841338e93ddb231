"""Java programs as processes that say what they do, line by line: Kafka's own drivers of system tests, Streams and Connect.

A thread takes the lines of standard output; `on_line` may look at each. Standard error goes to a file, which several lives of one
program may share. At the end of a `with` block the process is killed if it still runs, and the last of what it said is printed:
pytest shows that where the test failed.
"""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from compat_tests.reference import jvm

TIMEOUT_S: Final = 60
_KEPT_LINES: Final = 60
_LOGGING: Final = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.NetworkClient=error",  # or it fills the log while a broker is away
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


class JavaProcess:
    """`java MAIN ARGUMENTS` with a set of jars (reference/poms); `options` are the JVM's, `classes` is a directory of ours."""

    def __init__(
        self,
        jars: str,
        main: str,
        *arguments: str,
        log: Path,
        on_line: Callable[[str], None] | None = None,
        classes: Path | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        self.name, self.log = main.rpartition(".")[2], log
        self.last: deque[str] = deque(maxlen=_KEPT_LINES)
        self._on_line = on_line
        self._changed = threading.Condition()
        self._over = False
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                [*jvm.java(jars, *_LOGGING, *options, classes=classes), main, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        try:
            for line in self.process.stdout:
                with self._changed:
                    self.last.append(line.rstrip())
                    if self._on_line is not None:
                        self._on_line(line)
                    self._changed.notify_all()
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    @property
    def over(self) -> bool:
        """Returns whether it has ended, or closed its output."""
        with self._changed:
            return self._over

    def wait_for(self, condition: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> None:
        """Until what it says makes the condition true. Fails at once when it ends before that."""
        with self._changed:
            came = self._changed.wait_for(lambda: condition() or self._over, timeout_s)
            assert condition(), f"{self.name} {'ended' if came else f'took over {timeout_s} s'}: {what}\n{self.tail()}"

    def wait_for_text(self, text: str, timeout_s: float = TIMEOUT_S) -> None:
        """Until one of its last lines holds the text."""
        self.wait_for(lambda: any(text in line for line in self.last), f"no {text!r}", timeout_s)

    def wait(self, timeout_s: float = TIMEOUT_S) -> int:
        """Its exit code, when all that it said has been read."""
        until = time.monotonic() + timeout_s
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} is not over within {timeout_s} s\n{self.tail()}") from None
        self._reader.join(max(1, until - time.monotonic()))
        assert self.over
        return code

    def kill(self) -> None:
        """kill -9, if it still runs."""
        self.process.kill()
        self.wait(10)

    def stop(self, timeout_s: float = TIMEOUT_S) -> int:
        """SIGTERM; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def tail(self) -> str:
        """The last of what it said on both streams."""
        return "\n".join([*self.last, "--- standard error:", self.log.read_text(errors="replace")[-6000:]])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()
        print(f"--- {self.name}:\n{self.tail()}")
