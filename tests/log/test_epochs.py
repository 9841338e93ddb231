"""log/epochs.py; the bytes of the checkpoint are compared with Kafka's own in test_producers.py (marker oracle)."""

from __future__ import annotations

import pytest

from ottla.log.disk.checkpoint import EpochEntry
from ottla.log.epochs import LeaderEpochs

ENTRIES = [EpochEntry(0, 0), EpochEntry(2, 10), EpochEntry(5, 30)]


@pytest.fixture
def epochs() -> LeaderEpochs:
    return LeaderEpochs(ENTRIES)


def test_assign_adds_only_what_is_new(epochs: LeaderEpochs) -> None:
    assert not epochs.assign(5, 30)
    assert not epochs.assign(5, 99)
    assert epochs.assign(6, 40)
    assert epochs.entries == (*ENTRIES, (6, 40))
    assert epochs.latest_epoch == 6


@pytest.mark.parametrize(
    ("epoch", "start", "left"),
    [(5, 20, [(0, 0), (2, 10), (5, 20)]), (3, 50, [(0, 0), (2, 10), (3, 50)]), (7, 10, [(0, 0), (7, 10)]), (0, 0, [(0, 0)])],
)
def test_assign_drops_what_contradicts(epochs: LeaderEpochs, epoch: int, start: int, left: list[tuple[int, int]]) -> None:
    assert epochs.assign(epoch, start)
    assert list(epochs.entries) == left


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (0, (0, 10)), (1, (0, 10)), (2, (2, 30)), (4, (2, 30)), (5, (5, 77)), (6, (-1, -1)), (99, (-1, -1))],
)
def test_end_offsets(epochs: LeaderEpochs, asked: int, answer: tuple[int, int]) -> None:
    assert epochs.end_offset_for(asked, 77) == answer


def test_end_offsets_of_epochs_before_all_known_ones() -> None:
    assert LeaderEpochs([EpochEntry(3, 12)]).end_offset_for(1, 77) == (1, 12)
    assert LeaderEpochs().end_offset_for(0, 77) == (-1, -1)


def test_epoch_of_an_offset(epochs: LeaderEpochs) -> None:
    assert [epochs.epoch_for(offset) for offset in (0, 9, 10, 29, 30, 1000)] == [0, 0, 2, 2, 5, 5]
    assert LeaderEpochs([EpochEntry(3, 12)]).epoch_for(11) == -1


@pytest.mark.parametrize(("end", "left"), [(31, 3), (30, 2), (11, 2), (10, 1), (1, 1), (0, 0)])
def test_truncation_from_the_end(epochs: LeaderEpochs, end: int, left: int) -> None:
    assert epochs.truncate_from_end(end) == (left < 3)
    assert list(epochs.entries) == ENTRIES[:left]


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, [(0, 0), (2, 10), (5, 30)]),
        (5, [(0, 5), (2, 10), (5, 30)]),
        (10, [(2, 10), (5, 30)]),
        (29, [(2, 29), (5, 30)]),
        (500, [(5, 500)]),
    ],
)
def test_truncation_from_the_start(epochs: LeaderEpochs, start: int, left: list[tuple[int, int]]) -> None:
    assert epochs.truncate_from_start(start) == (start > 0)
    assert list(epochs.entries) == left


def test_truncation_before_the_first_entry_changes_nothing() -> None:
    epochs = LeaderEpochs([EpochEntry(3, 12)])
    assert not epochs.truncate_from_start(11)
    assert epochs.entries == ((3, 12),)
    epochs.clear()
    assert epochs.latest_epoch == -1
    assert not epochs.truncate_from_start(5)
    assert not epochs.truncate_from_end(5)


def test_negative_numbers_are_our_own_bugs(epochs: LeaderEpochs) -> None:
    with pytest.raises(AssertionError):
        epochs.assign(-1, 0)
    with pytest.raises(AssertionError):
        epochs.assign(9, -1)
