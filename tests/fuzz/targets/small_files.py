"""The small files of a data directory, each read alone: an input is a kind of file and its bytes.

- Whatever the bytes are, a file is read, or refused with the error that its reader names.
- What was read holds only numbers that fit where they go (offsets 64 bits, epochs 32), and is read again from what our writer
  makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from crc32c import crc32c

from ottla.log.disk import checkpoint
from ottla.log.disk.checkpoint import EpochEntry, MetaProperties
from ottla.log.epochs import LeaderEpochs
from ottla.log.errors import CorruptSnapshot, InconsistentMetadata
from ottla.log.index import CorruptIndex, OffsetIndex, TimeIndex
from ottla.log.names import future_directory_name, offset_in, offset_name, parse_future_name
from ottla.log.producers import ProducerStates, decode_snapshot, encode_snapshot
from ottla.log.stored_index import StoredOffsets, StoredTimes
from ottla.log.txn_index import TxnIndex
from ottla.server.metadata import quorum_state
from ottla.wire.metadata_records import MetadataError
from tests.fuzz.draw import Draw
from tests.memdisk import MemDisk

_PATH: Final = "/file"
_MAX_INT32: Final = 2**31 - 1
_MAX_INT64: Final = 2**63 - 1
_LOG_BYTES: Final = 100_000
_INDEX_BYTES: Final = 1 << 20


def _disk(content: bytes) -> MemDisk:
    disk = MemDisk()
    disk.write_bytes(_PATH, content)
    return disk


def _offsets(content: bytes) -> None:
    try:
        found = checkpoint.read_offsets(_disk(content), _PATH)
    except CorruptSnapshot:
        return
    assert checkpoint.read_offsets(_disk(checkpoint.encode_offsets(found)), _PATH) == found


def _epochs(content: bytes) -> None:
    try:
        found = checkpoint.read_epochs(_disk(content), _PATH)
    except CorruptSnapshot:
        return
    assert all(0 <= epoch <= _MAX_INT32 and 0 <= offset <= _MAX_INT64 for epoch, offset in found), found
    epochs = LeaderEpochs(found)
    entries = list(epochs.entries)
    assert entries == sorted(entries)
    assert checkpoint.read_epochs(_disk(epochs.encoded()), _PATH) == entries


def _partition_metadata(content: bytes) -> None:
    try:
        found = checkpoint.read_partition_metadata(_disk(content), _PATH)
    except InconsistentMetadata:
        return
    if found is not None:
        assert checkpoint.read_partition_metadata(_disk(checkpoint.encode_partition_metadata(found)), _PATH) == found


def _meta_properties(content: bytes) -> None:
    try:
        found = checkpoint.read_meta_properties(_disk(content), _PATH)
    except InconsistentMetadata:
        return
    assert found is not None
    again = _disk(checkpoint.encode_meta_properties(found, 0))
    assert checkpoint.read_meta_properties(again, _PATH) == found or not _plain(found)


def _plain(meta: MetaProperties) -> bool:
    """Returns whether the names are of the kind that a formatter writes: what it does not escape is not read as it was."""
    return all(word.isascii() and word.isprintable() and word == word.strip() for word in (meta.cluster_id, meta.directory_id))


def _clean_shutdown(content: bytes) -> None:
    epoch = checkpoint.read_clean_shutdown(_disk(content), _PATH)
    assert epoch is not None
    assert checkpoint.read_clean_shutdown(_disk(checkpoint.encode_clean_shutdown(epoch)), _PATH) == epoch


def _quorum_state(content: bytes) -> None:
    try:
        found = quorum_state.read(_disk(content), _PATH)
    except MetadataError:
        return
    assert found is not None
    assert 0 <= found.leader_epoch < _MAX_INT32, "there is no next epoch"


def _offset_index(content: bytes) -> None:
    index = OffsetIndex(1_000, _INDEX_BYTES)
    try:
        index.decode(content, _LOG_BYTES)
    except CorruptIndex:
        return
    assert index.encode() == content
    for offset, position in index.entries():
        assert index.lookup(offset) == position < _LOG_BYTES
        assert index.lookup(offset - 1) <= position
    assert index.lookup(_MAX_INT64 - 1) == index.last_position()
    if index:
        stored = StoredOffsets(_disk(content), _PATH, 1_000, _LOG_BYTES, block_entries=2)
        for offset, position in index.entries() + index.entries()[::-1]:
            assert [stored.lookup(offset + by) for by in (-1, 0, 1)] == [index.lookup(offset + by) for by in (-1, 0, 1)]
            assert [stored.offset_at(position + by) for by in (0, 1)] == [index.offset_at(position + by) for by in (0, 1)]
    index.truncate_to(1_003)
    assert all(offset < 1_003 for offset, _ in index.entries())


def _time_index(content: bytes) -> None:
    index = TimeIndex(1_000, _INDEX_BYTES)
    try:
        index.decode(content)
    except CorruptIndex:
        return
    assert index.encode() == content
    for timestamp, offset in index.entries():
        assert index.lookup(timestamp) <= offset <= index.lookup(timestamp + 1)
        assert StoredTimes(_disk(content), _PATH, 1_000, block_entries=2).lookup(timestamp) == index.lookup(timestamp)


def _txn_index(content: bytes) -> None:
    index = TxnIndex(1_000)
    try:
        index.decode(content)
    except CorruptIndex:
        return
    assert index.encode() == content
    entries = list(index)
    for upto in (1_000, 1_005, _MAX_INT64):
        found: list[object] = []
        index.collect(1_000, upto, found)  # type: ignore[arg-type]  # it takes what it is given
        assert found == [entry for entry in entries if entry in found]
        needed = [entry for entry in entries if entry.first_offset < upto]
        stop = next((at for at, entry in enumerate(entries) if entry.last_stable_offset >= upto), len(entries))
        assert found == [entry for entry in needed if entries.index(entry) <= stop]


def _snapshot(content: bytes) -> None:
    try:
        found = decode_snapshot(content)
    except CorruptSnapshot:
        return
    again = decode_snapshot(encode_snapshot(found))
    assert encode_snapshot(again) == encode_snapshot(found)
    states = ProducerStates()
    states.load(content, 50)
    assert states.first_unstable_offset(0) in {None, *(state.txn_first_offset for state in states)}


def _names(content: bytes) -> None:
    name = content.decode(errors="surrogateescape")
    offset = offset_in(name)
    if offset >= 0:
        assert offset_in(offset_name(offset) + name[20:]) == offset
    found = checkpoint.parse_directory_name(name)
    if found is not None:
        assert "{}-{}".format(*found) == name
    future = parse_future_name(name)
    if future is not None:
        assert 0 <= future[1] <= _MAX_INT32, f"partition {future[1]} of a directory {name!r}"


_READERS: Final[tuple[Callable[[bytes], None], ...]] = (
    _offsets,
    _epochs,
    _partition_metadata,
    _meta_properties,
    _clean_shutdown,
    _quorum_state,
    _offset_index,
    _time_index,
    _txn_index,
    _snapshot,
    _names,
)


def check(data: bytes) -> None:
    draw = Draw(data)
    read = draw.one_of(_READERS)
    content = draw.rest()
    if read is _snapshot and len(content) > 6:  # its CRC is behind the version
        content = content[:2] + crc32c(content[6:]).to_bytes(4, "big") + content[6:]
    read(content)


def seeds() -> Iterator[bytes]:
    index, times, aborted = OffsetIndex(1_000, _INDEX_BYTES), TimeIndex(1_000, _INDEX_BYTES), TxnIndex(1_000)
    for at in (1_002, 1_007, 1_020):
        index.append(at, 10 * (at - 1_000))
        times.append_if_later(at, at)
    one = (7).to_bytes(8, "big") + bytes.fromhex(
        "0001 00000003 0000000000000009 00000002 0000000000000001 00000004 0000000000000005"
    )
    samples: dict[Callable[[bytes], None], tuple[bytes, ...]] = {
        _offsets: (checkpoint.encode_offsets({("t", 0): 5, ("a.b_c", 12): _MAX_INT64}), b""),
        _epochs: (checkpoint.encode_epochs([EpochEntry(0, 0), EpochEntry(5, 17)]), b""),
        _partition_metadata: (checkpoint.encode_partition_metadata(bytes(range(16))), b"\0\0"),
        _meta_properties: (checkpoint.encode_meta_properties(MetaProperties("AAAA", 1, "BBBB"), 0),),
        _clean_shutdown: (checkpoint.encode_clean_shutdown(4), b"[[[[{}]]]]"),
        _quorum_state: (b'{"leaderId":1,"leaderEpoch":2,"currentVoters":[{"voterId":1}],"data_version":0}', b"[[[[{}]]]]"),
        _offset_index: (index.encode(),),
        _time_index: (times.encode(),),
        _txn_index: (bytes(2) + b"".join(number.to_bytes(8, "big") for number in (7, 1_001, 1_004, 1_005)), aborted.encode()),
        _snapshot: (b"\0\1" + bytes(4) + b"\0\0\0\1" + one, encode_snapshot([])),
        _names: (b"t-0", b"00000000000000000007.log", future_directory_name("t", 3, Random(1)).encode()),
    }
    for read, contents in samples.items():
        for content in contents:
            yield bytes([_READERS.index(read)]) + content
