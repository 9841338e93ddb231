"""Transactions go on, and are listed and described, when what is said of them is replicated."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.base.promise import Promise
from ottla.server.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    list_transactions,
)
from ottla.server.requests.long_answers import LongAnswers
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.server.txn.state import Transaction
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from tests.server.coordination.fakes import LaggingLog
from tests.server.txn.fakes import TID, Driver, TransactionLog


class LaggingTransactions(LaggingLog, TransactionLog):
    """`__transaction_state` whose followers lag."""


@pytest.mark.parametrize("kept", [True, False])
def test_transactions_are_shown_when_they_are_replicated(kept: bool) -> None:
    log = LaggingTransactions()
    driver = Driver(log)
    broker: Any = SimpleNamespace(
        clock=driver.clock, transaction_coordinator=lambda: driver.coordinator, long_answers=LongAnswers(1 << 20)
    )
    request = Request(broker, Session("PLAINTEXT", "127.0.0.1"), 0, 0, 1, "c")
    driver.coordinator.shard(TID).write_transaction(Transaction(TID, 7, 60_000, driver.clock.now_ms()))
    listed = list_transactions.handle(ListTransactionsRequest(), request)
    described = describe_transactions.handle(DescribeTransactionsRequest([TID]), request)
    assert isinstance(listed, Promise)
    assert isinstance(described, Promise)
    assert (listed.done(), described.done()) == (False, False)
    if kept:
        log.replicate_all()
        driver.clock.advance(0)
        assert [each.transactional_id for each in listed.result().transaction_states] == [TID]
    else:
        driver.coordinator.close()
        driver.clock.advance(0)
        assert listed.result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    (state,) = described.result().transaction_states
    assert state.error_code == (ErrorCode.NONE if kept else ErrorCode.NOT_COORDINATOR)


def codes(answer: Any) -> list[int]:
    """The error codes of an answer to a producer."""
    if not isinstance(answer, AddPartitionsToTxnResponse):
        return [answer.error_code]
    results = [
        *answer.results_by_topic_v3_and_below,
        *(each for one in answer.results_by_transaction for each in one.topic_results),
    ]
    return [each.partition_error_code for topic in results for each in topic.results_by_partition]


MORE = [AddPartitionsToTxnTopic("t", [1, 2])]


@pytest.mark.parametrize("outcome", [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
@pytest.mark.parametrize(
    ("handler", "version", "body", "answers"),
    [
        (add_offsets_to_txn, 4, AddOffsetsToTxnRequest(TID, 7, 0, "g"), 1),
        (add_partitions_to_txn, 3, AddPartitionsToTxnRequest([], TID, 7, 0, MORE), 2),
        (add_partitions_to_txn, 4, AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction(TID, 7, 0, topics=MORE)]), 2),
        (end_txn, 4, EndTxnRequest(TID, 7, 0, committed=True), 1),
    ],
)
def test_a_producer_is_answered_when_its_request_is_replicated(
    outcome: ErrorCode, handler: Any, version: int, body: Any, answers: int
) -> None:
    """If this broker loses the partition meanwhile, the producer asks the new coordinator; and if replicas do not keep up for as
    long as its transaction may last, it asks again."""
    log = LaggingTransactions(lag=False)
    driver = Driver(log)
    coordinator = driver.coordinator
    broker: Any = SimpleNamespace(
        clock=driver.clock,
        transaction_coordinator=lambda: coordinator,
        groups=SimpleNamespace(partition_for=lambda _: 3),
        metadata=SimpleNamespace(partition=lambda *_: object()),
    )
    coordinator.shard(TID).write_transaction(Transaction(TID, 7, 60_000, driver.clock.now_ms(), producer_epoch=0))
    coordinator.add_partitions(TID, 7, 0, [("t", 0)])
    log.lag = True

    async def scenario() -> Any:
        answer = asyncio.ensure_future(handler.handle(body, Request(broker, Session("PLAINTEXT", "::1"), 0, version, 1, "c")))
        await asyncio.sleep(0)
        assert not answer.done()
        if outcome is ErrorCode.NONE:
            log.replicate_all()
        elif outcome is ErrorCode.NOT_COORDINATOR:
            log.lose()
        else:
            driver.clock.advance(59)
            await asyncio.sleep(0)
            assert not answer.done()
            driver.clock.advance(1)
        return await answer

    assert codes(asyncio.run(scenario())) == [outcome] * answers
