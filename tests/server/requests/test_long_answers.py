"""Lists of long answers: what stands in an answer many times is encoded once, and what is too long is given up in time."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.base.errors import CloseConnection
from ottla.server.requests.long_answers import JOINED_PARTS, AnswerTooLong, LongAnswers
from ottla.wire.messages import describe_producers
from ottla.wire.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

ENCODE = describe_producers.ENCODE_RESPONSE[0]
PRODUCER_BYTES = 37


class Noted(ProducerState):
    """A producer that counts how often it is encoded."""

    __slots__ = ()
    encoded = 0

    @property
    def producer_id(self) -> int:
        Noted.encoded += 1
        return 7

    @producer_id.setter
    def producer_id(self, value: int) -> None:
        pass


@pytest.fixture(autouse=True)
def _count_anew() -> None:
    Noted.encoded = 0


def plain(topics: Any) -> bytes:
    parts: list[Any] = []
    ENCODE(DescribeProducersResponse(topics=topics), parts)
    return b"".join(parts)


def test_what_stands_in_many_places_is_encoded_once() -> None:
    answers = LongAnswers(1 << 20)
    producers: Any = answers.shared([Noted() for _ in range(10)])
    partitions = [PartitionResponse(index, active_producers=producers) for index in range(20)]
    topics = [TopicResponse("t", answers.bounded(partitions)), TopicResponse("u", answers.bounded(partitions))]
    wanted = plain(topics)
    assert Noted.encoded == 400
    Noted.encoded = 0
    parts: list[Any] = []
    answers.around(ENCODE, "DescribeProducers")(DescribeProducersResponse(topics=answers.bounded(topics)), parts)
    assert b"".join(parts) == wanted
    assert Noted.encoded == 10
    assert answers.under_way.parts is None


def test_the_bytes_of_one_answer_are_not_used_for_the_next() -> None:
    answers = LongAnswers(1 << 20)
    encode = answers.around(ENCODE, "DescribeProducers")
    for number in range(50):
        producers = answers.shared([ProducerState(number)])
        response = DescribeProducersResponse(topics=[TopicResponse("t", [PartitionResponse(0, active_producers=producers)] * 3)])
        parts: list[Any] = []
        encode(response, parts)
        assert b"".join(parts) == plain(response.topics)
        del producers, response


@pytest.mark.parametrize("count", [0, 1, JOINED_PARTS // 2, 5 * JOINED_PARTS])
def test_small_parts_are_joined_as_they_come(count: int) -> None:
    answers = LongAnswers(1 << 30)
    partitions = [PartitionResponse(index, 1, "why", [ProducerState()] * (index % 3)) for index in range(count)]
    wanted = plain([TopicResponse("t", partitions)])
    most = 0

    class Watched(list[Any]):
        def append(self, part: Any) -> None:
            nonlocal most
            super().append(part)
            most = max(most, len(self))

    parts = Watched()
    answers.around(ENCODE, "DescribeProducers")(
        DescribeProducersResponse(topics=[TopicResponse("t", answers.bounded(partitions))]), parts
    )
    assert b"".join(parts) == wanted
    assert most < 2 * JOINED_PARTS + 10


def many(answers: LongAnswers, count: int, *, shared: bool) -> DescribeProducersResponse:
    make = answers.shared if shared else answers.bounded
    producers: Any = make([Noted() for _ in range(1000)])
    partitions = [PartitionResponse(index, active_producers=producers) for index in range(count)]
    return DescribeProducersResponse(topics=[TopicResponse("t", answers.bounded(partitions))])


@pytest.mark.parametrize("shared", [False, True])
def test_an_answer_that_is_too_long_is_given_up_while_it_is_made(shared: bool) -> None:
    answers = LongAnswers(1_000_000)
    encode = answers.around(ENCODE, "DescribeProducers")
    encode(many(answers, 20, shared=shared), [])  # 740 kB
    Noted.encoded = 0
    parts: list[Any] = []
    with pytest.raises(
        AnswerTooLong, match=r"DescribeProducers is longer than 1000000 bytes \(ottla.response.max.bytes\)"
    ) as raised:
        encode(many(answers, 1_000, shared=shared), parts)
    assert isinstance(raised.value, CloseConnection)
    assert Noted.encoded <= (1_000 if shared else 30_000)
    assert sum(map(len, parts)) < 1_200_000
    encode(many(answers, 20, shared=shared), [])  # the next answer begins anew


def test_the_last_parts_count_too() -> None:
    answers = LongAnswers(PRODUCER_BYTES)
    response = DescribeProducersResponse(
        topics=answers.bounded([TopicResponse("t", [PartitionResponse(active_producers=[ProducerState()])])])
    )
    with pytest.raises(AnswerTooLong):
        answers.around(ENCODE, "DescribeProducers")(response, [])


def test_outside_of_an_encoding_the_lists_are_lists() -> None:
    answers = LongAnswers(10)
    for make in (answers.bounded, answers.shared):
        made = make(number for number in (1, 2, 3))
        assert list(made) == [1, 2, 3] == made
        assert [*made, *made] == [1, 2, 3] * 2
        assert len(made) == 3
