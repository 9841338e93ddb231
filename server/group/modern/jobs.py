"""Work on groups of the newer protocols in the background: in turns with everything else on the event loop
(server/base/turns.py)."""

from __future__ import annotations

from ottla.server.base.clock import Clock
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps


class GroupJobs:
    """Jobs in the background, at most one at a time for each group."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: dict[str, Promise[None]] = {}

    def is_running(self, group_id: str) -> bool:
        return group_id in self._jobs

    def begin(self, group_id: str, steps: Steps[None]) -> None:
        """Begins to take these steps, and takes all of them now if they are few. No job may be running for the group."""
        job = take_steps(steps, self._clock)
        if isinstance(job, Promise):
            self._jobs[group_id] = job
            job.add_done_callback(lambda done: self._ended(group_id, done))

    def drop(self, group_id: str) -> None:
        """Ends the job of a group that was removed or went to another broker."""
        job = self._jobs.get(group_id)
        if job is not None:
            job.cancel()

    def _ended(self, group_id: str, job: Promise[None]) -> None:
        del self._jobs[group_id]
        if not job.cancelled():
            job.result()  # raises what nobody expected
