"""Transactions are listed and described when what is said of them is replicated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.base.promise import Promise
from ottla.server.handlers import describe_transactions, list_transactions
from ottla.server.requests.long_answers import LongAnswers
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.server.txn.state import Transaction
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
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
        assert [each.transactional_id for each in listed.result().transaction_states] == [TID]
    else:
        driver.coordinator.close()
        assert listed.result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    (state,) = described.result().transaction_states
    assert state.error_code == (ErrorCode.NONE if kept else ErrorCode.NOT_COORDINATOR)
