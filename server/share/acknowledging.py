"""Checks and carries out the acknowledgements in requests: those of ShareAcknowledge and those in a ShareFetch.

The acknowledgements of one partition are carried out together or not at all. (Only if there are more than CARRIED_OUT_AT_ONCE are
they checked together, and then carried out so many at a time.) A batch has one type for all its offsets, or one for each: 0 is a
gap of the log, 1 accept, 2 release, 3 reject, and, if the request says that it renews (version 2), 4 renew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.server.base.answers import combine_answers, recover_answer
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps
from ottla.server.group.share.member import LONGEST_MEMBER_ID
from ottla.server.metadata.feature_levels import SHARE_VERSION
from ottla.server.share.acknowledgement import Acknowledgement
from ottla.server.share.persister import ShareError
from ottla.server.share.sessions import SessionKey, TopicIdPartition
from ottla.server.share.share_partitions import SharePartitions
from ottla.server.share.states import REJECT, RENEW
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.metadata.image import MetadataImage

RENEW_SINCE: Final = 2
"""The version of ShareFetch and ShareAcknowledge from which on a lock can be renewed (KIP-1222)."""
AT_ONCE: Final = 100
"""So many partitions are dealt with at once: some milliseconds, if all of them have to be loaded."""
CARRIED_OUT_AT_ONCE: Final = 1000
"""So many acknowledgements are carried out before others may come first, which takes about a turn. A consumer has half as many
after a poll, by its defaults."""


class AcknowledgementBatch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class AcknowledgePartition(Protocol):
    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[AcknowledgementBatch]: ...


class AcknowledgeTopic(Protocol):
    topic_id: bytes

    @property
    def partitions(self) -> Sequence[AcknowledgePartition]: ...


Outcome = Mapping[TopicIdPartition, ShareError | None]
"""The outcome of each partition's acknowledgements; None means that they were carried out."""
Outcomes = Mapping[TopicIdPartition, ShareError | Promise[ShareError | None] | None]
"""The same, where some of them come later."""


def acknowledge_all(
    shares: SharePartitions,
    image: MetadataImage,
    key: SessionKey,
    topics: Iterable[AcknowledgeTopic],
    version: int,
    *,
    renews: bool,
) -> Steps[Outcomes]:
    """Makes steps that carry out the acknowledgements of a request. They return the outcome by partition. As in Kafka, it
    contains partitions without acknowledgements only if there was a valid acknowledgement for any other partition.
    """
    outcome: dict[TopicIdPartition, ShareError | Promise[ShareError | None] | None] = {}
    empty: list[TopicIdPartition] = []
    tried = False
    for topic in topics:
        for asked in topic.partitions:
            partition = topic.topic_id, asked.partition_index
            try:
                batches = yield from _check(image, partition, asked.acknowledgement_batches, version, renews=renews)
                if batches:
                    tried = True
                    outcome[partition] = yield from _carry_out(shares, key, partition, batches)
                else:
                    empty.append(partition)
            except ShareError as error:
                outcome[partition] = error
            yield None
    if tried:
        outcome.update(dict.fromkeys(empty))
    return outcome


def when_written(outcomes: Outcomes) -> Outcome | Promise[Outcome]:
    """Returns the outcomes, or a promise of them if some come later."""
    partitions = list(outcomes)
    return combine_answers(list(outcomes.values()), lambda errors: dict(zip(partitions, errors, strict=True)))


def is_long(topics: Sequence[AcknowledgeTopic]) -> bool:
    """Returns whether a request is about more partitions, or more acknowledgements of them, than are dealt with at once."""
    partitions = acknowledgements = 0
    for topic in topics:
        partitions += len(topic.partitions)
        if partitions > AT_ONCE:
            return True
        for partition in topic.partitions:
            acknowledgements += sum(max(1, len(batch.acknowledge_types)) for batch in partition.acknowledgement_batches)
    return acknowledgements > CARRIED_OUT_AT_ONCE


def _carry_out(
    shares: SharePartitions, key: SessionKey, partition: TopicIdPartition, batches: list[Acknowledgement]
) -> Steps[ShareError | Promise[ShareError | None] | None]:
    """Carries out the acknowledgements of one partition. Raises ShareError."""
    if sum(len(batch.types) for batch in batches) <= CARRIED_OUT_AT_ONCE:
        return _acknowledge(shares, key, partition, batches)
    parts = yield from _parts(batches)
    for part in parts:
        shares.check_acknowledged(key, partition, part)
        yield None
    written: list[ShareError | Promise[ShareError | None] | None] = []
    for part in parts:
        written.append(_acknowledge(shares, key, partition, part))
        yield None
    return combine_answers(written, lambda errors: next((error for error in errors if error is not None), None))


def _acknowledge(
    shares: SharePartitions, key: SessionKey, partition: TopicIdPartition, batches: list[Acknowledgement]
) -> ShareError | Promise[ShareError | None] | None:
    written: ShareError | Promise[Any] | None = shares.acknowledge(key, partition, batches)
    return recover_answer(written, ShareError, lambda error: error)


def _parts(batches: list[Acknowledgement]) -> Steps[list[list[Acknowledgement]]]:
    """Returns the acknowledgements in parts that can each be carried out at once."""
    part: list[Acknowledgement] = []
    parts = [part]
    room = CARRIED_OUT_AT_ONCE
    for batch in batches:
        first, types = batch.first, batch.types
        while len(types) > room:
            if room:
                part.append(Acknowledgement(first, first + room - 1, types[:room]))
            first, types = first + room, types[room:]
            part, room = [], CARRIED_OUT_AT_ONCE
            parts.append(part)
        part.append(Acknowledgement(first, batch.last, types))
        room -= len(types)
        yield None
    return parts


def _check(
    image: MetadataImage, partition: TopicIdPartition, batches: Sequence[AcknowledgementBatch], version: int, *, renews: bool
) -> Steps[list[Acknowledgement]]:
    """Returns a partition's acknowledgements. Raises ShareError if they are invalid or there is no such partition."""
    topic = image.topics_by_id.get(partition[0])
    if topic is None:
        raise ShareError(ErrorCode.UNKNOWN_TOPIC_ID, None)
    highest = RENEW if version >= RENEW_SINCE else REJECT
    behind = -1
    checked: list[Acknowledgement] = []
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if not behind <= first <= last or len(types) not in (1, last - first + 1):
            raise ShareError(ErrorCode.INVALID_REQUEST, None)
        if not all(0 <= kind <= highest for kind in types) or (RENEW in types and not renews):
            raise ShareError(ErrorCode.INVALID_REQUEST, None)
        behind = last
        checked.append(Acknowledgement(first, last, types))
        yield None
    if partition[1] not in topic.partitions:
        raise ShareError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    return checked


def request_error(group_id: str | None, member_id: str | None, image: MetadataImage) -> ShareError | None:
    """Returns the error for a request with an invalid group or member id, or on a cluster without share groups;
    otherwise None.
    """
    if not image.features.get(SHARE_VERSION):
        return ShareError(ErrorCode.UNSUPPORTED_VERSION, None)
    if group_id is None:
        return ShareError(ErrorCode.INVALID_REQUEST, None)
    if not member_id or len(member_id) > LONGEST_MEMBER_ID:
        return ShareError(ErrorCode.INVALID_REQUEST, None)
    return None
