"""The recorded trace on a real file system: `python -m tests.sim.program DIRECTORY`. Writes a byte to standard output for every
operation that is done, so that the test that kills it knows how far it came.
"""

from __future__ import annotations

import os
import sys

from ottla.log.disk.files import OsDisk
from tests.sim.trace import Trace


def main(directory: str) -> None:
    for _ in Trace(OsDisk(), directory).play():
        os.write(sys.stdout.fileno(), b".")


if __name__ == "__main__":
    main(sys.argv[1])
