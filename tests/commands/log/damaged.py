"""A data directory for tests of verify and repair: several segments, producers, transactions, and a clean or unclean stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from ottla.log.disk.files import OsDisk
from ottla.log.validate import Origin
from ottla.server.program.app import app
from ottla.wire.batch import iter_batches
from ottla.wire.records import decode_records
from tests.log.support import NOW_MS, Rig, batch, marker, settings

SEGMENT_BYTES = 4000


def write_log(path: Path, *, clean: bool = True, batches: int = 40) -> Path:
    """Writes a log directory with the partition t-0 of several segments; returns the partition's directory."""
    rig = Rig(settings(segment_bytes=SEGMENT_BYTES, index_interval_bytes=500), OsDisk(), directory=str(path))
    rig.manager.format("cluster", 1)
    for number in range(batches):
        rig.append(batch(2, timestamp_ms=NOW_MS + number, producer=(7, 0, 2 * number)), leader_epoch=number // 15)
        if number % 10 == 5:
            rig.append(batch(timestamp_ms=NOW_MS, producer=(8, 0, number // 10), transactional=True), leader_epoch=number // 15)
            end = marker(8, 0, commit=number == 15)
            rig.log.append_as_leader(end, leader_epoch=number // 15, origin=Origin.COORDINATOR)
    if clean:
        rig.manager.close(True)
    else:
        rig.log.flush(40)
        rig.manager.checkpoint_pass()
        rig.manager.close(False)
    return path / "t-0"


def run(*arguments: str | Path) -> tuple[int, str, str]:
    ran = CliRunner().invoke(app, ["log", *map(str, arguments)], catch_exceptions=False)
    return ran.exit_code, ran.stdout, ran.stderr


def findings(*arguments: str | Path) -> list[dict[str, Any]]:
    code, out, _ = run("verify", "--json", *arguments)
    found = [json.loads(line) for line in out.splitlines()]
    assert code == any(item["meaning"] != "note" for item in found)
    return found


def segments(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


def flip(path: Path, position: int) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 0xFF]))


def starts(path: Path) -> list[int]:
    """Returns the positions where the batches of a segment begin."""
    found, position = [], 0
    for header, _ in iter_batches(path.read_bytes()):
        found.append(position)
        position += header.size
    return found


def offsets(partition: Path) -> list[int]:
    """Returns the offsets of all records, read from the segments themselves."""
    return [
        record.offset
        for path in segments(partition)
        for _, view in iter_batches(path.read_bytes())
        for record in decode_records(bytes(view))
    ]
