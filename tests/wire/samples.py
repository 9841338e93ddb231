"""Records that the tests write and batches.json holds: null key, null value, headers, a timestamp that goes back."""

from __future__ import annotations

import json
from pathlib import Path

from ottla.wire.records import Record

NOW_MS = 1_700_000_000_000


def sample_records(count: int) -> list[Record]:
    return [
        Record(
            index,
            NOW_MS + (index if index != 1 else -5),
            None if index == 1 else b"k%d" % index,
            None if index == 2 else b"value %d " % index * 20,
            [("h", b"x"), ("n", None)] if index == 0 else [],
        )
        for index in range(count)
    ]


def foreign_batches() -> dict[str, bytes]:
    """Batches that other producers wrote; batches.json says which and how."""
    document = json.loads((Path(__file__).parent / "batches.json").read_text())
    return {name: bytes.fromhex(text) for name, text in document["batches"].items()}
