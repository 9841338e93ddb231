"""Mistakes that are planted in replication, one at a time: the simulated cluster has to find each under its right name.

How they are planted is in `planted.py` one folder up.
"""

from __future__ import annotations

from typing import Final

from tests.sim.planted import fault

_LOST: Final = "lost-replicated replicas-differ hw-beyond-isr lost-write unseen vanished inconsistent-offsets"
PLANTED: Final = (
    fault(
        "the high watermark waits for one follower only",
        _LOST,
        "server/partitions/high_watermark.py",
        (
            "            if state.end_offset < offset and (\n",
            "            if follower == min(self.followers) and state.end_offset < offset and (\n",
        ),
    ),
    fault(
        "a leader does not see that a follower's log parts from its own",
        "replicas-differ uneven-end epochs-differ lost-replicated",
        "server/handlers/fetch.py",
        (
            "        parting = find_divergence(replica, asked) if asked.last_fetched_epoch >= 0 else None\n",
            "        parting = None\n",
        ),
    ),
)
