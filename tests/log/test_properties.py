"""Java's grammar of `.properties` files."""

from __future__ import annotations

import pytest

from ottla.log.config_def import ConfigError
from ottla.log.properties import parse_properties


def parsed(text: str) -> dict[str, str]:
    return {key: value for key, value, _ in parse_properties(text.encode())}


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a  :=b", {"a": "=b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("a=b=c", {"a": "b=c"}),
        ("  a=b  ", {"a": "b  "}),  # white space at the end is the value's
        ("#a=b\n!c=d\n\n \t\ne=f", {"e": "f"}),
        ("a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\n#c", {"a": "b#c"}),  # no comment in the middle of a line
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        (r"a\=b\ c=d", {"a=b c": "d"}),
        (r"a=\t\n\q\u00e9", {"a": "\t\nqé"}),
        (r"a=\ud83d\ude00", {"a": "😀"}),
        (r"dir=C\:\\data", {"dir": "C:\\data"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_the_grammar_is_java_s(text: str, entries: dict[str, str]) -> None:
    assert parsed(text) == entries


def test_entries_know_their_lines() -> None:
    assert list(parse_properties(b"# x\na=1\\\n2\nb=3")) == [("a", "12", 2), ("b", "3", 4)]


def test_latin_1_is_read_where_it_is_no_utf_8() -> None:
    for encoding in ("utf-8", "latin-1"):
        assert [value for _, value, _ in parse_properties("a=é".encode(encoding))] == ["é"]


def test_an_escape_that_is_no_character_is_refused_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"line 2: '\\u12x' is not a character"):
        list(parse_properties(b"a=1\nb=\\u12x"))
