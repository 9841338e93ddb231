"""Transactions in a log against Kafka's own classes (tests/kafka_oracle.py): the same appends, markers, cuts and restarts.

After each step both say the same of the last stable offset, of who was aborted in any range, and of every producer, in the same
order; in the end the `.log`, `.txnindex` and `.snapshot` files are equal byte for byte.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.log.disk.files import OsDisk
from ottla.log.errors import LogError
from ottla.log.markers import build_marker
from ottla.log.producers import ProducerState
from ottla.log.transactions import aborted_in_read, append_marker, collect_aborted
from ottla.server.base.errors import code_of
from tests.kafka_oracle import KafkaOracle
from tests.log.support import NOW_MS, Rig, batch, settings

pytestmark = pytest.mark.oracle

MAX_TIMEOUT_MS = 900_000  # transaction.max.timeout.ms, as the oracle's log has it
PRODUCERS = (1, 2, 17, 33, 4_000_000_005)  # 1, 17 and 33 share a slot of a small hash table


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaOracle]:
    with KafkaOracle() as oracle:
        yield oracle


class Both:
    """The same log twice. `at_ms` is the time of both."""

    def __init__(self, kafka: KafkaOracle, path: Path, rng: Random) -> None:
        self.kafka, self.path, self.rng = kafka, path, rng
        self.words = [
            f"index.interval.bytes={rng.choice((0, 200, 4096))}",
            f"segment.ms={10**12}",
            f"file.delete.delay.ms={10**9}",
        ]
        self.at_ms = NOW_MS
        kafka.ask("log", *self.words)
        interval = int(self.words[0].partition("=")[2])
        self.rig = Rig(
            settings(index_interval_bytes=interval, segment_ms=10**12, file_delete_delay_ms=10**9),
            OsDisk(),
            directory=str(path),
            topic_id=bytes(15) + b"\x01",
        )
        self.replicated(0)
        self.sequences: dict[tuple[int, int], int] = {}
        self.epochs = dict.fromkeys(PRODUCERS, 0)

    def tick(self) -> None:
        self.at_ms += self.rng.randrange(100)
        self.rig.now_ms = self.at_ms

    def replicated(self, high_watermark: int) -> None:
        """Everything below is on all replicas now."""
        log = self.rig.log
        log.replicate_by(lambda end_offset: True)  # other replicas count
        log.raise_high_watermark(high_watermark)
        assert self.kafka.ask("stable", high_watermark) == str(log.last_stable_offset)

    def send(self, producer_id: int, *, transactional: bool) -> None:
        self.tick()
        epoch = self.epochs[producer_id]
        sequence = self.sequences.get((producer_id, epoch), 0) + (self.rng.random() < 0.05)  # sometimes a gap
        count = self.rng.randint(1, 4)
        data = batch(
            count,
            timestamp_ms=self.at_ms - self.rng.choice((0, 50)),
            value=b"v" * self.rng.randrange(200),
            producer=(producer_id, epoch, sequence),
            transactional=transactional,
        )
        theirs = self.kafka.ask("append", self.at_ms, 12, 0, data.hex())
        try:
            info = self.rig.append(data)
            ours = f"ok {info.base_offset} {info.last_offset} -1"
            self.sequences[producer_id, epoch] = sequence + count
        except LogError as error:
            ours = f"error {code_of(error).name}"
        assert theirs == ours

    def end(self, producer_id: int) -> None:
        self.tick()
        rng = self.rng
        version = rng.choice((0, 0, 1, 2))
        epoch = self.epochs[producer_id] + rng.choice((-1, 0, 0, 0, 1) if version < 2 else (0, 1, 1, 1))
        fields: dict[str, Any] = {"commit": rng.random() < 0.4, "coordinator_epoch": rng.choice((3, 3, 3, 2, 4))}
        if epoch < 0:
            return
        marker = build_marker(producer_id, epoch, timestamp_ms=self.at_ms, **fields)
        theirs = self.kafka.ask("marker", self.at_ms, version, 0, marker.hex())
        try:
            info = append_marker(
                self.rig.log,
                producer_id=producer_id,
                producer_epoch=epoch,
                leader_epoch=0,
                transaction_version=version,
                **fields,
            )
            ours = f"ok {info.base_offset}"
            self.epochs[producer_id] = epoch
        except LogError as error:
            ours = f"error {code_of(error).name}"
        assert theirs == ours

    def cut(self, how: str) -> None:
        """DeleteRecords, a truncation, or a new segment."""
        log = self.rig.log
        self.replicated(log.log_end_offset)
        bases = [int.from_bytes(data[:8], "big") for data in log.iterate_batches(log.log_start_offset)]
        if how == "roll" or not bases:
            assert self.kafka.ask("roll", 0) == str(log.roll().base_offset)
        elif how == "start":
            offset = self.rng.choice(bases)
            assert self.kafka.ask("start", offset) == str(log.delete_records_before(offset))
        else:
            offset = max(self.rng.choice(bases[len(bases) // 2 :]), log.log_start_offset + 1)
            log.truncate_to(offset)
            assert self.kafka.ask("truncate", offset) == str(log.log_end_offset)
            self.sequences = {(s.producer_id, s.producer_epoch): (s.last_sequence + 1) for s in log.producers}
            for state in log.producers:
                self.epochs[state.producer_id] = max(state.producer_epoch, 0)
            self.replicated(log.log_end_offset)

    def restart(self, *, clean: bool) -> None:
        log = self.rig.log
        start, recovery_point = log.log_start_offset, log.recovery_point
        high_watermark = log.log_end_offset
        self.rig.manager.checkpoint_pass()
        self.rig.restart(clean=clean)
        at = self.kafka.ask("shut")
        self.kafka.ask("reopen", at, start, recovery_point if not clean else high_watermark, str(clean).lower(), *self.words)
        self.replicated(high_watermark)

    def compare(self) -> None:
        log, rng = self.rig.log, self.rng
        if log.high_watermark < log.log_end_offset:
            self.replicated(rng.randint(log.high_watermark, log.log_end_offset))
        assert self.kafka.ask("producers") == "".join(map(self.described, log.producers.in_kafkas_order()))
        late = self.at_ms + rng.randrange(2 * (MAX_TIMEOUT_MS + 300_000))
        assert self.kafka.ask("late", late) == str(log.producers.has_late_transaction(late, MAX_TIMEOUT_MS)).lower()
        low, high = log.log_start_offset, rng.randint(log.log_start_offset, log.log_end_offset + 3)
        found = collect_aborted(log, low, high)
        assert self.kafka.ask("aborted", low, high) == "".join(":".join(map(str, entry)) + "," for entry in found)
        stable = log.last_stable_offset
        if stable > log.log_start_offset:
            offset, size = rng.randrange(log.log_start_offset, stable), rng.choice((1, 100, 500, 1 << 20))
            data = log.read(offset, size, upto=stable)
            assert data is not None
            told = "".join(f"{each.producer_id}:{each.first_offset}," for each in aborted_in_read(log, offset, data))
            assert self.kafka.ask("committed", offset, size) == f"{data.length} {told}"

    @staticmethod
    def described(state: ProducerState) -> str:
        return (
            f"{state.producer_id}:{state.producer_epoch}:{state.last_sequence}:{state.last_timestamp_ms}:"
            f"{state.coordinator_epoch}:{state.txn_first_offset},"
        )

    def compare_files(self) -> None:
        """Snapshots: Kafka writes some more in a start and a truncation, which only save it reading the log again."""
        end = self.rig.log.log_end_offset
        bases = self.rig.bases
        self.rig.manager.close()
        theirs = Path(self.kafka.ask("shut"))
        ours = self.rig.path
        wanted = {f"{offset:020d}.snapshot" for offset in (*bases[1:], end)}
        compared = 0
        for suffix in (".log", ".txnindex", ".snapshot"):
            found = [
                {file.name: file.read_bytes() for file in Path(path).iterdir() if file.suffix == suffix}
                for path in (ours, theirs)
            ]
            if suffix == ".txnindex":  # Kafka keeps one whose entries were cut off
                found = [{name: data for name, data in files.items() if data} for files in found]
            if suffix == ".snapshot":
                common = found[0].keys() & found[1].keys()
                assert wanted & found[1].keys() <= common
                found = [{name: files[name] for name in common} for files in found]
            assert found[0] == found[1]
            compared += len(found[0])
        assert compared >= 2
        shutil.rmtree(theirs)


@pytest.mark.parametrize("seed", range(24))
def test_the_same_transactions(kafka: KafkaOracle, tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    both = Both(kafka, tmp_path, rng)
    steps = ["send"] * 10 + ["plain"] * 2 + ["end"] * 6 + ["roll"]
    if seed % 3 == 1:
        steps += ["truncate", "start"]
    if seed % 3 == 2:
        steps += ["clean", "killed"]
    for _ in range(120):
        step = rng.choice(steps)
        if step in ("send", "plain"):
            both.send(rng.choice(PRODUCERS), transactional=step == "send")
        elif step == "end":
            both.end(rng.choice(PRODUCERS))
        elif step in ("clean", "killed"):
            both.restart(clean=step == "clean")
        else:
            both.cut(step)
        both.compare()
    both.compare_files()


def test_producers_expire_alike(kafka: KafkaOracle, tmp_path: Path) -> None:
    """Not those with an open transaction; and the order stays that of a table which was once larger."""
    both = Both(kafka, tmp_path, Random(1))
    both.epochs = dict.fromkeys(range(100), 0)
    for producer_id in range(100):
        both.send(producer_id * 37 % 100, transactional=producer_id % 10 == 0)
    both.at_ms += 86_400_000 - 1000
    both.send(16, transactional=False)
    both.send(3, transactional=False)
    for later in (0, 500, 1000, 90_000_000):
        now_ms = both.at_ms + later
        kafka.ask("expire", now_ms)
        both.rig.log.forget_expired_producers(now_ms)
        both.compare()
    both.compare_files()


@pytest.mark.parametrize("count", [1, 12, 13, 24, 25, 200])
def test_snapshots_have_the_same_order(kafka: KafkaOracle, tmp_path: Path, count: int) -> None:
    """Producer ids of many brokers' blocks, in no order."""
    rng = Random(count)
    both = Both(kafka, tmp_path, rng)
    ids = rng.sample(range(1 << 40), count)
    both.epochs = dict.fromkeys(ids, 0)
    for producer_id in ids:
        both.send(producer_id, transactional=rng.random() < 0.5)
    both.compare()
    both.compare_files()
