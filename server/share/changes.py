"""`Changes` are what one operation changes of the records in flight of a share partition (share_partition.py)."""

from __future__ import annotations

from ottla.server.share.states import ARCHIVED, AVAILABLE, GivenUp, InFlightBatch, RecordState, Run
from ottla.server.share_state.batches import StateBatch


class Changes:
    """Changes that are to be written, and the batches as they were before, so that the changes can be undone."""

    __slots__ = ("_before", "given_up", "rows")

    def __init__(self) -> None:
        self._before: dict[InFlightBatch, list[Run]] = {}
        self.rows: list[StateBatch] = []
        self.given_up: list[GivenUp] = []

    def note(self, batch: InFlightBatch) -> None:
        if batch not in self._before:
            self._before[batch] = list(batch.runs)

    def set_state(self, batch: InFlightBatch, run: Run, state: RecordState) -> None:
        self.note(batch)
        batch.put(run.with_state(state))
        self.rows.append(StateBatch(run.first, run.last, run.delivery_count, state))

    def give_up(self, batch: InFlightBatch, run: Run, *, rejected: bool) -> None:
        self.given_up.append(GivenUp(run, rejected))
        self.set_state(batch, run, ARCHIVED)

    def release(self, batch: InFlightBatch, run: Run, state: RecordState, delivery_limit: int) -> None:
        """Puts a run into `state`. Records that were delivered `delivery_limit` times are given up, not made available again."""
        if state is AVAILABLE and run.delivery_count >= delivery_limit:
            self.give_up(batch, run, rejected=False)
        else:
            self.set_state(batch, run, state)

    def undo(self) -> None:
        for batch, runs in self._before.items():
            batch.runs = runs
