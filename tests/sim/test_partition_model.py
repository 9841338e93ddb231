"""A partition's log against the simple model of tests/sim/model.py, in whatever order hypothesis comes up with.

Two machines: one keeps and deletes, one compacts. After every operation the whole log is held against the model, after a power
cut it must be a state that the model allows, and goes on from there. Reads are worked out by the model byte for byte.

Quick by default, and the same every time. `OTTLA_MODEL_EXAMPLES=2000 python -m pytest tests/sim/test_partition_model.py` is for
searching.
"""

from __future__ import annotations

import dataclasses
import os
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.log.compaction.cleaner_manager import LogCleanerManager
from ottla.log.errors import OffsetOutOfRange, OutOfOrderSequence
from ottla.log.management.passes import delete_steps, run_pass
from ottla.log.validate import Origin
from ottla.wire.batch import read_header
from tests.log.support import NOW_MS, Rig, batch, marker
from tests.sim.model import Batch, Loss, Producer, State, check, producers_of
from tests.sim.trace import CONFIGS, RETENTION_BYTES

EXAMPLES = int(os.environ.get("OTTLA_MODEL_EXAMPLES", "0"))
PLAIN, IDEMPOTENT, TRANSACTIONAL = [-1], [5, 6], [7, 8]
offsets = st.floats(0, 1)
"""A place between the log's start and its end; what is there differs with every step."""


class PartitionMachine(RuleBasedStateMachine):
    topic = "t"

    @initialize(seed=st.integers(0, 3))
    def begin(self, seed: int) -> None:
        self.state = State(1)
        self.rig = Rig(CONFIGS[self.topic], seed=seed, topic_id=self.state.topic_id)

    @property
    def log(self) -> Any:
        return self.rig.log

    def at(self, part: float, low: int, high: int) -> int:
        return low + round(part * (high - low))

    def producer(self, producer_id: int) -> Producer:
        return producers_of(self.state.batches)[0].get(producer_id, Producer())

    # Appending

    @rule(producer_id=st.sampled_from(PLAIN + IDEMPOTENT + TRANSACTIONAL), count=st.integers(1, 4), late=st.integers(0, 99))
    def append(self, producer_id: int, count: int, late: int) -> None:
        known = self.log.producers.get(producer_id)
        sequence = known.last_sequence + 1 if known else self.producer(producer_id).last_sequence + 1
        data = batch(
            count,
            timestamp_ms=NOW_MS + late,
            value=bytes([count, late]) * 20,
            producer=(producer_id, max(self.producer(producer_id).epoch, 0), sequence) if producer_id >= 0 else None,
            transactional=producer_id in TRANSACTIONAL,
        )
        self.append_data(data)

    def append_data(self, data: bytes, origin: Origin = Origin.CLIENT) -> None:
        base = self.state.end
        self.state = self.state.appended(data)
        info = self.log.append_as_leader(data, leader_epoch=self.state.epoch, origin=origin)
        assert (info.base_offset, info.last_offset, info.duplicate) == (base, self.state.end - 1, False)

    @rule(producer_id=st.sampled_from(TRANSACTIONAL), commit=st.booleans())
    def end_transaction(self, producer_id: int, commit: bool) -> None:
        self.append_data(marker(producer_id, max(self.producer(producer_id).epoch, 0), commit=commit), Origin.COORDINATOR)

    @rule(producer_id=st.sampled_from(IDEMPOTENT))
    def begin_producer_epoch(self, producer_id: int) -> None:
        epoch = self.producer(producer_id).epoch + 1
        self.append_data(batch(producer=(producer_id, epoch, 0)))

    @rule(producer_id=st.sampled_from(IDEMPOTENT), gap=st.sampled_from([-7, 3]))
    def append_out_of_order(self, producer_id: int, gap: int) -> None:
        producer = self.producer(producer_id)
        known = self.log.producers.get(producer_id)
        if known is not None and known.last_sequence >= 10:
            with pytest.raises(OutOfOrderSequence):
                self.log.append_as_leader(
                    batch(producer=(producer_id, producer.epoch, producer.last_sequence + gap)), leader_epoch=self.state.epoch
                )

    @rule(producer_id=st.sampled_from(IDEMPOTENT))
    def repeat(self, producer_id: int) -> None:
        written = [found for found in self.state.batches if found.header.producer_id == producer_id]
        known = self.log.producers.get(producer_id)
        if written and known is not None and known.last_offset >= 0:
            info = self.log.append_as_leader(written[-1].data, leader_epoch=self.state.epoch)
            assert (info.base_offset, info.last_offset, info.duplicate) == (written[-1].base, written[-1].end - 1, True)

    @rule()
    def begin_leader_epoch(self) -> None:
        self.state = dataclasses.replace(self.state, epoch=self.state.epoch + 1)

    # Reading

    @rule(part=offsets, max_bytes=st.integers(1, 1500), upto=offsets, whole=st.booleans())
    def read(self, part: float, max_bytes: int, upto: float, whole: bool) -> None:
        start, end = self.log.log_start_offset, self.state.end
        offset = self.at(part, start, end)
        bounds = sorted({start, end, *(found.base for found in self.state.batches if found.base >= start)})
        limit = bounds[round(upto * (len(bounds) - 1))]
        found = self.log.read(offset, max_bytes, upto=limit, min_one_batch=whole)
        expected = self.expected_read(offset, max_bytes, limit, whole)
        assert (found.read() if found is not None else b"") == expected

    def expected_read(self, offset: int, max_bytes: int, upto: int, whole: bool) -> bytes:
        """From the batch with `offset` to the end of its segment, or to `upto`, cut at `max_bytes`."""
        readable = [found for found in self.state.batches if found.end > offset and found.base < upto]
        if offset >= upto or not readable:
            return b""
        next_base = next((base for base in self.state.bases if base > readable[0].base), self.state.end)
        stored = [stored_bytes(found) for found in readable if found.base < next_base]
        if len(stored[0]) > max_bytes:
            return stored[0] if whole else b""
        return b"".join(stored)[:max_bytes]

    @rule(before=st.integers(1, 5), behind=st.integers(1, 5))
    def read_outside(self, before: int, behind: int) -> None:
        for offset in (self.log.log_start_offset - before, self.state.end + behind):
            with pytest.raises(OffsetOutOfRange):
                self.log.read(offset, 100, upto=self.state.end)

    # Cutting

    @rule()
    def roll(self) -> None:
        self.state = self.state.rolled()
        self.log.roll()

    @rule(part=offsets)
    def truncate(self, part: float) -> None:
        start = self.log.log_start_offset
        ends = [start, *(found.base for found in self.state.batches if found.base > start), self.state.end]
        offset = ends[round(part * (len(ends) - 1))]
        if any(found.base < offset < found.end for found in self.state.batches):  # the start lies inside a batch
            return
        self.state = self.state.truncated(offset)
        self.log.truncate_to(offset)

    @rule(part=offsets)
    def delete_records(self, part: float) -> None:
        offset = self.at(part, self.log.log_start_offset, self.state.end)
        self.state = dataclasses.replace(self.state, log_start=max(offset, self.state.log_start))
        assert self.log.delete_records_before(offset) == self.state.log_start

    @rule()
    def retention(self) -> None:
        self.state = self.state.retained(RETENTION_BYTES)
        self.log.apply_retention(self.rig.now_ms)
        assert self.rig.bases == list(self.state.bases)

    @rule()
    def remove_files(self) -> None:
        self.rig.now_ms += 1500
        run_pass(delete_steps(self.rig.manager, self.rig.now_ms))
        assert not self.rig.names(".deleted")

    # Keeping

    @rule()
    def flush(self) -> None:
        self.state = self.state.synced()
        self.log.flush()
        assert self.log.recovery_point == self.state.end

    @rule()
    def checkpoint(self) -> None:
        self.state = self.state.checkpointed()
        self.rig.manager.checkpoint_pass()

    @rule()
    def reopen(self) -> None:
        self.state = self.state.synced().checkpointed()
        self.rig.restart(clean=True)

    @rule()
    def kill(self) -> None:
        self.rig.restart(clean=False)
        self.take_over(Loss.KILL)

    @rule(seed=st.integers(0, 1 << 16))
    def cut_power(self, seed: int) -> None:
        self.rig.memory.crash(Random(seed))
        self.rig.start()
        self.take_over(Loss.POWER)

    def take_over(self, loss: Loss) -> None:
        """Takes over what is there, which may be less than there was; the model goes on from it."""
        log, state = self.log, self.state
        check(log, state, state, loss)
        end = log.log_end_offset
        kept = tuple(found for found in state.batches if found.end <= end)
        if not kept or kept[-1].end != end:  # everything is gone, and the log begins anew at its start
            kept = ()
        self.state = dataclasses.replace(
            state, batches=kept, log_start=log.log_start_offset, flushed=min(state.flushed, end), bases=tuple(self.rig.bases)
        )
        self.rig.manager.create("t", 0, state.topic_id, CONFIGS[self.topic])

    @invariant()
    def fits(self) -> None:
        if hasattr(self, "state"):
            check(self.log, self.state, self.state, Loss.KILL)


class CompactedMachine(PartitionMachine):
    """The cleaner's partition. Of reading only the whole is compared, record by record (`check`)."""

    topic = "c"
    read = None  # type: ignore[assignment]  # no rule here
    delete_records = None  # type: ignore[assignment]  # likewise
    retention = None  # type: ignore[assignment]  # likewise
    truncate = None  # type: ignore[assignment]  # likewise

    @rule()
    def compact(self) -> None:
        self.state = dataclasses.replace(self.state, compacted=True)
        LogCleanerManager(self.rig.manager, lambda: self.rig.now_ms, Random(1)).clean_pass()

    @precondition(lambda self: len(self.state.batches) > 1)
    @rule()
    def cut_the_tail(self) -> None:
        """The active segment is never cleaned, so its batches are as the model knows them. Not a marker: without it the aborted
        transaction, whose records may be gone, would be open again."""
        tail = [found for found in self.state.batches if found.base >= self.rig.bases[-1]]
        if tail and not tail[-1].header.is_control:
            self.state = self.state.truncated(tail[-1].base)
            self.log.truncate_to(tail[-1].base)


def stored_bytes(found: Batch) -> bytes:
    """A batch as the log stores it: with its offset and leader epoch."""
    assert read_header(found.data).base_offset == 0
    return found.base.to_bytes(8, "big") + found.data[8:12] + found.epoch.to_bytes(4, "big") + found.data[16:]


_PROFILE = hypothesis_settings(
    max_examples=EXAMPLES or 150,
    stateful_step_count=200 if EXAMPLES else 50,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestPartition = PartitionMachine.TestCase
TestPartition.settings = _PROFILE
TestCompacted = CompactedMachine.TestCase
TestCompacted.settings = _PROFILE
