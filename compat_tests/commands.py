"""The `ottla` command as a user runs it: a process of its own, its streams, its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

OTTLA: Final = [sys.executable, "-m", "ottla"]
TIMEOUT_S: Final = 60
_STRAY: Final = ("KAFKA_", "OTTLA_", "_OTTLA")
ENVIRONMENT: Final = {name: value for name, value in os.environ.items() if not name.startswith(_STRAY)} | {"COLUMNS": "200"}


class Ran(NamedTuple):
    """What a command left."""

    code: int
    out: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.removesuffix("\n").split("\n") if self.out else []

    @property
    def objects(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.lines]


def environment(bootstrap: str | None = None, **more: str) -> dict[str, str]:
    return ENVIRONMENT | ({} if bootstrap is None else {"OTTLA_BOOTSTRAP": bootstrap}) | more


def ottla(*arguments: str | bytes, bootstrap: str | None = None, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
    """A command that ends by itself, within a minute."""
    done = subprocess.run(
        [*OTTLA, *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=TIMEOUT_S,
        env=environment(bootstrap, **(env or {})),
    )
    return Ran(done.returncode, done.stdout, done.stderr.decode())


def good(*arguments: str | bytes, bootstrap: str | None = None, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
    """`ottla`, which must succeed and say nothing on standard error."""
    ran = ottla(*arguments, bootstrap=bootstrap, stdin=stdin, env=env)
    assert (ran.code, ran.errors) == (0, ""), ran
    return ran
