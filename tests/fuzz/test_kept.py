"""The inputs that are kept for the next run of the fuzzer (tests/fuzz/kept.py)."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.kept import load, minimised, save


def test_inputs_are_lines_in_order(tmp_path: Path) -> None:
    save("t", [b"\xff", b"", b"abc", b"abc"], tmp_path / "new")
    assert len((tmp_path / "new" / "t.txt").read_text().splitlines()) == 2
    assert sorted(load("t", tmp_path / "new")) == [b"abc", b"\xff"]
    assert load("other", tmp_path / "new") == []


def test_an_input_stays_if_it_reaches_what_no_seed_and_no_shorter_one_does(tmp_path: Path) -> None:
    longer, shorter, seed = b"\xf3\x07!!", b"\xf3\x07!", b"\xf3"
    kept = minimised("_planted", [b"nothing", seed], [longer, shorter, b"other", seed], tmp_path)
    assert kept == [shorter], "the longer one comes no further, and others are seeds or come no further than those"
    assert minimised("_planted", [b"nothing"], [longer], tmp_path / "without it") == [longer]
