"""Guards of the APIs about transactions. TxnOffsetCommit is in offsets.py, and WriteTxnMarkers in whole.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ottla.server.base.turns import Steps
from ottla.server.guards.ask import CLUSTER, GROUP, TOPIC, TRANSACTION, answered, in_turns, make_each, select
from ottla.server.requests.link import Handle
from ottla.server.requests.request import Request
from ottla.server.security.authorizer import Ask
from ottla.server.security.rights import Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

_BATCHED_SINCE: Final = 4
"""The version since which AddPartitionsToTxn comes from brokers."""
_NONE: Final = -1


def init_producer_id(ask: Ask, handle: Handle, body: InitProducerIdRequest, request: Request) -> Any:
    """Asks for WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster or WRITE on any topic."""
    if body.transactional_id is not None:
        code = None if ask.transaction(Operation.WRITE, body.transactional_id) else TRANSACTION
    else:
        allowed = ask.rights.may_any(Operation.WRITE, Resource.TOPIC) or ask.cluster(Operation.IDEMPOTENT_WRITE)
        code = None if allowed else CLUSTER
    if code is None:
        return handle(body, request)
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)


@in_turns
def add_partitions_to_txn(ask: Ask, handle: Handle, body: AddPartitionsToTxnRequest, request: Request) -> Steps[Any]:
    """Asks for WRITE on the transactional id, then on each topic; from v4 on CLUSTER_ACTION.

    If a topic is refused, or missing, none of the others is added.
    """
    if request.api_version >= _BATCHED_SINCE:
        if ask.cluster(Operation.CLUSTER_ACTION):
            return handle(body, request)
        return AddPartitionsToTxnResponse(error_code=CLUSTER)
    topics = body.v3_and_below_topics
    if not ask.transaction(Operation.WRITE, body.v3_and_below_transactional_id):
        return (yield from _results(topics, lambda name, index: TRANSACTION))
    names = dict.fromkeys(topic.name for topic in topics)
    refused = set((yield from select(names, lambda name: not ask.topic(Operation.WRITE, name))))
    if not refused:
        return handle(body, request)

    def code(name: str, index: int) -> ErrorCode:
        if name in refused:
            return TOPIC
        missing = request.broker.metadata.partition(name, index) is None
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if missing else ErrorCode.OPERATION_NOT_ATTEMPTED

    return (yield from _results(topics, code))


def _results(
    topics: Iterable[AddPartitionsToTxnTopic], code: Callable[[str, int], ErrorCode]
) -> Steps[AddPartitionsToTxnResponse]:
    def refuse(topic: AddPartitionsToTxnTopic) -> AddPartitionsToTxnTopicResult:
        partitions = [AddPartitionsToTxnPartitionResult(index, code(topic.name, index)) for index in topic.partitions]
        return AddPartitionsToTxnTopicResult(topic.name, partitions)

    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=(yield from make_each(topics, refuse)))


def add_offsets_to_txn(ask: Ask, handle: Handle, body: AddOffsetsToTxnRequest, request: Request) -> Any:
    """Asks for WRITE on the transactional id, then READ on the group."""
    if not ask.transaction(Operation.WRITE, body.transactional_id):
        return AddOffsetsToTxnResponse(error_code=TRANSACTION)
    if not ask.group(Operation.READ, body.group_id):
        return AddOffsetsToTxnResponse(error_code=GROUP)
    return handle(body, request)


def end_txn(ask: Ask, handle: Handle, body: EndTxnRequest, request: Request) -> Any:
    """Asks for WRITE on the transactional id."""
    if ask.transaction(Operation.WRITE, body.transactional_id):
        return handle(body, request)
    return EndTxnResponse(error_code=TRANSACTION)


@in_turns
def describe_transactions(ask: Ask, handle: Handle, body: DescribeTransactionsRequest, request: Request) -> Steps[Any]:
    """Asks for DESCRIBE on each transactional id; topics without DESCRIBE are hidden."""
    names = dict.fromkeys(body.transactional_ids)
    refused = dict.fromkeys((yield from select(names, lambda name: not ask.transaction(Operation.DESCRIBE, name))))
    body.transactional_ids = [name for name in body.transactional_ids if name not in refused]
    refusals = yield from make_each(refused, lambda name: TransactionState(TRANSACTION, name))
    long_answers = request.broker.long_answers

    answer: DescribeTransactionsResponse = yield from answered(handle(body, request))
    for state in answer.transaction_states:
        visible = yield from select(state.topics, lambda topic: ask.topic(Operation.DESCRIBE, topic.topic, quiet=True))
        if len(visible) < len(state.topics):
            state.topics = long_answers.shared(visible)
        yield None
    answer.transaction_states += refusals
    return answer


@in_turns
def list_transactions(ask: Ask, handle: Handle, body: ListTransactionsRequest, request: Request) -> Steps[Any]:
    """Asks for DESCRIBE on each transactional id; the others are hidden."""
    answer: ListTransactionsResponse = yield from answered(handle(body, request))
    visible = yield from select(
        answer.transaction_states, lambda state: ask.transaction(Operation.DESCRIBE, state.transactional_id, quiet=True)
    )
    answer.transaction_states = request.broker.long_answers.bounded(visible)
    return answer
