"""Windows and token buckets, and that they say what Kafka's do."""

from __future__ import annotations

from typing import Final

import pytest

from ottla.server.quotas.rates import LONGEST_MS, Rate, TokenBucket, Windows, rounded_ms

ELEVEN = Windows(11, 1000)
"""The defaults of quota.window.num and quota.window.size.seconds."""


def test_whoever_begins_may_use_all_windows_but_one_at_once() -> None:
    rate = Rate(ELEVEN)
    rate.record(10_240, 0)
    assert rate.spanned_ms(0) == 10_000
    assert rate.per_second(0) == 1024.0
    assert rate.throttle_time_ms(1024, 0) == 0
    rate.record(1, 0)
    assert rate.throttle_time_ms(1024, 0) == 1  # 0.98 ms


def test_windows_roll() -> None:
    rate = Rate(ELEVEN)
    for second in range(30):
        rate.record(1000, second * 1000)
        assert rate.throttle_time_ms(1100, second * 1000) == 0
    assert rate.spanned_ms(29_000) == 10_000  # the current window and ten before it
    assert rate.per_second(29_999) == 11_000 / 10.999


def test_a_window_that_is_over_is_forgotten_after_all_windows() -> None:
    rate = Rate(ELEVEN)
    rate.record(100, 0)
    rate.record(50, 5_000)
    assert rate.per_second(10_999) == 150 / 10.999
    assert rate.per_second(11_000) == 50 / 10.0  # the first starts anew, and six seconds are not enough for ten windows
    assert not rate.is_idle(15_999)
    assert rate.is_idle(16_000)
    assert rate.per_second(16_000) == 0


def test_what_is_taken_back_leaves_the_time_of_the_window() -> None:
    """A fetch that is held back was counted and taken back: its window has begun, and time passes in it."""
    rate = Rate(ELEVEN)
    rate.record(20_000, 0)
    rate.record(-20_000, 0)
    assert rate.per_second(0) == 0
    rate.record(10_240, 67)
    assert rate.spanned_ms(67) == 10_067
    assert rate.throttle_time_ms(1024, 67) == 0


def test_one_window_is_its_own_span() -> None:
    rate = Rate(Windows(1, 2000))
    rate.record(5, 10)
    assert rate.spanned_ms(10) == 1  # never nothing
    assert rate.spanned_ms(1010) == 1000
    assert rate.per_second(1010) == 5.0
    assert rate.per_second(2010) == 0


def test_nothing_was_counted() -> None:
    rate = Rate(ELEVEN)
    assert rate.per_second(123) == 0
    assert rate.throttle_time_ms(1, 123) == 0
    assert rate.is_idle(123)


def test_a_bucket_is_full_at_first_and_fills_no_further() -> None:
    bucket = TokenBucket(ELEVEN)
    assert bucket.tokens(2.0, 5) == 22.0
    bucket.take(10, 2.0, 5)
    assert bucket.tokens(2.0, 1005) == 14.0
    assert bucket.tokens(2.0, 1_000_000) == 22.0
    assert bucket.throttle_time_ms(2.0, 1_000_000) == 0


def test_an_overdrawn_bucket_says_how_long_until_it_is_not() -> None:
    bucket = TokenBucket(ELEVEN)
    bucket.take(112, 1.0, 0)
    assert bucket.tokens(1.0, 0) == -101.0
    assert bucket.throttle_time_ms(1.0, 0) == 101_000
    assert not bucket.is_idle(50_000)
    assert bucket.throttle_time_ms(1.0, 100_000) == 1_000
    assert bucket.throttle_time_ms(1.0, 102_000) == 0
    assert not bucket.is_idle(111_999)
    assert bucket.is_idle(112_000)


def test_another_limit_counts_at_once() -> None:
    bucket = TokenBucket(Windows(10, 1000))
    bucket.take(5, 1.0, 0)
    assert bucket.tokens(0.1, 0) == 1.0
    assert bucket.tokens(1.0, 2_000) == 3.0


def test_a_limit_of_nothing_is_no_division_by_it() -> None:
    """max.connection.creation.rate may be 0 in a server.properties."""
    rate, bucket = Rate(ELEVEN), TokenBucket(ELEVEN)
    assert (rate.throttle_time_ms(0, 0), bucket.throttle_time_ms(0, 0)) == (0, 0)
    rate.record(1, 0)
    bucket.take(1, 0, 0)
    assert (rate.throttle_time_ms(0, 0), bucket.throttle_time_ms(0, 0)) == (LONGEST_MS, LONGEST_MS)


@pytest.mark.parametrize(("value", "rounded"), [(0.49, 0), (0.5, 1), (1.5, 2), (2.5, 3), (1e18, LONGEST_MS)])
def test_milliseconds_are_rounded_as_java_does(value: float, rounded: int) -> None:
    assert rounded_ms(value) == rounded


Step = tuple[int, float, int, int, float, bool]
"""At which time what was counted; ms spanned, throttle time and tokens left after it; and whether it was taken back then."""
KAFKA: Final[list[tuple[Windows, float, list[Step]]]] = [
    (Windows(1, 1000), 10.0, [
        (118, 0, 1, 0, 10.0, False),
        (15149, 40, 1, 3999, -30.0, False),
        (15792, 31, 643, 6457, -54.57, True),
        (19065, 30, 1, 2999, -51.84, False),
        (38910, 21, 1, 2099, -11.0, False),
        (39209, 10, 299, 2801, -18.01, True),
        (39737, 40, 827, 5273, -52.73, False),
        (58753, 12, 1, 1199, -2.0, True),
        (59277, 52, 524, 4676, -48.76, True),
        (59867, 62, 1114, 5086, -104.86, False),
        (60355, 0, 488, 5712, -99.98, False),
        (60904, 0, 1037, 5163, -94.49, False),
        (61221, 1, 1354, 4946, -92.32, False),
        (81140, 22, 1, 2199, -12.0, False),
    ]),
    (Windows(11, 1000), 0.5, [
        (513, 1, 10000, 0, 4.5, True),
        (1128, 3, 10615, 0, 1.808, False),
        (1134, 2, 10621, 0, -0.19, False),
        (1322, 3, 10809, 5191, -3.095, False),
        (1751, 2, 10238, 9762, -4.881, False),
        (2034, 5, 10521, 19479, -9.739, False),
        (2306, 0, 10793, 19207, -9.604, False),
        (16334, 4, 10000, 0, -6.59, False),
        (16432, 4, 10098, 5902, -10.54, False),
        (16570, 4, 10236, 13764, -14.471, True),
        (34031, 0, 10000, 0, -5.741, False),
        (36921, 4, 10890, 0, -8.296, False),
        (37494, 4, 10463, 5537, -12.009, False),
        (37977, 5, 10946, 15054, -16.768, False),
    ]),
    (Windows(3, 2000), 10.0, [
        (200, 11, 4000, 0, 49.0, False),
        (770, 12, 4570, 0, 42.7, False),
        (19420, 72, 4000, 3200, -12.0, True),
        (19841, 0, 4421, 0, -7.79, False),
        (20067, 1, 4647, 0, -6.53, False),
        (20693, 10, 5273, 0, -10.27, False),
        (37950, 60, 4000, 2000, 0.0, True),
        (38011, 70, 4061, 2939, -69.39, False),
        (38634, 10, 4684, 3316, -73.16, False),
        (39048, 60, 5098, 8902, -129.02, False),
        (39655, 60, 5705, 14295, -182.95, False),
        (39805, 11, 5855, 15245, -192.45, False),
        (45107, 31, 7157, 17043, -170.43, True),
        (45535, 51, 7585, 18615, -217.15, False),
    ]),
    (Windows(6, 1000), 12345.678, [
        (218, 24691, 5000, 0, 49383.068, False),
        (569, 12347, 5351, 0, 41369.401, False),
        (1096, 37039, 5878, 122, 10836.573, False),
        (1345, 37038, 5127, 3873, -23127.353, False),
        (11430, 74076, 5000, 1000, -1.932, False),
        (30053, 74074, 5000, 1000, 0.068, False),
        (30132, 37039, 5079, 3921, -36063.623, True),
        (35860, 61729, 5807, 5193, -27076.58, False),
        (36223, 24692, 5363, 1637, -47287.099, False),
        (36539, 49385, 5679, 5321, -92770.864, True),
        (48556, 74075, 5000, 1000, -18487.852, False),
        (48631, 74074, 5075, 6925, -91635.926, False),
        (48799, 12347, 5243, 7757, -101908.852, False),
        (49049, 61730, 5493, 12507, -160552.433, False),
    ]),
]  # fmt: skip
"""The results of the Rate and the TokenBucket of kafka-clients 4.4.0, by windows and limit."""


@pytest.mark.parametrize("number", range(len(KAFKA)))
def test_both_say_what_kafkas_do(number: int) -> None:
    windows, limit, steps = KAFKA[number]
    rate, bucket = Rate(windows), TokenBucket(windows)
    for now_ms, value, spanned_ms, throttle_time_ms, tokens, taken_back in steps:
        rate.record(value, now_ms)
        bucket.take(value, limit, now_ms)
        assert (rate.throttle_time_ms(limit, now_ms), rate.spanned_ms(now_ms)) == (throttle_time_ms, spanned_ms)
        assert bucket.tokens(limit, now_ms) == pytest.approx(tokens, abs=0.001)
        if taken_back:
            rate.record(-value, now_ms)
