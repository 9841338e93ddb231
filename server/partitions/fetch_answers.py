"""The parts of an answer of Fetch: its results by topic, where logs diverge, aborted transactions, refusals.

It is loaded with the first Fetch (server/handlers/fetch.py), which decides what is answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.log.errors import OffsetOutOfRange
from ottla.log.transactions import aborted_in_read
from ottla.server.partitions.fetch_sessions import CachedPartition, FetchContext, Result
from ottla.server.partitions.leader_hints import leader_hint
from ottla.server.partitions.replica import Replica
from ottla.server.partitions.roles import Leader
from ottla.server.partitions.traffic import Traffic
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from ottla.log.disk.files import FileSlice
    from ottla.log.partition import PartitionLog
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.replicas import Replicas

NO_OFFSET: Final = -1
STORAGE_ERROR_SINCE: Final = 6
_HINTED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class Attempt:
    """Holds what one attempt has found so far."""

    __slots__ = ("found", "lost", "quiet", "ready", "results", "sent", "unknown")

    def __init__(self, last: bool) -> None:
        self.results: list[Result] = []
        self.lost: list[Result] = []
        """Answers for topic ids that no topic has. As in Kafka, which looks at all ids before it asks for rights and names, they
        come before other refusals; but not for followers."""
        self.unknown: list[Result] = []
        """Answers for other partitions that do not exist, or are refused: the request still waits for its other partitions."""
        self.sent: list[tuple[Traffic, int]] = []
        self.quiet = 0
        """The number of partitions that have nothing new for their follower, and so are not in the answer."""
        self.found = 0
        """The number of bytes of records that were found."""
        self.ready = last
        """True if the answer goes out whatever was found."""

    @property
    def is_quiet(self) -> bool:
        """Returns whether there is nothing to answer: a follower knows all about each of its partitions."""
        return not (self.results or self.lost or self.unknown)

    def add_unknown(self) -> bool:
        """Adds the answers for what does not exist to the others, in the order in which they go out; returns whether there are
        any. It is called once.
        """
        if not self.lost and not self.unknown:
            return False
        self.results += self.lost
        self.results += self.unknown
        return True

    def count_sent(self) -> None:
        for traffic, size in self.sent:
            traffic.bytes_out += size


def answer(fetching: FetchContext, results: list[Result]) -> FetchResponse:
    """Returns the response, with those of the results that the session puts into it."""
    code, session_id = fetching.decide(results)
    return FetchResponse(0, code, session_id, [] if code else by_topic(fetching.news(results)))


def by_topic(results: Sequence[Result]) -> list[FetchableTopicResponse]:
    """Returns the results with one entry for each run of neighbours of the same topic."""
    topics: list[FetchableTopicResponse] = []
    add_by_topic(results, topics)
    return topics


def add_by_topic(results: Sequence[Result], topics: list[FetchableTopicResponse]) -> None:
    """Adds results to an answer; the first may be of the same topic as its last."""
    last: str | bytes | None = (topics[-1].topic or topics[-1].topic_id) if topics else None
    for cached, data in results:
        topic = cached.topic
        if topic == last:
            topics[-1].partitions.append(data)
            continue
        last = topic
        if isinstance(topic, bytes):
            topics.append(FetchableTopicResponse("", topic, [data]))
        else:
            topics.append(FetchableTopicResponse(topic, partitions=[data]))


def find_divergence(replica: Replica, asked: FetchPartition) -> EpochEndOffset | None:
    """Returns where the client's log and ours diverge, if that is before the offset that it asks for, or None.

    Raises OffsetOutOfRange if this cannot be known.
    """
    log = replica.log
    epoch, end_offset = log.end_offset_for_epoch(asked.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        raise OffsetOutOfRange(f"epoch {asked.last_fetched_epoch} is unknown to {log!r}")
    if asked.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange(f"offset {asked.fetch_offset} is before the start of {log!r}")
    if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
        return EpochEndOffset(epoch, end_offset)
    return None


def _knows_all(replica: Replica, cached: CachedPartition) -> bool:
    """Returns whether there is nothing to say to a follower about a partition: nothing was said to the same request before, and
    nothing has changed."""
    log, asked = replica.log, cached.request
    return (
        cached.settled is asked
        and log.log_end_offset == asked.fetch_offset
        and log.high_watermark == cached.high_watermark
        and log.log_start_offset == cached.log_start_offset
        and replica.leader_epoch == asked.current_leader_epoch
        and replica.is_leader
    )


def note_fetch(replica: Replica, follower: int, asked: FetchPartition, broker_epoch: int) -> bool:
    """Notes how far a follower has come; returns False for a broker that is none, or a fetch from before its last start."""
    role = replica.role
    watermark = role.high_watermark if isinstance(role, Leader) else None
    return watermark is not None and watermark.on_fetch(follower, asked.fetch_offset, asked.log_start_offset, broker_epoch)


def is_quiet(replica: Replica, cached: CachedPartition, follower: int, broker_epoch: int, *, is_first: bool) -> bool:
    """Returns whether a follower knows all about a partition. Of thousands of partitions most are like this all the time. If
    `is_first`, it is noted how far that follower has come.
    """
    if not _knows_all(replica, cached):
        return False
    if is_first and not (note_fetch(replica, follower, cached.request, broker_epoch) and _knows_all(replica, cached)):
        return False
    replica.traffic.fetches += 1
    return True


def why_missing(cached: CachedPartition, metadata: MetadataImage, replicas: Replicas, api_version: int) -> ErrorCode:
    """Returns the error for a partition that this broker does not have, as a request of this version knows it."""
    topic = cached.topic
    if isinstance(topic, bytes):
        image = metadata.topics_by_id.get(topic)
        if image is None:
            return _why_topic_is_lost(cached, replicas)
        topic = cached.name = image.name
    return code_for_version(replicas.why_missing(topic, cached.index), api_version)


def _why_topic_is_lost(cached: CachedPartition, replicas: Replicas) -> ErrorCode:
    """Returns the error for a topic id that does not exist any more.

    A session remembers the topic's name, as in Kafka, and another topic may have that name now.
    """
    if cached.name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    successor = replicas.get(cached.name, cached.index)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if successor is None else ErrorCode.INCONSISTENT_TOPIC_ID


def code_for_version(code: ErrorCode, api_version: int) -> ErrorCode:
    """Returns the code as a request of this version knows it: clients below v6 do not know that a storage error can be retried,
    and this makes them look for another leader.
    """
    if code == ErrorCode.KAFKA_STORAGE_ERROR and api_version < STORAGE_ERROR_SINCE:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code


def add_hints(results: Sequence[Result], metadata: MetadataImage, listener: str, *, addresses: bool) -> dict[int, NodeEndpoint]:
    """Names the current leader beside each error that says that it is elsewhere; returns these leaders' addresses by broker id,
    none unless `addresses`: followers know them already.
    """
    endpoints: dict[int, NodeEndpoint] = {}
    for cached, data in results:
        if data.error_code not in _HINTED:
            continue
        topic = cached.topic
        if isinstance(topic, bytes):
            topic = metadata.topics_by_id[topic].name
        hint = leader_hint(metadata, topic, cached.index, listener)
        data.current_leader = LeaderIdAndEpoch(hint.leader_id, hint.leader_epoch)
        if hint.host is not None and addresses:
            endpoints[hint.leader_id] = NodeEndpoint(hint.leader_id, hint.host, hint.port, hint.rack)
    return endpoints


def aborted_transactions(
    log: PartitionLog, fetch_offset: int, upto: int, limit: int, records: FileSlice | None
) -> list[AbortedTransaction] | None:
    """Returns the aborted transactions whose records the reader has to drop from `records`.

    Where nothing was read the answer is Kafka's: None if the first batch did not fit; and if the limit was used up already, the
    transactions that concern the fetch offset itself.
    """
    if fetch_offset >= upto:
        return []
    if records is None:
        if limit > 0:
            return None
        records = log.read(fetch_offset, 0, upto=upto)
        if records is None:
            return []
        records.length = 0
    return [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in aborted_in_read(log, fetch_offset, records)]


def refusal(index: int, code: ErrorCode, aborted: list[AbortedTransaction] | None = None) -> PartitionData:
    """Returns an answer without records."""
    return PartitionData(index, code, NO_OFFSET, NO_OFFSET, NO_OFFSET, aborted_transactions=aborted)
