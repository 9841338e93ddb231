"""Checks and carries out the acknowledgements in requests: those of ShareAcknowledge and those in a ShareFetch.

The acknowledgements of one partition are carried out together or not at all. A batch has one type for all its offsets, or one for
each: 0 is a gap of the log, 1 accept, 2 release, 3 reject, and, if the request says that it renews (version 2), 4 renew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ottla.server.base.answers import combine_answers, recover_answer
from ottla.server.base.promise import Promise
from ottla.server.group.share.member import LONGEST_MEMBER_ID
from ottla.server.metadata.feature_levels import SHARE_VERSION
from ottla.server.share.persister import ShareError
from ottla.server.share.sessions import SessionKey, TopicIdPartition
from ottla.server.share.share_partition import Acknowledgement
from ottla.server.share.share_partitions import SharePartitions
from ottla.server.share.states import REJECT, RENEW
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.metadata.image import MetadataImage

RENEW_SINCE: Final = 2
"""The version of ShareFetch and ShareAcknowledge from which on a lock can be renewed (KIP-1222)."""


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


def acknowledge_all(
    shares: SharePartitions,
    image: MetadataImage,
    key: SessionKey,
    topics: Iterable[AcknowledgeTopic],
    version: int,
    *,
    renews: bool,
) -> Outcome | Promise[Outcome]:
    """Carries out the acknowledgements of a request. Returns their outcome by partition. As in Kafka, it contains partitions
    without acknowledgements only if there was a valid acknowledgement for any other partition.
    """
    outcome: dict[TopicIdPartition, ShareError | Promise[ShareError | None] | None] = {}
    empty: list[TopicIdPartition] = []
    tried = False
    for topic in topics:
        for asked in topic.partitions:
            partition = topic.topic_id, asked.partition_index
            try:
                batches = _check(image, partition, asked.acknowledgement_batches, version, renews=renews)
                if batches:
                    tried = True
                    written = shares.acknowledge(key, partition, batches)
                    failed = recover_answer(written, ShareError, lambda error: error)
                    outcome[partition] = failed
                else:
                    empty.append(partition)
            except ShareError as error:
                outcome[partition] = error
    if tried:
        outcome.update(dict.fromkeys(empty))
    partitions = list(outcome)
    return combine_answers(list(outcome.values()), lambda errors: dict(zip(partitions, errors, strict=True)))


def _check(
    image: MetadataImage, partition: TopicIdPartition, batches: Sequence[AcknowledgementBatch], version: int, *, renews: bool
) -> list[Acknowledgement]:
    """Returns a partition's acknowledgements. Raises ShareError if they are invalid or there is no such partition."""
    topic = image.topics_by_id.get(partition[0])
    if topic is None:
        raise ShareError(ErrorCode.UNKNOWN_TOPIC_ID, None)
    highest = RENEW if version >= RENEW_SINCE else REJECT
    behind = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if not behind <= first <= last or len(types) not in (1, last - first + 1):
            raise ShareError(ErrorCode.INVALID_REQUEST, None)
        if not all(0 <= kind <= highest for kind in types) or (RENEW in types and not renews):
            raise ShareError(ErrorCode.INVALID_REQUEST, None)
        behind = last
    if partition[1] not in topic.partitions:
        raise ShareError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    return [Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in batches]


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
