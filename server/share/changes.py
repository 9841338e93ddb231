"""`Changes` are what one operation changes of the records in flight of a share partition (share_partition.py)."""

from __future__ import annotations

from ottla.server.share.states import ARCHIVED, ARCHIVING, AVAILABLE, GivenUp, InFlightBatch, RecordState, Run
from ottla.server.share_state.batches import StateBatch


class Changes:
    """Changes that are to be written, and the batches as they were before, so that the changes can be undone."""

    __slots__ = ("_before", "_given_up_at", "given_up", "rows")

    def __init__(self) -> None:
        self._before: dict[InFlightBatch, list[Run]] = {}
        self.rows: list[StateBatch] = []
        self.given_up: list[GivenUp] = []
        self._given_up_at: list[tuple[InFlightBatch, int]] = []
        """For each of `given_up` its batch, and which of `rows` it is."""

    def note(self, batch: InFlightBatch) -> None:
        if batch not in self._before:
            self._before[batch] = list(batch.runs)

    def set_state(self, batch: InFlightBatch, run: Run, state: RecordState) -> None:
        self.note(batch)
        batch.put(run.with_state(state))
        self.rows.append(StateBatch(run.first, run.last, run.delivery_count, state))

    def give_up(self, batch: InFlightBatch, run: Run, *, rejected: bool) -> None:
        self.given_up.append(GivenUp(run, rejected))
        self._given_up_at.append((batch, len(self.rows)))
        self.set_state(batch, run, ARCHIVED)

    def archive_later(self) -> None:
        """Puts what is given up into the state ARCHIVING, because not all of its dead letters are written."""
        for given, (batch, row) in zip(self.given_up, self._given_up_at, strict=True):
            batch.put(Run(given.run.first, given.run.last, ARCHIVING, given.run.delivery_count))
            self.rows[row] = self.rows[row]._replace(delivery_state=ARCHIVING)

    def archive(self, batch: InFlightBatch, given_up: Run) -> None:
        """Archives what of a run is ARCHIVING in this batch."""
        for run in list(batch.overlapping(given_up.first, given_up.last)):
            if run.state is ARCHIVING:
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
