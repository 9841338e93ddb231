"""Brokers of ottla with a planted fault, which the checker has to find: those of `tests/sim/planted.py`, and in clusters also the
mistakes in replication of `tests/sim/cluster/planted.py`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final, TypeVar

from compat_tests.brokers import Ottla

_ROOT: Final = Path(__file__).resolve().parents[2]


Made = TypeVar("Made", bound=Ottla)


def with_fault(made: type[Made], name: str) -> type[Made]:
    """Returns a class of brokers like `made` with the fault of this name in them."""

    def environment(self: Made) -> dict[str, str]:
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        return made.environment(self) | {"PYTHONPATH": path}

    def command(self: Made) -> list[str]:
        return [sys.executable, "-m", "tests.sim.serve_planted", name, "serve", str(self.properties)]

    overridden: dict[str, Any] = {"environment": environment, "command": command}
    return type("Planted", (made,), overridden)
