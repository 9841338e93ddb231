"""The file `quorum-state` beside the metadata log: the newest epoch that this node knows, and the voter for which it voted. It
is JSON in Kafka's two forms.

Version 0, with `kraft.version` 0, names the voters, which the configuration fixes; version 1, for voters that are kept in the
log, has the directory id of the vote instead. A single voter elects itself at each start: it writes the new epoch here, durably,
before anything of that epoch goes to the log. A broker that follows other voters notes their epoch and leader.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.log.disk.files import Disk
from ottla.wire.metadata_records import MetadataError
from ottla.wire.primitives import ZERO_UUID, uuid_to_text

FILE_NAME: Final = "quorum-state"
_LAST_EPOCH: Final = 2**31 - 1


class QuorumState(NamedTuple):
    """The content of quorum-state. `voters` is empty in version 1."""

    leader_epoch: int
    leader_id: int
    voters: tuple[int, ...]


def read(disk: Disk, path: str) -> QuorumState | None:
    """Returns the content of the file, None if there is none yet. Raises MetadataError if it cannot be read, because an epoch
    that is used twice would split the log's history."""
    try:
        data = disk.read_bytes(path)
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(data)
        voters = tuple(int(voter["voterId"]) for voter in fields.get("currentVoters") or ())
        state = QuorumState(int(fields["leaderEpoch"]), int(fields["leaderId"]), voters)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise MetadataError(f"{path} is not JSON with leaderEpoch and leaderId; restore it from a copy") from error
    if not 0 <= state.leader_epoch < _LAST_EPOCH:
        raise MetadataError(f"{path} has leaderEpoch {state.leader_epoch}, which no other can follow; restore it from a copy")
    return state


def write(disk: Disk, path: str, *, epoch: int, leader_id: int, kraft_version: int, voters: Sequence[int] | None = None) -> None:
    """Writes, durably, that `leader_id` leads `epoch`, as one of `voters` or the only one. Raises OSError."""
    fields: dict[str, object]
    if kraft_version == 0:
        fields = {
            "clusterId": "",
            "leaderId": leader_id,
            "leaderEpoch": epoch,
            "votedId": -1,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in voters or (leader_id,)],
            "data_version": 0,
        }
    else:
        fields = {
            "leaderId": leader_id,
            "leaderEpoch": epoch,
            "votedId": -1,
            "votedDirectoryId": uuid_to_text(ZERO_UUID),
            "data_version": 1,
        }
    disk.write_bytes(path, json.dumps(fields, separators=(",", ":")).encode())
