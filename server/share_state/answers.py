"""Answers the five requests to the share coordinator partition by partition, in turns, each with its own error code.

The answers are grouped by topic; a share partition that is named twice is processed twice and answered once. As in Kafka, a
request without a group id or topics does nothing and gets an empty answer. So does a request with a topic that has no partitions,
unless `empty_topics` is true; then such topics are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ottla.server.base.answers import recover_answer
from ottla.server.base.clock import Clock
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, all_kept, take_steps
from ottla.server.share_state.errors import ShareStateError


class PartitionRequest(Protocol):
    partition: int


P = TypeVar("P", bound=PartitionRequest)
P_co = TypeVar("P_co", bound=PartitionRequest, covariant=True)
R = TypeVar("R")
A = TypeVar("A")


class TopicRequest(Protocol[P_co]):
    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Sequence[P_co]: ...


def answer_each(
    group_id: str,
    topics: Sequence[TopicRequest[P]],
    ask: Callable[[bytes, P], R | Promise[R]],
    refuse: Callable[[int, ShareStateError], R],
    answer: Callable[[list[tuple[bytes, list[R]]]], A],
    clock: Clock,
    *,
    empty_topics: bool = False,
) -> A | Promise[A]:
    """Calls `ask` for each partition. Returns what `answer` makes of the results: for each topic id, what `ask` returned or
    promised, or what `refuse` returns for the error that it raised or its promise failed with.
    """
    if not group_id or not (empty_topics or all(topic.partitions for topic in topics)):
        return answer([])

    def steps() -> Steps[A]:
        asked: dict[bytes, dict[int, R | Promise[R]]] = {}
        for topic in topics:
            of_topic = asked.setdefault(topic.topic_id, {})
            for each in topic.partitions:
                of_topic[each.partition] = _ask(ask, refuse, topic.topic_id, each)
                yield None
        results: list[tuple[bytes, list[R]]] = []
        for topic_id, of_topic in asked.items():
            if of_topic:
                results.append((topic_id, (yield from all_kept(of_topic.values()))))
            yield None
        return answer(results)

    return take_steps(steps(), clock)


def _ask(
    ask: Callable[[bytes, P], R | Promise[R]], refuse: Callable[[int, ShareStateError], R], topic_id: bytes, asked: P
) -> R | Promise[R]:
    def refused(error: ShareStateError) -> R:
        return refuse(asked.partition, error)

    try:
        return recover_answer(ask(topic_id, asked), ShareStateError, refused)
    except ShareStateError as error:
        return refused(error)
