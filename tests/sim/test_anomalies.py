"""The checker of anomalies (compat_tests/anomalies): a sound history has none, each mutation of it is reported by its name."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.anomalies.checker import check
from compat_tests.anomalies.history import (
    ACCEPT,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    REJECT,
    RELEASE,
    Event,
    Recorder,
    operations,
    read_lines,
)
from compat_tests.anomalies.order_checks import strongly_connected

SECOND = 1_000_000_000
STUCK_NS = 10 * SECOND
PRODUCER, TXN, READER, MEMBER, ADMIN, LAST = range(1, 7)
SHARER = 20
LIMIT = 2
"""The most times that a record is delivered to the share groups of these stories."""


class Story:
    """Writes a history, operation by operation; a second passes with each event."""

    def __init__(self) -> None:
        seconds = itertools.count()
        self.recorder = Recorder(lambda: next(seconds) * SECOND)

    def do(self, process: int, f: str, outcome: str = "ok", *, ending: bool = False, **fields: Any) -> None:
        operation = self.recorder.invoke(process, f)
        if ending:
            operation.ending()
        getattr(operation, outcome)(**fields)

    def send(self, key: str, offset: int | None, value: int, outcome: str = "ok", process: int = PRODUCER) -> None:
        self.do(process, "send", outcome, mops=[["send", key, [offset, value]]], idempotent=True)

    def txn(self, *mops: list[Any], outcome: str = "ok", process: int = TXN, **fields: Any) -> None:
        self.do(process, "txn", outcome, ending=True, mops=list(mops), transactional_id="x", isolation=READ_COMMITTED, **fields)

    def poll(self, process: int, key: str, *records: tuple[int, int], isolation: str = READ_COMMITTED, **fields: Any) -> None:
        mops = [["poll", {key: [list(record) for record in records]}]]
        self.do(process, "poll", mops=mops, isolation=isolation, **fields)

    def acquire(self, *deliveries: tuple[int, int, int], outcome: str = "ok", process: int = SHARER) -> None:
        """`deliveries` are (offset, value, number of the delivery)."""
        mops = [["poll", {"k-0": [[offset, value] for offset, value, _ in deliveries]}]]
        counts = {"k-0": [[offset, count] for offset, _, count in deliveries]}
        known: dict[str, Any] = {"mops": mops, "counts": counts} if outcome == "ok" else {}
        self.do(process, "acquire", outcome, group="shares", limit=LIMIT, isolation=READ_UNCOMMITTED, **known)

    def settle(self, kind: int, *offsets: int, outcome: str = "ok", process: int = SHARER) -> None:
        self.do(process, "settle", outcome, group="shares", settled={"k-0": [[offset, kind] for offset in offsets]})

    def drain(self) -> None:
        self.do(LAST, "drain", group="shares", keys=["k-0"], final=True)

    def final(self, key: str, committed: list[tuple[int, int]], aborted: list[tuple[int, int]]) -> None:
        self.poll(LAST, key, *sorted(committed + aborted), isolation=READ_UNCOMMITTED, final=True)
        self.poll(LAST + 1, key, *sorted(committed), final=True)

    @property
    def found(self) -> set[str]:
        return {anomaly.name for anomaly in check(self.recorder.events, stuck_ns=STUCK_NS)}


def sound() -> Story:
    """Every kind of operation, and nothing wrong: aborted records, gaps, an unknown outcome, a zombie that is fenced, a share
    group that releases records, rejects them and gives up on one."""
    story = Story()
    story.do(ADMIN, "create", topic="s")
    story.do(ADMIN, "create", topic="gone")
    story.do(ADMIN, "delete", topic="gone")
    story.do(ADMIN, "topics", names=["k", "s"])
    story.do(READER, "assign", positions={"k-0": 0})
    story.send("k-0", 0, 1)
    story.send("k-0", 1, 2)
    story.send("k-0", None, 3, "info")
    story.poll(READER, "k-0", (0, 1), (1, 2), ends={"k-0": [2, 2]})
    story.do(TXN, "init", transactional_id="x")
    story.txn(["send", "k-0", [2, 10]], ["send", "k-0", [3, 11]], ["poll", {"s-0": []}], group="g", offsets={"k-0": 2})
    story.txn(["send", "k-0", [5, 12]], outcome="fail")
    story.poll(READER, "k-0", (2, 10), (3, 11), ends={"k-0": [7, 7]})
    story.do(MEMBER, "commit", group="g", offsets={"k-0": 3})
    story.do(MEMBER, "committed", group="g", offsets={"k-0": 3, "k-1": -1})
    story.do(TXN + 10, "init", transactional_id="x")
    story.txn(["send", "k-0", [None, 13]], outcome="fail")  # fenced
    story.send("k-0", 7, 4)
    story.poll(READER, "k-0", (7, 4), ends={"k-0": [8, 8]})
    story.acquire((0, 1, 1), (1, 2, 1), (2, 10, 1), (3, 11, 1), (5, 12, 1))
    story.settle(ACCEPT, 0)
    story.settle(RELEASE, 1, 2)
    story.acquire((7, 4, 1), (1, 2, 2), process=SHARER + 1)
    story.settle(REJECT, 5)
    story.acquire((2, 10, 2), (3, 11, 2), process=SHARER + 1)
    story.settle(ACCEPT, 1, 7, outcome="info", process=SHARER + 1)
    story.do(ADMIN, "heal")
    story.send("k-0", 8, 5)
    story.acquire((8, 5, 1), process=SHARER + 1)
    story.settle(ACCEPT, 8, process=SHARER + 1)
    story.drain()
    story.final("k-0", [(0, 1), (1, 2), (2, 10), (3, 11), (7, 4), (8, 5)], [(5, 12)])
    return story


def test_a_sound_history_has_no_anomaly() -> None:
    assert check(sound().recorder.events, stuck_ns=STUCK_NS) == []


def test_a_history_survives_as_lines() -> None:
    story = sound()
    assert read_lines(story.recorder.lines()) == story.recorder.events
    assert all(json.loads(line)["type"] for line in story.recorder.lines())
    assert [each.f for each in operations(story.recorder.events)][:2] == ["create", "create"]


# Each mutation changes the sound history by a little, as a broken broker would.


def _events(story: Story, f: str, process: int | None = None) -> list[Event]:
    """The last events of the operations of this kind."""
    wanted = {each["op"] for each in story.recorder.events if each.get("f") == f and process in (None, each["p"])}
    return [each for each in story.recorder.events if each["op"] in wanted and each["type"] in ("ok", "fail", "info")]


def two_values_at_one_offset(story: Story) -> None:
    _events(story, "send")[1]["mops"][0][2][0] = 0


def an_offset_that_the_answer_says_and_a_reader_contradicts(story: Story) -> None:
    _events(story, "send")[0]["mops"][0][2][0] = 2


def written_twice(story: Story) -> None:
    for poll in _events(story, "poll")[-2:]:
        poll["mops"][0][1]["k-0"].append([9, 1])


def a_value_nobody_sent(story: Story) -> None:
    _events(story, "poll")[-1]["mops"][0][1]["k-0"].append([9, 99])


def _forget(story: Story, value: int) -> None:
    for poll in _events(story, "poll"):
        poll["mops"][0][1]["k-0"] = [record for record in poll["mops"][0][1]["k-0"] if record[1] != value]


def a_write_is_lost_in_the_middle(story: Story) -> None:
    _forget(story, 2)


def half_a_transaction_is_lost(story: Story) -> None:
    _forget(story, 11)


def half_a_transaction_of_unknown_outcome_is_lost(story: Story) -> None:
    _events(story, "txn")[0]["type"] = "info"
    _forget(story, 10)


def the_end_is_lost(story: Story) -> None:
    _forget(story, 5)


def a_record_that_was_read_is_gone(story: Story) -> None:
    for poll in _events(story, "poll")[-2:]:
        del poll["mops"][0][1]["k-0"][0]


def an_aborted_record_is_read(story: Story) -> None:
    _events(story, "poll", READER)[1]["mops"][0][1]["k-0"].append([5, 12])


def a_failed_send_is_read(story: Story) -> None:
    _events(story, "send")[0]["type"] = "fail"


def a_transaction_is_read_too_early(story: Story) -> None:
    early = _events(story, "poll", READER)[0]
    early["mops"][0][1]["k-0"] += [[2, 10]]
    _events(story, "poll", READER)[1]["mops"][0][1]["k-0"] = [[3, 11]]


def a_transaction_reads_its_own_write(story: Story) -> None:
    _events(story, "txn")[0]["mops"].append(["poll", {"k-0": [[2, 10]]}])


def a_reader_skips(story: Story) -> None:
    _events(story, "poll", READER)[1]["mops"][0][1]["k-0"] = [[3, 11]]


def a_reader_begins_behind_its_position(story: Story) -> None:
    _events(story, "poll", READER)[0]["mops"][0][1]["k-0"] = [[1, 2]]


def a_reader_skips_within(story: Story) -> None:
    _events(story, "poll", LAST + 1)[0]["mops"][0][1]["k-0"].remove([2, 10])


def a_reader_goes_back(story: Story) -> None:
    _events(story, "poll", READER)[1]["mops"][0][1]["k-0"].insert(0, [1, 2])


def a_reader_goes_back_within(story: Story) -> None:
    _events(story, "poll", READER)[0]["mops"][0][1]["k-0"].append([0, 1])


def a_later_send_comes_first(story: Story) -> None:
    first, second = _events(story, "send")[:2]
    first["mops"], second["mops"] = second["mops"], first["mops"]


def a_transaction_in_the_wrong_order(story: Story) -> None:
    _events(story, "txn")[0]["mops"][:2] = [["send", "k-0", [3, 11]], ["send", "k-0", [2, 10]]]


def the_high_watermark_falls(story: Story) -> None:
    _events(story, "poll", READER)[2]["ends"] = {"k-0": [6, 6]}


def the_last_stable_offset_falls(story: Story) -> None:
    _events(story, "poll", READER)[2]["ends"] = {"k-0": [8, 6]}


def the_last_stable_offset_overtakes(story: Story) -> None:
    _events(story, "poll", READER)[2]["ends"] = {"k-0": [8, 9]}


def transactions_read_each_other(story: Story) -> None:
    story.txn(["send", "s-0", [0, 20]], ["poll", {"s-1": [[0, 21]]}], process=30)
    story.txn(["send", "s-1", [0, 21]], ["poll", {"s-0": [[0, 20]]}], process=31)


def an_older_offset_of_a_group(story: Story) -> None:
    _events(story, "committed")[0]["offsets"]["k-0"] = 2


def no_offset_of_a_group(story: Story) -> None:
    _events(story, "committed")[0]["offsets"]["k-0"] = -1


def an_offset_that_nobody_committed(story: Story) -> None:
    _events(story, "committed")[0]["offsets"]["k-0"] = 9


def an_offset_of_an_aborted_transaction(story: Story) -> None:
    _events(story, "txn")[1] |= {"group": "g", "offsets": {"k-0": 5}}
    _events(story, "committed")[0]["offsets"]["k-0"] = 5


def a_zombie_commits(story: Story) -> None:
    _events(story, "txn")[2]["type"] = "ok"


def a_topic_is_lost(story: Story) -> None:
    _events(story, "topics")[0]["names"].remove("s")


def a_deleted_topic_is_there(story: Story) -> None:
    _events(story, "topics")[0]["names"].append("gone")


def an_accepted_record_comes_again(story: Story) -> None:
    _again(story, 0, 1)


def a_rejected_record_comes_again(story: Story) -> None:
    _again(story, 5, 12)


def _again(story: Story, offset: int, value: int) -> None:
    last = _events(story, "acquire")[-1]
    last["mops"][0][1]["k-0"].append([offset, value])
    last["counts"]["k-0"].append([offset, 2])


def a_record_comes_once_too_often(story: Story) -> None:
    _events(story, "acquire")[2]["counts"]["k-0"][0][1] = LIMIT + 1


def a_delivery_has_no_number(story: Story) -> None:
    _events(story, "acquire")[0]["counts"]["k-0"][0][1] = 0


def a_record_is_never_delivered(story: Story) -> None:
    last = _events(story, "acquire")[-1]
    last["mops"][0][1]["k-0"], last["counts"]["k-0"] = [], []
    _events(story, "settle")[-1]["settled"]["k-0"] = []


def a_released_record_never_comes_again(story: Story) -> None:
    third = _events(story, "acquire")[2]
    del third["mops"][0][1]["k-0"][0], third["counts"]["k-0"][0]


def only_a_settlement_that_failed_takes_a_record(story: Story) -> None:
    _events(story, "settle")[-1]["type"] = "fail"


def nothing_works_any_more(story: Story) -> None:
    for _ in range(8):
        story.do(40, "assign", positions={"s-0": 0})
        story.do(40, "send", "info", mops=[["send", "s-0", [None, 50]]])


def a_request_is_never_answered(story: Story) -> None:
    begun = story.recorder.invoke(PRODUCER, "send", mops=[["send", "s-0", [None, 50]]])
    for at in range(12):
        story.send("s-1", at, 60 + at)
    assert begun.number


def the_last_read_does_not_end(story: Story) -> None:
    story.do(LAST, "poll", "info", final=True, keys=["k-0"])


MUTATIONS: list[tuple[Callable[[Story], None], str]] = [
    (two_values_at_one_offset, "inconsistent-offsets"),
    (an_offset_that_the_answer_says_and_a_reader_contradicts, "inconsistent-offsets"),
    (written_twice, "duplicate"),
    (a_value_nobody_sent, "phantom-read"),
    (a_write_is_lost_in_the_middle, "lost-write"),
    (half_a_transaction_is_lost, "lost-write"),
    (half_a_transaction_of_unknown_outcome_is_lost, "lost-write"),
    (the_end_is_lost, "unseen"),
    (a_record_that_was_read_is_gone, "vanished"),
    (an_aborted_record_is_read, "G1a"),
    (a_failed_send_is_read, "G1a"),
    (a_transaction_is_read_too_early, "precommitted-read"),
    (a_transaction_reads_its_own_write, "precommitted-read"),
    (a_reader_skips, "poll-skip"),
    (a_reader_begins_behind_its_position, "poll-skip"),
    (a_reader_skips_within, "int-poll-skip"),
    (a_reader_goes_back, "nonmonotonic-poll"),
    (a_reader_goes_back_within, "int-nonmonotonic-poll"),
    (a_later_send_comes_first, "nonmonotonic-send"),
    (a_transaction_in_the_wrong_order, "int-nonmonotonic-send"),
    (the_high_watermark_falls, "hw-backwards"),
    (the_last_stable_offset_falls, "lso-backwards"),
    (the_last_stable_offset_overtakes, "lso-beyond-hw"),
    (transactions_read_each_other, "G1c"),
    (an_older_offset_of_a_group, "lost-commit"),
    (no_offset_of_a_group, "lost-commit"),
    (an_offset_that_nobody_committed, "phantom-offset"),
    (an_offset_of_an_aborted_transaction, "phantom-offset"),
    (a_zombie_commits, "zombie-write"),
    (a_topic_is_lost, "lost-topic"),
    (a_deleted_topic_is_there, "undead-topic"),
    (an_accepted_record_comes_again, "redelivered"),
    (a_rejected_record_comes_again, "redelivered"),
    (a_record_comes_once_too_often, "delivered-too-often"),
    (a_delivery_has_no_number, "delivered-too-often"),
    (a_record_is_never_delivered, "undelivered"),
    (a_released_record_never_comes_again, "undelivered"),
    (only_a_settlement_that_failed_takes_a_record, "undelivered"),
    (nothing_works_any_more, "stuck"),
    (a_request_is_never_answered, "stuck"),
    (the_last_read_does_not_end, "stuck"),
]


@pytest.mark.parametrize(("mutate", "name"), MUTATIONS, ids=lambda value: getattr(value, "__name__", value))
def test_every_mutation_is_found_by_name(mutate: Callable[[Story], None], name: str) -> None:
    story = sound()
    mutate(story)
    assert name in story.found


# What Kafka allows


def test_transactions_may_interleave() -> None:
    story = Story()
    story.txn(["send", "k-0", [0, 1]], ["send", "k-1", [1, 3]])
    story.txn(["send", "k-0", [1, 2]], ["send", "k-1", [0, 4]], process=TXN + 1)
    assert not story.found


def test_who_reads_uncommitted_sees_what_is_aborted() -> None:
    story = Story()
    story.txn(["send", "k-0", [0, 1]], outcome="fail")
    story.poll(READER, "k-0", (0, 1), isolation=READ_UNCOMMITTED)
    assert not story.found


def test_a_producer_that_is_not_idempotent_may_write_twice() -> None:
    story = Story()
    story.do(PRODUCER, "send", "info", mops=[["send", "k-0", [None, 1]]])
    story.poll(READER, "k-0", (0, 1), (1, 1))
    assert not story.found


def test_what_was_trimmed_may_be_gone() -> None:
    story = Story()
    story.send("k-0", 0, 1)
    story.send("k-0", 1, 2)
    story.poll(READER, "k-0", (0, 1), isolation=READ_UNCOMMITTED)
    story.do(ADMIN, "trim", "info", offsets={"k-0": 1})
    story.final("k-0", [(1, 2)], [])
    assert not story.found


def test_a_later_record_of_the_same_key_may_replace_one_in_a_compacted_topic_only() -> None:
    story = Story()
    for offset, value in enumerate((3, 4, 13)):
        story.send("k-0", offset, value)
    story.final("k-0", [(1, 4), (2, 13)], [])
    assert check(story.recorder.events, compacted={"k-0": 10}) == []
    assert {anomaly.name for anomaly in check(story.recorder.events)} == {"lost-write"}
    assert {anomaly.name for anomaly in check(story.recorder.events, compacted={"k-0": 7})} == {"lost-write"}


def test_a_commit_of_unknown_outcome_may_count_at_any_time() -> None:
    story = Story()
    story.do(MEMBER, "commit", "info", group="g", offsets={"k-0": 1})
    story.do(MEMBER, "commit", group="g", offsets={"k-0": 2})
    story.do(MEMBER, "committed", group="g", offsets={"k-0": 1})
    assert not story.found


def test_an_accepted_record_may_be_on_its_way_to_another_member() -> None:
    story = Story()
    story.send("k-0", 0, 1)
    story.acquire((0, 1, 1))
    other = story.recorder.invoke(SHARER + 1, "acquire", group="shares", limit=LIMIT)
    story.settle(ACCEPT, 0)
    other.ok(counts={"k-0": [[0, 2]]})
    assert not story.found


def test_a_record_may_have_been_in_answers_that_were_lost() -> None:
    story = Story()
    story.send("k-0", 0, 1)
    story.acquire(outcome="info")
    story.acquire((0, 1, 2))
    story.acquire(outcome="info")
    story.drain()
    story.final("k-0", [(0, 1)], [])
    assert not story.found


def test_a_client_that_crashed_is_not_stuck() -> None:
    story = Story()
    story.do(ADMIN, "heal")
    story.recorder.invoke(PRODUCER, "send", mops=[["send", "k-0", [None, 1]]])
    story.do(PRODUCER, "crash")
    for offset in range(20):
        story.send("k-1", offset, offset, process=PRODUCER + 20)
    assert not story.found


def test_circles_are_found_among_other_edges() -> None:
    edges = {1: {2}, 2: {3}, 3: {1, 4}, 4: {5}, 6: {7}, 7: {6}}
    assert [sorted(each) for each in strongly_connected(edges)] == [[1, 2, 3], [6, 7]]
    assert not list(strongly_connected({1: {2, 3}, 2: {3}, 3: set()}))
