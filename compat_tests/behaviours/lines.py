"""The drivers in Python read their calls and write what they have to say with this; the protocol is in __init__.py."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

Arguments = dict[str, Any]
_LOCK: Final = threading.Lock()


def emit(line: dict[str, Any]) -> None:
    """Writes one line, whole and at once."""
    with _LOCK:
        print(json.dumps(line), flush=True)


def serve(calls: dict[str, Callable[[Arguments], Any]], describe: Callable[[Exception], dict[str, Any]]) -> None:
    """Answers calls, each in a thread of its own, until the end of standard input. `describe` says what an exception is."""

    def answer(asked: Arguments) -> None:
        try:
            emit({"id": asked["id"], "result": calls[asked["call"]](asked)})
        except Exception as error:  # noqa: BLE001 - whatever a client raises is what the table shows
            emit({"id": asked["id"], **describe(error)})

    for line in sys.stdin:
        threading.Thread(target=answer, args=(json.loads(line),), daemon=True).start()


class Reader:
    """A consumer in a thread of its own, which polls until it is closed. A library gives it the four functions."""

    def __init__(
        self,
        name: str,
        poll: Callable[[], list[tuple[int, str]]],
        commit: Callable[[], None] | None,
        close: Callable[[], None],
        describe: Callable[[Exception], dict[str, Any]],
    ) -> None:
        """`poll` returns offsets and values; `commit` is called after each record where the application commits by itself."""
        self._name = name
        self._poll, self._commit, self._close, self._describe = poll, commit, close, describe
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                records = self._poll()
            except Exception as error:  # noqa: BLE001 - as in serve
                self._say("error", **self._describe(error), **{"while": "poll"})
                self._closing.wait(0.1)  # an error that comes at once, again and again, would be all that is written
                continue
            for offset, value in records:
                self._say("record", offset=offset, value=value)
                self._try_commit()
        self._close()

    def _try_commit(self) -> None:
        if self._commit is None:
            return
        try:
            self._commit()
            self._say("committed")
        except Exception as error:  # noqa: BLE001 - as in serve
            self._say("error", **self._describe(error), **{"while": "commit"})

    def _say(self, event: str, **more: Any) -> None:
        emit({"of": self._name, "event": event, **more})

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
