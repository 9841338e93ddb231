"""Every exception of the log has its code; anything else is a bug and comes through."""

from __future__ import annotations

import pytest

from ottla.log import errors as log_errors
from ottla.log.errors import (
    CorruptLog,
    CorruptSnapshot,
    InvalidProducerEpoch,
    LogError,
    NotValidated,
    PolicyViolation,
    RecordListTooLarge,
    RecordTooLarge,
)
from ottla.server.base.errors import NotEnoughReplicas, NotLeaderOrFollower, append_error, code_of
from ottla.wire.errors import ErrorCode

NEVER_SENT = {LogError, CorruptSnapshot, NotValidated}


@pytest.mark.parametrize(
    "kind", [each for each in vars(log_errors).values() if isinstance(each, type) and issubclass(each, LogError)]
)
def test_each_class_has_a_code(kind: type[LogError]) -> None:
    if kind in NEVER_SENT or kind.__name__.startswith("_"):
        with pytest.raises(kind):
            code_of(kind("why"))
    else:
        assert code_of(kind("why")) is not ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_leadership_that_ended_is_answered_as_another_leader_s_partition() -> None:
    assert code_of(NotLeaderOrFollower("x")) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_rest_is_raised_again_and_so_becomes_a_closed_connection_and_a_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        code_of(ZeroDivisionError())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RecordTooLarge("x"), ErrorCode.MESSAGE_TOO_LARGE),
        (RecordListTooLarge("x"), ErrorCode.RECORD_LIST_TOO_LARGE),
        (InvalidProducerEpoch("x"), ErrorCode.INVALID_PRODUCER_EPOCH),
        (OSError("x"), ErrorCode.NOT_COORDINATOR),
        (CorruptLog("x"), ErrorCode.NOT_COORDINATOR),
        (NotLeaderOrFollower("x"), ErrorCode.NOT_COORDINATOR),
        (NotEnoughReplicas("x"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (PolicyViolation("x"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_what_a_failed_append_of_a_coordinator_means_to_its_clients(error: Exception, code: ErrorCode) -> None:
    assert append_error(error) is code
