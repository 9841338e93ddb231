"""log/markers.py: which control batches end a transaction, and what bad ones are."""

from __future__ import annotations

import pytest

from ottla.log.errors import InvalidProducerEpoch, TransactionCoordinatorFenced
from ottla.log.markers import Marker, end_transaction, read_marker
from ottla.log.producers import CompletedTransaction, ProducerStates
from ottla.log.validate import Origin
from ottla.wire.batch import read_header
from ottla.wire.records import Record, build_batch
from tests.log.support import NOW_MS, Rig, batch, marker


def control(key: bytes | None, value: bytes | None) -> bytes:
    return build_batch([Record(0, NOW_MS, key, value, [])], producer_id=9, producer_epoch=0, control=True)


def test_markers() -> None:
    assert read_marker(marker(9, 0, commit=True, coordinator_epoch=7)) == Marker(aborted=False, coordinator_epoch=7)
    assert read_marker(marker(9, 0, commit=False)) == Marker(aborted=True, coordinator_epoch=0)


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b"\0" * 6), (b"\0\0\0\1", None), (b"\0\0\0", b"\0" * 6), (b"\0\0\0\1", b"\0" * 5), (b"\0\0\0\2", b"\0" * 6)],
    ids=["no key", "no value", "short key", "short value", "leader change"],
)
def test_other_control_records_end_nothing(key: bytes | None, value: bytes | None) -> None:
    data = control(key, value)
    assert read_marker(data) is None
    producers = ProducerStates()
    assert end_transaction(producers, read_header(data), 5, [data]) is None
    assert producers.end_offset == 6


def test_a_marker_says_what_it_ended() -> None:
    producers, begun = ProducerStates(), read_header(batch(2, producer=(9, 0, 0), transactional=True))
    producers.update(begun, 10)
    data = marker(9, 0, commit=False)
    completed = end_transaction(producers, read_header(data), 12, [data[:20], data[20:]])
    assert completed == CompletedTransaction(producer_id=9, first_offset=10, last_offset=12, aborted=True, last_stable_offset=13)
    assert producers.first_unstable_offset(13) is None


def test_fenced_markers_are_not_written() -> None:
    rig = Rig()
    rig.append(batch(producer=(9, 1, 0), transactional=True))

    def end(epoch: int, coordinator_epoch: int) -> None:
        data = marker(9, epoch, commit=True, coordinator_epoch=coordinator_epoch)
        rig.log.append_as_leader(data, leader_epoch=0, origin=Origin.COORDINATOR)

    with pytest.raises(InvalidProducerEpoch):
        end(0, 5)
    end(1, 5)
    with pytest.raises(TransactionCoordinatorFenced):
        end(1, 4)
    assert rig.log.log_end_offset == 2
