"""The arithmetic of `scripts.bench.several_cores`."""

from __future__ import annotations

import struct

from scripts.bench.several_cores import ERROR_AT, TOPIC, compared, summed


def said(requests: float, per_s: float, cpu_s: float) -> dict[str, float]:
    return {"requests": requests, "seconds": requests / per_s, "requests_per_s": per_s, "cpu_s": cpu_s}


def test_senders_are_summed_and_cpu_is_a_request() -> None:
    assert summed([said(100_000, 50_000, 0.2), said(60_000, 30_000, 0.12)], 1.6) == {
        "requests_per_s": 80_000,
        "broker_us_per_request": 10.0,
        "sender_us_per_request": 2.0,
        "requests_per_s_of_a_core": 100_000,
    }


def test_two_are_compared_with_one_as_measured_and_by_their_cpu() -> None:
    one, two = summed([said(100_000, 50_000, 0.25)], 1.0), summed([said(50_000, 40_000, 0.1)] * 2, 1.25)
    assert compared(one, two) == {"measured": 1.6, "without_sender": 1.6, "possible": 1.6}
    assert compared(one, one) == {"measured": 1.0, "without_sender": 2.0, "possible": 1.6}


def test_the_error_code_of_an_answer_is_where_the_sender_looks() -> None:
    name = struct.pack(">h", len(TOPIC)) + TOPIC.encode()
    answer = struct.pack(">iii", 0, 0, 1) + name + struct.pack(">iih", 1, 0, 42)
    assert struct.unpack_from(">h", answer, ERROR_AT) == (42,)
