"""ShareAcknowledge at every version: sessions, each type, and each refusal."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.share.states import ACCEPT, GAP, REJECT, RELEASE, RENEW
from ottla.wire.errors import ErrorCode
from tests.fakes import MemoryBroker
from tests.log.support import batch
from tests.server.handlers.data_calls import produce, versions
from tests.server.handlers.share_calls import Member, acquired, errors, parts, share_broker
from tests.server.share.support import LOCK_SECONDS

T0 = ("t", 0)


@pytest.fixture
def broker() -> MemoryBroker:
    broker, _ = share_broker({"t": 2})
    produce(broker, "t", batch(10))
    return broker


def holding(broker: MemoryBroker, version: int = 2) -> Member:
    """A member with all ten records."""
    member = Member(broker, version=version)
    assert acquired(member.fetch([T0])) == {T0: [(0, 9, 1)]}
    return member


@pytest.mark.parametrize("version", versions("share_acknowledge"))
@pytest.mark.parametrize("kind", [GAP, ACCEPT, RELEASE, REJECT])
def test_every_version_takes_acknowledgements(broker: MemoryBroker, version: int, kind: int) -> None:
    member = holding(broker, version)
    answer = member.acknowledge({T0: [(0, 4, [kind]), (5, 9, [kind] * 5)]})
    assert (answer.error_code, errors(answer)) == (ErrorCode.NONE, {T0: ErrorCode.NONE})
    again = acquired(Member(broker, "other").fetch([T0]))
    assert again == ({T0: [(0, 9, 2)]} if kind == RELEASE else {})


def test_the_duration_of_locks_is_answered(broker: MemoryBroker) -> None:
    assert holding(broker).acknowledge({T0: [(0, 9, [ACCEPT])]}).acquisition_lock_timeout_ms == LOCK_SECONDS * 1000


def test_renewing(broker: MemoryBroker) -> None:
    member = holding(broker)
    broker.clock.advance(20)
    assert errors(member.acknowledge({T0: [(0, 9, [RENEW])]}, renews=True)) == {T0: ErrorCode.NONE}
    broker.clock.advance(20)
    assert errors(member.acknowledge({T0: [(0, 9, [ACCEPT])]})) == {T0: ErrorCode.NONE}


@pytest.mark.parametrize(
    ("version", "batches", "renews"),
    [
        (2, [(4, 3, [ACCEPT])], False),
        (2, [(5, 9, [ACCEPT]), (0, 4, [ACCEPT])], False),
        (2, [(0, 4, [])], False),
        (2, [(0, 4, [ACCEPT, ACCEPT])], False),
        (2, [(0, 4, [5])], True),
        (2, [(0, 4, [-1])], False),
        (2, [(0, 4, [RENEW])], False),
        (1, [(0, 4, [RENEW])], False),
    ],
)
def test_what_makes_no_sense(broker: MemoryBroker, version: int, batches: Any, renews: bool) -> None:
    member = holding(broker, version)
    assert errors(member.acknowledge({T0: batches}, renews=renews)) == {T0: ErrorCode.INVALID_REQUEST}
    assert errors(member.acknowledge({T0: [(0, 9, [ACCEPT])]})) == {T0: ErrorCode.NONE}


def test_each_partition_has_its_own_answer(broker: MemoryBroker) -> None:
    member = holding(broker)
    accept = [(0, 9, [ACCEPT])]
    answer = member.acknowledge({T0: accept, ("t", 1): accept, ("t", 7): accept, ("nix", 0): accept})
    assert errors(answer) == {
        T0: ErrorCode.NONE,
        ("t", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # nobody fetches there
        ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nix", 0): ErrorCode.UNKNOWN_TOPIC_ID,
    }


def test_who_does_not_hold_them(broker: MemoryBroker) -> None:
    holding(broker)
    other = Member(broker, "other")
    other.fetch([T0])
    answer = other.acknowledge({T0: [(0, 9, [ACCEPT])]})
    assert errors(answer) == {T0: ErrorCode.INVALID_RECORD_STATE}
    assert parts(answer)[T0].error_message


def test_partitions_without_any_are_answered_only_beside_others(broker: MemoryBroker) -> None:
    member = holding(broker)
    assert errors(member.acknowledge({T0: []})) == {}
    assert errors(member.acknowledge({T0: [(0, 9, [ACCEPT])], ("t", 1): []})) == {T0: 0, ("t", 1): 0}


def test_the_end_of_a_session_releases_what_is_left(broker: MemoryBroker) -> None:
    member = holding(broker)
    assert errors(member.acknowledge({T0: [(0, 4, [ACCEPT])]}, epoch=-1)) == {T0: ErrorCode.NONE}
    assert acquired(Member(broker, "other").fetch([T0])) == {T0: [(5, 9, 2)]}
    assert member.acknowledge({}, epoch=-1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(0, ErrorCode.INVALID_SHARE_SESSION_EPOCH), (2, ErrorCode.INVALID_SHARE_SESSION_EPOCH), (1, ErrorCode.NONE)],
)
def test_epochs(broker: MemoryBroker, epoch: int, code: ErrorCode) -> None:
    assert holding(broker).acknowledge({T0: [(0, 9, [ACCEPT])]}, epoch=epoch).error_code == code


def test_no_session(broker: MemoryBroker) -> None:
    member = Member(broker)
    assert member.acknowledge({}, epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert member.acknowledge({}, epoch=0).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_who_asks(broker: MemoryBroker) -> None:
    assert Member(broker).acknowledge({}, group_id=None).error_code == ErrorCode.INVALID_REQUEST
    assert Member(broker, "").acknowledge({}).error_code == ErrorCode.INVALID_REQUEST
    del broker.image.features["share.version"]
    assert Member(broker).acknowledge({}).error_code == ErrorCode.UNSUPPORTED_VERSION
