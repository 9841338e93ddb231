"""Looks into the brokers of a simulated cluster while it runs: what no client sees at once, and what must hold all the time.

replicas-differ    two replicas had different batches at one offset below their high watermarks
lost-replicated    what was below a high watermark is not in the log of an in-sync replica at the end
split-brain        two batches that leaders of one epoch wrote at one offset
own-isr            a leader counts other in-sync replicas than the controllers wrote down for that partition epoch
hw-beyond-isr      the high watermark has passed the end of an in-sync replica's log
uneven-end         the logs of two in-sync replicas end at different offsets at the end
epochs-differ      the leader epochs of two in-sync replicas begin at different offsets at the end, as far as both have them
start-beyond       a log begins after all that clients wanted to delete
false-clean        a broker said that its last stop was clean, and it was not (KIP-966)

What leaders do is looked at in leaders.py.

Where logs start is not compared with each other: as in Kafka, a DeleteRecords is on disk only with the next checkpoint, so a
leader may forget it by a crash, and a follower that has heard of it does not.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from compat_tests.anomalies.records import Anomaly
from ottla.server.partitions.roles import Leader
from ottla.wire.batch import iter_batches
from tests.sim.cluster.leaders import Watermarks, watch_return

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog
    from ottla.server.partitions.replica import Replica
    from tests.sim.cluster.controller import PartitionState
    from tests.sim.cluster.world import ClusterWorld, Node

_MOST: Final = 1 << 20


class Batch(NamedTuple):
    """The identity of a batch among others at the same offset."""

    epoch: int
    next_offset: int
    crc: int


class Watcher:
    """See the module's docstring; `look` is called often, `look_at_the_end` once all is repaired and in sync."""

    def __init__(self, world: ClusterWorld) -> None:
        self.found: list[Anomaly] = []
        self._world = world
        self._watermarks = Watermarks(world.loop.time)
        self._claims = self._events = 0
        self._trims: dict[str, int] = defaultdict(int)
        """The offset up to which clients wanted the records of a partition to be deleted."""
        self._returns: list[asyncio.Task[None]] = []
        world.on_return = self._look_at_return
        world.quorum.controller.on_change.append(self._look_at_change)
        self._replicated: dict[str, dict[int, tuple[Batch, int]]] = defaultdict(dict)
        """The batches below any high watermark, by base offset, each with the node that had it first."""
        self._written: dict[str, dict[tuple[int, int], tuple[Batch, int]]] = defaultdict(dict)
        """The batches that any log ever had, by leader epoch and base offset."""
        self._seen: dict[tuple[int, str], int] = {}
        """Up to where the replicated part of a log was looked at, by life and partition."""

    def look(self) -> None:
        """Looks at all brokers that run, also at those that stand still."""
        events = self._world.recorder.events
        for event in events[self._events :]:
            for key, offset in event.get("offsets", {}).items() if event.get("f") == "trim" else ():
                self._trims[key] = max(self._trims[key], offset)
        self._events = len(events)
        for node in self._world.nodes.values():
            with node.disk_works():
                for replica in node.replicas():
                    if replica.log.directory.failed is None:  # else it cannot be read
                        self._look_at(node, replica)
        self._look_at_claims()

    def _look_at_claims(self) -> None:
        """Checks what brokers that registered said of their last stops."""
        claims, self._claims = self._world.quorum.controller.claims[self._claims :], len(self._world.quorum.controller.claims)
        for node_id, epoch in claims:
            if epoch not in self._world.nodes[node_id].clean_epochs:
                self._note("false-clean", f"node {node_id}", f"it says that its life with the epoch {epoch} was stopped cleanly")

    def _look_at_change(self, state: PartitionState) -> None:
        """Checks, at the moment at which the controllers write down who is in sync, that this is so."""
        if state.leader > 0:
            leader = self._world.nodes[state.leader]
            replica = leader.replica_of(state)
            if replica is not None:
                self._look_at_in_sync(leader, replica)

    def _look_at_return(self, node: Node) -> None:
        self._returns.append(asyncio.ensure_future(watch_return(self._world, node, self._note)))

    def _look_at(self, node: Node, replica: Replica) -> None:
        key = f"{replica.topic}-{replica.partition}"
        place = node.life, key
        log = replica.log
        replicated = self._replicated[key]
        if log.log_start_offset > self._trims[key]:
            what = f"{node.host} begins at {log.log_start_offset}, and only what is below {self._trims[key]} was to be deleted"
            self._note("start-beyond", key, what)
        if log.log_end_offset < self._seen.get(place, 0):
            self._note("lost-replicated", key, f"{node.host} has cut its log at {log.log_end_offset}, below {self._seen[place]}")
        for base_offset, batch in batches(log, max(self._seen.get(place, 0), log.log_start_offset)):
            first, by = self._written[key].setdefault((batch.epoch, base_offset), (batch, node.node_id))
            if first != batch:
                self._note(
                    "split-brain", key, f"epoch {batch.epoch} wrote {first} at {base_offset} on node {by}, {batch} on {node.host}"
                )
            if batch.next_offset <= log.high_watermark:
                first, by = replicated.setdefault(base_offset, (batch, node.node_id))
                if first != batch:
                    self._note("replicas-differ", key, f"node {by} had {first} at {base_offset}, {node.host} has {batch}")
                self._seen[place] = batch.next_offset
        if isinstance(replica.role, Leader) and replica.role.high_watermark is not None:
            watermark = replica.role.high_watermark
            known = self._world.quorum.controller.isrs.get((key, watermark.partition_epoch))
            if watermark.partition_epoch >= 0 and known != watermark.in_sync:
                what = (
                    f"{node.host} counts {sorted(watermark.in_sync)} in partition epoch {watermark.partition_epoch}, not {known}"
                )
                self._note("own-isr", key, what)
            self._look_at_in_sync(node, replica)
            for anomaly in self._watermarks.look(node, replica, watermark):
                self._note(*anomaly)

    def _look_at_in_sync(self, leader: Node, replica: Replica) -> None:
        """Checks that whoever is in sync with a leader has all that it calls replicated."""
        state = self._world.quorum.controller.partitions[replica.topic_id, replica.partition]
        if (state.leader, state.leader_epoch) != (leader.node_id, replica.leader_epoch):
            return
        for node_id in state.isr:
            log = self._log_of(node_id, state)
            if log is not None and log.log_end_offset < replica.log.high_watermark:
                what = f"{replica.log.high_watermark} on {leader.host}, and node {node_id} ends at {log.log_end_offset}"
                self._note("hw-beyond-isr", state.key, what)

    def _note(self, name: str, where: str, what: str) -> None:
        if not any(each[:2] == (name, where) for each in self.found):  # the first says what was the matter
            self.found.append(Anomaly(name, where, what))
            self._world.say(f"      {self.found[-1]}")

    # The end

    def look_at_the_end(self) -> None:
        """Compares all in-sync replicas of each partition from their beginning to their end."""
        self._seen.clear()
        self.look()
        for each in self._returns:
            if each.done():
                each.result()  # raises what the check itself raised
        for state in self._world.partitions():
            logs = {node_id: self._log_of(node_id, state) for node_id in state.isr}
            found = {node_id: log for node_id, log in logs.items() if log is not None}
            self._compare(state, found)
            for node_id, log in found.items():
                self._look_for_losses(state.key, node_id, log)

    def _log_of(self, node_id: int, state: PartitionState) -> PartitionLog | None:
        replica = self._world.nodes[node_id].replica_of(state)
        return None if replica is None else replica.log

    def _compare(self, state: PartitionState, logs: dict[int, PartitionLog]) -> None:
        start = max((log.log_start_offset for log in logs.values()), default=0)
        for name, values in (
            ("uneven-end", {node_id: log.log_end_offset for node_id, log in logs.items()}),
            ("epochs-differ", {node_id: _epochs(log, start) for node_id, log in logs.items()}),
        ):
            if len(set(values.values())) > 1:
                self._note(name, state.key, f"{values} by node, led by {state.leader}")

    def _look_for_losses(self, key: str, node_id: int, log: PartitionLog) -> None:
        there = dict(batches(log, log.log_start_offset))
        for base_offset, (batch, by) in self._replicated[key].items():
            if batch.next_offset > log.log_start_offset and there.get(base_offset) != batch:
                self._note(
                    "lost-replicated", key, f"node {by} had {batch} at {base_offset}; node {node_id} has {there.get(base_offset)}"
                )


def batches(log: PartitionLog, offset: int) -> list[tuple[int, Batch]]:
    """Returns (base offset, batch) from an offset to the log's end."""
    found: list[tuple[int, Batch]] = []
    while offset < log.log_end_offset:
        region = log.read(offset, _MOST, upto=log.log_end_offset)
        data = region.read() if region is not None else b""
        if not data:
            break
        for header, _ in iter_batches(data):
            found.append((header.base_offset, Batch(header.partition_leader_epoch, header.next_offset, header.crc)))
            offset = header.next_offset
    return found


def _epochs(log: PartitionLog, start: int) -> tuple[tuple[int, int], ...]:
    """Returns the offsets from `start` on at which leader epochs begin, and the epochs, of those of which the log has records
    there; only a leader knows of another one. The one that has the record at `start` begins there.
    """
    if start >= log.log_end_offset:
        return ()
    entries = [each for each in log.epochs.entries if each.start_offset < log.log_end_offset]
    return tuple({max(each.start_offset, start): each.epoch for each in entries}.items())
