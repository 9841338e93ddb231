"""The program that runs inside the guest: a log under load, which checks at every start what the power cuts before left of it.

`python -m scripts.powercut.writer DIRECTORY PROMISES SEED`. PROMISES is what the starts before printed, a line each:

    up TOPIC OFFSET     everything below the offset was fsynced before this was printed
    made TOPIC          the partition exists, and an fsync of it returned
    gone TOPIC          the partition was deleted, and may not come back

A record's value follows from its topic and offset, so that every record that is there can be checked, promised or not. First
prints `checked N` (records) or raises; then `writing`, and promises until the power goes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random

from ottla.log.compaction.cleaner_manager import LogCleanerManager
from ottla.log.config import LogConfig
from ottla.log.disk.files import OsDisk
from ottla.log.management.manager import LogManager
from ottla.log.management.passes import delete_steps, run_pass
from ottla.log.partition import PartitionLog
from ottla.log.validate import Origin
from ottla.wire.batch import check_crc, read_header
from ottla.wire.records import Record, build_batch, decode_records

SYNCED, PLAIN, COMPACTED, TRANSACTIONS = "synced", "plain", "compacted", "transactions"
PRODUCER = {SYNCED: 5, TRANSACTIONS: 7}
_SETTINGS = {"index.interval.bytes": "1000", "file.delete.delay.ms": "1000"}
_SEGMENT_BYTES = 100_000  # less than a setting may be, so that segments come and go
_COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
_KEYS = 50


def config_for(topic: str) -> LogConfig:
    config = LogConfig.from_overrides(_SETTINGS | (_COMPACT if topic == COMPACTED else {}), None)
    return replace(config, segment_bytes=_SEGMENT_BYTES)


def now_ms() -> int:
    return int(time.time() * 1000)


def value_at(topic: str, offset: int) -> bytes:
    digest = sha256(f"{topic} {offset}".encode()).digest()
    return digest * (1 + digest[0] // 8)


def key_at(offset: int) -> bytes:
    return str(offset * 7919 % _KEYS).encode()


def open_logs(directory: str) -> LogManager:
    logs = LogManager(OsDisk(), [directory], now_ms, config_for(""), random=Random(), config_for=config_for)
    logs.open_all()
    return logs


# Checking


def promises_in(path: str) -> tuple[dict[str, int], set[str], set[str]]:
    """Returns (topic -> offset below which all is promised, topics that must be there, topics that must not)."""
    up: dict[str, int] = {}
    made: set[str] = set()
    gone: set[str] = set()
    for line in Path(path).read_text().splitlines():
        match line.split():
            case ["up", topic, offset]:
                up[topic] = int(offset)
            case ["made", topic]:
                made.add(topic)
            case ["gone", topic]:
                gone.add(topic)
    return up, made - gone, gone


def check(logs: LogManager, promises: str) -> int:
    """Returns how many records are there, all of them right. Raises AssertionError."""
    up, made, gone = promises_in(promises)
    assert not logs.unavailable, logs.unavailable
    there = {topic for topic, _ in logs.logs}
    assert made <= there, f"gone: {made - there}"
    assert not gone & there, f"back again: {gone & there}"
    count = 0
    for topic in there:
        log = logs.logs[topic, 0]
        assert log.log_end_offset >= up.get(topic, 0), f"{log!r} lost what was promised up to {up[topic]}"
        count += check_log(log, topic)
    return count


def check_log(log: PartitionLog, topic: str) -> int:
    found: dict[bytes | None, int] = {}
    count = expected = 0
    for offset, record in _records(log):
        assert offset == expected or topic == COMPACTED, f"{log!r} has offset {offset} where {expected} belongs"
        expected, count = offset + 1, count + 1
        found[record.key] = offset
        if record.value is not None and topic != TRANSACTIONS:
            assert record.value == value_at(topic, offset), f"{log!r} has another record at {offset}"
    if topic == COMPACTED:
        for key, newest in {key_at(offset): offset for offset in range(log.log_end_offset)}.items():
            assert found.get(key) == newest, f"{log!r} lost the last record of key {key!r}"
    return count


def _records(log: PartitionLog) -> Iterator[tuple[int, Record]]:
    for batch in log.iterate_batches(log.log_start_offset):
        assert check_crc(batch, read_header(batch))
        for record in decode_records(batch):
            yield record.offset, record


# Writing


class Load:
    """Appends to all partitions, with flushes, rolls, checkpoints, compactions and deleted topics between, by seed."""

    def __init__(self, logs: LogManager, seed: int) -> None:
        self._logs = logs
        self._random = Random(seed)
        self._cleaner = LogCleanerManager(logs, now_ms, Random(seed))
        self._short_lived = 0
        self._seed = seed

    def prepare(self) -> None:
        for number, topic in enumerate((SYNCED, PLAIN, COMPACTED, TRANSACTIONS), 1):
            self._logs.create(topic, 0, bytes([number]) * 16, config_for(topic))
        self._end_transaction()  # what the power cut broke off

    def step(self) -> None:
        actions = (self._sync_one, self._append_plain, self._append_compacted, self._transaction, self._flush, self._pass)
        self._random.choices((*actions, self._short_life), (30, 20, 20, 10, 5, 3, 1))[0]()

    def _log(self, topic: str) -> PartitionLog:
        return self._logs.logs[topic, 0]

    def _append(self, topic: str, *, transactional: bool = False) -> None:
        log = self._log(topic)
        first, count = log.log_end_offset, self._random.randint(1, 4)
        producer_id = PRODUCER.get(topic, -1)
        state = log.producers.get(producer_id)
        records = [Record(0, now_ms(), key_at(first + at), value_at(topic, first + at), []) for at in range(count)]
        batch = build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=(state.last_sequence + 1 if state else 0) if producer_id >= 0 else -1,
            transactional=transactional,
        )
        log.append_as_leader(batch, leader_epoch=0)

    def _promise(self, log: PartitionLog) -> None:
        print("up", log.topic, log.recovery_point, flush=True)

    def _sync_one(self) -> None:
        self._append(SYNCED)
        log = self._log(SYNCED)
        log.flush()
        self._promise(log)

    def _append_plain(self) -> None:
        self._append(PLAIN)

    def _append_compacted(self) -> None:
        self._append(COMPACTED)

    def _transaction(self) -> None:
        for _ in range(self._random.randint(1, 3)):
            self._append(TRANSACTIONS, transactional=True)
        self._end_transaction()

    def _end_transaction(self) -> None:
        key, value = b"\0\0\0" + bytes([self._random.randrange(2)]), bytes(6)
        marker = build_batch(
            [Record(0, now_ms(), key, value, [])],
            producer_id=PRODUCER[TRANSACTIONS],
            producer_epoch=0,
            transactional=True,
            control=True,
        )
        self._log(TRANSACTIONS).append_as_leader(marker, leader_epoch=0, origin=Origin.COORDINATOR)

    def _flush(self) -> None:
        log = self._log(self._random.choice((PLAIN, COMPACTED, TRANSACTIONS)))
        log.flush()
        self._promise(log)

    def _pass(self) -> None:
        logs = self._logs
        match self._random.randrange(4):
            case 0:
                logs.checkpoint_pass()
            case 1:
                self._cleaner.clean_pass()
            case 2:
                run_pass(delete_steps(logs, now_ms()))
            case _:
                logs.flush_pass(now_ms())

    def _short_life(self) -> None:
        self._short_lived += 1
        topic = f"short-{self._seed}-{self._short_lived}"
        log = self._logs.create(topic, 0, bytes(15) + b"\x09", config_for(topic))
        self._append(topic)
        log.flush()
        print("made", topic, flush=True)
        self._logs.delete(topic, 0)
        print("gone", topic, flush=True)


def main(directory: str, promises: str, seed: str) -> None:
    logs = open_logs(directory)
    print("checked", check(logs, promises), flush=True)
    load = Load(logs, int(seed))
    load.prepare()
    print("writing", flush=True)
    while True:
        load.step()


if __name__ == "__main__":
    main(*sys.argv[1:])
