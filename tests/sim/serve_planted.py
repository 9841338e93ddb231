"""A broker with a planted fault, as a process of its own: NAME and the arguments of ottla (compat_tests/outside/planting.py).

python -m tests.sim.serve_planted "a fetch does not say what was aborted" serve server.properties
"""

from __future__ import annotations

import runpy
import sys

from tests.sim.cluster.planted import PLANTED as IN_REPLICATION
from tests.sim.planted import PLANTED, named, plant

if __name__ == "__main__":
    plant(named(sys.argv[1], [*PLANTED, *IN_REPLICATION]))
    sys.argv[1:2] = []
    runpy.run_module("ottla", run_name="__main__", alter_sys=True)
