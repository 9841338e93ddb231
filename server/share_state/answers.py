"""This module answers the five requests to the share coordinator partition by partition, each with its own error code.

The answers are grouped by topic; a share partition that is named twice is processed twice and answered once. As in Kafka, a
request without a group id or topics does nothing and gets an empty answer. So does a request with a topic that has no partitions,
unless `empty_topics` is true; then such topics are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ottla.server.share_state.errors import ShareStateError


class PartitionRequest(Protocol):
    partition: int


P = TypeVar("P", bound=PartitionRequest)
P_co = TypeVar("P_co", bound=PartitionRequest, covariant=True)
R = TypeVar("R")


class TopicRequest(Protocol[P_co]):
    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Sequence[P_co]: ...


def answer_each(
    group_id: str,
    topics: Sequence[TopicRequest[P]],
    ask: Callable[[bytes, P], R],
    refuse: Callable[[int, ShareStateError], R],
    *,
    empty_topics: bool = False,
) -> list[tuple[bytes, list[R]]]:
    """Calls `ask` for each partition. Returns, for each topic id, what it returned, or what `refuse` returned if it raised."""
    if not group_id or not (empty_topics or all(topic.partitions for topic in topics)):
        return []
    answers: dict[bytes, dict[int, R]] = {}
    for topic in topics:
        found = answers.setdefault(topic.topic_id, {})
        for asked in topic.partitions:
            try:
                found[asked.partition] = ask(topic.topic_id, asked)
            except ShareStateError as error:
                found[asked.partition] = refuse(asked.partition, error)
    return [(topic_id, list(found.values())) for topic_id, found in answers.items() if found]
