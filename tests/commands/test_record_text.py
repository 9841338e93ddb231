"""Records as text and back, and kcat's formats. A fake message stands for librdkafka's."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.commands.record_text import (
    BadRecord,
    Encoding,
    bytes_from_json,
    bytes_to_json,
    format_formatter,
    json_formatter,
    line_formatter,
    record_from_json,
)


class FakeMessage:
    """The part of a message that the formatters use."""

    def __init__(self, key: bytes | None, value: bytes | None, headers: Any = None, timestamp: tuple[int, int] = (1, 7)) -> None:
        self.parts = key, value, headers, timestamp

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 2

    def offset(self) -> int:
        return 9

    def key(self) -> bytes | None:
        return self.parts[0]

    def value(self) -> bytes | None:
        return self.parts[1]

    def headers(self) -> Any:
        if isinstance(self.parts[2], Exception):
            raise self.parts[2]
        return self.parts[2]

    def timestamp(self) -> tuple[int, int]:
        return self.parts[3]


same_each_time = settings(deadline=None, derandomize=True)  # a busy machine is no failure, nor is what another run would find


def message(*parts: Any) -> Any:
    return FakeMessage(*parts)


@same_each_time
@given(st.one_of(st.none(), st.binary()), st.sampled_from(Encoding))
def test_bytes_come_back(data: bytes | None, encoding: Encoding) -> None:
    assert bytes_from_json(json.loads(json.dumps(bytes_to_json(data, encoding))), "value") == data


@same_each_time
@given(
    st.one_of(st.none(), st.binary()),
    st.one_of(st.none(), st.binary()),
    st.lists(st.tuples(st.text(st.characters(codec="utf-8", exclude_characters="\0")), st.one_of(st.none(), st.binary()))),
)
def test_records_come_back(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> None:
    line = json_formatter(Encoding.UTF8, Encoding.UTF8)(message(key, value, headers))
    assert line.count(b"\n") == 1
    record = record_from_json(line)
    assert record == (key, value, headers, 2, 7)


def test_no_timestamp_is_null() -> None:
    line = json_formatter(Encoding.UTF8, Encoding.UTF8)(message(b"k", b"v", None, (0, -1)))
    assert json.loads(line)["timestamp"] is None


def test_headers_that_the_client_library_cannot_read(capsys: pytest.CaptureFixture[str]) -> None:
    """It raises SystemError for a name that is not UTF-8 (seen with confluent-kafka 2.16)."""
    record = message(b"k", b"v", SystemError("returned a result with an exception set"))
    assert json.loads(json_formatter(Encoding.UTF8, Encoding.UTF8)(record))["headers"] is None
    assert format_formatter("%h;%s", "", Encoding.UTF8, Encoding.UTF8)(record) == b";v"
    assert capsys.readouterr().err == "t [2] offset 9: headers left out: a name is not UTF-8\n" * 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"val": 1}', "unknown field 'val'"),
        (b'{"value": 1}', "value must be a string"),
        (b'{"key": {"base64": "*"}}', "key: "),
        (b'{"key": {"hex": 5}}', "key: "),
        (b'{"key": {"hex": "00", "base64": ""}}', "key must be"),
        (b'{"value": "\\ud800"}', "value: "),
        (b'{"headers": [["a"]]}', "headers must be"),
        (b'{"headers": "a=b"}', "headers must be"),
        (b'{"headers": {"a": 1}}', "header 'a' must be"),
        (b'{"partition": -1}', "partition must be a whole number from 0 to 2147483647"),
        (b'{"partition": true}', "partition must be"),
        (b'{"timestamp": 1.5}', "timestamp must be"),
        (b'{"timestamp": 0}', "timestamp 0 cannot be sent"),
        (b'{"headers": [["\\ud800", "x"]]}', "name '.ud800' cannot be sent"),
        (b'{"headers": [["a\\u0000b", "x"]]}', "name 'a.x00b' cannot be sent"),
        (b'{"timestamp": "@9999999999999999999"}', "is not a time"),
        (b'{"timestamp": "soon"}', "timestamp 'soon' is not a time"),
        (b'{"timestamp": "1960-01-01T00:00Z"}', "is not a time"),
    ],
)
def test_lines_that_are_no_record(line: bytes, words: str) -> None:
    with pytest.raises(BadRecord, match=words):
        record_from_json(line)


@same_each_time
@given(st.binary())
def test_any_line_is_a_record_or_says_why_not(line: bytes) -> None:
    try:
        record_from_json(line)
    except BadRecord:
        return


def test_lines() -> None:
    record, empty = message(b"k", b"v"), message(None, None)
    assert line_formatter(None, "~", Encoding.UTF8, Encoding.HEX)(record) == b"76\n"
    assert line_formatter(None, "~", Encoding.UTF8, Encoding.HEX)(empty) == b"~\n"
    assert line_formatter(": ", "~", Encoding.BASE64, Encoding.UTF8)(record) == b"aw==: v\n"
    assert line_formatter(": ", "~", Encoding.BASE64, Encoding.UTF8)(empty) == b"~: ~\n"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", b""),
        ("%t %p %o %T", b"t 2 9 7"),
        ("%k/%K %s/%S", b"k\xff/2 v/1"),
        ("%h", b"a=1,b="),
        ("100%%\\n", b"100%\n"),
        (r"\t\r\n\\\0\x00\xfFé", b"\t\r\n\\\0\0\xff\xc3\xa9"),
        (r"\\n", b"\\n"),
        ("%%k", b"%k"),
    ],
)
def test_formats(template: str, text: bytes) -> None:
    show = format_formatter(template, "", Encoding.UTF8, Encoding.UTF8)
    assert show(message(b"k\xff", b"v", [("a", b"1"), ("b", None)])) == text


def test_what_the_user_wrote_comes_out_byte_for_byte() -> None:
    null, between = os.fsdecode(b"\xfe"), os.fsdecode(b"\xff")
    record = message(None, b"v")
    assert format_formatter(between + "%k%s" + between, null, Encoding.UTF8, Encoding.UTF8)(record) == b"\xff\xfev\xff"
    assert line_formatter(between, null, Encoding.UTF8, Encoding.UTF8)(record) == b"\xfe\xffv\n"


def test_formats_of_nothing() -> None:
    show = format_formatter("%k|%K|%s|%S|%h|%T", "NULL", Encoding.UTF8, Encoding.UTF8)
    assert show(message(None, None, None, (0, -1))) == b"NULL|-1|NULL|-1||-1"


@pytest.mark.parametrize("template", ["%q", "%", "\\", "\\q", "\\x", "\\x1", "a%\n"])
def test_formats_with_unknown_tokens(template: str) -> None:
    with pytest.raises(typer.BadParameter, match="is unknown"):
        format_formatter(template, "", Encoding.UTF8, Encoding.UTF8)
