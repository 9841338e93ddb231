"""Tests of what a fuzzing process does around a target: sources only, seeds on disk, bounds on processor and memory."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import run
from tests.fuzz.draw import Draw, block
from tests.fuzz.run import TooLong, TooMuchMemory, bounded, load, write_seeds
from tests.fuzz.sound import with_right_crc, with_right_length
from tests.log.support import batch

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGVTALRM)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


def test_everything_is_imported_from_its_source_and_goes_through_the_function() -> None:
    code = (
        "from tests.fuzz.plain import import_sources\n"
        "changed = []\n"
        "import_sources(lambda code: changed.append(code.co_filename) or code)\n"
        "from ottla.wire import batch, kernel\n"
        "from tests.fuzz.targets import _planted\n"
        "assert batch.__file__.endswith('batch.py') and kernel.__file__.endswith('kernel.py'), kernel.__file__\n"
        "assert {batch.__file__, kernel.__file__, _planted.__file__} <= set(changed), changed\n"
        "assert 'ottla' in kernel.__file__ and not any('draw' in name for name in changed)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_what_is_imported_already_cannot_be_followed() -> None:
    code = "import ottla.wire.api; from tests.fuzz.plain import import_sources; import_sources(lambda code: code)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "imported too early" in done.stderr


def test_an_input_that_never_ends_is_stopped_by_the_processors_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(data: bytes) -> None:
        while True:
            pass

    monkeypatch.setattr(run, "MOST_CPU_SECONDS", 0.05)
    with pytest.raises(TooLong):
        bounded(never)(b"")


def test_an_input_that_takes_much_memory_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = iter([100, 100 + (run.MOST_MIB << 10), 50, 51 + (run.MOST_MIB << 10)])
    monkeypatch.setattr(run, "_peak_kib", lambda: next(peaks))
    check = bounded(lambda data: None)
    check(b"as much as is allowed")
    with pytest.raises(TooMuchMemory, match=f"4 bytes raised the peak of memory by {run.MOST_MIB} MiB"):
        check(b"more")


def test_what_a_target_raises_comes_through() -> None:
    with pytest.raises(AssertionError, match="planted"):
        bounded(load("_planted").check)(b"\xf3\x07!Z and more")
    bounded(load("_planted").check)(b"\xf3\x07!")


def test_seeds_replace_those_of_before(tmp_path: Path) -> None:
    folder = tmp_path / "seeds"
    folder.mkdir()
    (folder / "old").write_bytes(b"old")
    write_seeds(folder, load("_planted").seeds())
    assert [path.read_bytes() for path in folder.iterdir()] == [b"nothing"]


def test_draws_take_turns_and_behind_the_end_there_is_nothing() -> None:
    draw = Draw(b"\xff\x05" + block(b"abc") + block(bytes(300)) + b"\xfe")
    assert (draw.byte(), draw.below(3), draw.block(), draw.block()) == (255, 2, b"abc", bytes(300))
    assert (draw.left, draw.number(2), draw.left) == (1, -512, 0)
    assert (draw.byte(), draw.block(), draw.rest(), draw.one_of("ab")) == (0, b"", b"", "a")
    assert Draw(b"\x09ab").block() == b"ab"


def test_a_batch_is_set_right_and_short_bytes_are_left_alone() -> None:
    good = batch(2)
    broken = bytearray(good)
    broken[9], broken[16], broken[19] = 7, 0, broken[19] ^ 1
    assert with_right_crc(with_right_length(bytes(broken))) == good
    assert with_right_crc(bytes(good[:17]) + bytes(4) + good[21:] + b"more") == good + b"more"
    assert with_right_crc(b"short") == with_right_length(b"short") == b"short"
