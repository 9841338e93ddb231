"""The programs in Go beside these scripts, each in the folder of its name."""

from __future__ import annotations

import subprocess
from pathlib import Path

from compat_tests.reference import maven
from compat_tests.reference.kafka import BrokerFailed

_BENCH = Path(__file__).resolve().parent


def built(name: str) -> Path:
    """Returns the path of a program, built once a version, by Go and its module proxy. Raises BrokerFailed."""
    source = _BENCH / name
    program = maven.cache_dir() / name / name
    newest = max(path.stat().st_mtime for path in source.iterdir())
    if not program.exists() or program.stat().st_mtime < newest:
        program.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["go", "build", "-o", str(program), "."], cwd=source, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BrokerFailed(f"{name} could not be built:\n{done.stderr}")
    return program
