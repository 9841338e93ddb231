"""The time at which results were made, and the commit of their source: their writers put that beside them, and the report of
compatibility prints it.

`stamp()` -> {"date": "2026-11-22", "commit": "1a2b3c4"}, the date in UTC. The commit ends in -dirty where the tree had changes,
but for those of results and of what is made from them; it is "unknown" where there is no git, or no repository. Take it before
the run that it is about.
"""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
UNKNOWN: Final = "unknown"
WRITTEN: Final = (
    "compat_tests/results",
    "compat_tests/kafka_tests/results.*",
    "compat_tests/kafka_tests/several.*",
    "docs/benchmarks.*",
    "docs/compatibility.*",
    "docs/proofs.*",
    "tests/fuzz/corpora",
)
"""The files that runs write, which therefore cannot tell one source from another."""


def stamp(root: Path = ROOT) -> dict[str, str]:
    return {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "commit": _commit(root)}


def day_of(file: Path, root: Path = ROOT) -> str:
    """Returns the day of a file without one inside: that of its last commit, or its own if it was changed since."""
    changed = _git(root, "status", "--porcelain", "--", str(file))
    committed = _git(root, "log", "-1", "--format=%cs", "--", str(file))
    if committed and not changed:
        return committed
    return datetime.datetime.fromtimestamp(file.stat().st_mtime, datetime.UTC).date().isoformat()


def _commit(root: Path) -> str:
    commit = _git(root, "rev-parse", "--short", "HEAD")
    if not commit:
        return UNKNOWN
    but_for = [f":(exclude){path}" for path in WRITTEN]
    return commit + "-dirty" * bool(_git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", *but_for))


def _git(root: Path, *arguments: str) -> str:
    """Returns what git says; "" where there is none, or no repository."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()
