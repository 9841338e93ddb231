"""`ottla txn`: the words that it accepts, and what it makes of answers. compat_tests/test_commands_txn.py has the cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from ottla.commands import txn
from ottla.commands.clients.client import Cluster
from ottla.commands.clients.partition import Partition
from ottla.commands.output import Failure
from ottla.wire.messages.describe_transactions import TopicData, TransactionState


def test_states_are_taken_in_any_case() -> None:
    assert txn.known_state("preparecommit") == "PrepareCommit"
    with pytest.raises(typer.BadParameter, match="'open' is not a state"):
        txn.known_state("open")


def test_a_place_is_topic_partition_and_offset() -> None:
    assert txn.position_of("a.b:3:0") == (Partition("a.b", 3), 0)
    for wrong in ("", "a", "a:1", ":1:2", "a:1:", "a:-1:2", "a:1:2:3", "a:x:1"):
        with pytest.raises(typer.BadParameter, match="TOPIC:PARTITION:OFFSET"):
            txn.position_of(wrong)


def test_only_an_ongoing_transaction_is_open() -> None:
    one = TransactionState(0, "till", "Ongoing", 60_000, 1_000, 7, 2, [TopicData("u", [0]), TopicData("t", [1, 0])])
    assert txn.row_of(1, one, 4_000) == ("till", "Ongoing", 7, 2, 60_000, 3_000, 1, "t:0,t:1,u:0")
    assert txn.open_ms(one, 900) == 0
    one.transaction_state, one.topics = "CompleteCommit", []
    assert txn.row_of(1, one, 4_000)[5:] == (None, 1, None)
    assert txn.as_object(1, one, 4_000)["partitions"] == []


def test_producers_of_a_partition_without_a_leader_are_not_known_rather_than_none() -> None:
    topic = SimpleNamespace(partitions={0: SimpleNamespace(leader=-1)})
    with txn.TxnBrokers(Cluster({}), cast(Any, SimpleNamespace(brokers={}, topics={"t": topic}))) as brokers:
        with pytest.raises(Failure, match=r"^t \[0\] has no leader$"):
            list(brokers.producers([Partition("t", 0)]))


def test_failures_are_reported_by_name() -> None:
    def fail() -> bool:
        raise Failure("no answer in time")

    told = [txn.outcome("a", lambda: True), txn.outcome("b", lambda: False), txn.outcome("c", fail)]
    assert [(each.result, each.error) for each in told] == [
        ("aborted", None),
        ("no transaction is open", None),
        ("failed", "no answer in time"),
    ]
