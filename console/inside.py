"""The inside of the broker that runs this console: what no client can ask, by questions over a socket.

Both sides write lines of JSON; server/inspect/questions.py has what may be asked. A console that no broker runs has no inside,
and a page that would show it says in one sentence what brings it (`Ask.without_inside`).
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from ottla.commands.output import Failure
from ottla.console.missing import Missing

WITHIN_S: Final = 5.0
MAX_LINE_BYTES: Final = 5 << 20
NO_BROKER: Final = "Only a broker that runs the console itself shows what it does inside: ottla --console-port 8080."


class Inside(Protocol):
    """Declares what a page may do: ask."""

    def ask(self, question: str, **arguments: Any) -> Any:
        """Returns the answer, what JSON can hold. Raises Missing for what is not there, Failure for what cannot be answered, or
        not in time."""
        ...


class SocketInside:
    """Asks over a socket; any thread may. `gone` is called, in a thread of its own, once the broker has closed it."""

    def __init__(self, sock: socket.socket, gone: Callable[[], None], within_s: float = WITHIN_S) -> None:
        self._socket = sock
        self._gone = gone
        self._within_s = within_s
        self._lock = threading.Lock()
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._number = 0
        self._is_open = True
        threading.Thread(target=self._read, name="inside", daemon=True).start()

    def ask(self, question: str, **arguments: Any) -> Any:
        """See Inside."""
        with self._lock:
            said = self._wait_for(self._send(question, arguments), question)
        if "missing" in said:
            raise Missing(said["missing"])
        if "refused" in said:
            raise Failure(said["refused"])
        return said["answer"]

    def _send(self, question: str, arguments: dict[str, Any]) -> int:
        """Sends a question and returns its number. Raises Failure."""
        self._number += 1
        line = json.dumps({"id": self._number, "question": question, "arguments": arguments}) + "\n"
        try:
            self._socket.sendall(line.encode())
        except OSError as error:
            raise Failure(f"the broker's inside is gone: {error.strerror or error}") from None
        return self._number

    def _wait_for(self, number: int, question: str) -> dict[str, Any]:
        """Returns the answer of this number; an earlier one was too late for whoever asked. Raises Failure."""
        while self._is_open:
            try:
                said = self._answers.get(timeout=self._within_s)
            except queue.Empty:
                raise Failure(f"the broker did not answer {question} within {self._within_s:g} s") from None
            if said is not None and said.get("id") == number:
                return said
        raise Failure("the broker's inside is gone")

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._socket.makefile("rb") as lines:
            while (line := lines.readline(MAX_LINE_BYTES)).endswith(b"\n"):
                self._answers.put(json.loads(line))
        self._is_open = False
        self._answers.put(None)
        self._gone()
