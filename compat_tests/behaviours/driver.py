"""The end of a driver's pipe that asks: calls with a time limit, and what consumers say meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

END_SECONDS: Final = 5.0


class Answer(NamedTuple):
    """The outcome of a call: a result, or an error as the client calls it; `seconds` is how long that took."""

    result: Any = None
    error: dict[str, Any] | None = None
    hangs: bool = False
    seconds: float = 0.0


class EndedError(Exception):
    """A driver has ended though nobody closed it: what its client did took the process along."""


class Driver:
    """A running driver. Everything it says is read by a thread."""

    def __init__(self, command: Sequence[str], log: Path, cwd: Path) -> None:
        """`log` gets what it writes to standard error."""
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=cwd
            )
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        self._answers: dict[int, dict[str, Any]] = {}
        self._events: dict[str, list[dict[str, Any]]] = {}
        self._pending: set[int] = set()
        self._over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            line = json.loads(text)
            with self._changed:
                if "event" in line:
                    self._events.setdefault(line["of"], []).append(line)
                else:
                    self._answers[line["id"]] = line
                    self._pending.discard(line["id"])
                self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def begin(self, call: str, **arguments: Any) -> int:
        """Asks; the call's number. Raises EndedError."""
        number = next(self._ids)
        with self._changed:
            self._pending.add(number)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"id": number, "call": call, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise EndedError from None
        return number

    def wait(self, number: int, seconds: float) -> Answer:
        """Waits for the answer to a call. Raises EndedError."""
        began = time.monotonic()
        with self._changed:
            self._changed.wait_for(lambda: number in self._answers or self._over, seconds)
            line = self._answers.pop(number, None)
            over = self._over
        took = time.monotonic() - began
        if line is None:
            if over:
                raise EndedError
            return Answer(hangs=True, seconds=took)
        if "error" in line:
            return Answer(error=line, seconds=took)
        return Answer(line["result"], seconds=took)

    def call(self, call: str, seconds: float, **arguments: Any) -> Answer:
        return self.wait(self.begin(call, **arguments), seconds)

    def events(self, of: str) -> list[dict[str, Any]]:
        """Returns what a consumer has said so far."""
        with self._changed:
            return list(self._events.get(of, ()))

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Waits until what consumers say makes the condition true; whether it did in time."""
        with self._changed:
            return self._changed.wait_for(condition, seconds)

    @property
    def over(self) -> bool:
        """Returns whether it has ended, or closed its output."""
        with self._changed:
            return self._over

    @property
    def hangs(self) -> bool:
        """Returns whether a call has no answer yet, or it is over."""
        with self._changed:
            return bool(self._pending) or self._over

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()
