"""A log on a disk in memory whose files a test damages, and what must be right of it afterwards."""

from __future__ import annotations

from tests.log.support import Rig, batch, settings

SIZE = len(batch())


def rig_of(batches: int, *, per_segment: int = 4, flushed: int = 0) -> Rig:
    """One-record batches of producer 9; the first `flushed` are below a recovery point that is on disk."""
    rig = Rig(settings(segment_bytes=per_segment * SIZE, index_interval_bytes=SIZE))
    for at in range(batches):
        rig.append(batch(producer=(9, 0, at)), leader_epoch=at // 3)
        if at + 1 == flushed:
            rig.log.flush()
            rig.manager.checkpoint_pass()
    return rig


def log_path(rig: Rig, base: int = 0) -> str:
    return f"{rig.path}/{base:020d}.log"


def rewrite(rig: Rig, path: str, data: bytes) -> None:
    rig.disk.write_bytes(path, data)
    for segment in rig.log.segments:
        segment.release_file()


def check(rig: Rig, end: int) -> None:
    """The log holds offsets 0..end, and everything derived says the same."""
    log = rig.log
    assert log.log_end_offset == log.high_watermark == end
    assert rig.read() == list(range(end))
    state = log.producers.get(9)
    assert (state.last_sequence if state else -1) == end - 1
    assert [tuple(entry) for entry in log.epochs.entries] == [(at // 3, at) for at in range(0, end, 3)]
    assert rig.append(batch(producer=(9, 0, end)), leader_epoch=99).base_offset == end
