"""Fuzzes one target in this process, guided by coverage: `python -m tests.fuzz.run TARGET CORPUS [libFuzzer's options]`.

scripts/fuzz.py runs this for one target after the other. By hand it is for looking at an input that failed, which may stand in
the place of the corpus: `python -m tests.fuzz.run codecs build/fuzz/found/codecs-crash-1f00…`.

A target is a module in tests/fuzz/targets/. Its `check` is called with bytes and raises if one of the promises in its docstring
is broken; its `seeds` are inputs to begin with, made by the encoders. They are written to CORPUS.seeds, with those that earlier
runs have left (kept.py). On top of what a target promises, no input may take more than MOST_CPU_SECONDS, by the processor's time
and not by the clock, or raise the peak of this process's memory by more than MOST_MIB.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

from tests.fuzz.kept import LONGEST_INPUT
from tests.fuzz.kept import load as load_kept
from tests.fuzz.plain import import_sources

MOST_CPU_SECONDS: Final = 60
MOST_MIB: Final = 64
_NEVER: Final = 1_000_000


class Target(Protocol):
    """A module in tests/fuzz/targets/."""

    def check(self, data: bytes, /) -> None:
        """Raises if a promise is broken."""

    def seeds(self) -> Iterable[bytes]:
        """Yields inputs to begin with."""
        ...


class TooLong(BaseException):
    """An input took too much of the processor. Not an Exception: no handler in the code under test may take it."""


class TooMuchMemory(Exception):
    """An input took too much memory."""


def load(name: str) -> Target:
    target: Target = importlib.import_module(f"tests.fuzz.targets.{name}")
    return target


def bounded(check: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Returns a function that also raises TooLong and TooMuchMemory."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong(f"one input took {MOST_CPU_SECONDS} seconds of the processor")

    signal.signal(signal.SIGVTALRM, stop)

    def run(data: bytes) -> None:
        before = _peak_kib()
        signal.setitimer(signal.ITIMER_VIRTUAL, MOST_CPU_SECONDS)
        check(data)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        grown = _peak_kib() - before
        if grown > MOST_MIB << 10:
            raise TooMuchMemory(f"one input of {len(data)} bytes raised the peak of memory by {grown >> 10} MiB")

    return run


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def write_seeds(folder: Path, seeds: Iterable[bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for seed in seeds:
        (folder / hashlib.sha1(seed, usedforsecurity=False).hexdigest()).write_bytes(seed)


def main() -> None:
    name, corpus, *options = sys.argv[1:]
    import atheris

    logging.disable(logging.CRITICAL)  # of what is wrong with an input, a log would say so thousands of times a second
    import_sources(lambda code: atheris.patch_code(code, True))
    target = load(name)
    inputs = [corpus]
    if not Path(corpus).is_file():
        Path(corpus).mkdir(parents=True, exist_ok=True)
        write_seeds(Path(f"{corpus}.seeds"), [*target.seeds(), *load_kept(name)])
        inputs.append(f"{corpus}.seeds")
    # MOST_CPU_SECONDS bounds an input's time. The fuzzer's own bounds go by the clock, which says little on a busy machine.
    patient = [f"-timeout={_NEVER}", f"-report_slow_units={_NEVER}"]
    limits = [*patient, f"-max_len={LONGEST_INPUT}", "-rss_limit_mb=2048", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *inputs, *limits, *options], bounded(target.check))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
