"""These tests cover txn/state.py: what each operation does with a transaction, case by case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.server.txn import state as rules
from ottla.server.txn.errors import TransactionError
from ottla.server.txn.state import TRANSITIONS, Answered, Expected, State, Transaction
from ottla.wire.errors import ErrorCode

EMPTY, ONGOING, DEAD, FENCING = State.EMPTY, State.ONGOING, State.DEAD, State.PREPARE_EPOCH_FENCE
PREPARE_COMMIT, PREPARE_ABORT = State.PREPARE_COMMIT, State.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = State.COMPLETE_COMMIT, State.COMPLETE_ABORT
IDLE, ENDING = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT), (PREPARE_COMMIT, PREPARE_ABORT)
LIVING = (EMPTY, ONGOING, *ENDING, COMPLETE_COMMIT, COMPLETE_ABORT)

T0, T1 = ("t", 0), ("t", 1)
LAST, EXHAUSTED = 32767, 32766

FENCED, CONCURRENT = ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS
MAPPING, INVALID = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE


def of(state: State = EMPTY, epoch: int = 5, **changes: Any) -> Transaction:
    """Returns a transaction of producer 7 with a timeout of 60 s; it was updated at 1000 and begun at 900."""
    made = Transaction("tx", 7, 60_000, 1000, state, epoch, last_producer_epoch=4, previous_producer_id=6, started_ms=900)
    return made._replace(partitions=frozenset({T0}) if state in (ONGOING, *ENDING) else frozenset(), **changes)


def outcome(operation: Callable[[], Any]) -> Any:
    """Returns the result of an operation, or the code of its refusal."""
    try:
        return operation()
    except TransactionError as error:
        return error.code


# States


def test_numbers_and_names_are_those_of_the_log_and_of_clients() -> None:
    assert {state.value: state.text for state in State} == {
        0: "Empty",
        1: "Ongoing",
        2: "PrepareCommit",
        3: "PrepareAbort",
        4: "CompleteCommit",
        5: "CompleteAbort",
        6: "Dead",
        7: "PrepareEpochFence",
    }


def test_transitions() -> None:
    assert {(before, after) for before, allowed in TRANSITIONS.items() for after in allowed} == {
        (EMPTY, EMPTY),
        (EMPTY, ONGOING),
        (EMPTY, PREPARE_ABORT),
        (ONGOING, ONGOING),
        (ONGOING, PREPARE_COMMIT),
        (ONGOING, PREPARE_ABORT),
        (PREPARE_COMMIT, COMPLETE_COMMIT),
        (PREPARE_ABORT, COMPLETE_ABORT),
        (COMPLETE_COMMIT, EMPTY),
        (COMPLETE_COMMIT, ONGOING),
        (COMPLETE_COMMIT, PREPARE_ABORT),
        (COMPLETE_ABORT, EMPTY),
        (COMPLETE_ABORT, ONGOING),
        (COMPLETE_ABORT, PREPARE_ABORT),
    }
    assert TRANSITIONS.keys() == set(State)


@pytest.mark.parametrize("state", State)
def test_what_a_state_is(state: State) -> None:
    transaction = of(state)
    assert (transaction.is_idle, transaction.is_ending) == (state in IDLE, state in ENDING)


@pytest.mark.parametrize(("epoch", "exhausted"), [(-1, False), (EXHAUSTED - 1, False), (EXHAUSTED, True), (LAST, True)])
def test_the_last_epoch_is_no_clients(epoch: int, exhausted: bool) -> None:
    assert of(epoch=epoch).is_exhausted is exhausted


@pytest.mark.parametrize("state", LIVING)
@pytest.mark.parametrize(("now_ms", "late"), [(60_899, False), (60_900, False), (60_901, True)])
def test_only_what_is_open_is_overdue(state: State, now_ms: int, late: bool) -> None:
    assert of(state).is_overdue(now_ms) is (late and state is ONGOING)


def test_a_new_id_knows_nothing() -> None:
    assert Transaction("tx", 7, 60_000, 1000) == (*("tx", 7, 60_000, 1000, EMPTY, -1, -1, -1, -1, frozenset(), -1, 0),)


# InitProducerId


@pytest.mark.parametrize("state", LIVING)
@pytest.mark.parametrize(
    ("expected", "refused"),
    [
        (None, None),
        (Expected(7, 5), None),
        (Expected(7, 0), None),
        (Expected(8, 5), FENCED),
        (Expected(6, EXHAUSTED - 1), FENCED),
        (Expected(6, EXHAUSTED), None),
        (Expected(6, LAST), None),
        (Expected(8, EXHAUSTED), FENCED),
    ],
)
def test_who_may_begin_anew(state: State, expected: Expected | None, refused: ErrorCode | None) -> None:
    wanted = refused or (CONCURRENT if state in ENDING else None)
    assert outcome(lambda: rules.check_init(of(state), expected)) is wanted


def test_before_anybody_was_given_an_epoch_any_id_may_begin() -> None:
    rules.check_init(of(epoch=-1), Expected(99, 3))


@pytest.mark.parametrize(
    ("epoch", "expected", "needed"),
    [
        (EXHAUSTED - 1, None, False),
        (EXHAUSTED, None, True),
        (LAST, None, True),
        (EXHAUSTED, Expected(7, EXHAUSTED), True),
        (EXHAUSTED, Expected(7, EXHAUSTED - 1), False),
        (5, Expected(7, 5), False),
    ],
)
def test_who_needs_another_id(epoch: int, expected: Expected | None, needed: bool) -> None:
    assert rules.init_needs_id(of(epoch=epoch), expected) is needed


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize(
    ("epoch", "expected", "wanted"),
    [
        (5, None, (7, 6, -1)),
        (-1, None, (7, 0, -1)),
        (EXHAUSTED - 1, None, (7, EXHAUSTED, -1)),
        (EXHAUSTED, None, (99, 0, -1)),
        (LAST, None, (99, 0, -1)),
        (5, Expected(7, 5), (7, 6, 5)),
        (-1, Expected(7, 3), (7, 0, -1)),
        (5, Expected(7, 4), (7, 5, 4)),
        (5, Expected(7, 3), FENCED),
        (5, Expected(7, 6), FENCED),
        (EXHAUSTED, Expected(7, EXHAUSTED), (99, 0, EXHAUSTED)),
        (EXHAUSTED, Expected(7, 4), (7, EXHAUSTED, 4)),
        (LAST, Expected(7, 4), FENCED),
    ],
)
def test_what_a_new_producer_gets(state: State, epoch: int, expected: Expected | None, wanted: Any) -> None:
    before = of(state, epoch, client_version=2)
    after = outcome(lambda: rules.begin_anew(before, 5_000, expected, 2000, 99))
    if isinstance(wanted, ErrorCode):
        assert after is wanted
        return
    producer_id, producer_epoch, last = wanted
    assert after == Transaction(
        "tx", producer_id, 5_000, 2000, EMPTY, producer_epoch, last, 7, -1, frozenset(), -1, client_version=2
    )


@pytest.mark.parametrize("state", [ONGOING, *ENDING])
def test_what_is_under_way_is_not_begun_anew(state: State) -> None:
    with pytest.raises(AssertionError):
        rules.begin_anew(of(state), 5_000, None, 2000, 99)


# Partitions


@pytest.mark.parametrize("state", LIVING)
@pytest.mark.parametrize(
    ("producer", "refused"), [((7, 5), None), ((8, 5), MAPPING), ((8, 4), MAPPING), ((7, 4), FENCED), ((7, 6), FENCED)]
)
def test_who_may_add_partitions(state: State, producer: tuple[int, int], refused: ErrorCode | None) -> None:
    wanted = refused or (CONCURRENT if state in ENDING else None)
    assert outcome(lambda: rules.check_owner(of(state), *producer)) is wanted


@pytest.mark.parametrize("state", IDLE)
def test_a_transaction_begins_with_its_first_partition(state: State) -> None:
    before = of(state)
    after = rules.add_partitions(before, [T1], 2000, 2)
    assert after == before._replace(
        state=ONGOING,
        partitions=frozenset({T1}),
        started_ms=2000,
        updated_ms=2000,
        client_version=2,
        previous_producer_id=7,
    )
    assert rules.add_partitions(before, [], 2000, 0).state is ONGOING


def test_a_transaction_goes_on_with_more_partitions() -> None:
    before = of(ONGOING)
    assert rules.add_partitions(before, [T0], 2000, 2) is before
    after = rules.add_partitions(before, [T0, T1], 2000, 2)
    assert (after.partitions, after.started_ms, after.updated_ms) == (frozenset({T0, T1}), 900, 2000)


@pytest.mark.parametrize("state", ENDING)
def test_nothing_is_added_to_what_is_decided(state: State) -> None:
    with pytest.raises(AssertionError):
        rules.add_partitions(of(state), [T1], 2000, 2)


# The end


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("state", LIVING)
@pytest.mark.parametrize("producer", [(7, 5), (8, 5), (7, 4), (7, 6)])
def test_who_may_end(commit: bool, version: int, state: State, producer: tuple[int, int]) -> None:
    found = outcome(lambda: rules.check_end(of(state), *producer, commit=commit, version=version))
    if producer != (7, 5):
        assert found is (MAPPING if producer[0] == 8 else FENCED)
        return
    done, deciding = (COMPLETE_COMMIT, PREPARE_COMMIT) if commit else (COMPLETE_ABORT, PREPARE_ABORT)
    wanted = {ONGOING: None, done: Answered(-1, -1), deciding: CONCURRENT}
    assert found == wanted.get(state, INVALID)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", LIVING)
def test_who_may_end_with_version_2(commit: bool, state: State) -> None:
    done, deciding = (COMPLETE_COMMIT, PREPARE_COMMIT) if commit else (COMPLETE_ABORT, PREPARE_ABORT)

    def check(*producer: int) -> Any:
        return outcome(lambda: rules.check_end(of(state), *producer, commit=commit, version=2))

    assert (check(8, 5), check(6, 5), check(6, EXHAUSTED)) == (MAPPING, MAPPING, MAPPING)
    assert (check(7, 6), check(7, 3)) == (FENCED, FENCED)
    again = {done: Answered(7, 5), deciding: CONCURRENT}
    assert check(7, 4) == (FENCED if state in (EMPTY, ONGOING) else again.get(state, INVALID))
    current: Any = INVALID
    if state is ONGOING or (not commit and state in IDLE):
        current = None
    elif state in ENDING:
        current = FENCED
    assert check(7, 5) == current


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", LIVING)
def test_who_asks_again_after_its_id_was_used_up(commit: bool, state: State) -> None:
    rotated = of(state, epoch=0)
    found = outcome(lambda: rules.check_end(rotated, 6, EXHAUSTED, commit=commit, version=2))
    if state in (COMPLETE_COMMIT, COMPLETE_ABORT):
        assert found == (Answered(7, 0) if (state is COMPLETE_COMMIT) is commit else INVALID)
    else:
        assert found is FENCED
    assert outcome(lambda: rules.check_end(rotated, 6, EXHAUSTED - 1, commit=commit, version=2)) is MAPPING
    assert outcome(lambda: rules.check_end(of(state, epoch=1), 6, EXHAUSTED, commit=commit, version=2)) is MAPPING


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, 1])
def test_a_decision_keeps_the_epoch(commit: bool, version: int) -> None:
    before = of(ONGOING, client_version=2, next_producer_id=3)
    after = rules.end(before, 2000, commit=commit, version=version, new_producer_id=99)
    assert after == before._replace(
        state=PREPARE_COMMIT if commit else PREPARE_ABORT,
        updated_ms=2000,
        client_version=0,
        next_producer_id=-1,
        previous_producer_id=7,
    )


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(("epoch", "raised"), [(5, 6), (EXHAUSTED, LAST), (LAST, LAST)])
def test_a_decision_raises_the_epoch_with_version_2(commit: bool, epoch: int, raised: int) -> None:
    before = of(ONGOING, epoch)
    after = rules.end(before, 2000, commit=commit, version=2, new_producer_id=99)
    assert after == before._replace(
        state=PREPARE_COMMIT if commit else PREPARE_ABORT,
        producer_epoch=raised,
        last_producer_epoch=epoch,
        updated_ms=2000,
        client_version=2,
        next_producer_id=99,
        previous_producer_id=7,
    )


@pytest.mark.parametrize("state", IDLE)
def test_an_abort_of_what_never_began_begins_when_it_ends(state: State) -> None:
    after = rules.end(of(state), 2000, commit=False, version=2, new_producer_id=-1)
    assert (after.state, after.started_ms) == (PREPARE_ABORT, 2000)
    with pytest.raises(AssertionError):
        rules.end(of(state), 2000, commit=True, version=2, new_producer_id=-1)


@pytest.mark.parametrize(
    ("version", "epoch", "wanted"),
    [(0, 5, (6, -1, 0)), (1, 5, (6, -1, 0)), (1, LAST, (LAST, -1, 0)), (2, 5, (6, 5, 2)), (2, LAST, (LAST, LAST, 2))],
)
def test_a_fence_raises_the_epoch_once(version: int, epoch: int, wanted: tuple[int, int, int]) -> None:
    after = rules.fence(of(ONGOING, epoch), 2000, version=version, new_producer_id=99)
    assert (after.producer_epoch, after.last_producer_epoch, after.client_version) == wanted
    assert (after.state, after.updated_ms, after.started_ms) == (PREPARE_ABORT, 2000, 900)
    assert after.next_producer_id == (99 if version == 2 else -1)


@pytest.mark.parametrize("state", [EMPTY, *ENDING, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_only_what_is_open_is_fenced(state: State) -> None:
    with pytest.raises(AssertionError):
        rules.fence(of(state), 2000, version=2, new_producer_id=-1)


@pytest.mark.parametrize(("before", "after"), [(PREPARE_COMMIT, COMPLETE_COMMIT), (PREPARE_ABORT, COMPLETE_ABORT)])
@pytest.mark.parametrize(
    ("client_version", "next_id", "wanted"),
    [(2, -1, (7, 5)), (2, 99, (99, 0)), (3, 99, (99, 0)), (1, 99, (7, 5)), (0, 99, (7, 5)), (2, 0, (0, 0))],
)
def test_the_end_is_complete(before: State, after: State, client_version: int, next_id: int, wanted: tuple[int, int]) -> None:
    deciding = of(before, client_version=client_version, next_producer_id=next_id)
    producer_id, epoch = wanted
    assert rules.complete(deciding, 2000) == deciding._replace(
        state=after,
        producer_id=producer_id,
        producer_epoch=epoch,
        previous_producer_id=7,
        next_producer_id=-1,
        partitions=frozenset(),
        updated_ms=2000,
    )


@pytest.mark.parametrize("state", [EMPTY, ONGOING, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD, FENCING])
def test_only_what_is_decided_can_be_complete(state: State) -> None:
    with pytest.raises(AssertionError):
        rules.complete(of(state), 2000)
