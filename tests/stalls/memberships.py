"""Groups of the broker that the sweep asks: without them, the requests of members, and those about offsets of share groups, are
refused at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from ottla.wire.messages import alter_share_group_offsets, consumer_group_heartbeat, delete_groups, share_group_heartbeat
from ottla.wire.primitives import WireStruct

READERS: Final = "readers"
"""The consumer group of the member that sends heartbeats."""
READER_EPOCH: Final = 2
"""Its epoch, as the first of a consumer group."""
SHARERS: Final = "sharers"
"""The share group of such members."""
LEAVING: Final = -1
LEFT: Final = "left"
"""A share group without members, which has state."""


def ending() -> Iterator[WireStruct]:
    """Yields the requests that remove the groups, as far as they are there."""
    yield consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(READERS, "m", LEAVING)
    yield share_group_heartbeat.ShareGroupHeartbeatRequest(SHARERS, "m", LEAVING)
    yield delete_groups.DeleteGroupsRequest([READERS, SHARERS, LEFT])


def founding(topics: Iterable[str]) -> Iterator[WireStruct]:
    """Yields the requests that make the groups."""
    yield consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(READERS, "m", 0, None, None, 60_000, ["none"], None, None, [])
    first = [alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(0, 0)]
    altered = [alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(name, first) for name in topics]
    yield alter_share_group_offsets.AlterShareGroupOffsetsRequest(LEFT, altered)


def _joining(request: Any) -> Any:
    """Returns the request as one of a member that joins, which has no partitions yet."""
    _of_reader(request)
    request.member_epoch, request.rebalance_timeout_ms, request.topic_partitions = 0, 60_000, []
    return request


def _staying(request: Any) -> Any:
    """Returns the request as one of a member that says what it has, and no more."""
    _of_reader(request)
    request.member_epoch, request.subscribed_topic_names = READER_EPOCH, None
    return request


def _of_reader(request: Any) -> None:
    request.group_id, request.member_id, request.instance_id = READERS, "m", None
    request.subscribed_topic_regex = request.server_assignor = None


def _of_sharer(request: Any) -> Any:
    request.group_id, request.member_epoch = SHARERS, 0
    return request


def _of_left(request: Any) -> Any:
    request.group_id = LEFT
    return request


IN_GROUPS: Final[dict[str, tuple[Callable[[Any], Any], ...]]] = {
    "ConsumerGroupHeartbeat": (_joining, _staying),
    "ShareGroupHeartbeat": (_of_sharer,),
    "AlterShareGroupOffsets": (_of_left,),
    "DeleteShareGroupOffsets": (_of_left,),
}
"""The changes that the longest requests of these APIs need to be served, in each way in which a client can send them."""
