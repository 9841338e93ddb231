"""Any history, cleaned at any times, against a model that knows nothing of segments, maps and batches.

The model keeps every record and says what a reader may count on: of every key the latest committed record is there, at its
offset; what is there is at its old offset with its old content; a tombstone may be missing only if its time is over, and then
nothing older of its key is there. Below where the log is clean no key is there twice. Beside that, producers and open
transactions must not notice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.log.compaction.cleaning import COMPACT, CleanerRig, Seen

KEYS = [b"%d" % key for key in range(5)]
PRODUCERS = [1, 2]
RETENTION_MS = 1_000

key_indexes = st.integers(0, len(KEYS) - 1)
values = st.one_of(st.none(), st.binary(min_size=1, max_size=20))
pairs = st.lists(st.tuples(st.sampled_from(KEYS), values), min_size=1, max_size=4)
codecs = st.sampled_from([0, 1, 3])
operations = st.one_of(
    st.tuples(st.just("put"), pairs, codecs),
    st.tuples(st.just("idempotent"), pairs, st.sampled_from(PRODUCERS)),
    st.tuples(st.just("transaction"), pairs, st.sampled_from(PRODUCERS)),
    st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.booleans()),
    st.tuples(st.just("roll"), st.none(), st.none()),
    st.tuples(st.just("clean"), st.none(), st.none()),
    st.tuples(st.just("wait"), st.integers(0, 2 * RETENTION_MS), st.none()),
    st.tuples(st.just("restart"), st.booleans(), st.none()),
)


@dataclass
class Model:
    """The batches that were written. `aborted` are offsets of records that do not count; `undecided` those of open
    transactions."""

    records: dict[int, Seen] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    open: dict[int, list[int]] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    in_transaction: set[int] = field(default_factory=set)

    def wrote(self, base_offset: int, written: list[tuple[bytes, bytes | None]], producer_id: int | None = None) -> None:
        for at, (key, value) in enumerate(written):
            self.records[base_offset + at] = Seen(base_offset + at, key, value)
            if producer_id is not None:
                self.open[producer_id].append(base_offset + at)

    def check(self, rig: CleanerRig, cleaned_upto: int, first_cleaned_ms: dict[int, int]) -> None:
        seen = rig.seen()
        assert [record.offset for record in seen] == sorted({record.offset for record in seen})
        for record in seen:
            assert record == self.records[record.offset]
        there = {record.offset for record in seen}
        undecided = {offset for offsets in self.open.values() for offset in offsets}
        latest: dict[bytes, int] = {}
        for offset, record in self.records.items():
            if offset not in self.aborted and offset not in undecided:
                assert record.key is not None
                latest[record.key] = offset
        for key, offset in latest.items():
            record = self.records[offset]
            if record.value is None and offset not in there:
                assert first_cleaned_ms[offset] + RETENTION_MS <= rig.now_ms
                assert not [o for o in there - undecided if self.records[o].key == key]
            else:
                assert offset in there
        assert {offset for offset in self.records if offset >= cleaned_upto} <= there
        assert undecided <= there
        for offset in there:
            record = self.records[offset]
            if offset < cleaned_upto:
                assert offset not in self.aborted
                assert not [o for o in there if offset < o < cleaned_upto and self.records[o].key == record.key]


class History:
    """Applies operations to a log and to the model."""

    def __init__(self) -> None:
        self.rig = CleanerRig(segment_bytes=400, delete_retention_ms=RETENTION_MS, cleanup_policy=COMPACT)
        self.model = Model()
        self.first_cleaned_ms: dict[int, int] = {}

    def apply(self, operation: tuple[str, object, object]) -> None:
        name, first, second = operation
        getattr(self, name)(first, second)
        rig = self.rig
        self.model.check(rig, rig.cleaned_upto or 0, self.first_cleaned_ms)
        assert rig.log.log_start_offset == 0

    def put(self, written: list[tuple[bytes, bytes | None]], codec: int) -> None:
        self.model.wrote(self.rig.put(*written, codec=codec).base_offset, written)

    def idempotent(self, written: list[tuple[bytes, bytes | None]], producer_id: int) -> None:
        if producer_id not in self.model.in_transaction:
            self._write(written, producer_id, transactional=False)

    def transaction(self, written: list[tuple[bytes, bytes | None]], producer_id: int) -> None:
        if producer_id not in self.model.in_transaction:
            self.model.in_transaction.add(producer_id)
            self.model.open[producer_id] = []
        self._write(written, producer_id, transactional=True)

    def _write(self, written: list[tuple[bytes, bytes | None]], producer_id: int, *, transactional: bool) -> None:
        model = self.model
        sequence = model.sequences.get(producer_id, 0)
        info = self.rig.put(*written, producer=(producer_id, 0, sequence), transactional=transactional)
        assert not info.duplicate
        model.sequences[producer_id] = sequence + len(written)
        model.wrote(info.base_offset, written, producer_id if transactional else None)
        again = self.rig.put(*written, producer=(producer_id, 0, sequence), transactional=transactional)
        assert (again.duplicate, again.base_offset) == (True, info.base_offset)

    def end(self, producer_id: int, commit: bool) -> None:
        if producer_id not in self.model.in_transaction:
            return
        self.rig.end(producer_id, commit=commit)
        self.model.in_transaction.discard(producer_id)
        offsets = self.model.open.pop(producer_id)
        if not commit:
            self.model.aborted.update(offsets)

    def roll(self, *_: object) -> None:
        self.rig.roll()

    def clean(self, *_: object) -> None:
        rig = self.rig
        rig.clean()
        for offset in range(rig.cleaned_upto or 0):
            self.first_cleaned_ms.setdefault(offset, rig.now_ms)

    def wait(self, ms: int, _: object) -> None:
        self.rig.now_ms += ms

    def restart(self, clean: bool, _: object) -> None:
        rig = self.rig
        before = rig.batches()
        rig.restart(clean=clean)
        assert rig.batches() == before


@given(st.lists(operations, max_size=40))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_any_history_cleaned_at_any_times(history: list[tuple[str, object, object]]) -> None:
    log = History()
    for operation in history:
        log.apply(operation)
    log.apply(("clean", None, None))
    log.apply(("clean", None, None))
