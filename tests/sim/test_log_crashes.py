"""A partition's log against power cuts and failing disks, seeded: same seed, same run.

A run is a script of operations on a MemDisk. A model knows what was written at every offset, what was acknowledged as flushed,
and forgets nothing. Then the power is cut, before any operation of the disk, with any loss that a file system may cause, and
the log is opened again. What must hold:

- it opens, and goes on: the next append gets the next offset;
- everything flushed is there, unchanged;
- whatever else is there was written at that very offset once, batches follow each other, and all of them decode;
- producer states, leader epochs, indexes and time lookups say what the batches say.
"""

from __future__ import annotations

import errno
from collections import defaultdict
from collections.abc import Callable
from random import Random

import pytest

from ottla.log.errors import StorageError
from ottla.log.management.passes import delete_steps, run_pass
from ottla.log.timestamps import offset_for_timestamp
from ottla.wire.batch import check_crc, read_header
from tests.log.support import NOW_MS, Rig, batch, settings
from tests.memdisk import PowerCut

SIZE = len(batch())
CONFIG = settings(
    segment_bytes=5 * SIZE,
    index_interval_bytes=SIZE,
    retention_bytes=12 * SIZE,
    file_delete_delay_ms=1000,
    message_timestamp_after_max_ms=1 << 60,
)


class Run:
    """One partition, its model, and the operations that a script may choose from."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.rig = Rig(CONFIG, seed=seed)
        self.written: dict[int, set[bytes]] = defaultdict(set)  # base offset -> every batch written there, from byte 16 on
        self.now: dict[int, bytes] = {}  # base offset -> the batch there, as far as we know
        self.flushed = 0
        self.deleted_upto = 0  # the greatest start of the log so far; a crash may take it back
        self.sequences: dict[int, int] = defaultdict(int)
        self.epoch = 0

    # Operations

    def append(self) -> None:
        producer_id = self.random.choice((-1, 5, 6))
        count = self.random.randint(1, 3)
        producer = (producer_id, 0, self.sequences[producer_id]) if producer_id >= 0 else None
        data = batch(
            count, producer=producer, timestamp_ms=NOW_MS + self.random.randint(0, 1000), value=self.random.randbytes(20)
        )
        base = self.rig.log.log_end_offset
        self.written[base].add(data[16:])
        info = self.rig.append(data, leader_epoch=self.epoch)
        assert (info.base_offset, info.duplicate) == (base, False)
        self.now[base] = data[16:]
        self.sequences[producer_id] += count

    def flush(self) -> None:
        end = self.rig.log.log_end_offset
        self.rig.log.flush()
        self.flushed = end

    def flush_rolled(self) -> None:
        self.rig.manager.flush_pass(self.rig.now_ms)
        self.flushed = max(self.flushed, self.rig.log.recovery_point)

    def roll(self) -> None:
        self.rig.log.roll()

    def checkpoint(self) -> None:
        self.rig.manager.checkpoint_pass()

    def retention(self) -> None:
        self.rig.log.apply_retention(self.rig.now_ms)
        self.deleted_upto = max(self.deleted_upto, self.rig.log.log_start_offset)

    def delete_files(self) -> None:
        self.rig.now_ms += 600
        run_pass(delete_steps(self.rig.manager, self.rig.now_ms))

    def delete_records(self) -> None:
        log = self.rig.log
        log.delete_records_before(self.random.randint(log.log_start_offset, log.log_end_offset))
        self.deleted_upto = max(self.deleted_upto, log.log_start_offset)

    def new_epoch(self) -> None:
        self.epoch += 1

    def truncate(self) -> None:
        log = self.rig.log
        ends = [base for base in self.now if log.log_start_offset <= base <= log.log_end_offset]
        if ends:
            offset = self.random.choice(ends[-6:])
            self.flushed = min(self.flushed, offset)
            log.truncate_to(offset)
            self.now = {base: data for base, data in self.now.items() if base < offset}
            self.learn_sequences()

    def restart(self) -> None:
        self.rig.manager.close()
        self.flushed = self.rig.log.log_end_offset
        self.rig.start()
        self.verify()

    def kill(self) -> None:
        self.rig.manager.close(clean=False)
        self.rig.start()
        self.verify()

    OPERATIONS: tuple[tuple[Callable[[Run], None], int], ...] = (
        (append, 40),
        (flush, 5),
        (flush_rolled, 4),
        (roll, 2),
        (checkpoint, 4),
        (retention, 3),
        (delete_files, 3),
        (delete_records, 1),
        (new_epoch, 2),
        (truncate, 2),
        (restart, 2),
        (kill, 1),
    )

    def step(self) -> None:
        operations, weights = zip(*self.OPERATIONS, strict=True)
        self.random.choices(operations, weights)[0](self)

    def play(self, steps: int) -> None:
        """The same seed plays the same steps."""
        for _ in range(steps):
            self.step()

    # Cutting the power

    def cut_power(self, rng: Random | None) -> None:
        self.rig.memory.crash(rng)
        self.rig.start()
        self.verify()

    # What must hold

    def verify(self) -> None:
        log = self.rig.log
        assert log.log_end_offset >= self.flushed, f"{log!r} lost flushed offsets up to {self.flushed}"
        expected, found = None, {}
        for data in log.iterate_batches(log.log_start_offset):
            header = read_header(data)
            assert check_crc(data, header)
            assert expected in (None, header.base_offset), "batches follow each other"
            expected = header.next_offset
            assert data[16:] in self.written[header.base_offset], f"offset {header.base_offset} was never written so"
            if header.base_offset < self.flushed and header.base_offset in self.now:  # retention may be undone
                assert data[16:] == self.now[header.base_offset], f"offset {header.base_offset} was flushed and differs"
            found[header.base_offset] = data
        assert expected in (None, log.log_end_offset)
        assert log.recovery_point <= log.log_end_offset == log.high_watermark
        self.now = {base: data[16:] for base, data in found.items()}
        self.verify_derived(found)
        self.learn_sequences()
        self.epoch = max(self.epoch, log.leader_epoch)

    def verify_derived(self, found: dict[int, bytes]) -> None:
        log = self.rig.log
        last: dict[int, int] = {}
        for base, data in found.items():
            header = read_header(data)
            assert log.epochs.epoch_for(max(base, log.log_start_offset)) == header.partition_leader_epoch
            if header.producer_id >= 0 and base >= self.deleted_upto:
                last[header.producer_id] = header.last_sequence
            located = log.read(max(base, log.log_start_offset), 1, upto=log.log_end_offset)
            assert located is not None
            assert read_header(located.read()).base_offset == base
        for producer_id, sequence in last.items():
            state = log.producers.get(producer_id)
            assert state is not None
            assert state.last_sequence == sequence
        for target in (NOW_MS, NOW_MS + 500, NOW_MS + 1000):
            # every record of a batch has the same time
            expected = next(
                (max(base, log.log_start_offset) for base, data in found.items() if read_header(data).max_timestamp >= target),
                None,
            )
            at = offset_for_timestamp(log, target)
            assert (at.offset if at else None) == expected

    def learn_sequences(self) -> None:
        """Producers go on where the log says, as clients do after an error that they got."""
        for producer_id in (5, 6):
            state = self.rig.log.producers.get(producer_id)
            self.sequences[producer_id] = state.last_sequence + 1 if state else 0


@pytest.mark.parametrize("seed", range(60))
def test_random_runs_with_power_cuts(seed: int) -> None:
    run = Run(seed)
    for _ in range(6):
        run.rig.memory.stop_after(run.random.randint(0, 150))
        with pytest.raises(PowerCut):
            run.play(1 << 30)
        run.cut_power(run.random if run.random.random() < 0.8 else None)
    run.append()
    run.restart()


@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_before_every_single_change(seed: int) -> None:
    whole = Run(seed)
    before = whole.rig.memory.changes
    whole.play(60)
    total = whole.rig.memory.changes - before
    assert total > 100
    for stop in range(total):
        for loss in (None, Random(stop), Random(-stop - 1)):
            run = Run(seed)
            run.rig.memory.stop_after(stop)
            with pytest.raises(PowerCut):
                run.play(60)
            run.cut_power(loss)
            run.append()
            run.flush()


@pytest.mark.parametrize("seed", range(60))
def test_random_faults_take_the_directory_offline_and_lose_nothing(seed: int) -> None:
    run = Run(1000 + seed)
    for _ in range(4):
        operation = run.random.choice(("append", "append", "sync", "truncate", "rename", "write_bytes", "sync_dir"))
        code = run.random.choice((errno.EIO, errno.ENOSPC))
        run.rig.memory.fail(operation, code, skip=run.random.randint(0, 10), written=run.random.randint(0, SIZE))
        for _ in range(300):
            try:
                run.step()
            except StorageError:
                break
            if run.rig.log.directory.failed:  # in a pass, which goes on with other directories
                break
        if run.rig.log.directory.failed:
            with pytest.raises(StorageError):
                run.append()
        run.rig.memory._faults.clear()
        run.rig.manager.close()
        run.rig.start()
        run.verify()
