"""A log whose files a test writes and changes itself, for what a start makes of them."""

from __future__ import annotations

from ottla.wire.batch import read_header, stamp
from tests.log.support import NOW_MS, Rig, batch, settings

SIZE = len(batch())


def rig_of(batches: int, *, per_segment: int = 5, step_ms: int = 10) -> Rig:
    """One-record batches, `step_ms` apart."""
    rig = Rig(settings(segment_bytes=per_segment * SIZE, index_interval_bytes=1))
    for at in range(batches):
        rig.append(batch(timestamp_ms=NOW_MS + at * step_ms))
    return rig


def at(offset: int, count: int = 1, *, codec: int = 0, epoch: int = 0) -> bytes:
    """A batch as a leader has stamped it."""
    data = batch(count, codec=codec)
    return stamp(read_header(data), offset, epoch) + data[16:]


def path(rig: Rig, base: int, suffix: str = ".log") -> str:
    return f"{rig.path}/{base:020d}{suffix}"


def put(rig: Rig, base: int, *batches: bytes, suffix: str = ".log") -> None:
    rig.disk.write_bytes(path(rig, base, suffix), b"".join(batches))


def recovery_point(rig: Rig, offset: int) -> None:
    rig.disk.write_bytes("/data/recovery-point-offset-checkpoint", f"0\n1\nt 0 {offset}\n".encode())


def sound(rig: Rig, offsets: list[int], end: int) -> None:
    """The log reads as `offsets`, ends at `end`, and takes more."""
    assert rig.read() == offsets
    assert rig.log.log_end_offset == end
    assert rig.append().base_offset == end
