"""Asks leaders for the first and the last offset of partitions, by ListOffsets as a replica: the end is that of the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

if TYPE_CHECKING:
    from ottla.server.replication.following import Following, Key
    from ottla.wire.messages.list_offsets import ListOffsetsResponse

LATEST: Final = -1
EARLIEST: Final = -2
EPOCHS_SINCE: Final = 4
"""The version from which on a request names the leader epoch."""

Ask = Callable[[ListOffsetsRequest], Awaitable[Any]]


class Range(NamedTuple):
    """The start and the end of a leader's log; or why it does not say, then without offsets."""

    error_code: int
    start_offset: int = -1
    end_offset: int = -1


async def look_up(ask: Ask, node_id: int, followings: Iterable[Following]) -> Mapping[Key, Range]:
    """Returns the range of each partition that the leader names in its answers. `ask` sends a request to the leader and raises
    its PeerError."""
    wanted = list(followings)
    ends = _read(await ask(_request(node_id, wanted, LATEST)), wanted)
    starts = _read(await ask(_request(node_id, wanted, EARLIEST)), wanted)
    return {
        key: Range(end[0] or starts[key][0], starts[key][1], end[1]) if key in starts else Range(end[0], -1, end[1])
        for key, end in ends.items()
        if key in starts or end[0]
    }


def _request(node_id: int, followings: Iterable[Following], timestamp: int) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for each in followings:
        topics.setdefault(each.replica.topic, []).append(ListOffsetsPartition(each.key[1], each.leader_epoch, timestamp))
    return ListOffsetsRequest(node_id, topics=[ListOffsetsTopic(name, partitions) for name, partitions in topics.items()])


def _read(answer: ListOffsetsResponse, followings: Iterable[Following]) -> dict[Key, tuple[int, int]]:
    """Returns the error code and the offset of each partition in an answer."""
    keys = {(each.replica.topic, each.key[1]): each.key for each in followings}
    found: dict[Key, tuple[int, int]] = {}
    for topic in answer.topics:
        for partition in topic.partitions:
            key = keys.get((topic.name, partition.partition_index))
            if key is not None:
                code = partition.error_code
                if code == ErrorCode.NONE and partition.offset < 0:
                    code = ErrorCode.OFFSET_NOT_AVAILABLE
                found[key] = code, partition.offset
    return found
