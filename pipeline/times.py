"""Converts moments to the whole milliseconds in which records have their times, exactly: floating point loses microseconds.

A moment within a millisecond, such as 09:00:00.0004, is rounded up wherever it begins or ends a range: the records of the
millisecond in which it lies are earlier than it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def micros_since_1970(moment: datetime) -> int:
    """Returns the time in microseconds. A moment without a time zone is in that of the computer."""
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


def ceil_ms(moment: datetime) -> int:
    """Returns the first whole millisecond since 1970 that is not earlier than the moment."""
    return -(-micros_since_1970(moment) // 1000)
