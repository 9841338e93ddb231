"""The scenarios of Kafka's LeaderEpochFileCacheTest, restated: what leader epochs a log remembers, and what it answers of them.

A row of CASES or of the tests below each covers the cases of Kafka's class that its `covers` names. What does not apply:

- testFindPreviousEpoch, testFindPreviousEntry, testPreviousEpoch, testFindNextEpoch, testGetEpochEntry: look-ups for tiered
  storage, which there is not; the order of the entries that they rely on is checked by every row here;
- the asynchronous flush of some cases: our list is written by the log's own flush and close, and a test of the log follows at
  the end for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ottla.log.disk.checkpoint import EpochEntry, parse_epochs
from ottla.log.epochs import LeaderEpochs
from tests.log.support import Rig, batch, settings

UNDEFINED = (-1, -1)
THREE = ((2, 6), (3, 8), (4, 11))


@dataclass(frozen=True)
class Case:
    """`begun` are the (epoch, offset) that leaders began at, in order; then `change` happens; then the list is `left`, and
    `answers` are what is asked (epoch, log end) and answered."""

    name: str
    covers: str
    begun: tuple[tuple[int, int], ...]
    left: tuple[tuple[int, int], ...]
    answers: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = ()
    change: Callable[[LeaderEpochs], object] | None = None


def cut_end(offset: int) -> Callable[[LeaderEpochs], object]:
    return lambda epochs: epochs.truncate_from_end(offset)


def cut_start(offset: int) -> Callable[[LeaderEpochs], object]:
    return lambda epochs: epochs.truncate_from_start(offset)


CASES = (
    Case("one leader", "shouldAddEpochAndMessageOffsetToCache", ((2, 10),), ((2, 10),), (((2, 11), (2, 11)),)),
    Case(
        "the current epoch ends at the log's end",
        "shouldReturnLogEndOffsetIfLatestEpochRequested",
        ((2, 11), (2, 12)),
        ((2, 11),),
        (((2, 14), (2, 14)),),
    ),
    Case(
        "who asks for no epoch is told none",
        "shouldReturnUndefinedOffsetIfUndefinedEpochRequested",
        ((2, 11), (3, 12)),
        ((2, 11), (3, 12)),
        (((-1, 0), UNDEFINED),),
    ),
    Case(
        "an epoch begins once",
        "shouldNotOverwriteLogEndOffsetForALeaderEpochOnceItHasBeenAssigned, "
        "shouldNotOverwriteOffsetForALeaderEpochOnceItHasBeenAssigned, shouldNotUpdateEpochAndStartOffsetIfItDidNotChange",
        ((2, 6), (2, 7), (2, 10)),
        ((2, 6),),
    ),
    Case(
        "a leader that wrote nothing is replaced",
        "shouldEnforceMonotonicallyIncreasingStartOffsets",
        ((2, 9), (3, 9)),
        ((3, 9),),
    ),
    Case(
        "an empty list knows nothing",
        "shouldReturnUnsupportedIfNoEpochRecorded, shouldReturnUnsupportedIfNoEpochRecordedAndUndefinedEpochRequested, "
        "shouldFetchEndOffsetOfEmptyCache, shouldFetchLatestEpochOfEmptyCache",
        (),
        (),
        (((0, 0), UNDEFINED), ((-1, 73), UNDEFINED), ((7, 0), UNDEFINED)),
    ),
    Case(
        "an epoch before all known ones ended where they begin",
        "shouldReturnFirstEpochIfRequestedEpochLessThanFirstEpoch",
        ((5, 11), (6, 12), (7, 13)),
        ((5, 11), (6, 12), (7, 13)),
        (((4, 0), (4, 11)),),
    ),
    Case(
        "the same epoch again, earlier: what lies between is gone",
        "shouldTruncateIfMatchingEpochButEarlierStartingOffset",
        ((5, 11), (6, 12), (7, 13), (7, 12)),
        ((5, 11), (7, 12)),
        (((5, 0), (5, 12)), ((6, 0), (5, 12))),
    ),
    Case(
        "an older epoch ends where the next begins",
        "shouldGetFirstOffsetOfSubsequentEpochWhenOffsetRequestedForPreviousEpoch",
        ((1, 11), (1, 12), (2, 13), (2, 14), (3, 15), (3, 16)),
        ((1, 11), (2, 13), (3, 15)),
        (((2, 17), (2, 15)),),
    ),
    Case(
        "an epoch that wrote nothing is answered with the one before it",
        "shouldReturnNextAvailableEpochIfThereIsNoExactEpochForTheOneRequested",
        ((0, 10), (2, 13), (4, 17)),
        ((0, 10), (2, 13), (4, 17)),
        (((1, 0), (0, 13)), ((2, 0), (2, 17)), ((3, 0), (2, 17))),
    ),
    Case(
        "an epoch yet to come is unknown",
        "shouldReturnInvalidOffsetIfEpochIsRequestedWhichIsNotCurrentlyTracked",
        ((2, 100),),
        ((2, 100),),
        (((3, 100), UNDEFINED),),
    ),
    Case(
        "the first need not be 0",
        "shouldSupportEpochsThatDoNotStartFromZero",
        ((2, 6),),
        ((2, 6),),
        (((2, 7), (2, 7)),),
    ),
    Case(
        "an epoch that goes back takes the later ones away",
        "shouldEnforceMonotonicallyIncreasingEpochs",
        ((1, 5), (2, 6), (1, 7)),
        ((1, 7),),
        (((1, 8), (1, 8)), ((2, 8), UNDEFINED)),
    ),
    Case("an offset that goes back does", "shouldEnforceOffsetsIncreaseMonotonically", ((2, 6), (3, 5)), ((3, 5),)),
    Case(
        "leaders change, the first before it wrote",
        "shouldIncreaseAndTrackEpochsAsLeadersChangeManyTimes",
        ((0, 0), (1, 0), (2, 5)),
        ((1, 0), (2, 5)),
        (((2, 10), (2, 10)), ((1, 10), (1, 5)), ((0, 10), (0, 0))),
    ),
    Case(
        "a follower takes many batches",
        "shouldIncreaseAndTrackEpochsAsFollowerReceivesManyMessages",
        ((0, 0), (0, 1), (0, 2), (1, 3), (1, 4), (1, 5), (2, 6), (2, 7), (2, 8)),
        ((0, 0), (1, 3), (2, 6)),
        (((2, 9), (2, 9)), ((1, 9), (1, 6)), ((0, 9), (0, 3))),
    ),
    Case(
        "cut at an epoch's start",
        "shouldDropEntriesOnEpochBoundaryWhenRemovingLatestEntries",
        THREE,
        THREE[:1],
        change=cut_end(8),
    ),
    Case(
        "cut inside an epoch",
        "shouldDropEntriesBetweenEpochBoundaryWhenRemovingNewest",
        THREE,
        THREE[:2],
        (((3, 9), (3, 9)),),
        cut_end(9),
    ),
    Case(
        "the log begins where an epoch does",
        "shouldPreserveResetOffsetOnClearEarliestIfOneExists",
        THREE,
        THREE[1:],
        change=cut_start(8),
    ),
    Case(
        "the log begins inside an epoch",
        "shouldUpdateSavedOffsetWhenOffsetToClearToIsBetweenEpochs, shouldUpdateOffsetBetweenEpochBoundariesOnClearEarliest",
        THREE,
        ((3, 9), (4, 11)),
        change=cut_start(9),
    ),
    Case(
        "the log begins inside the first",
        "shouldUpdateOffsetBetweenEpochBoundariesOnClearEarliest2",
        ((0, 0), (1, 7), (2, 10)),
        ((0, 5), (1, 7), (2, 10)),
        change=cut_start(5),
    ),
    Case("the log begins before all", "shouldNotClearAnythingIfOffsetToEarly", THREE, THREE, change=cut_start(1)),
    Case("the log begins at the first", "shouldNotClearAnythingIfOffsetToFirstOffset", THREE, THREE, change=cut_start(6)),
    Case("the log begins at the last", "shouldRetainLatestEpochOnClearAllEarliest", THREE, THREE[2:], change=cut_start(11)),
    Case(
        "the log begins beyond the last",
        "shouldRetainLatestEpochOnClearAllEarliestAndUpdateItsOffset",
        THREE,
        ((4, 15),),
        change=cut_start(15),
    ),
    Case("all are forgotten", "shouldClearAllEntries", THREE, (), change=LeaderEpochs.clear),
    Case("no known start", "shouldNotResetEpochHistoryHeadIfUndefinedPassed", THREE, THREE, change=cut_start(-1)),
    Case("no known end", "shouldNotResetEpochHistoryTailIfUndefinedPassed", THREE, THREE, change=cut_end(-1)),
    Case("nothing to cut at the start", "shouldClearEarliestOnEmptyCache", (), (), change=cut_start(7)),
    Case("nothing to cut at the end", "shouldClearLatestOnEmptyCache", (), (), change=cut_end(7)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_remembered_and_answered(case: Case) -> None:
    epochs = LeaderEpochs()
    for epoch, offset in case.begun:
        epochs.assign(epoch, offset)
    if case.change is not None:
        case.change(epochs)
    assert tuple(epochs.entries) == case.left
    assert epochs.latest_epoch == (case.left[-1][0] if case.left else -1)
    for (epoch, log_end), answer in case.answers:
        assert epochs.end_offset_for(epoch, log_end) == answer
    assert tuple(parse_epochs(epochs.encoded().decode())) == case.left


def test_the_epoch_that_wrote_an_offset() -> None:
    """shouldFetchEpochForGivenOffset"""
    epochs = LeaderEpochs()
    for epoch, offset in ((0, 10), (1, 20), (5, 30)):
        epochs.assign(epoch, offset)
    assert [epochs.epoch_for(offset) for offset in (5, 20, 25, 30, 50)] == [-1, 1, 1, 5, 5]


# The same through a log: the list must be on disk when it is needed.


def rig_of_three() -> Rig:
    """Epochs 2, 3 and 4 begin at offsets 0, 2 and 5 of 7."""
    rig = Rig(settings())
    for offset in range(7):
        rig.append(batch(), leader_epoch=2 if offset < 2 else 3 if offset < 5 else 4)
    return rig


def entries(rig: Rig) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in rig.log.epochs.entries]


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_finds_them_again(clean: bool) -> None:
    """shouldPersistEpochsBetweenInstances"""
    rig = rig_of_three()
    rig.restart(clean=clean)
    assert entries(rig) == [(2, 0), (3, 2), (4, 5)]
    assert rig.log.end_offset_for_epoch(3) == (3, 5)


def test_a_cut_is_in_the_file() -> None:
    """shouldWriteCheckpointOnTruncation"""
    rig = rig_of_three()
    rig.log.truncate_to(5)
    rig.log.delete_records_before(3)
    rig.log.flush()
    assert rig.disk.read_bytes(f"{rig.path}/leader-epoch-checkpoint") == b"0\n1\n3 3\n"
    rig.manager.checkpoint_pass()
    rig.restart(clean=False)
    assert entries(rig) == [(3, 3)]


@pytest.mark.parametrize("offset", [5, 6, 100])
def test_an_epoch_without_a_record_is_cut_although_there_is_nothing_to_cut(offset: int) -> None:
    """A leader began an epoch and wrote nothing before another was elected. Left in its list, it asks with that for ever."""
    rig = Rig()
    for _ in range(5):
        rig.append(leader_epoch=2)
    rig.log.begin_epoch(4)
    assert rig.log.truncate_to(offset) is False
    assert entries(rig) == [(2, 0)]
    assert rig.log.leader_epoch == 2
    assert rig.log.log_end_offset == 5
    rig.log.begin_epoch(4)
    assert entries(rig) == [(2, 0), (4, 5)]
    rig.append(leader_epoch=4)
    rig.log.flush()
    assert rig.disk.read_bytes(f"{rig.path}/leader-epoch-checkpoint") == b"0\n2\n2 0\n4 5\n"


def test_a_log_that_started_anew_knows_no_epoch() -> None:
    rig = Rig()
    rig.append(leader_epoch=7)
    rig.log.flush()
    rig.log.truncate_fully_and_start_at(20)
    assert (rig.log.leader_epoch, rig.log.epochs.entries) == (-1, ())
    rig.append(leader_epoch=7)
    assert rig.log.epochs.entries == (EpochEntry(7, 20),)
    assert rig.read(20) == [20]
