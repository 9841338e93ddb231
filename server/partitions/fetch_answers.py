"""What an answer of Fetch consists of: its results by topic, where logs diverge, aborted transactions, refusals.

It is loaded with the first Fetch (server/handlers/fetch.py), which decides what is answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.log.errors import OffsetOutOfRange
from ottla.log.transactions import aborted_in_read
from ottla.server.partitions.fetch_sessions import FetchContext, Result
from ottla.server.partitions.replica import Replica
from ottla.server.partitions.traffic import Traffic
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from ottla.log.disk.files import FileSlice
    from ottla.log.partition import PartitionLog

NO_OFFSET: Final = -1


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
        """How many partitions have nothing that their follower does not know. They are no part of the answer."""
        self.found = 0
        """How many bytes of records were found."""
        self.ready = last
        """Whether the answer goes out whatever was found."""

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
