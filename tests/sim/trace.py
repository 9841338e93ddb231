"""The recorded trace: what a broker's log goes through in a life, operation by operation, with the model's word for each.

Three partitions in one directory: "t" keeps and deletes, "u" is deleted and made again, "c" is compacted. Every operation first
works out what the model says will be (`Trace.after`), then happens, so that what watches the disk (tests/sim's crash points)
knows at every change what was before and what is to come. Nothing is random: two runs do the same to the byte.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from random import Random

from ottla.log.compaction.cleaner_manager import LogCleanerManager
from ottla.log.config import LogConfig
from ottla.log.disk.files import Disk
from ottla.log.management.manager import LogManager
from ottla.log.management.passes import delete_steps, run_pass
from ottla.log.partition import PartitionLog
from ottla.log.validate import Origin
from tests.log.support import NOW_MS, batch, marker, settings
from tests.sim.model import Loss, State, check, picture

ONE = len(batch())
RETENTION_BYTES = 6 * ONE
_KEPT = settings(
    index_interval_bytes=ONE,
    retention_bytes=RETENTION_BYTES,
    retention_ms=-1,
    file_delete_delay_ms=1000,
    message_timestamp_after_max_ms=1 << 60,
)
_COMPACTED = dataclasses.replace(
    _KEPT, cleanup_policy=frozenset({"compact"}), retention_bytes=-1, min_cleanable_dirty_ratio=0.01, delete_retention_ms=1 << 40
)
CONFIGS: dict[str, LogConfig] = {"t": _KEPT, "u": _KEPT, "c": _COMPACTED}

States = dict[str, State | None]


class Trace:
    """Plays `steps` on a disk. `before` and `after`: the model's states around the operation that is under way; between two
    operations they are the same.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self.disk = disk
        self.directory = directory
        self.now_ms = NOW_MS
        self.before: States = dict.fromkeys(CONFIGS)
        self.after: States = dict.fromkeys(CONFIGS)
        self.done = 0
        self._random = Random(1)
        self._sequences: dict[tuple[str, int], int] = {}
        self._epochs: dict[str, int] = {}
        self.logs: LogManager

    def open(self) -> None:
        self.logs = open_manager(self.disk, self.directory, lambda: self.now_ms, self._random)

    def play(self) -> Iterator[str]:
        """Performs the trace; yields each operation's name when it is done."""
        self.open()
        for name, act in self.steps():
            act()
            self.before = dict(self.after)
            self.done += 1
            yield name

    def _log(self, topic: str) -> PartitionLog:
        return self.logs.logs[topic, 0]

    def _plan(self, topic: str, change: Callable[[State], State | None]) -> None:
        state = self.after[topic]
        assert state is not None
        self.after[topic] = change(state)

    def _plan_all(self, change: Callable[[State], State]) -> None:
        for topic, state in self.after.items():
            self.after[topic] = state and change(state)

    # Operations

    def create(self, topic: str, generation: int) -> None:
        state = self.after[topic] = State(generation)
        self.logs.create(topic, 0, state.topic_id, CONFIGS[topic])

    def append(self, topic: str, count: int = 1, producer_id: int = -1, *, in_transaction: bool = False) -> None:
        sequence = self._sequences.get((topic, producer_id), 0)
        producer = (producer_id, 0, sequence) if producer_id >= 0 else None
        self._sequences[topic, producer_id] = sequence + count
        data = batch(
            count,
            producer=producer,
            transactional=in_transaction,
            timestamp_ms=NOW_MS + self._random.randrange(1000),
            value=self._random.randbytes(60),
        )
        self._plan(topic, lambda state: state.appended(data))
        self._log(topic).append_as_leader(data, leader_epoch=self._epochs.get(topic, 0))

    def end(self, topic: str, producer_id: int, *, commit: bool) -> None:
        data = marker(producer_id, 0, commit=commit)
        self._plan(topic, lambda state: state.appended(data))
        self._log(topic).append_as_leader(data, leader_epoch=self._epochs.get(topic, 0), origin=Origin.COORDINATOR)

    def flush(self, topic: str) -> None:
        self._plan(topic, State.synced)
        self._log(topic).flush()

    def flush_rolled(self, topic: str) -> None:
        self._plan(topic, lambda state: state.synced(state.bases[-1]))
        self.logs.flush_pass(self.now_ms)

    def roll(self, topic: str) -> None:
        self._plan(topic, State.rolled)
        self._log(topic).roll()

    def checkpoint(self) -> None:
        self._plan_all(State.checkpointed)
        self.logs.checkpoint_pass()

    def retention(self, topic: str) -> None:
        self._plan(topic, lambda state: state.retained(RETENTION_BYTES))
        self._log(topic).apply_retention(self.now_ms)

    def remove_files(self) -> None:
        self.now_ms += 1500
        run_pass(delete_steps(self.logs, self.now_ms))

    def delete_records(self, topic: str, offset: int) -> None:
        self._plan(topic, lambda state: dataclasses.replace(state, log_start=max(offset, state.log_start)))
        self._log(topic).delete_records_before(offset)

    def truncate(self, topic: str, offset: int) -> None:
        self._plan(topic, lambda state: state.truncated(offset))
        self._log(topic).truncate_to(offset)
        self._forget_sequences(topic)

    def _forget_sequences(self, topic: str) -> None:
        for producer in self._log(topic).producers:
            self._sequences[topic, producer.producer_id] = producer.last_sequence + 1

    def new_epoch(self, topic: str) -> None:
        self._epochs[topic] = self._epochs.get(topic, 0) + 1
        self._plan(topic, lambda state: dataclasses.replace(state, epoch=self._epochs[topic]))

    def compact(self, topic: str) -> None:
        # Cleaning flushes what it is about to clean; how far it got is its own business.
        self._plan(topic, lambda state: dataclasses.replace(state, compacted=True).synced(state.bases[-1]))
        LogCleanerManager(self.logs, lambda: self.now_ms, Random(1)).clean_pass()

    def delete(self, topic: str) -> None:
        self.after[topic] = None
        self.logs.delete(topic, 0)
        self._sequences = {key: value for key, value in self._sequences.items() if key[0] != topic}
        self._epochs.pop(topic, None)

    def reopen(self) -> None:
        self._plan_all(lambda state: state.synced().checkpointed())
        self.logs.close()
        self.open()

    def kill(self) -> None:
        """The process ends without a word, and the page cache stays; the log's start goes back to the last checkpoint's."""
        self.logs.close(clean=False)
        self.open()
        for topic, state in self.after.items():
            if state is not None:
                start = self._log(topic).log_start_offset
                check(self._log(topic), state, state, Loss.KILL)
                self.after[topic] = dataclasses.replace(state, log_start=start)

    def steps(self) -> list[tuple[str, Callable[[], None]]]:
        """The trace."""
        written: list[tuple[str, Callable[[], None]]] = []

        def then(name: str, *args: object, **named: object) -> None:
            text = ", ".join([*map(str, args), *(f"{key}={value}" for key, value in named.items())])
            written.append((f"{name}({text})", lambda: getattr(self, name)(*args, **named)))

        _first_day(then)
        _compaction(then)
        _second_topic(then)
        _cuts(then)
        return written


Then = Callable[..., None]


def _first_day(then: Then) -> None:
    then("create", "t", 1)
    then("append", "t")
    then("append", "t", 2, 5)
    then("flush", "t")
    then("append", "t", 1, 5)
    then("append", "t", 2, 7, in_transaction=True)
    then("roll", "t")
    then("append", "t", 1, 7, in_transaction=True)
    then("flush_rolled", "t")
    then("append", "t", 1, 5)
    then("end", "t", 7, commit=False)
    then("checkpoint")
    then("new_epoch", "t")
    then("append", "t", 3)
    then("append", "t", 1, 7, in_transaction=True)
    then("roll", "t")
    then("flush", "t")
    then("end", "t", 7, commit=True)
    then("append", "t", 2, 5)
    then("delete_records", "t", 4)
    then("retention", "t")
    then("append", "t", 1, 5)


def _compaction(then: Then) -> None:
    then("create", "c", 2)
    then("append", "c", 2, 5)
    then("append", "c", 1)
    then("append", "c", 1, 8, in_transaction=True)
    then("roll", "c")
    then("append", "c", 2, 5)
    then("end", "c", 8, commit=True)
    then("append", "c", 1)
    then("roll", "c")
    then("append", "c", 1)
    then("checkpoint")
    then("compact", "c")
    then("append", "c", 1, 5)
    then("remove_files")
    then("roll", "c")
    then("append", "c", 1)
    then("compact", "c")


def _second_topic(then: Then) -> None:
    then("create", "u", 3)
    then("append", "u", 2, 6)
    then("flush", "u")
    then("append", "u", 1, 6)
    then("reopen")
    then("append", "u", 1, 6)
    then("roll", "u")
    then("append", "u", 2)
    then("delete", "u")
    then("create", "u", 4)
    then("append", "u", 1, 6)
    then("flush", "u")
    then("remove_files")
    then("append", "u", 3)


def _cuts(then: Then) -> None:
    then("append", "t", 2, 5)
    then("roll", "t")
    then("append", "t", 1, 7, in_transaction=True)
    then("append", "t", 1, 5)
    then("flush", "t")
    then("truncate", "t", 17)
    then("new_epoch", "t")
    then("append", "t", 2, 9)
    then("append", "t", 1)
    then("kill")
    then("append", "t", 2, 9)
    then("roll", "t")
    then("append", "t", 3)
    then("roll", "t")
    then("retention", "t")
    then("append", "t", 1, 9)
    then("checkpoint")
    then("delete_records", "t", 20)
    then("append", "t", 2, 5)
    then("reopen")
    then("append", "t", 1, 9)


def open_manager(disk: Disk, directory: str, now_ms: Callable[[], int], random: Random | None = None) -> LogManager:
    """A start, as the broker's."""
    logs = LogManager(
        disk, [directory], now_ms, settings(), config_for=lambda topic: CONFIGS.get(topic, _KEPT), random=random or Random(1)
    )
    logs.open_all()
    return logs


def check_disk(disk: Disk, directory: str, before: States, after: States, loss: Loss, now_ms: Callable[[], int]) -> None:
    """Opens what a crash left, twice, and holds it against the model; then it must take appends, and keep them."""
    logs = open_manager(disk, directory, now_ms)
    assert not logs.unavailable, logs.unavailable
    for topic in CONFIGS:
        check(logs.get(topic, 0), before[topic], after[topic], loss)
    seen = {name: picture(log) for name, log in logs.logs.items()}
    logs.close(clean=False)
    logs = open_manager(disk, directory, now_ms)
    _compare(logs, seen, "a second start")
    for (topic, _), log in logs.logs.items():
        state = after[topic] or before[topic]
        assert state is not None
        if log.topic_id is None:  # as a broker does, which has the id in its metadata
            logs.create(topic, 0, state.topic_id, CONFIGS[topic])
        _go_on(log)
    seen = {name: picture(log) for name, log in logs.logs.items()}
    logs.close()
    logs = open_manager(disk, directory, now_ms)
    _compare(logs, seen, "a clean stop and start")
    logs.close()


def _compare(logs: LogManager, seen: dict[tuple[str, int], tuple[object, ...]], when: str) -> None:
    now = {name: picture(log) for name, log in logs.logs.items()}
    for name in now.keys() | seen.keys():
        differing = [pair for pair in zip(now.get(name, ()), seen.get(name, ()), strict=False) if pair[0] != pair[1]]
        assert now.get(name) == seen.get(name), f"after {when} {name} differs: {differing}"


def _go_on(log: PartitionLog) -> None:
    """The next batch gets the next offset, and a producer that repeats its last one gets its place."""
    end = log.log_end_offset
    last = list(log.iterate_batches(log.log_start_offset))[-1:]
    epoch = max(log.leader_epoch, 0)
    for data in last:
        if data[43:51] != b"\xff" * 8 and not data[22] & 0x20 and log.producers.get(int.from_bytes(data[43:51], "big")):
            repeated = log.append_as_leader(bytes(8) + data[8:], leader_epoch=epoch)
            assert repeated.duplicate, "a batch that is there was taken again"
            assert repeated.last_offset == end - 1
    assert log.append_as_leader(batch(), leader_epoch=epoch).base_offset == end
    log.flush()
