"""log/disk/checkpoint.py: the bytes that Kafka 4.4.0 wrote, and bytes that nobody should have written."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ottla.log.disk import checkpoint
from ottla.log.disk.checkpoint import EpochEntry, MetaProperties
from ottla.log.errors import CorruptSnapshot, InconsistentMetadata
from tests.memdisk import MemDisk

KAFKA_OFFSETS = b"0\n3\nt1 1 0\nt1 0 3000\nempty 0 0\n"
KAFKA_META = b"""#
#Sat Nov 21 09:51:25 UTC 2026
node.id=1
directory.id=x8kY70GRkgJjAVBva1Fm4w
version=1
cluster.id=AAAAAAAAQACAAAAAAAAAAQ
"""
KAFKA_PARTITION_METADATA = b"version: 0\ntopic_id: 9S67a0gDTJCzCxuUshPfPA"


def disk_with(data: bytes) -> MemDisk:
    disk = MemDisk()
    disk.write_bytes("/f", data)
    return disk


def test_offsets_are_kafkas() -> None:
    offsets = {("t1", 1): 0, ("t1", 0): 3000, ("empty", 0): 0}
    assert checkpoint.encode_offsets(offsets) == KAFKA_OFFSETS
    assert checkpoint.read_offsets(disk_with(KAFKA_OFFSETS), "/f") == offsets
    assert checkpoint.encode_offsets({}) == b"0\n0\n"


@pytest.mark.parametrize("data", [b"", b"0\n0\n"])
def test_no_offsets(data: bytes) -> None:
    assert checkpoint.read_offsets(disk_with(data), "/f") == {}


def test_a_missing_file_has_nothing() -> None:
    disk = MemDisk()
    assert checkpoint.read_offsets(disk, "/f") == {}
    assert checkpoint.read_epochs(disk, "/f") == []
    assert checkpoint.read_partition_metadata(disk, "/f") is None
    assert checkpoint.read_meta_properties(disk, "/f") is None
    assert checkpoint.read_clean_shutdown(disk, "/f") is None


@pytest.mark.parametrize(
    "data",
    [b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na b 1\n", b"0", b"\xff\xfe", b"\0\0\0\0", b"x\n0\n", b"0\n1\na 0 x\n"],
)
def test_wrong_offsets_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptSnapshot):
        checkpoint.read_offsets(disk_with(data), "/f")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a-b-0", ("a-b", 0)),
        ("t-2147483647", ("t", 2**31 - 1)),
        ("t-2147483648", None),
        ("t-00", None),
        ("t-1 ", None),
        ("-0", None),
        ("t", None),
    ],
)
def test_a_partitions_directory_has_its_name_and_number(name: str, found: tuple[str, int] | None) -> None:
    assert checkpoint.parse_directory_name(name) == found


def test_epochs() -> None:
    assert checkpoint.read_epochs(disk_with(b"0\n2\n0 0\n3 41\n"), "/f") == [EpochEntry(0, 0), EpochEntry(3, 41)]
    assert checkpoint.read_epochs(disk_with(b""), "/f") == []
    for wrong in (b"0\n2\n0 0\n", b"\xff\n", b"0\n1\n0\n"):
        with pytest.raises(CorruptSnapshot):
            checkpoint.read_epochs(disk_with(wrong), "/f")


def test_epochs_are_kafkas() -> None:
    text = "0\n3\n0 0\n2 10\n5 30\n"
    entries = [EpochEntry(0, 0), EpochEntry(2, 10), EpochEntry(5, 30)]
    assert checkpoint.encode_epochs(entries) == text.encode()
    assert checkpoint.parse_epochs(text) == entries
    assert checkpoint.parse_epochs(checkpoint.encode_epochs([]).decode()) == []


@pytest.mark.parametrize(
    "text", ["", "0", "0\nx\n", "1\n0\n", "0\n2\n0 0\n", "0\n0\n0 0\n", "0\n1\n0\n", "0\n1\n0 0 0\n", "0\n1\n-1 0\n", "\0\0"]
)
def test_any_other_text_of_epochs_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptSnapshot):
        checkpoint.parse_epochs(text)


def test_epochs_that_no_batch_can_have_are_corrupt() -> None:
    """An answer could not hold them."""
    greatest = f"0\n1\n{2**31 - 1} {2**63 - 1}\n"
    assert checkpoint.parse_epochs(greatest) == [EpochEntry(2**31 - 1, 2**63 - 1)]
    for text in (greatest.replace("7 ", "8 "), greatest.replace("7\n", "8\n")):
        with pytest.raises(CorruptSnapshot, match="no epoch or offset"):
            checkpoint.parse_epochs(text)


def test_partition_metadata_is_kafkas() -> None:
    topic_id = checkpoint.uuid_bytes("9S67a0gDTJCzCxuUshPfPA")
    assert checkpoint.encode_partition_metadata(topic_id) == KAFKA_PARTITION_METADATA
    assert checkpoint.read_partition_metadata(disk_with(KAFKA_PARTITION_METADATA), "/f") == topic_id


@pytest.mark.parametrize("data", [b"", bytes(43)])
def test_partition_metadata_that_a_power_cut_took(data: bytes) -> None:
    assert checkpoint.read_partition_metadata(disk_with(data), "/f") is None


@pytest.mark.parametrize(
    "data",
    [b"version: 1\ntopic_id: 9S67a0gDTJCzCxuUshPfPA", b"version: 0\n", b"version: 0\ntopic_id: short", b"\xff", b"nonsense"],
)
def test_partition_metadata_is_never_guessed(data: bytes) -> None:
    with pytest.raises(InconsistentMetadata):
        checkpoint.read_partition_metadata(disk_with(data), "/f")


def test_meta_properties_are_kafkas() -> None:
    meta = MetaProperties("AAAAAAAAQACAAAAAAAAAAQ", 1, "x8kY70GRkgJjAVBva1Fm4w")
    now_ms = round(datetime(2026, 11, 21, 9, 51, 25, tzinfo=UTC).timestamp() * 1000) + 999
    assert checkpoint.encode_meta_properties(meta, now_ms) == KAFKA_META
    assert checkpoint.read_meta_properties(disk_with(KAFKA_META), "/f") == meta


@pytest.mark.parametrize(
    "data", [b"", b"version=0\nbroker.id=1\n", KAFKA_META.replace(b"node.id=1", b"node.id=x"), b"version=1\n", b"\xff"]
)
def test_meta_properties_are_never_guessed(data: bytes) -> None:
    with pytest.raises(InconsistentMetadata):
        checkpoint.read_meta_properties(disk_with(data), "/f")


def test_clean_shutdown_is_kafkas() -> None:
    assert checkpoint.encode_clean_shutdown(11) == b'{"version":0,"brokerEpoch":11}'
    assert checkpoint.read_clean_shutdown(disk_with(b'{"version":0,"brokerEpoch":11}'), "/f") == 11
    no_epochs = [b'{"brokerEpoch":%s}' % value for value in (b'"x"', b"true", b"1.0", b"-2", b"%d" % 2**63, b"9" * 5000)]
    for odd in (b"", b"{}", b"[]", b"\xff", b"[" * 100_000, *no_epochs):
        assert checkpoint.read_clean_shutdown(disk_with(odd), "/f") == -1
