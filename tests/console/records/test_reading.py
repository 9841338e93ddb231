"""Reads records onwards and the newest ones, with gaps, filters and bounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

import ottla.testing
from ottla.commands.clients.client import Cluster
from ottla.commands.positions import Span
from ottla.console.cluster.source import Source
from ottla.console.errors import Missing
from ottla.console.records import reading
from ottla.console.records.filters import Filter
from ottla.console.records.reading import REST_S, Budget, Read, Reader
from tests.console.conftest import Records

ALL = Filter()


@contextmanager
def reader(source: Source, topic: str, *, committed: bool = True) -> Iterator[Reader]:
    with Reader(source.cluster, source.admin, topic, committed=committed, clock=time.monotonic) as made:
        yield made


def values(read: Read) -> list[bytes | None]:
    return [record.value for record in read.records]


def numbers(*of: int) -> list[bytes]:
    return [b"%d" % number for number in of]


@pytest.fixture(scope="module")
def three(topic: Callable[..., str], produced: Records) -> str:
    """Three partitions: 0 to 9 in the first, 10 to 19 in the second a little later, none in the third."""
    name = topic("reading-three", 3)
    produced(name, *numbers(*range(10)), partition=0, begin_ms=1000)
    produced(name, *numbers(*range(10, 20)), partition=1, begin_ms=2000)
    return name


def test_the_newest_of_all_partitions_and_those_before(source: Source, three: str) -> None:
    with reader(source, three) as it:
        have = it.spans([0, 1, 2])
        assert have == {0: Span(0, 10), 1: Span(0, 10), 2: Span(0, 0)}
        first = it.newest({number: span.end for number, span in have.items()}, have, 9, ALL)
        assert values(first) == numbers(19, 18, 17, 9, 8, 7)
        assert (first.looked_at, first.is_complete, first.has_more) == (6, True, True)
        assert {number: first.next[number] for number in (0, 1)} == {0: 7, 1: 7}
        second = it.newest(first.next, have, 30, ALL)
        assert values(second) == numbers(*range(16, 9, -1), *range(6, -1, -1))
        assert not second.has_more


def test_onwards_from_somewhere_and_on_from_there(source: Source, three: str) -> None:
    with reader(source, three) as it:
        have = it.spans([0, 1, 2])
        first = it.onwards({0: 2, 1: 0, 2: 0}, have, 6, ALL)
        assert values(first) == numbers(2, 3, 10, 11)
        assert (first.next, first.is_complete, first.has_more) == ({0: 4, 1: 2, 2: 0}, True, True)
        second = it.onwards(first.next, have, 300, ALL)
        assert values(second) == numbers(*range(4, 10), *range(12, 20))
        assert not second.has_more
        assert values(it.onwards({0: 10**15}, have, 5, ALL)) == []
        assert values(it.onwards({0: 0}, {0: Span(4, 6)}, 5, ALL)) == numbers(4, 5)


def test_no_more_records_than_were_asked_for_and_none_is_lost(source: Source, three: str) -> None:
    with reader(source, three) as it:
        have = it.spans([0, 1, 2])
        onwards = it.onwards({0: 8, 1: 0, 2: 0}, have, 1, ALL)
        assert (values(onwards), onwards.next, onwards.has_more) == (numbers(8), {0: 9, 1: 0, 2: 0}, True)
        assert values(it.onwards(onwards.next, have, 4, ALL)) == numbers(9, 10, 11)
        newest = it.newest({0: 10, 1: 10, 2: 0}, have, 4, ALL)
        assert (values(newest), newest.next, newest.has_more) == (numbers(19, 18, 9, 8), {0: 8, 1: 8, 2: 0}, True)
        newest = it.newest({0: 2, 1: 2, 2: 0}, have, 1, ALL)
        assert (values(newest), newest.next, newest.has_more) == (numbers(11), {0: 2, 1: 1, 2: 0}, True)
        found: list[bytes | None] = []
        starts = {0: 0, 1: 0, 2: 0}
        while (read := it.onwards(starts, have, 7, ALL)).records:
            assert len(read.records) <= 7
            found += values(read)
            starts = dict(read.next)
        assert len(found) == 20
        assert set(found) == set(numbers(*range(20)))


def test_a_filter_looks_further(source: Source, topic: Callable[..., str], produced: Records) -> None:
    name = topic("reading-filter")
    produced(name, *numbers(*range(500)), key=b"the-key")
    with reader(source, name) as it:
        have = it.spans([0])
        newest = it.newest({0: 500}, have, 2, Filter(value=b"7"))
        assert values(newest) == numbers(497, 487)
        assert newest.next == {0: 487}
        assert values(it.newest(newest.next, have, 1, Filter(value=b"7"))) == numbers(479)
        rare = it.newest({0: 500}, have, 5, Filter(key=b"key", value=b"33"))
        assert values(rare) == numbers(433, *range(339, 332, -1))[:5]
        assert values(it.newest({0: 500}, have, 5, Filter(key=b"none"))) == []
        onwards = it.onwards({0: 0}, have, 3, Filter(value=b"99"))
        assert values(onwards) == numbers(99, 199, 299)
        assert onwards.next == {0: 300}
        nothing = it.onwards({0: 0}, have, 3, Filter(value=b"no"))
        assert (nothing.records, nothing.looked_at, nothing.has_more, nothing.is_complete) == ([], 500, False, True)


def test_null_and_filters() -> None:
    assert Filter().fits(None, None)
    assert not Filter(key=b"a").fits(None, b"a")
    assert not Filter()
    assert Filter(value=b"a").fits(None, b"cat")


def test_records_of_aborted_transactions(source: Source, topic: Callable[..., str], broker: ottla.testing.Broker) -> None:
    name = topic("reading-aborted")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "reading"})
    producer.init_transactions(30)
    for value, commit in ((b"kept", True), (b"aborted", False), (b"kept too", True)):
        producer.begin_transaction()
        producer.produce(name, value)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    with reader(source, name) as it:
        have = it.spans([0])
        assert have == {0: Span(0, 6)}
        assert values(it.newest({0: 6}, have, 10, ALL)) == [b"kept too", b"kept"]
        assert values(it.onwards({0: 0}, have, 1, ALL)) == [b"kept"]
        assert values(it.newest({0: 4}, have, 10, ALL)) == [b"kept"]  # offset 3, the last before it, is a marker
        gap = it.one(0, 1, have[0])
        assert gap is not None
        assert gap.offset == 4
        assert it.one(0, 5, have[0]) is None
    with reader(source, name, committed=False) as it:
        assert values(it.onwards({0: 0}, it.spans([0]), 10, ALL)) == [b"kept", b"aborted", b"kept too"]


def test_a_page_takes_only_so_much(source: Source, three: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "Budget", lambda clock: Budget(clock, records=5))
    with reader(source, three) as it:
        have = it.spans([0])
        cut = it.onwards({0: 0}, have, 10, ALL)
        assert (values(cut), cut.next, cut.is_complete, cut.has_more) == (numbers(0, 1, 2, 3, 4), {0: 5}, False, True)
        older = it.newest({0: 10}, have, 1, Filter(value=b"none"))
        assert (older.records, older.is_complete, older.has_more) == ([], False, True)


def test_the_newest_that_were_found_are_kept_when_the_budget_is_spent(
    source: Source, topic: Callable[..., str], produced: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic("reading-spent")
    produced(name, *numbers(*range(1000)))
    monkeypatch.setattr(reading, "Budget", lambda clock: Budget(clock, records=600))
    found: list[bytes | None] = []
    with reader(source, name) as it:
        have, ends, pages, looked_at = it.spans([0]), {0: 1000}, 0, 0
        while True:
            read = it.newest(ends, have, 50, Filter(value=b"50"))
            found += values(read)
            ends, pages, looked_at = dict(read.next), pages + 1, looked_at + read.looked_at
            assert read.is_complete is (pages == 2)
            if not read.has_more:
                break
    assert found == [b"%d" % number for number in range(999, -1, -1) if b"50" in b"%d" % number]
    assert (pages, looked_at) == (2, 1000)  # none was looked at twice


def test_large_records_leave_the_newest_on_the_page(
    source: Source, topic: Callable[..., str], produced: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic("reading-large")
    produced(name, *(b"%d" % number + b"x" * 10_000 for number in range(100)))
    monkeypatch.setattr(reading, "Budget", lambda clock: Budget(clock, size_bytes=500_000))
    with reader(source, name) as it:
        read = it.newest({0: 100}, it.spans([0]), 100, ALL)
        assert [record.offset for record in read.records] == list(range(99, read.next[0] - 1, -1))
        assert 32 <= len(read.records) <= 50
        assert not read.is_complete
        assert all(len(record.value or b"") < 2000 for record in read.records)
        assert getattr(read.records[0].value, "size", 0) == 10_002


def test_a_list_keeps_of_headers_what_it_shows(source: Source, topic: Callable[..., str], broker: ottla.testing.Broker) -> None:
    name, sent = topic("reading-headers"), [(str(number) + "n" * 99, b"v" * 9999) for number in range(5)]
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(name, b"v", headers=list(sent))
    assert producer.flush(30) == 0
    with reader(source, name) as it:
        have = it.spans([0])
        (record,) = it.onwards({0: 0}, have, 5, ALL).records
        assert [(name, len(value or b"")) for name, value in record.headers or ()] == [
            (f"{number}{'n' * 59}", 1201) for number in range(3)
        ]
        assert record.more_headers == 2
        full = it.one(0, 0, have[0])
        assert full is not None
        assert full.headers == tuple(sent)


def test_a_consumer_is_closed_if_nobody_answers() -> None:
    closed: list[str] = []
    source = Source(Cluster({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.5))
    made = Reader(source.cluster, source.admin, "t", committed=True, clock=time.monotonic)
    made._consumer.close()
    consumer: Any = SimpleNamespace(
        list_topics=made._consumer.list_topics, poll=lambda _: None, close=lambda: closed.append("closed")
    )
    made._consumer = consumer
    with pytest.raises(RuntimeError), made:
        raise AssertionError("it was entered")
    assert closed == ["closed"]


def test_a_budget_is_records_bytes_or_seconds() -> None:
    now = [0.0]

    class Message:
        def key(self) -> bytes:
            return b"four"

        def value(self) -> bytes:
            return b"sixsix"

        def headers(self) -> list[tuple[str, bytes | None]]:
            return [("name", b"value"), ("n", None)]

    def spent(**given: int) -> bool:
        budget = Budget(lambda: now[0], **given)
        budget.take(Message())  # type: ignore[arg-type]  # it asks for no more
        return budget.is_spent

    assert (spent(), spent(records=1), spent(size_bytes=20), spent(size_bytes=21)) == (False, True, True, False)
    budget = Budget(lambda: now[0], seconds=2)
    now[0] = 2.1
    assert budget.is_spent


def test_a_topic_that_has_gone_is_no_hang(source: Source) -> None:
    with pytest.raises(Missing, match="no topic reading-none"), reader(source, "reading-none"):
        raise AssertionError("it was entered")


def test_a_second_look_does_not_wait_for_the_first(
    broker: ottla.testing.Broker, source: Source, topic: Callable[..., str], produced: Records
) -> None:
    name = topic("reading-looks")
    produced(name, *numbers(*range(100)))
    source.changed()
    broker.record(1000)
    with reader(source, name) as made:
        found = made.newest({0: 100}, made.spans([0]), 50, ALL)
    asked = [one for one in broker.requests(client_id="ottla") if one.api == "Fetch"]
    broker.record(0)
    assert len(found.records) == 50  # and the first look is at 32
    assert len(asked) >= 2
    assert all(one.request.max_wait_ms <= 10 for one in asked)


def test_a_tail_asks_for_many_records_at_once(
    broker: ottla.testing.Broker, source: Source, topic: Callable[..., str], produced: Records
) -> None:
    """In each of two rests, twenty records are written one after the other; a consumer asks anew after each."""
    name = topic("reading-tail")
    source.changed()
    rests: list[float] = []

    def write(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) <= 2:
            for number in range(20):
                produced(name, b"%d" % (20 * len(rests) + number))

    broker.record(1000)
    came: list[bytes | None] = []
    with Reader(source.cluster, source.admin, name, committed=False, clock=time.monotonic, wait_ms=10_000, ahead=1) as reader:
        produced(name, b"first")
        for batch in reader.follow({0: 0}, lambda: len(came) == 41, write):
            came.extend(message.value() for message in batch)
    asked = [one for one in broker.requests(client_id="ottla") if one.api == "Fetch"]
    broker.record(0)
    assert came == [b"first", *(b"%d" % number for number in range(20, 60))]
    assert set(rests) == {REST_S}
    assert len(asked) <= 8, len(asked)
