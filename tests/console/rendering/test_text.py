"""Tests of what bytes and texts look like: nothing that cannot be seen gets through, and nothing else is changed."""

from __future__ import annotations

import json
import sys

import pytest

from ottla.console.rendering.text import (
    MAX_HEX_BYTES,
    MAX_PREVIEW,
    MAX_SHOWN_BYTES,
    beginning,
    hex_lines,
    indented_json,
    preview,
    shown,
    visible,
)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain", "plain"),
        ("a\nb\tc", "a\nb\tc"),
        ("grüße 日本語 🙂", "grüße 日本語 🙂"),
        ("\x00\x1b[2J\r\x7f", "␀␛[2J␍␡"),
        ("\x85\x9b", "⟨U+0085⟩⟨U+009B⟩"),
        ("\u202eevil\u2066", "⟨U+202E⟩evil⟨U+2066⟩"),
        ("a\u200bb\ufeff\u00ad", "a⟨U+200B⟩b⟨U+FEFF⟩⟨U+00AD⟩"),
        ("\u3164\u034f\ufe0f", "⟨U+3164⟩⟨U+034F⟩⟨U+FE0F⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("<b>&", "<b>&"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, seen: str) -> None:
    assert visible(text) == seen


def test_no_character_at_all_gets_through_unseen() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    left = set(visible(everything)) - {"\n", "\t"}
    assert all(one.isprintable() for one in left)
    assert not left & set("\u3164\u115f\u1160\u2800\uffa0\u034f\ufe0f")


def test_bytes_are_shown_as_what_they_seem_to_be() -> None:
    assert shown(None)[:3] == ("null", "", 0)
    assert shown(b"")[:3] == ("empty", "", 0)
    assert shown("grüße".encode())[:3] == ("text", "grüße", 7)
    assert shown(b'{"a":[1,{}]}') == ("json", '{\n  "a": [\n    1,\n    {}\n  ]\n}', 12, False)
    assert shown(b"\xff\x00") == ("hex", f"00000000  {'ff 00':<47}  ··", 2, False)


def test_what_is_long_is_cut_and_says_so() -> None:
    letters = "ü".encode() * MAX_SHOWN_BYTES
    long = shown(b"a" + letters)
    assert (long.kind, long.is_cut, long.size) == ("text", True, 1 + len(letters))
    assert long.text == "a" + "ü" * (MAX_SHOWN_BYTES // 2 - 1)
    binary = shown(b"\xff" * 2 * MAX_HEX_BYTES)
    assert (binary.kind, binary.is_cut, len(binary.text.splitlines())) == ("hex", True, MAX_HEX_BYTES // 16)
    assert preview(letters) == ("text", "ü" * MAX_PREVIEW, len(letters), True)
    assert preview(b"x" * MAX_PREVIEW) == ("text", "x" * MAX_PREVIEW, MAX_PREVIEW, False)
    assert preview(b"\xfe" * 1000).kind == "hex"
    assert len(preview(b"\xfe" * 1000).text) <= MAX_PREVIEW


def test_bytes_that_break_off_within_a_character_are_text_only_if_they_were_cut() -> None:
    assert shown("ü".encode()[:1]).kind == "hex"
    assert shown(b"a" * (MAX_SHOWN_BYTES - 1) + "üü".encode()).text == "a" * (MAX_SHOWN_BYTES - 1)


def test_json_keeps_every_token() -> None:
    text = '{"b": 1.00, "a": 1e999, "a": "x, y: {z} \\" \\\\", "n": [], "big": ' + "9" * 30 + ', "t": [true, null]}'
    found = indented_json(text)
    assert found is not None
    assert json.loads(found) == json.loads(text)
    assert '"a": 1e999' in found
    assert '"b": 1.00' in found


@pytest.mark.parametrize("text", ["", "12", '"a"', "{", "[1,]", "[" * 100_000, "[" * 65 + "]" * 65, "{'a': 1}", "9" * 10_000])
def test_what_is_no_json_or_too_deep_stays_as_it_is(text: str) -> None:
    assert indented_json(text) is None


def test_json_that_would_become_many_times_its_size_stays_as_it_is() -> None:
    deep = "[" * 60 + ",".join("0" * 20_000) + "]" * 60
    assert indented_json(deep) is None
    assert shown(deep.encode()) == ("text", deep, len(deep), False)
    assert indented_json("[" * 20 + "1" + "]" * 20) is not None


@pytest.mark.parametrize("data", [None, b"", b"x", b"\xfe" * 9999, b"x" * 1200, b"x" * 1201, b"x" * 9999, "aü€😀".encode() * 999])
def test_a_list_needs_only_the_beginning(data: bytes | None) -> None:
    found = beginning(data)
    assert preview(found) == preview(data)
    assert len(found or b"") <= 4 * MAX_PREVIEW + 1


def test_lines_in_hex() -> None:
    first, second = hex_lines(bytes(range(0x3C, 0x4D))).splitlines()
    assert first == "00000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK"
    assert second == f"00000010  {'4c':<47}  L"
