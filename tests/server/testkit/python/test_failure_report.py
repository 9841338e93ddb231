"""The text that the report of a failed test has."""

from __future__ import annotations

from typing import Any

from ottla.server.testkit.python.failure_report import write_report


def request(seq: int, **fields: Any) -> dict[str, Any]:
    known = {"seq": seq, "at_ms": 1000 + seq, "connection": 2, "client_id": "app", "api": "Produce", "version": 9}
    return known | {"outcome": "answered", "took_us": 1500, "fault": None, "response": None} | fields


def test_nothing_is_nothing() -> None:
    assert write_report([], []) == ""


def test_a_line_for_each_fault_and_each_request() -> None:
    fault = {"id": "f1", "on": {"topic": "ö"}, "do": {"hold": True}, "active": True, "hits": 2, "matches": 3, "held": 1}
    partitions = [{"error_code": code} for code in (0, 6, 6, 3, 12_345)]
    text = write_report(
        [
            request(7, fault="f1", response={"throttle_time_ms": 0, "topics": [{"partitions": partitions}]}),
            request(57, outcome="waiting", took_us=0, client_id=None),
        ],
        [
            {**fault, "times": -1},
            {**fault, "id": "f2", "active": False, "on": None, "times": 3, "on_call": 2, "for_ms": 50, "act": "after"},
        ],
    )
    assert text.splitlines() == [
        'fault f1, active: 2 hits in 3 matches, 1 held; {"hold": true} on {"topic": "ö"}',
        'fault f2, over: 2 hits in 3 matches, 1 held; {"hold": true} on {}, times 3, on_call 2, for_ms 50, act after',
        "the last 2 requests, with the time since the first, by the broker's clock:",
        "    7  +0.000 s  connection 2 (app)  Produce v9  answered after 1.5 ms  by fault f1"
        "  NOT_LEADER_OR_FOLLOWER  UNKNOWN_TOPIC_OR_PARTITION  error 12345",
        "   57  +0.050 s  connection 2 (None)  Produce v9  waiting",
    ]
