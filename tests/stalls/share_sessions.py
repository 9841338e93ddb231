"""Share sessions of the broker that the sweeps ask: without one, a ShareFetch or ShareAcknowledge is refused at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ottla.wire.messages import initialize_share_group_state, produce, share_fetch
from ottla.wire.primitives import WireStruct
from tests.log.support import batch

GROUP: Final = "g"
MEMBER: Final = "m"
MOST_BYTES: Final = 1 << 20
Changes = dict[str, Callable[[Any], Any]]


def begun(topic_ids: Iterable[bytes], partitions: int) -> WireStruct:
    """Returns the request that has the group begin in so many partitions of each topic."""
    data = [initialize_share_group_state.PartitionData(index, 1, 0) for index in range(partitions)]
    states = [initialize_share_group_state.InitializeStateData(topic_id, data) for topic_id in topic_ids]
    return initialize_share_group_state.InitializeShareGroupStateRequest(GROUP, states)


def fetched(topic_ids: Iterable[bytes], partitions: int, epoch: int = 0) -> WireStruct:
    """Returns a request that has so many partitions of each topic in its session, and takes whatever there is."""
    names = [share_fetch.FetchPartition(index) for index in range(partitions)]
    topics = [share_fetch.FetchTopic(topic_id, names) for topic_id in topic_ids]
    return share_fetch.ShareFetchRequest(GROUP, MEMBER, epoch, 0, 1, MOST_BYTES, MOST_BYTES, 1, topics=topics)


def produced(topic_ids: Iterable[bytes], records: int) -> WireStruct:
    """Returns a request with so many records for the first partition of each topic."""
    data = [produce.PartitionProduceData(0, batch(records))]
    return produce.ProduceRequest(None, -1, 1000, [produce.TopicProduceData("", topic_id, data) for topic_id in topic_ids])


def _opening(request: Any) -> Any:
    """Returns the same request without acknowledgements, as it may open a session."""
    request.share_session_epoch = 0
    for topic in request.topics:
        for partition in topic.partitions:
            partition.acknowledgement_batches = []
    return request


def _going_on(request: Any) -> Any:
    """Returns the same request in a session that was just opened; it acknowledges one offset after the other."""
    request.share_session_epoch = 1
    for topic in request.topics:
        for partition in topic.partitions:
            offset = 0
            for each in partition.acknowledgement_batches:
                each.first_offset, each.last_offset = offset, offset + max(1, len(each.acknowledge_types)) - 1
                offset = each.last_offset + 1
    return request


IN_SESSIONS: Final[dict[str, Changes]] = {
    "ShareFetch": {"opening": _opening, "going on": _going_on},
    "ShareAcknowledge": {"going on": _going_on},
}
"""The changes that the longest requests of these APIs need, in each way in which a client can send them."""
