"""`quorum-state` beside the metadata log: the newest epoch that this voter knows, and whom it voted for. JSON in Kafka's two
forms.

Version 0, with `kraft.version` 0, names the voters, which the configuration fixes; version 1, where the log itself names them,
has the directory id of the vote instead. A single voter elects itself at each start: it writes the new epoch here, durably,
before anything of that epoch goes to the log.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from ottla.log.disk.files import Disk
from ottla.wire.metadata_records import MetadataError
from ottla.wire.primitives import ZERO_UUID, uuid_to_text

FILE_NAME: Final = "quorum-state"


class QuorumState(NamedTuple):
    """`voters` is empty in version 1."""

    leader_epoch: int
    leader_id: int
    voters: tuple[int, ...]


def read(disk: Disk, path: str) -> QuorumState | None:
    """None if there is none yet. Raises MetadataError if it cannot be read: an epoch used twice would split the log's history."""
    try:
        data = disk.read_bytes(path)
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(data)
        voters = tuple(int(voter["voterId"]) for voter in fields.get("currentVoters") or ())
        return QuorumState(int(fields["leaderEpoch"]), int(fields["leaderId"]), voters)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MetadataError(f"{path} cannot be read: no JSON with leaderEpoch and leaderId; restore it from a copy") from error


def write(disk: Disk, path: str, *, epoch: int, leader_id: int, kraft_version: int) -> None:
    """`leader_id` is the only voter and leads `epoch`. Durable when it returns. Raises OSError."""
    fields: dict[str, object]
    if kraft_version == 0:
        fields = {
            "clusterId": "",
            "leaderId": leader_id,
            "leaderEpoch": epoch,
            "votedId": -1,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": leader_id}],
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
