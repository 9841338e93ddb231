"""The kit of one test: what it controls, over all starts of its broker.

Of the two layers that it puts around requests, the outer one (frames.py) is there from the broker's start, and does nothing as
long as no fault changes bytes; the inner one (faults.py) comes and goes with the faults.
"""

from __future__ import annotations

from functools import cached_property, partial
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.server.testkit.bench import Bench
from ottla.server.testkit.frames import Frames, Rewrites

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.broker.broker import Broker
    from ottla.server.dispatch.routes import Dispatch
    from ottla.server.network.owner import Serves
    from ottla.server.testkit.faults import Faults
    from ottla.server.testkit.lives import Lives
    from ottla.server.testkit.recording import Recorder


class Kit(Bench):
    """Holds what a test controls. `around` is handed to each broker that is started for the test (`Broker(around=)`)."""

    lives: Lives
    """What starts the broker anew, and has its clock; whoever makes the kit sets it."""

    def __init__(self, clock: Clock, random: Random) -> None:
        super().__init__(clock, random)
        self.rewrites = Rewrites()
        self._frames: list[Frames] = []  # of the broker that was started last

    @cached_property
    def faults(self) -> Faults:
        """Returns the faults; their code is loaded with the first."""
        from ottla.server.testkit.faults import Faults

        return Faults(self, self.rewrites)

    @property
    def has_faults(self) -> bool:
        """Returns whether there was ever a fault."""
        return "faults" in vars(self)

    def remove_faults(self) -> None:
        """Removes all faults."""
        if self.has_faults:
            self.faults.remove(list(self.faults))

    def around(self, broker: Broker, dispatch: Dispatch) -> Serves:
        """Returns what serves the requests of the broker's listeners in place of `dispatch`. The broker calls this in its start,
        before any client can connect, once for each dispatch."""
        if broker is not self._broker:
            self._broker = broker
            self._frames = []
            if self.has_faults:
                self.faults.refresh()
        frames = Frames(dispatch, self.rewrites, self)
        self._frames.append(frames)
        self._connect_recorder()
        return frames

    def record(self, most: int, *, records: bool) -> Recorder:
        """Has the latest `most` requests recorded, with or without the records in them; 0 ends the recording. Its code is loaded
        with the first."""
        if self.recorder is None:
            from ottla.server.testkit.recording import Recorder

            self.recorder = Recorder(self.clock)
        self.recorder.configure(most, records=records)
        self._connect_recorder()
        return self.recorder

    def _connect_recorder(self) -> None:
        broker, recorder = self.broker, self.recorder
        if recorder is None:
            return
        assert broker.context is not None
        around = partial(recorder.around, broker.config.node_id, broker.context.clock.now_ms) if recorder.max else None
        for frames in self._frames:
            frames.put_around(around)

    def describe(self) -> dict[str, Any]:
        """Returns what `state` answers."""
        broker = self.broker
        return {"bootstrap": broker.bootstrap, "cluster_id": broker.cluster_id, "node_id": broker.config.node_id}
