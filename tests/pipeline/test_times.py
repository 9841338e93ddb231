"""pipeline/times.py: moments within a millisecond, and on both sides of 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from ottla.pipeline.times import ceil_ms, micros_since_1970

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "micros", [0, 1, 999, 1000, 1001, -1, -999, -1000, -1001, 1_795_251_600_000_001, -62_135_596_800_000_000]
)
def test_microseconds_are_exact_and_milliseconds_rounded_up(micros: int) -> None:
    for zone in (UTC, timezone(timedelta(hours=5, minutes=30))):
        if micros < -62_135_500_000_000_000 and zone is not UTC:
            continue  # the first day that there is has no earlier one in another zone
        moment = (EPOCH + timedelta(microseconds=micros)).astimezone(zone)
        assert micros_since_1970(moment) == micros
        assert (ceil_ms(moment) - 1) * 1000 < micros <= ceil_ms(moment) * 1000
