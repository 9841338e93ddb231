"""A group's committed offset, while its coordinator moves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.pipeline.group_offsets import committed_offset


class Moving:
    """Fails with these codes, one after the other, before it answers."""

    def __init__(self, offset: int, *codes: int) -> None:
        self.offset, self.codes, self.waited = offset, list(codes), 0

    def committed(self, places: list[Any], timeout: float) -> list[Any]:
        assert timeout > 0
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return [SimpleNamespace(offset=self.offset)]

    def poll(self, timeout: float) -> None:
        self.waited += 1


def test_a_coordinator_that_moves_is_asked_again() -> None:
    moving: Any = Moving(
        7, KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS
    )
    assert committed_offset(moving, "t", 0, 60.0) == 7
    assert moving.waited == 3
    first: Any = Moving(0)
    assert committed_offset(first, "t", 0, 60.0) == 0
    none: Any = Moving(-1001)
    assert committed_offset(none, "t", 0, 60.0) is None


def test_other_errors_and_the_end_of_time_are_raised() -> None:
    for codes, timeout_s in (([KafkaError.GROUP_AUTHORIZATION_FAILED], 60.0), ([KafkaError.NOT_COORDINATOR], 0.0)):
        one: Any = Moving(7, *codes)
        with pytest.raises(KafkaException):
            committed_offset(one, "t", 0, timeout_s)
        assert one.waited == 0
