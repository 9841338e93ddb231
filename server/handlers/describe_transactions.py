"""DescribeTransactions v0 says what the coordinator knows about transactional ids (KIP-664).

Each id has its own answer, in the order of the request. Its errors are 105 TRANSACTIONAL_ID_NOT_FOUND, 42 INVALID_REQUEST for an
empty id, 14 COORDINATOR_LOAD_IN_PROGRESS and 16 NOT_COORDINATOR. Times are in ms since the epoch; -1 means that no transaction
has begun.
"""

from __future__ import annotations

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, answer_once, take_steps
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.txn.errors import TransactionError
from ottla.server.txn.state import Transaction
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

TRAITS = Traits(
    Inside(Need(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID), Need(Operation.DESCRIBE, Resource.TOPIC)), long_answer=True
)


def handle(
    body: DescribeTransactionsRequest, request: Request
) -> DescribeTransactionsResponse | Promise[DescribeTransactionsResponse]:
    def answer() -> Steps[DescribeTransactionsResponse]:
        states = yield from answer_once(body.transactional_ids, lambda each: _describe(each, request))
        return DescribeTransactionsResponse(transaction_states=request.broker.long_answers.bounded(states))

    return take_steps(answer(), request.broker.clock)


def _describe(transactional_id: str, request: Request) -> TransactionState | Promise[TransactionState]:
    try:
        shard = request.broker.transaction_coordinator().shard(transactional_id)
    except TransactionError as error:
        return TransactionState(error.code, transactional_id)
    described = _state(transactional_id, shard.transactions.get(transactional_id), request)
    return shard.answer_or(described, lambda code: TransactionState(code, transactional_id))


def _state(transactional_id: str, found: Transaction | None, request: Request) -> TransactionState:
    if found is None:
        return TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(found.partitions):
        topics.setdefault(topic, []).append(partition)
    return TransactionState(
        ErrorCode.NONE,
        transactional_id,
        found.state.text,
        found.timeout_ms,
        found.started_ms,
        found.producer_id,
        found.producer_epoch,
        request.broker.long_answers.shared(TopicData(*each) for each in topics.items()),
    )
