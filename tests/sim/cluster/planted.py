"""Mistakes that are planted in replication, one at a time: the simulated cluster has to find each under its right name.

How they are planted is in `planted.py` one folder up.
"""

from __future__ import annotations

from typing import Final

from tests.sim.planted import Planted, fault

_LOST: Final = "lost-replicated replicas-differ hw-beyond-isr lost-write unseen vanished inconsistent-offsets"
_PARTED: Final = f"{_LOST} uneven-end epochs-differ split-brain"
_LEADING: Final = (
    # The high watermark, and what is acknowledged by it
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
        "the high watermark waits for followers that are not in sync",
        "hw-stuck",
        "server/partitions/high_watermark.py",
        (
            "                follower in self._counted or (self.keeper is not None and self.keeper.may_join(follower, state))\n",
            "                follower in self.followers\n",
        ),
    ),
    fault(
        "acks=all is answered after the leader's own append",
        "lost-write unseen inconsistent-offsets",
        "server/handlers/produce.py",
        ("        if info.waits and (body.acks == ALL or replica", "        if info.waits and (replica"),
    ),
    fault(
        "whoever waits for acks=all is told of success when the leadership ends",
        "lost-write unseen inconsistent-offsets",
        "server/partitions/high_watermark.py",
        (
            "        for _, _, acknowledged in waiting:\n            acknowledged(error)\n",
            "        for _, _, acknowledged in waiting:\n            acknowledged(None)\n",
        ),
    ),
    fault(
        "the high watermark moves with fewer in sync than min.insync.replicas",
        "under-min-isr",
        "server/partitions/high_watermark.py",
        ("        self._partition.under_min_isr = len(self.in_sync) < self.min_in_sync\n", "        pass\n"),
    ),
    fault(
        "a restart takes the log's end for its high watermark",
        _LOST,
        "log/partition.py",
        (
            "            self.high_watermark = min(saved, self.high_watermark)\n",
            "            pass\n",
        ),
    ),
    # Who is in sync
    fault(
        "a follower that is behind joins the in-sync replicas",
        _LOST,
        "server/replication/isr.py",
        (
            "        return state.end_offset >= self.replica.log.high_watermark and state.end_offset >= self._role.epoch_start\n",
            "        return state.end_offset >= 0\n",
        ),
    ),
    fault(
        "a leader drops a follower before the controllers have",
        "own-isr hw-beyond-isr",
        "server/replication/isr.py",
        (
            "        if state is State.EXPANDING:\n            high_watermark.count(isr)\n        self._send(change)\n",
            "        high_watermark.in_sync = frozenset(isr)\n        high_watermark.count()\n        self._send(change)\n",
        ),
    ),
    # Offsets that go back
    fault(
        "the latest offset is the log's end",
        "latest-backwards",
        "server/handlers/list_offsets.py",
        (
            "    end = readable if replica_id == CONSUMER else log.log_end_offset\n",
            "    end = log.log_end_offset\n",
        ),
    ),
    fault(
        "a new leader answers with the latest offset before it knows the high watermark",
        "latest-backwards",
        "server/handlers/list_offsets.py",
        ("    return timestamp == LATEST or found is None\n", "    return False\n"),
    ),
    # Epochs
    fault(
        "a leader does not see that a follower's log parts from its own",
        "replicas-differ uneven-end epochs-differ lost-replicated",
        "server/handlers/fetch.py",
        (
            "        parting = find_divergence(replica, asked) if asked.last_fetched_epoch >= 0 else None\n",
            "        parting = None\n",
        ),
    ),
    fault(
        "a new leader goes on with the epoch of the last one",
        _PARTED,
        "server/partitions/replica.py",
        (
            "            leader_epoch=self.leader_epoch,\n            origin",
            "            leader_epoch=max(0, self.leader_epoch - 1),\n            origin",
        ),
    ),
    fault(
        "a broker that stood still goes on leading",
        "led-while-fenced",
        "server/quorum/absence.py",
        ("        if now - self._ran_at <= self._longest_s:\n", "        if now >= self._ran_at:\n"),
    ),
)
_FOLLOWING: Final = (
    fault(
        "a follower does not cut what its leader does not have",
        "stuck",
        "server/replication/truncation.py",
        ("log.leader_epoch\n    log.truncate_to(offset)\n", "log.leader_epoch\n    pass\n"),
    ),
    fault(
        "a follower cuts its log at its high watermark",
        _LOST,
        "server/replication/following.py",
        (
            "        self.state = State.FETCHING if replica.log.leader_epoch >= 0 else State.TRUNCATING\n",
            "        self.state = State.TRUNCATING\n",
        ),
    ),
    fault(
        "a follower keeps the epochs of what it cuts",
        "epochs-differ stuck",
        "log/epochs.py",
        ("        del self._entries[keep:]\n", ""),
    ),
    fault(
        "a follower takes all that it has for replicated",
        _LOST,
        "server/replication/leader_answers.py",
        (
            "    log.raise_high_watermark(min(data.high_watermark, log.log_end_offset))\n",
            "    log.raise_high_watermark(log.log_end_offset)\n",
        ),
    ),
    fault(
        "a follower learns nothing about producers",
        "duplicate",
        "log/partition.py",
        (
            "                self.producers.update(header, header.base_offset)\n            start",
            "                self.producers.end_offset = header.next_offset\n            start",
        ),
    ),
    fault(
        "a follower that is behind the leader's start goes on at its end",
        f"{_LOST} start-beyond",
        "server/replication/truncation.py",
        ("    log.truncate_fully_and_start_at(start_offset)\n", "    log.truncate_fully_and_start_at(end_offset)\n"),
    ),
    fault(
        "a crash counts as a clean stop",
        "false-clean",
        "server/quorum/cluster.py",
        (
            "        previous = self._logs.previous_broker_epoch\n",
            "        known = self._image.brokers.get(node_id)\n        previous = None if known is None else known.epoch\n",
        ),
    ),
)
PLANTED: Final[tuple[Planted, ...]] = _LEADING + _FOLLOWING
