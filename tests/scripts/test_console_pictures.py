"""The console's pictures are there, small, and shown by the tour."""

from __future__ import annotations

import pytest

from scripts.console_pictures import FOLDER, MAX_BYTES, PAGES, SCHEMES, WIDTH, file_of, main


def test_each_picture_is_there_and_small() -> None:
    for picture in PAGES:
        for scheme in SCHEMES:
            data = file_of(picture, scheme).read_bytes()
            assert len(data) < MAX_BYTES, picture
            assert width_of(data) == WIDTH, picture


def test_there_are_no_others_and_the_tour_shows_each_page() -> None:
    names = {file_of(picture, scheme).name for picture in PAGES for scheme in SCHEMES}
    assert {path.name for path in FOLDER.iterdir()} == names
    tour = (FOLDER.parent / "console.md").read_text()
    for picture in PAGES:
        assert f"console/{picture.name}-" in tour, picture.name


def test_an_unknown_name_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing"]) == 2
    assert "no such picture: nothing" in capsys.readouterr().err


def width_of(data: bytes) -> int:
    """Returns how wide a JPEG is, as its frame header says."""
    at = 2
    while data[at + 1] not in {0xC0, 0xC1, 0xC2}:
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return int.from_bytes(data[at + 7 : at + 9], "big")
