"""Commits of many offsets: they are encoded in a thread, and do what short ones do."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.base.promise import Promise
from ottla.server.group.commits import AT_ONCE
from ottla.server.group.records import InTransaction
from ottla.server.group.requests import Commit
from ottla.server.handlers import offset_commit, txn_offset_commit
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.in_loop import in_loop
from tests.server.coordination.memory import TOPICS
from tests.server.group.fakes import Broker

MANY = AT_ONCE + 1


def plain(count: int, group: str = "g") -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(0, offset) for offset in range(count)]
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", partitions=partitions)])


def committed(broker: Broker) -> int:
    return broker.groups.shard("g").offsets.of_group("g")["t"][0].value.offset


def codes(answer: Any) -> set[int]:
    return {partition.error_code for topic in answer.topics for partition in topic.partitions}


@in_loop
async def test_few_offsets_are_encoded_at_once() -> None:
    broker = Broker()
    answer = offset_commit.handle(plain(AT_ONCE), broker.context(9))
    assert not isinstance(answer, Promise)
    assert committed(broker) == AT_ONCE - 1


@in_loop
async def test_many_offsets_are_encoded_in_a_thread() -> None:
    broker = Broker()
    answer = offset_commit.handle(plain(MANY), broker.context(9))
    assert isinstance(answer, Promise)
    assert broker.groups.shard("g").offsets.of_group("g") == {}, "nothing is stored before the thread is done"
    broker.threads.end_first()
    broker.clock.advance(0)
    assert codes(answer.result()) == {ErrorCode.NONE}
    assert len(answer.result().topics[0].partitions) == MANY
    assert committed(broker) == MANY - 1


@in_loop
async def test_the_group_is_asked_when_they_are_encoded() -> None:
    broker = Broker()
    answer = offset_commit.handle(plain(MANY), broker.context(9))
    assert isinstance(answer, Promise)
    broker.log.leaders = [2] * 4
    broker.groups.refresh()
    broker.threads.end_first()
    broker.clock.advance(0)
    assert codes(answer.result()) == {ErrorCode.NOT_COORDINATOR}


@in_loop
async def test_the_offsets_of_a_transaction() -> None:
    broker = Broker()
    shard = broker.groups.shard("g")
    commits = [Commit("t", TOPICS["t"][0], 0, offset, -1, "") for offset in range(MANY)]
    prepared = shard.prepare_commit("g", commits, transaction=InTransaction(7, 0))
    assert prepared.batch == shard.prepare_commit("g", commits, transaction=InTransaction(7, 0)).batch
    assert [record.value.offset for record in prepared.records if record.value is not None] == list(range(MANY))


@pytest.mark.parametrize("module", [offset_commit, txn_offset_commit])
@in_loop
async def test_a_group_that_is_not_here_gets_no_thread(module: Any) -> None:
    broker = Broker()
    broker.log.leaders = [2] * 4
    broker.groups.refresh()
    request: Any = plain(MANY)
    if module is txn_offset_commit:
        partitions = [TxnOffsetCommitRequestPartition(0, offset) for offset in range(MANY)]
        request = TxnOffsetCommitRequest("x", "g", 7, 0, topics=[TxnOffsetCommitRequestTopic("t", partitions=partitions)])
    answer = module.handle(request, broker.context(3))
    assert codes(answer) == {ErrorCode.NOT_COORDINATOR}
    assert broker.threads.jobs == []


@in_loop
async def test_without_a_thread_they_are_encoded_by_whoever_writes_them() -> None:
    broker: Any = Broker()

    def refuse(job: Any, done: Any) -> None:
        raise RuntimeError("can't start new thread")

    broker.threads.run = refuse
    answer: Any = offset_commit.handle(plain(MANY), broker.context(9))
    broker.clock.advance(0)
    assert codes(answer.result() if isinstance(answer, Promise) else answer) == {ErrorCode.NONE}
    assert committed(broker) == MANY - 1
