"""log/compaction: batches of many pieces are compacted as any other, and a log with one above the bound is left alone."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from ottla.wire.compression import GZIP, LZ4, SNAPPY, ZSTD
from tests.log.compaction.cleaning import CleanerRig

VALUE = bytes(2000)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_batch_of_many_pieces(codec: int) -> None:
    rig = CleanerRig()
    rig.put(*((b"%d" % key, VALUE) for key in range(600)), codec=codec)
    rig.put_each(range(0, 600, 2))
    rig.clean()
    assert rig.keys() == [*range(1, 600, 2), *range(0, 600, 2)]
    assert rig.headers()[0].codec == codec
    assert {record.value for record in rig.seen()} == {VALUE, b"v"}


@pytest.mark.parametrize("dirty", [True, False])
def test_a_log_with_a_batch_above_the_bound_is_left_alone(dirty: bool) -> None:
    """Checks that a batch above the bound is met while the map is filled or while what stays is copied: nothing is changed, and
    the log says why."""
    rig = CleanerRig()
    rig.put_each([3, 500])
    rig.put(*((b"%d" % key, VALUE) for key in range(100)), codec=ZSTD)
    if not dirty:
        rig.clean()
    rig.put_each([3, 7, 500])
    rig.log.config = replace(rig.log.config, max_decompressed_batch_bytes=100_000)
    before = rig.batches()
    assert rig.clean() == 0
    assert rig.batches() == before
    (reason,) = rig.cleaner.uncleanable.values()
    assert "the batch of offset 2 is not opened, because more than 100000 bytes come out" in reason
    assert "ottla.max.decompressed.batch.bytes" in reason


def test_a_tombstone_hides_what_is_in_such_a_batch_also_when_the_bound_is_raised() -> None:
    rig = CleanerRig()
    rig.put(*((b"%d" % key, VALUE) for key in range(100)), codec=ZSTD)
    rig.put((b"5", None))
    rig.log.config = replace(rig.log.config, max_decompressed_batch_bytes=100_000)
    for bound in (100_000, 1 << 20, 1 << 20):
        rig.log.config = replace(rig.log.config, max_decompressed_batch_bytes=bound)
        rig.cleaner.uncleanable.clear()  # as after a start
        rig.now_ms += 10_000
        rig.put_each([7777])
        rig.clean()
        latest = {record.key: record.value for record in rig.seen()}
        assert latest.get(b"5") is None
    assert b"5" not in latest


def test_memory_is_what_stays_once() -> None:
    """20 MB of which all but a record stays: they are in memory once, with a piece and what is written."""
    rig = CleanerRig()
    count = 10_000
    rig.put(*((b"%d" % key, VALUE) for key in range(count)), codec=GZIP)
    rig.put_each([0])
    cleaning = rig.begin()
    tracemalloc.start()
    try:
        assert rig.cleaner.clean_here(cleaning)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rig.headers()[0].records_count == count - 1
    assert peak < 30_000_000, f"{peak:,}"
