"""commands/positions.py: places in a topic as users write them."""

from __future__ import annotations

import time

import pytest
import typer

from ottla.commands.positions import Kind, Position, parse_position, parse_time_ms


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("beginning", Position(Kind.BEGINNING)),
        ("earliest", Position(Kind.BEGINNING)),
        ("latest", Position(Kind.END)),
        ("end", Position(Kind.END)),
        ("0", Position(Kind.OFFSET, 0)),
        ("1795251600000", Position(Kind.OFFSET, 1795251600000)),
        ("-5", Position(Kind.TAIL, 5)),
        ("@1795251600000", Position(Kind.TIME, 1795251600000)),
        ("2026-11-21T09:00:00Z", Position(Kind.TIME, 1795251600000)),
        ("2026-11-21T10:00:00.5+01:00", Position(Kind.TIME, 1795251600500)),
        ("2026-11-21T09:00:00.0004Z", Position(Kind.TIME, 1795251600001)),  # the records of millisecond 0 are earlier
        ("2026-11-21T09:00:00.000999Z", Position(Kind.TIME, 1795251600001)),
    ],
)
def test_places(text: str, position: Position) -> None:
    assert parse_position(text, "--from") == position


def test_a_time_without_zone_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Etc/GMT-2")  # two hours east
    time.tzset()
    try:
        assert parse_time_ms("2026-11-21T11:00") == 1795251600000
        assert parse_time_ms("2026-11-21") == 1795251600000 - 11 * 3_600_000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "start",
        "+5",
        "1.5",
        "--5",
        "@",
        "@-1",
        "@1e3",
        "20261121",
        "99999999999999999999",
        "9223372036854775808",
        "٣",
        "1960-01-01T00:00Z",
    ],
)
def test_no_places(text: str) -> None:
    if text == "20261121":
        assert parse_time_ms(text) is None  # a number is an offset, never a day
        return
    with pytest.raises(typer.BadParameter):
        parse_position(text, "--from")
