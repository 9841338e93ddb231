"""`Acknowledgement` is what a member says about offsets that it has acquired; the functions compare it with what is in flight
(share_partition.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.server.share.persister import ShareError
from ottla.server.share.states import ACQUIRED, Run
from ottla.wire.errors import ErrorCode

INVALID_STATE: Final = ErrorCode.INVALID_RECORD_STATE


class Acknowledgement(NamedTuple):
    """A batch of acknowledged offsets. `types` has one type for all offsets, or one for each."""

    first: int
    last: int
    types: Sequence[int]


def check_held(run: Run, member_id: str) -> None:
    """Raises ShareError unless the member holds these records."""
    if run.state is not ACQUIRED:
        raise ShareError(INVALID_STATE, "One of the records is not acquired.")
    if run.member_id != member_id:
        raise ShareError(INVALID_STATE, "Another member holds one of the records.")


def split_by_type(run: Run, acknowledged: Acknowledgement) -> list[tuple[Run, int]]:
    """Splits the run where the type of acknowledgement changes. Returns the parts with their types."""
    parts: list[tuple[Run, int]] = []
    for offset in range(run.first, run.last + 1):
        kind = acknowledged.types[offset - acknowledged.first]
        if parts and parts[-1][1] == kind:
            parts[-1] = parts[-1][0]._replace(last=offset), kind
        else:
            parts.append((run.clipped(offset, offset), kind))
    return parts
