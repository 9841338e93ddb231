"""log/open_options.py: where a partition lies, and what openings of a live log hand on."""

from __future__ import annotations

from random import Random

from ottla.log.open_options import Opening, Scans
from ottla.log.producers import ProducerStates
from ottla.wire.batch import read_header
from ottla.wire.kernel import BatchScan
from tests.log.support import NOW_MS, batch, settings


def opening() -> Opening:
    return Opening("a.topic", 3, None, settings(), lambda: NOW_MS, Random(1))


def test_a_partitions_directory_has_its_name_unless_it_is_a_copy() -> None:
    plain, copy = opening(), opening()
    copy.directory = f"a.topic-3.{'0' * 32}-future"
    assert plain.directory_name == "a.topic-3"
    assert copy.directory_name == copy.directory


def test_by_default_nothing_is_known_and_nothing_is_called() -> None:
    plain = opening()
    assert (plain.clean, plain.recovery_point, plain.log_start_offset, plain.high_watermark) == (False, 0, 0, 0)
    plain.progress(7)


def test_by_default_as_many_producers_are_remembered_as_there_are() -> None:
    producers = ProducerStates(0, opening().max_producers, opening().producer_total)
    for producer_id in range(200):
        producers.update(read_header(batch(producer=(producer_id, 0, 0))), producer_id)
    assert (len(producers), producers.forgotten) == (200, 0)


def test_scans_are_forgotten_together() -> None:
    one, other = Scans(), Scans()
    one.before[0] = one.now[5] = BatchScan(0, 0, 1)
    assert (other.before, other.now) == ({}, {})
    one.clear()
    assert (one.before, one.now) == ({}, {})
