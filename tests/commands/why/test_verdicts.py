"""The table of rules: each verdict from facts as plain values, in the order of the table."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest

from ottla.commands.clients.partition import Partition
from ottla.commands.groups.rows import MemberState
from ottla.commands.why.facts import (
    Awaited,
    Fetched,
    GroupFacts,
    Left,
    NextBatch,
    OpenTransaction,
    PartitionFacts,
    Throttled,
)
from ottla.commands.why.verdicts import RULES, Level, judge

T0, T1 = Partition("orders", 0), Partition("orders", 1)
MEMBER = MemberState("m-1", None, "app", "/10.0.0.7", (T0,))
IDLE = MemberState("m-2", "i-2", "spare", "/10.0.0.8", ())
READS = Fetched(5, 40, 40, False, 1 << 20, False)
OPEN = OpenTransaction("etl-1", 7, 60, 5_000, 60_000)


def partition(**changed: Any) -> PartitionFacts:
    """A partition with the offsets 10 to 100, where 40 is committed, and which is fetched from there."""
    whole = PartitionFacts(
        T0,
        leader=1,
        replicas=(1, 2),
        log_start=10,
        last_stable=100,
        high_watermark=100,
        committed=40,
        committed_before=40,
        end_before=100,
        commits=0,
        member=MEMBER,
        fetched=READS,
        left=Left(60, True),
        next_batch=NextBatch(40, 500, 1_000),
    )
    return replace(whole, **changed)


def group(*partitions: PartitionFacts, **changed: Any) -> GroupFacts:
    return replace(
        GroupFacts("billing", members=(MEMBER,), partitions=partitions, watched_s=3, has_inside=True, now_ms=65_000), **changed
    )


CAUGHT_UP = partition(
    committed=100, committed_before=100, left=None, next_batch=None, fetched=Fetched(5, 100, 100, False, 1, False)
)

STUCK = {
    "not-there": (group(exists=False), "There is no group billing."),
    "offline": (group(partition(leader=None)), "orders [0] has no leader, so nobody can read it."),
    "no-coordinator": (group(exists=None, coordinator_error="asked, a broker says: not now"), "coordinator is not there"),
    "no-member": (
        group(partition(member=None, fetched=None), members=(), state="Empty"),
        "no member, and 60 records are left to read",
    ),
    "rebalancing": (
        group(
            partition(),
            state="PreparingRebalance",
            state_before="PreparingRebalance",
            awaited=(Awaited("app", "10.0.0.7", "m-1", "has yet to join again", 28.0),),
        ),
        "waits for app (m-1, 10.0.0.7), for 28 s at most",
    ),
    "not-fetching": (group(partition(fetched=None), max_poll_s=300.0), "app (10.0.0.7) has orders [0] and does not fetch it"),
    "out-of-range": (
        group(partition(committed=5, committed_before=5, fetched=Fetched(2, 5, 5, True, 1, False))),
        "app (10.0.0.7) is at offset 5 of orders [0], which is below the log's start, 10",
    ),
    "blocked": (
        group(
            partition(last_stable=40, transaction=OPEN, transaction_before=OPEN, fetched=READS._replace(is_read_committed=True))
        ),
        "orders [0] is blocked at offset 40 by transaction etl-1 (producer 7), open for 60 s",
    ),
    "throttled": (
        group(partition(), throttled=(Throttled("app", "10.0.0.7", "consumer_byte_rate=1024 of client id app", 900, 400),)),
        "is throttled by the quota consumer_byte_rate=1024 of client id app, now for 0.4 s, with 60 records left to read.",
    ),
    "not-committing": (
        group(partition(fetched=Fetched(5, 60, 100, False, 1 << 20, False)), is_patient=True),
        "app (10.0.0.7) reads orders [0] (it has come to offset 100) and does not commit",
    ),
    "damaged": (
        group(partition(next_batch=NextBatch(40, 500, 1, "its checksum is wrong"))),
        "app (10.0.0.7) cannot go on: the next batch of orders [0], at offset 40, is damaged",
    ),
    "too-large": (
        group(partition(next_batch=NextBatch(40, 2 << 20, 1))),
        "has 2.0 MiB, more than the 1.0 MiB that app (10.0.0.7) takes",
    ),
}


@pytest.mark.parametrize("reason", STUCK)
def test_what_is_stuck(reason: str) -> None:
    facts, text = STUCK[reason]
    verdict = judge(facts)
    assert (verdict.reason, verdict.level) == (reason, Level.STUCK), verdict
    assert text in verdict.text
    assert verdict.remedy
    assert verdict.evidence


OTHERS = [
    (group(partition(partition=T0), replace(CAUGHT_UP, partition=T1), members=(MEMBER, IDLE)), "idle-member", "notice", "spare"),
    (group(partition()), "behind", "notice", "has not moved in the 3 s watched"),
    (group(partition(), has_inside=False), "behind", "notice", "as far as a client can see, nothing was committed"),
    (group(partition(committed_before=10)), "behind", "well", "it comes nearer, by 10.0 records/s"),
    (group(partition(committed_before=10, end_before=10)), "behind", "notice", "falls further behind, by 20.0 records/s"),
    (group(partition(committed_before=10, end_before=70)), "behind", "well", "keeps up"),
    (group(partition(committed=99, committed_before=99, left=Left(0, True))), "markers", "well", "The lag of 1 is markers"),
    (group(CAUGHT_UP), "not-behind", "well", "Not behind"),
    (group(), "not-behind", "well", "Not behind"),
    (group(CAUGHT_UP, members=(), state="Empty"), "not-behind", "well", "Not behind"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "reason", "level", "text"), OTHERS)
def test_what_is_not(facts: GroupFacts, reason: str, level: str, text: str) -> None:
    verdict = judge(facts)
    assert (verdict.reason, verdict.level) == (reason, level), verdict
    assert text in verdict.text


WELL = {
    "a rebalance that has only begun": group(partition(), state="PreparingRebalance"),
    "another rebalance than before": group(partition(), state="Reconciling", state_before="Reconciling", is_same_rebalance=False),
    "a transaction that began meanwhile": group(partition(last_stable=40, transaction=OPEN)),
    "another transaction than before": group(
        partition(last_stable=40, transaction=OPEN, transaction_before=OPEN._replace(producer_id=8))
    ),
    "a transaction that blocks only others": group(partition(last_stable=40, transaction=OPEN, transaction_before=OPEN)),
    "commits out of range that a client has got over": group(partition(committed=5, committed_before=5, fetched=READS)),
    "no fetch, but a commit": group(partition(fetched=None, commits=1)),
    "a consumer without membership that commits": group(partition(member=None, committed_before=30), members=()),
    "reads, and has committed a moment ago": group(
        partition(fetched=Fetched(5, 60, 100, False, 1 << 20, False), committed_ms=60_000), is_patient=True
    ),
    "throttled, and has read all": group(CAUGHT_UP, throttled=(Throttled("app", "10.0.0.7", "q", 900, None),)),
    "a batch that is damaged and passed": group(partition(next_batch=NextBatch(40, 500, 1, "bad"), committed_before=30)),
}


@pytest.mark.parametrize("what", WELL)
def test_what_stops_nobody(what: str) -> None:
    assert judge(WELL[what]).level is not Level.STUCK


def test_the_first_that_holds_decides_but_stuck_before_odd() -> None:
    assert list(RULES)[:4] == ["not-there", "offline", "no-coordinator", "no-member"]
    both = group(partition(leader=None, fetched=None))
    assert judge(both).reason == "offline"
    beside = group(partition(fetched=None), members=(MEMBER, IDLE))
    assert judge(beside).reason == "not-fetching"


def test_where_nobody_reads_is_said_in_the_order_of_the_partitions() -> None:
    left = [
        partition(
            partition=Partition("orders", at), committed=offset, committed_before=offset, member=None, fetched=None, left=None
        )
        for at, offset in ((0, 40), (1, 99), (2, 10))
    ]
    verdict = judge(group(*left, members=(), state="Empty"))
    assert verdict.evidence == ("state Empty", "behind in orders:0,1,2")


def test_a_client_names_what_only_a_broker_knows() -> None:
    blocked = partition(
        last_stable=40, fetched=None, commits=None, transaction=OPEN._replace(transactional_id=None), transaction_before=OPEN
    )
    verdict = judge(group(blocked, has_inside=False))
    assert verdict.reason == "blocked"
    assert any("as far as a client can see" in line for line in verdict.evidence)
    assert verdict.remedy == "Abort it: ottla txn abort --at orders:0:60."


def test_a_command_that_is_advised_does_nothing_else_whatever_a_stranger_calls_himself() -> None:
    name = "$(reboot); it's"
    blocked = partition(
        last_stable=40, fetched=None, transaction=OPEN._replace(transactional_id=name), transaction_before=OPEN, commits=0
    )
    remedies = [
        judge(group(missing_topics=((name, "app"),))).remedy,
        judge(group(blocked, has_inside=False)).remedy,
    ]
    for remedy in remedies:
        assert shlex.quote(name) in remedy
