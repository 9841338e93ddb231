"""Tests of which records fit a filter, and what a filter that cannot be meant says."""

from __future__ import annotations

import json
from inspect import getclosurevars
from typing import Any

import pytest

from ottla.console.errors import BadInput
from ottla.console.records.filters import MAX_CONDITIONS, MAX_DECODED_BYTES, MAX_PATTERN, Filter, conditions, filter_of, regex

ORDER = {
    "order": {"id": 4711, "code": "4711", "paid": True, "note": None, "total": 12.5, "at": "2026-11-27", "odd name": 1},
    "items": [{"price": 3, "name": "Å"}, {"price": 12, "name": "b"}],
    "e": 1e3,
    "big": 2**63 + 1,
}


def holds(where: str, document: Any = ORDER) -> bool:
    return Filter(where=conditions(where)).fits(None, json.dumps(document).encode())


@pytest.mark.parametrize(
    "where",
    [
        "$.order.id = 4711",
        "order.id=4711",
        "$.order.id == 4711.0",
        "$.order.code = 4711",
        '$.order.code = "4711"',
        "$.order.at = 2026-11-27",
        "$.order.id",
        "$.order.note exists",
        "$.order.note = null",
        "$.order.paid = true",
        "$.order.paid != false",
        '$.order["odd name"] = 1',
        "$.order.id in 4000..5000",
        "$.order.total in 12.5..12.5",
        "$.order.at in 2026-11-01..2026-11-30",
        "$.order.total < 13 and $.order.total > 12 and $.order.total <= 12.5 AND $.order.total >= 12.5",
        '$.order.at ~ "^2026-"',
        "$.items[0].price = 3",
        "$.items[*].price = 12",
        "$.items[*].price > 10 && order.paid",
        '$.items[*].name ~ "^Å$"',
        "$.items[*].price != 4",
        "$.e = 1000",
        f"$.big = {2**63 + 1}",
        '$.order.at > "2025"',
        "$",
    ],
)
def test_what_holds(where: str) -> None:
    assert holds(where)


@pytest.mark.parametrize(
    "where",
    [
        "$.order.id = 4712",
        '$.order.id = "4711"',
        "$.order.paid = 1",
        "$.order.note = 0",
        "$.order.id = true",
        "$.order.missing",
        "$.order.missing != 1",
        "$.order.id != 4711",
        "$.items[*].price != 3",
        "$.items[2]",
        "$.items.price",
        "$.order[0]",
        "$.order.id ~ 4711",
        '$.order.id > "4"',
        "$.order.at > 5",
        "$.order.paid > 0",
        "$.order.id = 4711 and $.order.id = 4712",
        f"$.big = {2**63}",
    ],
)
def test_what_does_not_hold(where: str) -> None:
    assert not holds(where)


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("4711", "a path such as $.order.id is expected at '4711'"),
        ("$.a = ", "a value is expected at the end"),
        ("$.a 5", "one of = != < <= > >= in ~ exists is expected at '5'"),
        ("$.a = 5 6", "and, or nothing more, is expected at '6'"),
        ("$.a = 5 and", "a path such as $.order.id is expected at the end"),
        ("$.a in 5", ".. between two values is expected at the end"),
        ("$.a[x] = 1", "~ exists is expected at '[x] = 1'"),
        ("$.a ~ (", "'(' is not a regular expression: missing )"),
        ('$.a = "\\q"', "is not text as JSON writes it"),
        (" and ".join(["$.a"] * (MAX_CONDITIONS + 1)), "more than 20 conditions"),
    ],
)
def test_conditions_that_cannot_be_meant(where: str, why: str) -> None:
    with pytest.raises(BadInput) as raised:
        conditions(where)
    assert why in str(raised.value)
    assert raised.value.field == "where"


def test_values_that_are_no_json_do_not_fit() -> None:
    wanted = Filter(where=conditions("$"))
    for value in (None, b"", b"\xff", b"{", b"[" * 100_000, b"1" * 5000, b" " * MAX_DECODED_BYTES + b"1"):
        assert not wanted.fits(None, value)
    assert wanted.fits(None, b"null")


def test_texts_headers_and_regular_expressions() -> None:
    assert not filter_of({})
    assert filter_of({"key": "a"}).fits(b"cat", None)
    assert not filter_of({"key": "a.", "value": ""}).fits(b"cat", None)
    by_regex = filter_of({"key": "a.$", "regex": "1"})
    assert by_regex.fits(b"cat", b"")
    assert not by_regex.fits(b"cart", b"")
    assert filter_of({"value": "^$", "regex": "1"}).fits(None, None)
    headers = (("trace", b"x-1"), ("none", None))
    for text, fits in (
        ("trace", True),
        ("trace=x", True),
        ("none", True),
        ("trace=y", False),
        ("other", False),
        ("none=x", False),
    ):
        assert filter_of({"header": text}).fits(None, None, lambda: headers) is fits, text
    assert filter_of({"header": "trace = ^x-[0-9]$", "regex": "1"}).fits(None, None, lambda: headers)
    assert not filter_of({"header": "trace"}).fits(None, None, lambda: None)


def test_headers_are_asked_for_only_if_they_count() -> None:
    def never() -> None:
        raise AssertionError("they were asked for")

    assert filter_of({"key": "a", "where": "$.a"}).fits(b"a", b'{"a": 1}', never)
    assert not filter_of({"key": "a", "header": "h"}).fits(b"b", b"", never)


@pytest.mark.parametrize(
    ("field", "text", "why"),
    [
        ("key", "(", "key: '(' is not a regular expression: missing )"),
        ("value", "a{2000}", "value: 'a{2000}' is not a regular expression"),
        ("value", "(?=a)", "invalid perl operator"),
        ("header", "=x", "header has to be a name, or name=text"),
        ("header", "a=[", "header: '[' is not a regular expression"),
        ("key", "\ud800", "key has to be text"),
        ("value", "x" * (MAX_PATTERN + 1), "value is longer than 1,000 characters"),
    ],
)
def test_filters_that_cannot_be_meant_name_their_field(field: str, text: str, why: str) -> None:
    with pytest.raises(BadInput) as raised:
        filter_of({field: text, "regex": "1"})
    assert why in str(raised.value)
    assert raised.value.field == field


def test_an_expression_is_not_kept_for_the_next_filter() -> None:
    one, other = (getclosurevars(regex("a+b", "key")).nonlocals["compiled"] for _ in range(2))
    assert one is not other


def test_no_expression_takes_long() -> None:
    wanted = filter_of({"value": "(a*)*b", "regex": "1"})
    assert not wanted.fits(None, b"a" * 1_000_000)
