"""Breaks a broker as a plan says, and notices when it ends by itself."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from compat_tests.anomalies.records import Anomaly
from compat_tests.outside.faults import Fault
from compat_tests.reference.kafka import BrokerFailed, BrokerProcess

_LOOK_S: Final = 0.1
_LARGEST_PIECE: Final = 1 << 22
_SMALLEST_PIECE: Final = 4096
_AFTER_FULL_S: Final = 15.0
"""So long after its disk was full a broker may end because of it, which Kafka does by design: it has no other log directory."""


class Room:
    """The room on a file system, which is taken and given back."""

    def __init__(self, directory: Path) -> None:
        self._filler = directory / "filler"

    def take(self) -> None:
        """Takes all there is. What frees room later does so for the broker, until the next time.

        It does so in pieces, smaller ones at the end: for one that is too large by what others took meanwhile, tmpfs gives
        nothing at all.
        """
        piece = _LARGEST_PIECE
        with self._filler.open("ab") as file:
            while piece >= _SMALLEST_PIECE:
                try:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), piece)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    piece //= 2

    def give_back(self) -> None:
        self._filler.unlink(missing_ok=True)


class Breaking:
    """A broker, and what was done to it. `room` is needed for full disks."""

    def __init__(self, broker: BrokerProcess, room: Room | None = None, say: Callable[[str], None] | None = None) -> None:
        self.broker = broker
        self.found: list[Anomaly] = []
        self.broken: Counter[str] = Counter()
        self.lives = 1
        self.ended_by_itself = 0
        self._room = room
        self._say = say or (lambda _: None)
        self._may_end_until = 0.0
        self._began = time.monotonic()

    def through(self, plan: Iterable[Fault], seconds: float) -> None:
        """Breaks it as planned; returns after so many seconds, with everything repaired."""
        self._began = time.monotonic()
        for fault in plan:
            self._watch(fault.at_s)
            self._say(f"{time.monotonic() - self._began:6.1f} s: {fault.kind} for {fault.lasts_s:.1f} s")
            self.broken[fault.kind] += 1
            self._break(fault)
        self._watch(seconds)

    def watch_for(self, seconds: float) -> None:
        self._watch(time.monotonic() - self._began + seconds)

    def _watch(self, until_s: float) -> None:
        while (left_s := self._began + until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _LOOK_S))
            self._revive()

    def _revive(self) -> None:
        """Starts the broker again if it has ended by itself."""
        process = self.broker.process
        if process is None or process.poll() is None:
            return
        self.ended_by_itself += 1
        if time.monotonic() > self._may_end_until:
            self.found.append(Anomaly("ended", "the broker", f"with {process.returncode}:\n{self.broker.log_tail(20)}"))
        self._say(f"the broker has ended by itself, with {process.returncode}")
        self.broker.kill()
        self._start()

    def _start(self) -> None:
        self.broker.start()
        self.lives += 1

    def _break(self, fault: Fault) -> None:
        match fault.kind:
            case "kill" | "power":
                self.broker.kill()
                time.sleep(fault.lasts_s)
                self._start()
            case "pause":
                assert self.broker.process is not None
                self.broker.process.send_signal(signal.SIGSTOP)
                try:
                    time.sleep(fault.lasts_s)
                finally:
                    self.broker.process.send_signal(signal.SIGCONT)
            case _:
                self._fill(fault)

    def _fill(self, fault: Fault) -> None:
        assert self._room is not None, "there is no file system to fill"
        self._room.take()
        try:
            time.sleep(fault.lasts_s)
            self._may_end_until = time.monotonic() + _AFTER_FULL_S
            if fault.killed:
                self.broker.kill()
        finally:
            self._room.give_back()
        if fault.killed:
            self._start()
        self._revive()


def failed_to_start(error: BrokerFailed) -> Anomaly:
    return Anomaly("no-start", "the broker", str(error))
