"""The heartbeat without its thread: a simulation has none, so a timer of the virtual loop beats instead."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from ottla.server.quorum.heartbeat import Heartbeat, State


class TimedHeartbeat(Heartbeat):
    """See Heartbeat. It stands still with its node, as a thread does when the whole process is stopped."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._bell = self  # type: ignore[assignment]  # it only rings
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(0, self._beat)

    def stop(self) -> threading.Thread | None:
        super().stop()
        if self._timer is not None:
            self._timer.cancel()
        self._hang_up()
        return None

    def ring(self) -> None:
        """Beats at once, as Bell wakes the thread."""
        if self._timer is not None and self.state is not State.STOPPED:
            self._timer.cancel()
            self.start()

    def _beat(self) -> None:
        if self.state is not State.STOPPED:
            self._timer = asyncio.get_running_loop().call_later(self.beat(), self._beat)
