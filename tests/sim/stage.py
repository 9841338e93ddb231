"""The common part of every simulated world, whatever runs in it: time, chance, the history of its clients, and what brokers did
wrong."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import Any, Final

from compat_tests.anomalies.history import OF_CLIENTS_ONLY, Recorder
from tests.sim.client import Client
from tests.sim.loop import LIFE, VirtualClock, VirtualLoop

_ALWAYS: Final = ("i", "t", "p", "op", "type", "f")


class Stage(ABC):
    """A world without its brokers; see the module's docstring."""

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        self.seed = seed
        self.loop = loop
        self.recorder = Recorder(self.now_ns, self._note_event)
        self.said: Callable[[str], None] | None = None
        """Called with a line for everything that happens, for people."""
        self.lives = 0
        """The number of lives of brokers that have begun."""
        self.quiet = False
        """Set once nothing may be broken any more."""
        self.bugs: list[str] = []
        """The mistakes inside a broker, although no client may have seen them: unhandled exceptions."""
        self.last_ok: dict[int, int] = {}
        """The number of the last event that said that a process had success, by process."""
        self._processes = 0
        self._done_by_itself: dict[int, bool] = {}

    @property
    @abstractmethod
    def clock(self) -> VirtualClock:
        """The clock that clients have."""

    @abstractmethod
    def client(self, name: str) -> Client:
        """Returns a new client of the broker, or of the cluster."""

    def heal(self) -> None:
        """Ends all faults."""
        self.quiet = True

    @abstractmethod
    def goes_on(self, life: int) -> bool:
        """Returns whether a life of a broker is not over."""

    def random(self, name: str) -> Random:
        """Returns a generator of its own for each purpose, so that a draw more in one place changes nothing in another."""
        return Random(f"{self.seed}/{name}")

    def now_ns(self) -> int:
        return round(self.loop.time() * 1_000_000_000)

    def say(self, text: str) -> None:
        if self.said is not None:
            self.said(f"{self.loop.time():9.4f}  {text}")

    def process(self) -> int:
        """Returns the number of a new process."""
        self._processes += 1
        return self._processes

    def _note_event(self, event: dict[str, Any]) -> None:
        if event["type"] == "invoke":
            self._done_by_itself[event["op"]] = event["f"] in OF_CLIENTS_ONLY
        elif event["type"] == "ok" and not self._done_by_itself[event["op"]]:
            self.last_ok[event["p"]] = event["i"]
        if self.said is not None:
            fields = " ".join(f"{name}={value}" for name, value in event.items() if name not in _ALWAYS)
            self.say(f"{event['i']:5} process {event['p']:2}  {event['op']:4} {event.get('f', ''):9} {event['type']:6} {fields}")


class Bugs(logging.Handler):
    """Collects errors of the brokers' logs that have a traceback: those are bugs, whatever clients see of them. While it is used
    as a context, the brokers' log goes nowhere else.
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__(logging.INFO)
        self._stage = stage
        self._log = logging.getLogger("ottla")

    def __enter__(self) -> None:
        self._before = self._log.level, self._log.propagate
        self._log.addHandler(self)
        self._log.setLevel(logging.INFO if self._stage.said is not None else logging.ERROR)
        self._log.propagate = False

    def __exit__(self, *_: object) -> None:
        self._log.removeHandler(self)
        self._log.setLevel(self._before[0])
        self._log.propagate = self._before[1]

    def emit(self, record: logging.LogRecord) -> None:
        life = LIFE.get()
        if life == 0 or self._stage.goes_on(life):
            self._stage.say(f"      {record.levelname.lower()}: {record.getMessage()}")
            if record.exc_info and record.exc_info[1] is not None and record.levelno >= logging.ERROR:
                if isinstance(record.exc_info[1].__context__, GeneratorExit):
                    return  # what an earlier life had left on the loop is being collected
                where = traceback.extract_tb(record.exc_info[2])[-1]
                at = f"{os.path.basename(where.filename)}:{where.lineno}"
                self._stage.bugs.append(f"{record.getMessage()}: {record.exc_info[1]!r} at {at}")
                self._stage.say("".join(traceback.format_exception(record.exc_info[1])))


async def until(condition: Callable[[], bool], every_s: float = 0.1) -> None:
    """Returns once a condition holds, which is looked at now and then."""
    while not condition():  # noqa: ASYNC110 - what it is about tells nobody, and virtual time costs nothing
        await asyncio.sleep(every_s)


def forget(loop: VirtualLoop) -> None:
    """Closes the loop at the end of a run. Tasks that are left belong to lives that are over, or that nobody needs any more."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # typeshed does not list it
        with contextlib.suppress(RuntimeError):  # its code may want to wait, which whoever is killed cannot do
            task.get_coro().close()
    loop.close()
    asyncio.set_event_loop(None)
