"""The kit of one test: what it controls, over all starts of its broker.

Of the two layers that it puts around requests, the outer one (frames.py) is there from the broker's start, and as
long as no fault changes bytes only notes the requests that wait; the inner one (faults.py) comes and goes with the faults.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.server.dispatch.chain import Place
from ottla.server.testkit.faults.bench import Bench
from ottla.server.testkit.faults.frames import Frames, Rewrites, Serve

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.broker.broker import Broker
    from ottla.server.dispatch.routes import Dispatch
    from ottla.server.network.owner import Serves
    from ottla.server.testkit.faults.faults import Faults
    from ottla.server.testkit.recording.recording import Recorder
    from ottla.server.testkit.versions.versions import Versions
    from ottla.server.testkit.waiting.pending import Waits


class Kit(Bench):
    """Holds what a test controls. `around` is handed to each broker that is started for the test (`Broker(around=)`)."""

    def __init__(self, clock: Clock, random: Random) -> None:
        super().__init__(clock, random)
        self.rewrites = Rewrites()
        self.versions: Versions | None = None
        """The versions that the broker pretends to serve; None if they are its own."""
        self._frames: list[Frames] = []  # those of the present broker

    @cached_property
    def faults(self) -> Faults:
        """Returns the faults; their code is loaded with the first."""
        from ottla.server.testkit.faults.faults import Faults

        return Faults(self, self.rewrites)

    @property
    def has_faults(self) -> bool:
        """Returns whether there was ever a fault."""
        return "faults" in vars(self)

    @cached_property
    def waits(self) -> Waits:
        """Returns the waits that are pending; their code is loaded with the first."""
        from ottla.server.testkit.waiting.pending import Waits

        return Waits(self)

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
            broker.chain.put(Place.VERSIONS, self.versions)
            if self.has_faults:
                self.faults.refresh()
            if "waits" in vars(self):
                self.waits.refresh()
        frames = Frames(dispatch, self.rewrites, self)
        self._frames.append(frames)
        self._put_around()
        return frames

    def forget_gone(self) -> None:
        """Forgets simulated nodes that are gone, or that could not be opened."""
        there = self.node_ids
        for frames in self._frames:
            if frames.node_id not in there:
                frames.close()
        self._frames = [frames for frames in self._frames if frames.node_id in there]

    def pretend(self, versions: Versions | None) -> None:
        """Has the broker, and those after it, pretend to serve these versions; with None, its own."""
        self.versions = versions
        self.broker.chain.put(Place.VERSIONS, versions)
        self._put_around()

    def record(self, most: int, *, records: bool) -> Recorder:
        """Has the latest `most` requests recorded, with or without the records in them; 0 ends the recording. Its code is loaded
        with the first."""
        if self.recorder is None:
            from ottla.server.testkit.recording.recording import Recorder

            self.recorder = Recorder(self.clock)
        self.recorder.configure(most, records=records)
        self._put_around()
        return self.recorder

    def _put_around(self) -> None:
        """Puts around the dispatch what pretends, and around that what records, so that it has what clients are answered."""
        for frames in self._frames:
            around: list[Callable[[Serve], Serve]] = []
            if self.versions is not None:
                around.append(self.versions.around_serve)
            if self.recorder is not None and self.recorder.max:
                around.append(partial(self.recorder.around, frames.node_id, self.context.clock.now_ms))
            frames.put_around(around)

    def describe(self) -> dict[str, Any]:
        """Returns what `state` answers."""
        broker = self.broker
        return {
            "bootstrap": broker.bootstrap,
            "cluster_id": broker.cluster_id,
            "node_id": broker.config.node_id,
            "simulated": self.lives.nodes is not None,
            "nodes": sorted(self.node_ids),
        }
