"""Spoils the records of fetch answers, in a way that their checksum shows."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Any

from ottla.log.disk.files import FileSlice
from ottla.server.testkit.refusals.session_refusals import Partition
from ottla.wire.batch import HEADER_SIZE


def corrupt_records(answer: Any, wanted: Collection[Partition], random: Random) -> bool:
    """Changes a byte in the records of the first of the wanted partitions that has any in the answer to a Fetch or ShareFetch, of
    all partitions if none is named; returns whether there are any.
    """
    for topic in answer.responses:
        for data in topic.partitions:
            names = [Partition(name, data.partition_index) for name in (topic.topic_id, getattr(topic, "topic", ""))]
            if wanted and not any(name in wanted for name in names):
                continue
            records = data.records.read() if isinstance(data.records, FileSlice) else bytes(data.records or b"")
            if len(records) > HEADER_SIZE:
                data.records = _spoiled(records, random)
                return True
    return False


def _spoiled(records: bytes, random: Random) -> bytes:
    """Returns record batches with one bit changed behind the header of the first, so that all of its header still makes sense."""
    end = min(len(records), 12 + int.from_bytes(records[8:12], "big"))
    at = random.randrange(HEADER_SIZE, max(end, HEADER_SIZE + 1))
    return records[:at] + bytes((records[at] ^ 1 << random.randrange(8),)) + records[at + 1 :]
