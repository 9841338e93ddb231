"""A live log that does all that logs do, and after each step two readers: one that goes on from what it has seen, and a new one.

They must see the same: the ends, the slices with their aborted transactions, the indexes that were built.
`OTTLA_WALK_SEEDS=500` is for searching.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from ottla.log.disk import checkpoint
from ottla.log.partition import PartitionLog
from ottla.pipeline.data_source.seen import SeenPartitions
from ottla.pipeline.data_source.segments import Place, Wanted, slices
from tests.log.support import NOW_MS, batch
from tests.pipeline.logs import end_transaction, fill, place, rig

SEEDS = int(os.environ.get("OTTLA_WALK_SEEDS", "12"))
STEPS = 12


def view(where: Place, seen: SeenPartitions) -> list[object]:
    def look(log: PartitionLog) -> list[object]:
        cut = [slices(log, where, Wanted(committed=committed), 500) for committed in (False, True)]
        built = [(one.size, one.max_timestamp, one.offset_index.entries(), one.time_index.entries()) for one in log.segments]
        ends = (log.log_start_offset, log.log_end_offset, log.last_stable_offset, log.leader_epoch)
        return [ends, *cut, built]

    return seen.with_log(where, look)


class Walk:
    """`producers`: the next sequence number of each; `open`: those with a transaction."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random = Random(seed)
        self.directory = directory
        self.rig = rig(
            directory, segment_bytes=random.choice([6000, 1 << 20]), index_interval_bytes=random.choice([0, 200, 4096])
        )
        fill(self.rig, 1)
        self.epoch, self.next_producer = 0, 10
        self.producers: dict[int, int] = {}
        self.open: list[int] = []

    def step(self) -> None:
        steps = {self.plain: 4, self.produce: 10, self.end: 4, self.cut: 1, self.shorten: 1, self.flushed: 1, self.roll: 1}
        self.random.choices(list(steps), list(steps.values()))[0]()

    def plain(self) -> None:
        records = batch(self.random.randrange(1, 5), timestamp_ms=NOW_MS + self.random.randrange(100_000))
        self.rig.append(records, leader_epoch=self.epoch)

    def produce(self) -> None:
        if len(self.producers) < 4:
            self.producers[self.next_producer] = 0
            self.next_producer += 1
        producer = self.random.choice(sorted(self.producers))
        count, sequence = self.random.randrange(1, 4), self.producers[producer]
        transactional = producer % 4 != 0
        self.rig.append(batch(count, producer=(producer, 0, sequence), transactional=transactional), leader_epoch=self.epoch)
        self.producers[producer] = sequence + count
        if transactional and producer not in self.open:
            self.open.append(producer)

    def end(self) -> None:
        if self.open:
            producer = self.open.pop(self.random.randrange(len(self.open)))
            end_transaction(self.rig, producer, commit=self.random.random() < 0.5)

    def cut(self) -> None:
        """As a follower of a new leader: what comes then has its epoch."""
        log = self.rig.log
        log.truncate_to(self.random.randrange(log.log_start_offset, log.log_end_offset + 1))
        self.epoch += 1
        log.begin_epoch(self.epoch)
        self.producers, self.open = {}, []

    def shorten(self) -> None:
        log = self.rig.log
        log.delete_records_before(self.random.randrange(log.log_start_offset, log.last_stable_offset + 1))

    def flushed(self) -> None:
        log = self.rig.log
        point = self.random.randrange(log.log_start_offset, log.log_end_offset + 1)
        (self.directory / checkpoint.RECOVERY_POINTS).write_text(f"0\n1\nt 0 {point}\n")

    def roll(self) -> None:
        if self.rig.log.log_end_offset > self.rig.bases[-1]:
            self.rig.log.roll()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_reader_that_goes_on_sees_what_a_new_one_sees(tmp_path: Path, seed: int) -> None:
    walk = Walk(tmp_path, seed)
    where, seen = place(tmp_path), SeenPartitions()
    for _ in range(STEPS):
        for _ in range(walk.random.randrange(1, 6)):
            walk.step()
        assert view(where, seen) == view(where, SeenPartitions())
