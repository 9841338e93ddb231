"""Tests of what a member of a share group is told when the share coordinator refuses: never that nobody knows what is wrong."""

from __future__ import annotations

import pytest

from ottla.server.share.persister import FENCING, to_share_error
from ottla.server.share_state.errors import ShareStateError
from ottla.wire.errors import ErrorCode

FETCHED_AGAIN = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND,
}


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
def test_every_refusal_has_a_code_that_says_something(code: ErrorCode) -> None:
    error = to_share_error(ShareStateError(code, "why"))
    assert error.code in FETCHED_AGAIN
    assert error.message == "why"


def test_a_share_partition_that_is_not_initialized_is_loaded_anew_once_it_is() -> None:
    code = to_share_error(ShareStateError(ErrorCode.INVALID_REQUEST)).code
    assert code is ErrorCode.OFFSET_NOT_AVAILABLE
    assert code in FENCING
