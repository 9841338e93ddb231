"""Jars that the tests and the code generator need, fetched by Maven once and kept in a cache.

    python -m compat_tests.reference.maven kafka        prints the directory with the jars of poms/kafka.pom.xml

The cache is ${OTTLA_CACHE:-~/.cache/ottla}/jars. A set lives in a directory named by its pom's hash, so a changed pom is fetched
anew; it is filled beside and renamed when complete, under a lock, so parallel test workers fetch once and see all or nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

POMS = Path(__file__).resolve().parent / "poms"


class MavenFailed(RuntimeError):
    """Maven is missing or could not fetch a set of jars; the text says which and why."""


def cache_dir() -> Path:
    return Path(os.environ.get("OTTLA_CACHE") or Path.home() / ".cache" / "ottla").expanduser()


def jar_dir(name: str) -> Path:
    """The directory holding the jars of `poms/<name>.pom.xml`, fetched now if this machine has not seen them.

    Raises MavenFailed.
    """
    pom = POMS / f"{name}.pom.xml"
    target = cache_dir() / "jars" / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():  # else another process fetched while this one waited
            _fetch(pom, target)
    return target


def classpath(name: str) -> str:
    """For `java -cp`: all jars of the set."""
    return f"{jar_dir(name)}/*"


def _fetch(pom: Path, target: Path) -> None:
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise MavenFailed("mvn is not installed; on Debian: apt-get install maven") from error
    if done.returncode != 0:
        raise MavenFailed(f"mvn could not fetch {pom.name}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    partial.rename(target)


if __name__ == "__main__":
    print(jar_dir(sys.argv[1]))
