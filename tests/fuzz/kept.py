"""The inputs of each target that are kept in the repository, so that every run begins where the last one ended.

    python -m tests.fuzz.kept TARGET CORPUS      adds to them what the files of a corpus reach, and leaves out what is of no use

tests/fuzz/corpora/<target>.txt has an input a line, in base64 and in order, so that the additions of two branches merge. They are
few and small: `minimised` takes an input only if it reaches what neither a seed nor a shorter input does. `python -m scripts.fuzz
--keep` runs this for each of its targets.
"""

from __future__ import annotations

import base64
import importlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "corpora"
ROOT: Final = Path(__file__).resolve().parents[2]
LONGEST_INPUT: Final = 4096
"""The most bytes of an input. Longer ones are slower to run and to shrink, and no target needs them."""
PLAIN: Final = frozenset({"requests", "responses"})
"""The targets of generated codecs: how often a loop of theirs turns leads nowhere new, and would triple what is kept of them."""
_NEW: Final = re.compile(r"^FT (\d+) \d", re.MULTILINE)


def load(name: str, folder: Path = FOLDER) -> list[bytes]:
    path = folder / f"{name}.txt"
    return [base64.b64decode(line) for line in path.read_text().split()] if path.exists() else []


def save(name: str, inputs: Iterable[bytes], folder: Path = FOLDER) -> None:
    folder.mkdir(exist_ok=True)
    lines = sorted({base64.b64encode(data).decode() for data in inputs if data})  # the fuzzer tries the empty one in any case
    (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


def minimised(name: str, seeds: Iterable[bytes], inputs: Iterable[bytes], work: Path) -> list[bytes]:
    """Returns those of the inputs that reach a place of the code which neither a seed nor a shorter input does. Writes
    into `work`.

    libFuzzer's own `-merge=1` starts itself again and again, which a script in Python is not made for. So its inner step is run
    alone, once, with the control file that it would have been given: for each input in turn it adds the places that are new
    (`FT`). Raises CalledProcessError if an input breaks a promise.
    """
    first = sorted(set(seeds))
    ordered = first + sorted({*inputs} - {*first}, key=lambda data: (len(data), data))
    folder = work / f"{name}.merged"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{at:06}" for at in range(len(ordered))]
    for path, data in zip(paths, ordered, strict=True):
        path.write_bytes(data)
    control = work / f"{name}.control"
    control.write_text("".join(f"{line}\n" for line in (len(paths), 0, *paths)))
    options = ["-merge_inner=1", f"-merge_control_file={control}", *(["-use_counters=0"] if name in PLAIN else [])]
    command = [sys.executable, "-m", "tests.fuzz.run", name, str(folder), *options]
    with (work / f"{name}.merge.log").open("w") as output:
        subprocess.run(command, cwd=ROOT, stdout=output, stderr=output, check=True)
    numbers = map(int, _NEW.findall(control.read_text()))
    return [ordered[number] for number in numbers if number >= len(first)]


def main() -> None:
    name, corpus = sys.argv[1], Path(sys.argv[2])
    inputs = [path.read_bytes() for path in corpus.iterdir()] + load(name)
    seeds = importlib.import_module(f"tests.fuzz.targets.{name}").seeds()
    with tempfile.TemporaryDirectory() as work:
        kept = minimised(name, seeds, inputs, Path(work))
    save(name, kept)
    print(f"{name}: {len(kept)} of {len(inputs)} inputs are kept, {sum(map(len, kept))} bytes")


if __name__ == "__main__":
    main()
