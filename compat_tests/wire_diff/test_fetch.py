"""Fetch and ListOffsets: limits, waiting, sessions, epochs, timestamps (docs/kafka-behaviour.md)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from compat_tests.wire import TIME_MS, Wire, batch
from compat_tests.wire_diff.same import check, same_answer
from ottla.wire.batch import iter_batches
from ottla.wire.messages import fetch, list_offsets


def filled(wire: Wire, batches: int = 5, partitions: int = 1, size: int = 10) -> str:
    """A topic with `batches` batches of two records a second apart, in each partition."""
    topic = wire.create("t", partitions)
    for partition in range(partitions):
        for n in range(batches):
            records = batch(b"x" * size, b"y" * size, first_ms=TIME_MS + n * 1000)
            wire.produce(topic, records, partition=partition)
    return topic


def part(response: Any) -> Any:
    return response if isinstance(response, str) else (response.error_code, response.responses[0].partitions[0])


def whole_batches(records: Any) -> int:
    """Returns how many bytes of an answer are whole batches: a cut tail is legal, and dropped by every client."""
    return sum(len(raw) for _, raw in iter_batches(whole(bytes(records))))


def whole(records: bytes) -> bytes:
    at = 0
    while len(records) - at >= 12 and (size := int.from_bytes(records[at + 8 : at + 12], "big") + 12) <= len(records) - at:
        at += size
    return records[:at]


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = filled(wire)
        named: str | bytes = wire.topic_ids[topic] if version >= 13 else topic
        unknown: str | bytes = b"0123456789abcdef" if version >= 13 else wire.name("nope")
        return [wire.fetch(named, offset, version=version) for offset in (0, 3, 4, 10)], wire.fetch(unknown, version=version)

    check(wires, "F1", scenario)


@pytest.mark.parametrize("isolation", [0, 1])
@pytest.mark.parametrize("offset", [-1, -2, 11, 100, 1 << 60])
def test_offsets_out_of_range(wires: dict[str, Wire], offset: int, isolation: int) -> None:
    check(wires, "F6", lambda wire: wire.fetch(filled(wire), offset, isolation_level=isolation))


@same_answer("F2")
def test_unknown_topics_and_partitions(wire: Wire) -> Any:
    topic = filled(wire, 1)
    by_name = [wire.fetch(topic, partition=p) for p in (1, -1)] + [wire.fetch(name) for name in (wire.name("nope"), "a b", "")]
    return by_name, wire.fetch(bytes(16), version=13), wire.fetch(wire.topic_ids[topic], version=13, partition=7)


@same_answer("F29")
def test_empty_answers(wire: Wire) -> Any:
    topic = filled(wire, 1)
    empty = wire.create("empty")
    return wire.fetch(topic, 2), wire.fetch(empty), wire.fetch(empty, isolation_level=1), wire.fetch(topic, 2, max_wait_ms=200)


@same_answer("F9b")
def test_min_bytes_not_reached(wire: Wire) -> Any:
    """Waits, then gives what there is. (That it waits: test_framing.)"""
    return wire.fetch(filled(wire), max_wait_ms=300, min_bytes=10_000_000)


@same_answer("WAKE")
def test_a_waiting_fetch_is_woken_by_a_produce(wire: Wire) -> Any:
    topic = filled(wire, 1)
    waiting, other = wire.connect(), wire.connect()
    started = time.monotonic()
    waiting.send(wire.fetch_request(topic, 2, max_wait_ms=14_000), 12)
    other.call(wire.produce_request(topic, batch(b"wake")), 9)
    answer = waiting.answer(fetch, 12)
    return answer, time.monotonic() - started < 10


@same_answer("WAKE2")
def test_a_waiting_fetch_waits_for_min_bytes(wire: Wire) -> Any:
    topic = filled(wire, 1)
    waiting, other = wire.connect(), wire.connect()
    started = time.monotonic()
    waiting.send(wire.fetch_request(topic, 2, max_wait_ms=14_000, min_bytes=3000), 12)
    for _ in range(4):
        other.call(wire.produce_request(topic, batch(b"z" * 1000)), 9)
    answer = waiting.answer(fetch, 12)
    return part(answer)[1].error_code, len(part(answer)[1].records) >= 3000, time.monotonic() - started < 10


LIMITS = [(1 << 20, 100), (0, 1 << 26), (0, 0), (150, 1 << 26), (1, 1), (1000, 1 << 26), (1 << 20, 1 << 26)]


@pytest.mark.parametrize(("partition_max", "max_bytes"), LIMITS)
def test_byte_limits(wires: dict[str, Wire], partition_max: int, max_bytes: int) -> None:
    """The first batch comes whole, whatever the limits say; then up to the limit. A cut tail is not compared."""

    def scenario(wire: Wire) -> Any:
        topic = filled(wire, 8, size=100)
        answers = [wire.fetch(topic, at, partition_max_bytes=partition_max, max_bytes=max_bytes) for at in (0, 5, 15)]
        parts = [answer.responses[0].partitions[0] for answer in answers]
        return [(p.error_code, p.high_watermark, whole(bytes(p.records))) for p in parts]

    check(wires, "F13", scenario)


@same_answer("F13b")
def test_a_negative_limit(wire: Wire) -> Any:
    return wire.fetch(filled(wire, 1), partition_max_bytes=-1).responses[0].partitions[0].error_code


@pytest.mark.parametrize("max_bytes", [0, 1000, 60_000, 1 << 26])
def test_only_the_first_partition_may_exceed_the_limit(wires: dict[str, Wire], max_bytes: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = filled(wire, 2, partitions=3, size=10_000)
        request = wire.fetch_request(topic, max_bytes=max_bytes)
        request.topics[0].partitions += [fetch.FetchPartition(p, fetch_offset=0, partition_max_bytes=1 << 20) for p in (1, 2)]
        answer = wire.call(request, 12)
        return sorted((p.partition_index, p.error_code, whole_batches(p.records)) for p in answer.responses[0].partitions)

    check(wires, "F15", scenario)


@same_answer("F32")
def test_the_same_partition_twice(wire: Wire) -> Any:
    topic = filled(wire, 2)
    request = wire.fetch_request(topic, 0)
    request.topics[0].partitions.append(fetch.FetchPartition(0, fetch_offset=2, partition_max_bytes=1 << 20))
    return wire.call(request, 12)


class Session:
    """A fetch session over one topic."""

    def __init__(self, wire: Wire, topic: str) -> None:
        self.wire, self.topic, self.id = wire, topic, 0

    def fetch(self, epoch: int, offsets: dict[int, int] | None = None, forget: list[int] | None = None, **more: Any) -> Any:
        wanted = [fetch.FetchPartition(p, fetch_offset=o, partition_max_bytes=1 << 20) for p, o in (offsets or {}).items()]
        request = fetch.FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 26,
            session_id=more.pop("session_id", self.id),
            session_epoch=epoch,
            topics=[fetch.FetchTopic(topic=self.topic, partitions=wanted)] if wanted else [],
            forgotten_topics_data=[fetch.ForgottenTopic(topic=self.topic, partitions=forget)] if forget else [],
        )
        answer = self.wire.call(request, more.pop("version", 12))
        if epoch == 0:
            self.id = answer.session_id
        return answer


@same_answer("F16")
def test_a_session_from_its_start_to_its_end(wire: Wire) -> Any:
    topic = filled(wire, 2, partitions=2)
    session = Session(wire, topic)
    answers = [session.fetch(0, {0: 0, 1: 4}), session.fetch(1, {0: 4}), session.fetch(2)]
    wire.produce(topic, batch(b"new"), partition=1)
    answers += [session.fetch(3), session.fetch(4, {1: 5}), session.fetch(5)]
    wire.produce(topic, batch(b"newer"), partition=0)
    answers += [session.fetch(6, forget=[1]), session.fetch(7, {0: 5})]
    wire.produce(topic, batch(b"of the forgotten partition"), partition=1)
    return [*answers, session.fetch(8), session.fetch(9, {1: 5}), session.fetch(-1), session.fetch(10)]


@same_answer("F16b")
def test_wrong_session_epochs(wire: Wire) -> Any:
    session = Session(wire, filled(wire, 1))
    answers = [session.fetch(0, {0: 0}), session.fetch(9), session.fetch(1), session.fetch(1), session.fetch(2)]
    again = session.fetch(0, {0: 2})
    return answers, again, session.fetch(1), session.fetch(-1, {0: 0}, session_id=0), session.fetch(5, session_id=0)


@same_answer("F17")
def test_sessions_that_are_not(wire: Wire) -> Any:
    session = Session(wire, filled(wire, 1))
    unknown = [session.fetch(epoch, session_id=12345) for epoch in (1, -1, 0)]
    return unknown, session.fetch(0), session.fetch(-1, {0: 0}, session_id=0), session.fetch(-5, {0: 0}, session_id=0)


@same_answer("F33")
def test_a_session_made_with_ids_and_continued_with_names(wire: Wire) -> Any:
    topic = filled(wire, 1)
    made = wire.call(wire.fetch_request(wire.topic_ids[topic], session_epoch=0), 13)
    with_names = wire.call(fetch.FetchRequest(max_bytes=1 << 26, session_id=made.session_id, session_epoch=1), 12)
    other = wire.call(wire.fetch_request(topic, session_epoch=0), 12)
    with_ids = wire.call(fetch.FetchRequest(max_bytes=1 << 26, session_id=other.session_id, session_epoch=1), 13)
    return made, with_names, with_ids


@same_answer("errors and topics that are gone in a session")
def test_a_session_repeats_errors_and_forgets_deleted_topics(wire: Wire) -> Any:
    topic = filled(wire, 1)
    session = Session(wire, topic)
    out_of_range = [session.fetch(0, {0: 99}), session.fetch(1), session.fetch(2, {0: 0}), session.fetch(3)]
    unknown = Session(wire, wire.name("nope"))
    return out_of_range, unknown.fetch(0, {0: 0}), unknown.fetch(1)


@pytest.mark.parametrize("version", [9, 12, 16])
def test_leader_epochs(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = filled(wire, 1)
        named: str | bytes = wire.topic_ids[topic] if version >= 13 else topic
        answers = [wire.fetch(named, version=version, current_leader_epoch=epoch) for epoch in (0, 5, -1)]
        if version < 12:
            return answers
        return answers, [wire.fetch(named, 1, version=version, last_fetched_epoch=epoch) for epoch in (0, 3, -1)]

    check(wires, "F21", scenario)


@same_answer("F25")
def test_zstd_for_old_fetches(wire: Wire) -> Any:
    topic = wire.create("t")
    wire.produce(topic, batch(b"a" * 100, codec=4))
    return [wire.fetch(topic, version=v) for v in (4, 9, 10, 12)]


@same_answer("F26")
def test_a_stranger_that_calls_itself_a_follower(wire: Wire) -> Any:
    topic = filled(wire, 1)
    new = wire.fetch_request(wire.topic_ids[topic])
    new.replica_state = fetch.ReplicaState(99, 1)
    return wire.fetch(topic, replica_id=99), wire.call(new, 16)


@same_answer("F31")
def test_rack_and_cluster_ids(wire: Wire) -> Any:
    topic = filled(wire, 1)
    return wire.fetch(topic, rack_id="r1"), wire.fetch(topic, cluster_id=None), wire.fetch(topic, cluster_id="someone-else")


def offsets(
    wire: Wire, topic: str, timestamp: int, version: int = 11, epoch: int = -1, partition: int = 0, isolation: int = 0
) -> Any:
    wanted = [list_offsets.ListOffsetsPartition(partition, epoch, timestamp)]
    request = list_offsets.ListOffsetsRequest(-1, isolation, [list_offsets.ListOffsetsTopic(topic, wanted)], 5000)
    return wire.call(request, version)


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets_every_version_and_special_timestamp(wires: dict[str, Wire], version: int) -> None:
    """Special timestamps are gated by version: -3 from 7, -4 from 8, -5 from 9, -6 from 11."""

    def scenario(wire: Wire) -> Any:
        topic = filled(wire)
        return [offsets(wire, topic, timestamp, version) for timestamp in (-1, -2, -3, -4, -5, -6, -7, -100)]

    check(wires, "LO-1", scenario)


@same_answer("LOa")
def test_list_offsets_by_timestamp(wire: Wire) -> Any:
    topic = filled(wire)
    wire.produce(topic, batch(b"older", first_ms=TIME_MS + 1500))
    asked = [
        0,
        TIME_MS,
        TIME_MS + 1,
        TIME_MS + 2,
        TIME_MS + 2000,
        TIME_MS + 2500,
        TIME_MS + 4001,
        TIME_MS + 4002,
        TIME_MS + 999_999,
        1 << 62,
    ]
    return [offsets(wire, topic, timestamp) for timestamp in asked], [
        offsets(wire, topic, t, isolation=1) for t in (-1, TIME_MS + 1)
    ]


@pytest.mark.parametrize("codec", [1, 4])
def test_list_offsets_inside_a_compressed_batch(wires: dict[str, Wire], codec: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        for start_ms in (TIME_MS, TIME_MS + 100):
            wire.produce(topic, batch(*[b"v"] * 10, first_ms=start_ms, codec=codec))
        return [offsets(wire, topic, TIME_MS + at) for at in (0, 4, 9, 10, 50, 105, 109, 110)], offsets(wire, topic, -3)

    check(wires, "ListOffsets inside a compressed batch", scenario)


@same_answer("LOh")
def test_list_offsets_of_what_is_not_there(wire: Wire) -> Any:
    topic, empty = filled(wire, 1), wire.create("empty")
    unknown = [offsets(wire, wire.name("nope"), -1), offsets(wire, "a b", -1), offsets(wire, topic, -1, partition=9)]
    nothing = [offsets(wire, empty, timestamp) for timestamp in (-1, -2, -3, 0, TIME_MS)]
    return unknown, nothing, [offsets(wire, topic, -1, epoch=epoch) for epoch in (0, 9)]


@same_answer("ListOffsets of a partition twice")
def test_list_offsets_of_the_same_partition_twice(wire: Wire) -> Any:
    topic = filled(wire, 1)
    wanted = [list_offsets.ListOffsetsPartition(0, -1, timestamp) for timestamp in (-1, -2)]
    return wire.call(list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic(topic, wanted)], 5000), 7)
