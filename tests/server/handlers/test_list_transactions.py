"""ListTransactions with a pattern. The filters are asked about in test_transactions.py, and replication in
test_transactions_replicated.py."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.base.expressions import AT_ONCE, compile_expression
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Workers
from ottla.server.guards.transactions import list_transactions as guard
from ottla.server.handlers import list_transactions
from ottla.server.requests.long_answers import AnswerList, AnswerTooLong, LongAnswers
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.server.txn.state import Transaction
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_transactions import ENCODE_RESPONSE, ListTransactionsRequest
from tests.fakes import Threads
from tests.server.txn.fakes import Driver

LIMIT = 1 << 20
"""The bytes of the longest answer: the least that can be set."""
LARGE = "(?:a?b?)+" + "a?b?" * 1000
LONG = "ab" * (AT_ONCE // compile_expression(LARGE).work("a"))


class Asking:
    """A broker that coordinates some transactional ids, and threads that run when the test says so."""

    def __init__(self, *ids: str) -> None:
        self.driver = Driver()
        self.threads = Threads()
        workers = Workers(self.threads.run)
        broker: Any = SimpleNamespace(
            clock=self.driver.clock,
            transaction_coordinator=lambda: self.driver.coordinator,
            pattern_workers=lambda: workers,
            long_answers=LongAnswers(LIMIT),
        )
        self.request = Request(broker, Session("PLAINTEXT", "127.0.0.1"), 0, 2, 1, "c")
        for number, each in enumerate(ids):
            shard = self.driver.coordinator.shard(each)
            shard.write_transaction(Transaction(each, number, 60_000, self.driver.clock.now_ms()))

    def ask(self, pattern: str, producer_ids: list[int] | None = None) -> Any:
        return list_transactions.handle(ListTransactionsRequest([], producer_ids or [], -1, pattern), self.request)

    def listed(self, answer: Any) -> set[str]:
        assert answer.error_code == ErrorCode.NONE
        return {each.transactional_id for each in answer.transaction_states}


@pytest.mark.parametrize(
    "pattern", ["(", "()" * 10_000 + ".*", "a" * 9000, "(?:.{9}){999}"], ids=["no", "groups", "long", "program"]
)
def test_a_pattern_that_is_not_accepted(pattern: str) -> None:
    """To capture ten thousand groups in twenty ids took 48 seconds and three gigabytes."""
    assert Asking("a").ask(pattern).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_pattern_matches_whole_ids() -> None:
    asking = Asking("tx-1", "tx-2", "a-tx-1")
    assert asking.listed(asking.ask("tx-.*")) == {"tx-1", "tx-2"}
    assert asking.listed(asking.ask("(tx)-.*", [1])) == {"tx-2"}
    assert asking.listed(asking.ask("nothing")) == set()


def test_a_long_id_is_matched_in_a_thread_after_all_other_filters() -> None:
    asking = Asking("ab", LONG, LONG + "c", LONG + "b")
    answer = asking.ask(LARGE, [0, 1, 2])
    assert isinstance(answer, Promise)
    while asking.threads.jobs:
        asking.threads.end_first()
        asking.driver.clock.advance(0)
    assert asking.listed(answer.result()) == {"ab", LONG}


@pytest.mark.parametrize("count", [32, 33])
@pytest.mark.parametrize("guarded", [False, True])
def test_an_answer_that_is_too_long_is_given_up(count: int, guarded: bool) -> None:
    """Ids are up to 32 kB long, and there may be as many as clients make."""
    asking = Asking(*(f"{number:032000}" for number in range(count)))
    answer = asking.ask("")
    if guarded:
        everything: Any = SimpleNamespace(transaction=lambda *_, **__: True)
        answer = guard(everything, lambda *_: answer, ListTransactionsRequest(), asking.request)
    assert type(answer.transaction_states) is AnswerList
    encode = asking.request.broker.long_answers.around(ENCODE_RESPONSE[2], "ListTransactions")
    with nullcontext() if count * 32_000 < LIMIT else pytest.raises(AnswerTooLong, match="ListTransactions is longer than"):
        encode(answer, [])
