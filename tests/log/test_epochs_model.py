"""log/epochs.py against the plainest model there is: the epoch of each offset, one by one."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.log.disk.checkpoint import parse_epochs
from ottla.log.epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, LeaderEpochs

parts = st.floats(0, 1)
"""A place between the log's start and its end."""


class EpochsMachine(RuleBasedStateMachine):
    """`written` has the epoch of each offset from `start` on."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = LeaderEpochs()
        self.start = 0
        self.written: list[int] = []

    @property
    def end(self) -> int:
        return self.start + len(self.written)

    @rule(count=st.integers(1, 4), later=st.integers(0, 3))
    def append(self, count: int, later: int) -> None:
        """A leader of the same epoch, or of a later one, writes a few records."""
        latest = self.written[-1] if self.written else 0
        is_new = not self.written or later > 0
        assert self.epochs.assign(latest + later, self.end) == is_new
        self.written += [latest + later] * count

    @precondition(lambda self: self.written)
    @rule(part=parts)
    def cut(self, part: float) -> None:
        left = round(part * len(self.written))
        gone = self.written[left:]
        changed = bool(gone) and (left == 0 or gone[-1] != self.written[left - 1])
        assert self.epochs.truncate_from_end(self.start + left) == changed
        del self.written[left:]

    @precondition(lambda self: self.written)
    @rule(part=parts)
    def begin_later(self, part: float) -> None:
        """Retention: at least one record is left."""
        gone = round(part * (len(self.written) - 1))
        assert self.epochs.truncate_from_start(self.start + gone) == (gone > 0)
        self.start += gone
        del self.written[:gone]

    @rule()
    def restart(self) -> None:
        self.epochs = LeaderEpochs(parse_epochs(self.epochs.encoded().decode()))

    @invariant()
    def every_offset_has_its_epoch(self) -> None:
        for offset, epoch in enumerate(self.written, self.start):
            assert self.epochs.epoch_for(offset) == epoch
        assert self.epochs.epoch_for(self.start - 1) == UNDEFINED_EPOCH
        assert self.epochs.latest_epoch == (self.written[-1] if self.written else UNDEFINED_EPOCH)

    @invariant()
    def every_epoch_ends_where_the_next_begins(self) -> None:
        known = sorted(set(self.written))
        for asked in range(-1, (known[-1] if known else 0) + 3):
            assert self.epochs.end_offset_for(asked, self.end) == self.expected_end(asked, known)

    def expected_end(self, asked: int, known: list[int]) -> tuple[int, int]:
        if asked < 0 or not known or asked > known[-1]:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        floor = max((epoch for epoch in known if epoch <= asked), default=asked)
        later = [offset for offset, epoch in enumerate(self.written, self.start) if epoch > asked]
        return floor, min(later, default=self.end)


TestEpochs = EpochsMachine.TestCase
TestEpochs.settings = settings(max_examples=60, stateful_step_count=30, derandomize=True, deadline=None)
