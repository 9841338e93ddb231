"""Scripts whose brokers need a network of their own run once more, in namespaces of their own.

They get a namespace of users, in which they are root, of networks, and of mounts (unshare(1)); nothing outside is touched.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

_MARK: Final = "OTTLA_IN_NAMESPACES"


def is_inside() -> bool:
    """Returns whether this process was started by `run_inside`."""
    return _MARK in os.environ


def run_inside(module: str) -> int:
    """Runs this module with the arguments of this process, in namespaces of its own; returns its exit code."""
    command = ["unshare", "--map-root-user", "--net", "--mount", sys.executable, "-m", module, *sys.argv[1:]]
    return subprocess.run(command, env={**os.environ, _MARK: "1"}, check=False).returncode
