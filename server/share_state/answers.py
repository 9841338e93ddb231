"""How the five requests to the share coordinator are answered: partition by partition, each with its own code.

The answers come grouped by topic; a share partition that is named twice is dealt with twice and answered once. A request without
a group id or topics does nothing and is answered by nothing, as in Kafka, and so does one with a topic that has no partitions,
unless `empty_topics`: those are left out then.
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
    """(topic id, answers) of what `ask` says of each partition, or `refuse` where it raises."""
    if not group_id or not (empty_topics or all(topic.partitions for topic in topics)):
        return []
    answers: dict[bytes, dict[int, R]] = {}
    for topic in topics:
        found = answers.setdefault(topic.topic_id, {})
        for each in topic.partitions:
            try:
                found[each.partition] = ask(topic.topic_id, each)
            except ShareStateError as error:
                found[each.partition] = refuse(each.partition, error)
    return [(topic_id, list(found.values())) for topic_id, found in answers.items() if found]
