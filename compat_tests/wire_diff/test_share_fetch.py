"""ShareFetch and ShareAcknowledge: sessions, what is handed out, what becomes of it, and refusals
(docs/kafka-behaviour.md, rows S4 and S5).
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from compat_tests.share_members import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    ShareMember,
    begin,
    given,
    kept,
    set_group,
    started,
)
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire, batch
from compat_tests.wire_diff.same import check, same_answer
from ottla.wire.messages import delete_records, share_fetch
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

UNKNOWN_ID = b"0123456789abcdef"


def loaded(wire: Wire, group: str, topic: bytes, partitions: int) -> None:
    """The broker has the group's state of an empty topic. Kafka loads it aside, and answers without what is not there yet."""
    member = ShareMember(wire, group, "loader")

    def all_answer() -> bool:
        answer = member.fetch([(topic, index) for index in range(partitions)], epoch=0, min_bytes=1, max_wait_ms=150)
        return [len(each.partitions) for each in answer.responses] == [partitions]

    wait_for(all_answer, "the state is loaded")


@pytest.mark.parametrize("version", [1, 2])
def test_every_version(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        group, topic = started(wire)
        member = ShareMember(wire, group, version=version)
        part = topic, 0
        return [
            member.fetch([part]),
            member.acknowledge({part: [(0, 9, [ACCEPT]), (10, 19, [RELEASE]), (20, 29, [REJECT])]}),
            member.fetch(),
            member.fetch((), {part: [(10, 14, [ACCEPT])]}),
            member.acknowledge({part: [(15, 19, [RELEASE, GAP, ACCEPT, REJECT, RELEASE])]}),
            kept(wire, group, topic),
            member.fetch(),
            member.fetch((), {part: [(15, 15, [ACCEPT])]}, epoch=-1),
            given(ShareMember(wire, group, "n", version).fetch_some([part])),
            kept(wire, group, topic),
        ]

    check(wires, "every version of ShareFetch and ShareAcknowledge", scenario)


# Sessions


@same_answer("S4")
def test_sessions_that_are_not_there(wire: Wire) -> Any:
    group, topic = started(wire)
    part = topic, 0
    member = ShareMember(wire, group)
    early = [member.fetch([part], epoch=epoch) for epoch in (5, 1, -1, -2)]
    early += [member.acknowledge({part: [(0, 9, [ACCEPT])]}, epoch=epoch) for epoch in (5, 1, 0, -1, -2)]
    member.epoch = 0
    first = member.fetch([part])
    wrong = [member.fetch(epoch=epoch) for epoch in (2, 7, -2)]
    wrong += [member.acknowledge({part: [(0, 9, [ACCEPT])]}, epoch=epoch) for epoch in (0, 2, 7, -2)]
    return early, first, wrong, member.acknowledge({part: [(0, 9, [ACCEPT])]}), member.fetch(epoch=-1), member.fetch(epoch=2)


@same_answer("S4b")
def test_a_session_begins_anew(wire: Wire) -> Any:
    group, topic = started(wire, partitions=2)
    member = ShareMember(wire, group)
    first = member.fetch([(topic, 0)])
    again = member.fetch([(topic, 1)], epoch=0)
    member.epoch = 1
    return first, again, member.acknowledge({(topic, 0): [(0, 29, [ACCEPT])]}), member.fetch()


@same_answer("S4c")
def test_a_new_session_with_acknowledgements(wire: Wire) -> Any:
    group, topic = started(wire)
    return ShareMember(wire, group).fetch([], {(topic, 0): [(0, 9, [ACCEPT])]})


@same_answer("S5")
def test_who_asks(wire: Wire) -> Any:
    group, topic = started(wire)
    names: list[tuple[str | None, str | None]] = [(None, "m"), (group, None), (group, ""), (group, "x" * 36), (group, "x" * 37)]
    members = [ShareMember(wire, *name) for name in names]
    return [member.fetch([(topic, 0)]) for member in members], [member.acknowledge({}, epoch=1) for member in members]


@same_answer("S5b")
def test_an_empty_group_name(wire: Wire) -> Any:
    _, topic = started(wire)
    member = ShareMember(wire, "")
    answer = member.fetch([(topic, 0)])
    return answer.error_code, [[part.error_code != 0 for part in topic.partitions] for topic in answer.responses]


@same_answer("a session says what is new")
def test_only_news_are_told(wire: Wire) -> Any:
    topic = wire.create("t", 3)
    group = wire.name("g")
    topic_id = begin(wire, group, topic, 3)
    loaded(wire, group, topic_id, 3)
    member = ShareMember(wire, group)
    answers = [member.fetch([(topic_id, 0), (topic_id, 1)]), member.fetch(), member.fetch([(topic_id, 2)]), member.fetch()]
    wire.produce(topic, batch(b"1"), partition=1)
    answers += [member.fetch(min_bytes=1), member.fetch(forgotten=[(topic_id, 1)])]
    wire.produce(topic, batch(b"2"), partition=1)
    return [*answers, member.fetch(), member.fetch([(topic_id, 1)], min_bytes=1)]


@same_answer("the end of a session")
def test_the_end_of_a_session_leaves_the_rest_to_others(wire: Wire) -> Any:
    group, topic = started(wire)
    part = topic, 0
    a, b = ShareMember(wire, group), ShareMember(wire, group)
    answers = [given(a.fetch_some([part])), a.acknowledge({part: [(0, 4, [ACCEPT])]}, epoch=-1)]
    answers += [given(b.fetch_some([part])), b.fetch(epoch=-1)]
    return answers, given(ShareMember(wire, group, "n").fetch_some([part])), kept(wire, group, topic)


@same_answer("the end of a connection")
def test_the_end_of_a_connection_leaves_everything_to_others(wire: Wire) -> Any:
    group, topic = started(wire)
    other = ShareMember(wire, group, "n")
    other.fetch([(topic, 0)], max_records=1)
    member = ShareMember(wire, group)
    first = member.fetch([(topic, 0)])
    member.connection.close()
    wire.connect()
    return first, given(other.fetch_some()), kept(wire, group, topic)


# What is handed out


@pytest.mark.parametrize("batch_size", [1, 10, 11, 20, 100])
@pytest.mark.parametrize("max_records", [1, 10, 25, 500])
@pytest.mark.parametrize("mode", [0, 1])
def test_limits_of_records(wires: dict[str, Wire], batch_size: int, max_records: int, mode: int) -> None:
    def scenario(wire: Wire) -> Any:
        group, topic = started(wire, batches=5)
        member = ShareMember(wire, group)
        answers = [member.fetch([(topic, 0)], max_records=max_records, batch_size=batch_size, mode=mode) for _ in range(3)]
        member.acknowledge({(topic, 0): [(0, 0, [RELEASE])]})
        return answers, member.fetch(max_records=max_records, batch_size=batch_size, mode=mode)

    check(wires, "limits of records", scenario)


@pytest.mark.parametrize("max_bytes", [0, 1, 200, 500, 1 << 20])
def test_limits_of_bytes(wires: dict[str, Wire], max_bytes: int) -> None:
    def scenario(wire: Wire) -> Any:
        group, topic = started(wire, batches=5)
        member = ShareMember(wire, group)
        return [given(member.fetch([(topic, 0)], max_bytes=max_bytes)) for _ in range(3)]

    check(wires, "limits of bytes", scenario)


@pytest.mark.parametrize("field", ["max_records", "max_bytes"])
def test_nothing_wanted(wires: dict[str, Wire], field: str) -> None:
    def scenario(wire: Wire) -> Any:
        group, topic = started(wire)
        return ShareMember(wire, group).fetch([(topic, 0), (UNKNOWN_ID, 0)], max_wait_ms=10_000, **{field: 0})

    check(wires, "nothing is wanted", scenario)


@same_answer("partitions that take turns")
def test_partitions_take_turns(wire: Wire) -> Any:
    name = wire.create("t", 4)
    group = wire.name("g")
    topic = begin(wire, group, name, 4)
    loaded(wire, group, topic, 4)
    for partition in range(4):
        for _ in range(6):
            wire.produce(name, batch(*[b"x"] * 10), partition=partition)
    member = ShareMember(wire, group)
    parts = [(topic, index) for index in range(4)]
    return [given(member.fetch(parts if n == 0 else (), max_records=1)) for n in range(12)]


@same_answer("records that were released")
def test_what_was_released_comes_again(wire: Wire) -> Any:
    group, topic = started(wire)
    part = topic, 0
    a, b = ShareMember(wire, group, "a"), ShareMember(wire, group, "b")
    answers = [
        a.fetch([part], batch_size=10),
        a.acknowledge({part: [(3, 5, [RELEASE]), (8, 12, [RELEASE]), (29, 29, [RELEASE])]}),
    ]
    answers += [b.fetch([part]), b.acknowledge({part: [(8, 8, [RELEASE])]}), a.acknowledge({part: [(0, 2, [RELEASE])]})]
    answers += [b.fetch(max_records=1), b.fetch(mode=1, max_records=2), b.fetch()]
    return answers, kept(wire, group, topic)


@pytest.mark.parametrize("records", [1, 2, 10, 100])
def test_records_that_fail_again_and_again(wires: dict[str, Wire], records: int) -> None:
    """Ever smaller portions, alone at last, and then no more."""

    def scenario(wire: Wire) -> Any:
        group, topic = started(wire, batches=1, records=records)
        part = topic, 0
        member = ShareMember(wire, group)
        seen = []
        for n in range(12):
            wait_ms = 10_000 if n == 0 else 100  # the state is loaded with the first
            answer = member.fetch([part] if n == 0 else (), max_wait_ms=wait_ms, min_bytes=1)
            seen.append(given(answer))
            if seen[-1]:
                member.acknowledge({part: [(first, last, [RELEASE]) for _, first, last, _ in seen[-1]]})
        return seen, kept(wire, group, topic)

    check(wires, "records that fail again and again", scenario)


@pytest.mark.parametrize("limit", ["2", "3", "10"])
def test_a_groups_own_delivery_limit(wires: dict[str, Wire], limit: str) -> None:
    def scenario(wire: Wire) -> Any:
        group, topic = started(wire, batches=1, records=8)
        set_group(wire, group, share_delivery_count_limit=limit)
        part = topic, 0
        member = ShareMember(wire, group)
        seen = []
        for n in range(14):
            wait_ms = 10_000 if n == 0 else 100  # the state is loaded with the first
            seen.append(given(member.fetch([part] if n == 0 else (), max_wait_ms=wait_ms, min_bytes=1)))
            if seen[-1]:
                member.acknowledge({part: [(first, last, [RELEASE]) for _, first, last, _ in seen[-1]]})
        return seen, kept(wire, group, topic)

    check(wires, "a group's own delivery limit", scenario)


@same_answer("room for locks")
def test_no_more_than_the_room_for_locks(wire: Wire) -> Any:
    group, topic = started(wire, batches=12)
    set_group(wire, group, share_partition_max_record_locks="100")
    part = topic, 0
    a, b = ShareMember(wire, group, "a"), ShareMember(wire, group, "b")
    answers = [given(a.fetch([part])), given(b.fetch([part], max_wait_ms=100))]
    a.acknowledge({part: [(50, 50, [RELEASE])]})
    answers += [given(b.fetch()), given(b.fetch(max_wait_ms=100))]
    a.acknowledge({part: [(0, 4, [ACCEPT])]})
    return [*answers, given(b.fetch()), given(b.fetch(max_wait_ms=100))]


@same_answer("locks that end")
def test_locks_that_end(wire: Wire) -> Any:
    group, topic = started(wire, batches=1)
    set_group(wire, group, share_record_lock_duration_ms="15000")
    part = topic, 0
    a = ShareMember(wire, group, "a")
    first = a.fetch([part])
    assert first.acquisition_lock_timeout_ms == 15_000
    return first, a.acknowledge({part: [(0, 1, [ACCEPT])]})


@pytest.mark.parametrize("reset", ["earliest", "latest", "by_duration:PT1H", "by_duration:P9999D", "by_duration:PT0S"])
def test_where_a_group_begins(wires: dict[str, Wire], reset: str) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        wire.produce(topic, batch(b"old", first_ms=int(time.time() * 1000) - 7_200_000))
        wire.produce(topic, batch(b"new", first_ms=int(time.time() * 1000) - 1000))
        group = wire.name("g")
        set_group(wire, group, share_auto_offset_reset=reset)
        part = begin(wire, group, topic, start_offset=-1), 0
        member = ShareMember(wire, group)
        first = member.fetch([part])
        wire.produce(topic, batch(b"newer", first_ms=int(time.time() * 1000) + 3_600_000))
        answers = [first, member.fetch(min_bytes=1)]
        return [(given(each), [[part.error_code for part in t.partitions] for t in each.responses]) for each in answers]

    check(wires, "where a group begins", scenario)


@same_answer("a log's start that passes the group")
def test_the_logs_start_passes_the_group(wire: Wire) -> Any:
    group, topic = started(wire, batches=4)
    name = wire.name("t")
    part = topic, 0
    member = ShareMember(wire, group)
    answers = [member.fetch([part], max_records=1)]
    wanted = delete_records.DeleteRecordsTopic(name, [delete_records.DeleteRecordsPartition(0, 25)])
    wire.call(delete_records.DeleteRecordsRequest([wanted], 5000), 2)
    answers += [member.fetch(), member.fetch(), member.acknowledge({part: [(0, 9, [ACCEPT])]})]
    return answers, member.acknowledge({part: [(25, 39, [ACCEPT])]}), kept(wire, group, topic)


def add_partition(wire: Wire, transactional_id: str, producer: Any, topic: str) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [0])],
    )

    def added() -> bool:
        (result,) = wire.call(request, 3).results_by_topic_v3_and_below[0].results_by_partition
        return bool(result.partition_error_code == 0)

    wait_for(added, "the partition is in the transaction")


def wait_for_stable(wire: Wire, topic: str, offset: int) -> None:
    def stable() -> bool:
        return bool(wire.fetch(topic, isolation_level=1).responses[0].partitions[0].last_stable_offset == offset)

    wait_for(stable, "the transaction has ended")


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions(wires: dict[str, Wire], isolation: str) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        group = wire.name("g")
        set_group(wire, group, share_isolation_level=isolation)
        part = begin(wire, group, topic), 0
        transactional_id = wire.name("tx")
        producer = wire.call(InitProducerIdRequest(transactional_id, 60_000), 4)
        answers = []
        member = ShareMember(wire, group)
        member.fetch([part])
        for sequence, commit in enumerate((False, True, False)):
            wire.produce(topic, batch(b"before"))
            wire.produce(topic, batch(b"before"))
            add_partition(wire, transactional_id, producer, topic)
            records = batch(
                b"a",
                b"b",
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=2 * sequence,
                transactional=True,
            )
            wire.produce(topic, records, transactional_id=transactional_id)
            answers.append(given(member.fetch(max_wait_ms=200, min_bytes=1)))
            wire.call(EndTxnRequest(transactional_id, producer.producer_id, producer.producer_epoch, commit), 3)
            wire.produce(topic, batch(b"behind"))
            wait_for_stable(wire, topic, 6 * (sequence + 1))
            answers.append(given(member.fetch(min_bytes=1)))
        return answers

    check(wires, "transactions before share groups", scenario)


# Waiting


@same_answer("a waiting member and new records")
def test_a_waiting_member_is_woken_by_records(wire: Wire) -> Any:
    topic = wire.create("t")
    group = wire.name("g")
    part = begin(wire, group, topic), 0
    member = ShareMember(wire, group)
    began = time.monotonic()
    member.connection.send(member.request([part], max_wait_ms=12_000, min_bytes=1), 2)
    wire.connect().call(wire.produce_request(topic, batch(b"wake")), 9)
    return member.connection.answer(share_fetch, 2), time.monotonic() - began < 10


@pytest.mark.parametrize("how", ["release", "leave", "close"])
def test_a_waiting_member_gets_what_is_available_again(wires: dict[str, Wire], how: str) -> None:
    """Kafka's is often not woken by it, but finds it at the end of its wait. (That ours is: tests/server/handlers.)"""

    def scenario(wire: Wire) -> Any:
        group, topic = started(wire, batches=1)
        part = topic, 0
        holder, waiter = ShareMember(wire, group, "holder"), ShareMember(wire, group, "waiter")
        holder.fetch([part])
        waiter.connection.send(waiter.request([part], max_wait_ms=1500, min_bytes=1), 2)
        if how == "release":
            holder.acknowledge({part: [(0, 9, [RELEASE])]})
        elif how == "leave":
            holder.acknowledge({}, epoch=-1)
        else:
            holder.connection.close()
        return waiter.connection.answer(share_fetch, 2)

    check(wires, "a waiting member and released records", scenario)


@same_answer("a waiting member and too little")
def test_too_little_waits_for_more(wire: Wire) -> Any:
    topic = wire.create("t")
    group = wire.name("g")
    part = begin(wire, group, topic), 0
    member = ShareMember(wire, group)
    member.connection.send(member.request([part], max_wait_ms=12_000, min_bytes=3000), 2)
    other = wire.connect()
    for _ in range(4):
        other.call(wire.produce_request(topic, batch(b"z" * 1000)), 9)
    return len(given(member.connection.answer(share_fetch, 2))) > 0
