"""ShareAcknowledge, and what becomes of records: refusals, fenced groups, renewed locks, dead letters
(docs/kafka-behaviour.md).
"""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.share_members import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    ShareMember,
    begin,
    filled,
    kept,
    set_group,
    started,
)
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.same import check, same_answer
from ottla.wire.batch import iter_batches
from ottla.wire.messages import create_topics, delete_topics
from ottla.wire.records import decode_records

UNKNOWN_ID = b"0123456789abcdef"
ARCHIVING = 3
"""The delivery state of a record whose dead letter is being written."""


# Acknowledging


BAD: list[tuple[int, bool, list[tuple[int, int, list[int]]]]] = [
    (2, False, [(4, 3, [ACCEPT])]),
    (2, False, [(5, 9, [ACCEPT]), (0, 4, [ACCEPT])]),
    (2, False, [(0, 4, [ACCEPT]), (4, 9, [ACCEPT])]),
    (2, False, [(0, 4, [])]),
    (2, False, [(0, 4, [ACCEPT, ACCEPT])]),
    (2, True, [(0, 4, [5])]),
    (2, False, [(0, 4, [-1])]),
    (2, False, [(0, 4, [RENEW])]),
    (1, False, [(0, 4, [RENEW])]),
    (2, False, [(30, 35, [ACCEPT])]),
    (2, False, [(25, 35, [ACCEPT])]),
    (2, False, [(-5, 5, [ACCEPT])]),
    (2, False, [(0, 4, [ACCEPT]), (25, 35, [ACCEPT])]),
    (2, False, [(0, 9, [ACCEPT]), (0, 9, [ACCEPT])]),
    (2, False, [(9, 9, [RELEASE]), (9, 9, [RELEASE])]),
]


@pytest.mark.parametrize("bad", BAD)
def test_acknowledgements_that_make_no_sense(wires: dict[str, Wire], bad: Any) -> None:
    version, renews, batches = bad

    def scenario(wire: Wire) -> Any:
        group, topic = started(wire)
        member = ShareMember(wire, group, version=version)
        part = topic, 0
        member.fetch([part])
        answers = [member.acknowledge({part: batches}, renews=renews), kept(wire, group, topic)]
        along = {} if renews else {"max_wait_ms": 100}
        answers.append(member.renew({part: batches}) if renews else member.fetch((), {part: batches}, **along))
        return answers, kept(wire, group, topic)

    check(wires, "acknowledgements that make no sense", scenario)


@same_answer("acknowledgements by others")
def test_who_does_not_hold_them(wire: Wire) -> Any:
    group, topic = started(wire)
    part = topic, 0
    a, b = ShareMember(wire, group, "a"), ShareMember(wire, group, "b")
    a.fetch([part], batch_size=10)
    b.fetch([part])
    answers = [b.acknowledge({part: [(first, last, [ACCEPT])]}) for first, last in ((0, 9), (0, 4), (5, 15))]
    answers += [a.acknowledge({part: [(0, 4, [ACCEPT])]}), a.acknowledge({part: [(0, 4, [ACCEPT])]})]
    answers += [a.acknowledge({part: [(3, 6, [ACCEPT])]}), b.acknowledge({part: [(5, 9, [ACCEPT])]})]
    return [
        *answers,
        a.acknowledge({part: [(5, 29, [RELEASE])]}),
        a.acknowledge({part: [(5, 29, [ACCEPT])]}),
        kept(wire, group, topic),
    ]


@same_answer("acknowledgements where there is no partition")
def test_partitions_that_are_not_there(wire: Wire) -> Any:
    group, topic = started(wire)
    member = ShareMember(wire, group)
    accept = [(0, 9, [ACCEPT])]
    parts = [(topic, 0), (topic, 7), (topic, -1), (UNKNOWN_ID, 0), (bytes(16), 0)]
    answers = [member.fetch(parts), member.acknowledge(dict.fromkeys(parts, accept))]
    answers += [member.acknowledge({(topic, 0): []}), member.acknowledge({(topic, 0): [], (topic, 1): accept})]
    return [*answers, member.fetch((), {part: [(10, 19, [ACCEPT])] for part in parts}), member.fetch(), member.acknowledge({})]


@same_answer("S5c")
def test_a_group_that_nobody_initialized(wire: Wire) -> Any:
    topic = filled(wire)
    begin(wire, wire.name("other"), topic)
    member = ShareMember(wire, wire.name("g"))
    answers = member.fetch([(wire.topic_ids[topic], 0)]), member.fetch()
    for part in (part for answer in answers for found in answer.responses for part in found.partitions):
        part.error_message = None  # Kafka says nothing beside its code, and ottla what is missing
    return answers


@same_answer("a topic that is deleted")
def test_a_topic_that_is_deleted(wire: Wire) -> Any:
    group, topic = started(wire)
    member = ShareMember(wire, group)
    first = member.fetch([(topic, 0)], max_records=1)
    wire.call(delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(wire.name("t"))], [], 5000), 6)
    wire.wait_until_gone(wire.name("t"))
    return first, member.fetch(), member.acknowledge({(topic, 0): [(0, 9, [ACCEPT])]}), member.fetch(), member.fetch(epoch=-1)


@same_answer("a group whose offsets are reset")
def test_a_group_whose_offsets_are_reset(wire: Wire) -> Any:
    """Checks that a member that fetched before is fenced, and goes on from where it was reset to."""
    group, topic = started(wire)
    part = topic, 0
    member = ShareMember(wire, group)
    first = member.fetch([part], max_records=1)
    begin(wire, group, wire.name("t"), start_offset=20, state_epoch=2)
    refused = member.acknowledge({part: [(0, 9, [ACCEPT])]})
    return first, refused, member.acknowledge({part: [(0, 9, [ACCEPT])]}), member.fetch(min_bytes=1)


# Renewing


@same_answer("renewing of locks")
def test_renewing(wire: Wire) -> Any:
    group, topic = started(wire)
    part = topic, 0
    member = ShareMember(wire, group)
    answers = [member.fetch([part], batch_size=10), member.renew({part: [(0, 9, [RENEW])]})]
    answers += [member.acknowledge({part: [(0, 4, [RENEW] * 4 + [ACCEPT]), (10, 19, [RENEW])]}, renews=True)]
    answers += [
        member.renew({part: [(0, 3, [ACCEPT]), (20, 29, [RELEASE])]}),
        member.acknowledge({part: [(5, 5, [ACCEPT])]}, renews=True),
    ]
    return answers, kept(wire, group, topic), member.fetch()


@pytest.mark.parametrize("limit", ["max_wait_ms", "min_bytes", "max_bytes", "max_records"])
def test_renewing_with_a_limit(wires: dict[str, Wire], limit: str) -> None:
    def scenario(wire: Wire) -> Any:
        group, topic = started(wire)
        part = topic, 0
        member = ShareMember(wire, group)
        member.fetch([part])
        return member.renew({part: [(0, 9, [RENEW])]}, **{limit: 1}), member.renew({part: [(0, 9, [RENEW])]})

    check(wires, "renewing with a limit", scenario)


@same_answer("renewing that is forbidden")
def test_renewing_may_be_forbidden(wire: Wire) -> Any:
    group, topic = started(wire)
    set_group(wire, group, share_renew_acknowledge_enable="false")
    part = topic, 0
    member = ShareMember(wire, group)
    member.fetch([part])
    return member.renew({part: [(0, 29, [RENEW])]}), member.renew({part: [(0, 5, [RENEW])]}), member.fetch()


@same_answer("renewing in a new session")
def test_renewing_in_a_new_session(wire: Wire) -> Any:
    group, topic = started(wire)
    member = ShareMember(wire, group)
    return member.fetch([(topic, 0)], max_wait_ms=0, max_bytes=0, max_records=0, renews=True), member.fetch()


# Dead letters

REASONS: dict[str, dict[bytes, str]] = {
    "kafka": {b"Offset rejected by client.": "rejected", b"Offset delivery count exceeded the threshold.": "too often"},
    "ottla": {
        b"The consumer rejected the record.": "rejected",
        b"The record was delivered as often as the group allows.": "too often",
    },
}
"""The words of either kind of broker for the reason why it gave up a record."""


def reason_named(wire: Wire, headers: list[tuple[str, bytes]]) -> list[tuple[str, bytes | str]]:
    """Returns a letter's headers, with a name for the reason in place of its words."""
    return [(name, REASONS[wire.kind][value] if name == "__dlq.errors.message" else value) for name, value in headers]


def dead_letter_topic(wire: Wire) -> str:
    """Its name begins as Kafka's default wants it."""
    name = f"dlq.{wire.prefix}"
    setting = create_topics.CreatableTopicConfig("errors.deadletterqueue.group.enable", "true")
    request = create_topics.CreateTopicsRequest([create_topics.CreatableTopic(name, 2, 1, [], [setting])], 30_000)
    assert wire.call(request, 7).topics[0].error_code == 0
    wire.wait_for_topic(name, 2)
    return name


@pytest.mark.parametrize("copies", ["true", "false"])
def test_what_is_given_up_becomes_a_dead_letter(wires: dict[str, Wire], copies: str) -> None:
    """Rejected records, and one that was delivered too often."""

    def scenario(wire: Wire) -> Any:
        group, topic = started(wire, batches=1, records=4)
        letters = dead_letter_topic(wire)
        settings = {"errors_deadletterqueue_topic_name": letters, "errors_deadletterqueue_copy_record_enable": copies}
        set_group(wire, group, share_delivery_count_limit="2", **settings)
        part = topic, 0
        member = ShareMember(wire, group)
        member.fetch([part])
        found: list[Any] = []

        def are_written(count: int) -> bool:
            """Returns whether so many letters are written, and the state of their records, too."""
            records = bytes(wire.fetch(letters).responses[0].partitions[0].records)
            found[:] = [record for _, raw in iter_batches(records) for record in decode_records(raw)]
            (result,) = kept(wire, group, topic).results[0].partitions
            return len(found) == count and all(each.delivery_state != ARCHIVING for each in result.state_batches)

        def written(wanted: str) -> str:
            return f"{wanted} letters of {wire.kind}, which has {found} and keeps {kept(wire, group, topic)}"

        member.acknowledge({part: [(0, 0, [REJECT]), (1, 1, [GAP]), (2, 2, [RELEASE]), (3, 3, [REJECT])]})
        wait_for(lambda: are_written(2), lambda: written("two"))  # which start offset is kept depends on what comes first
        member.fetch_some()
        member.acknowledge({part: [(2, 2, [RELEASE])]})
        wait_for(lambda: are_written(3), lambda: written("three"))
        return [(each.key, each.value, reason_named(wire, each.headers)) for each in found], kept(wire, group, topic)

    check(wires, "dead letters", scenario)


@same_answer("a topic that takes no dead letters")
def test_a_topic_that_takes_no_letters(wire: Wire) -> Any:
    group, topic = started(wire, batches=1, records=4)
    letters = wire.create("letters")
    set_group(wire, group, errors_deadletterqueue_topic_name=letters)
    part = topic, 0
    member = ShareMember(wire, group)
    member.fetch([part])
    answer = member.acknowledge({part: [(0, 3, [REJECT])]})

    def archived() -> bool:
        (result,) = kept(wire, group, topic).results[0].partitions
        return [(each.first_offset, each.last_offset, each.delivery_state) for each in result.state_batches] == [(0, 3, 4)]

    wait_for(archived, "the records are archived")
    return answer, wire.fetch(letters)
