"""The inside of the broker that runs this console: what no client can ask, by questions over a socket.

Both sides write lines of JSON; server/inspect/questions.py has what may be asked. Between its answers the broker writes news:
that something is over, which a page may wait for without a question. A console that no broker runs has no inside,
and a page that would show it says in one sentence what brings it (`Ask.without_inside`).
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from ottla.commands.output import Failure
from ottla.console.errors import Missing

WITHIN_S: Final = 5.0
MAX_LINE_BYTES: Final = 5 << 20
MAX_QUESTION_BYTES: Final = 64 << 10
"""The broker closes the socket on a longer one. It fits into the buffer of a socket in which there is nothing else."""
NO_BROKER: Final = "Only a broker that runs the console itself shows what it does inside: ottla --console-port 8080."


class Inside(Protocol):
    """Declares what a page may do: ask, and wait."""

    def ask(self, question: str, **arguments: Any) -> Any:
        """Returns the answer, what JSON can hold. Raises Missing for what is not there, Failure for what cannot be answered, or
        not in time."""
        ...

    def wait_for(self, news: str, number: int, within_s: float) -> None:
        """Returns when the broker has said that what has this number, or a later one, is over; or after so long, or once the
        broker is gone."""
        ...


class SocketInside:
    """Asks over a socket; any thread may. `gone` is called, in a thread of its own, once the broker has closed it.

    One question at a time is under way, also if whoever asked it has given it up: so a broker that does not read them finds one
    when it goes on, and none waits for room in the socket.
    """

    def __init__(self, sock: socket.socket, gone: Callable[[], None], within_s: float = WITHIN_S) -> None:
        self._socket = sock
        self._gone = gone
        self.within_s = within_s
        self._lock = threading.Lock()
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._news: dict[str, int] = {}
        """The highest number of each kind of news."""
        self._has_news = threading.Condition()
        self._number = 0
        self._is_under_way = False
        self._is_open = True
        threading.Thread(target=self._read, name="inside", daemon=True).start()

    def ask(self, question: str, **arguments: Any) -> Any:
        """See Inside. It takes `within_s` at the most, the questions of others before it included."""
        until = time.monotonic() + self.within_s
        late = Failure(f"the broker did not answer {question} within {self.within_s:g} s")
        if not self._lock.acquire(timeout=self.within_s):
            raise late
        try:
            if self._is_under_way:
                self._wait(until)  # for an answer that is nobody's any more
            self._send(question, arguments)
            said = self._wait(until)
        except queue.Empty:
            raise late from None
        finally:
            self._lock.release()
        if "missing" in said:
            raise Missing(said["missing"])
        if "refused" in said:
            raise Failure(said["refused"])
        return said["answer"]

    def wait_for(self, news: str, number: int, within_s: float) -> None:
        """See Inside. Meanwhile others may ask."""
        with self._has_news:
            self._has_news.wait_for(lambda: not self._is_open or self._news.get(news, 0) >= number, within_s)

    def _send(self, question: str, arguments: dict[str, Any]) -> None:
        """Sends a question. Raises Failure."""
        line = json.dumps({"id": self._number + 1, "question": question, "arguments": arguments}).encode() + b"\n"
        if len(line) > MAX_QUESTION_BYTES:
            raise Failure(f"what {question} is asked with is too long: the question may have {MAX_QUESTION_BYTES:,} bytes")
        try:
            self._socket.sendall(line)
        except OSError as error:
            raise Failure(f"the broker's inside is gone: {error.strerror or error}") from None
        self._number += 1
        self._is_under_way = True

    def _wait(self, until: float) -> dict[str, Any]:
        """Returns the answer to the question that is under way. Raises Failure, and queue.Empty if it does not come in time."""
        while self._is_open:
            said = self._answers.get(timeout=max(0.0, until - time.monotonic()))
            if said is not None and said.get("id") == self._number:
                self._is_under_way = False
                return said
        raise Failure("the broker's inside is gone")

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._socket.makefile("rb") as lines:
            while (line := lines.readline(MAX_LINE_BYTES)).endswith(b"\n"):
                said = json.loads(line)
                if "news" in said:
                    self._hear(said["news"], said["number"])
                else:
                    self._answers.put(said)
        with self._has_news:
            self._is_open = False
            self._has_news.notify_all()
        self._answers.put(None)
        self._gone()

    def _hear(self, news: str, number: int) -> None:
        with self._has_news:
            self._news[news] = max(number, self._news.get(news, 0))
            self._has_news.notify_all()
