"""AddPartitionsToTxn v0-5 makes partitions part of a producer's transaction, which begins with the first of them (KIP-98,
KIP-890).

- v0-3 come from producers and name one transaction. v4 and later come from brokers and name several. With `verify_only` the
  broker only asks whether a transaction has these partitions: the answer is NONE or 120 TRANSACTION_ABORTABLE. Without an
  authorizer every client may act as a broker.
- Either all partitions of a transaction are added or none. If one of them does not exist it is answered 3
  UNKNOWN_TOPIC_OR_PARTITION, and the others 55 OPERATION_NOT_ATTEMPTED.
- Errors for all partitions of a transaction: the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and
  16 NOT_COORDINATOR; 42 INVALID_REQUEST for an empty transactional id; 49 INVALID_PRODUCER_ID_MAPPING; 51
  CONCURRENT_TRANSACTIONS; 90 PRODUCER_FENCED (47 INVALID_PRODUCER_EPOCH below v2).
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.txn.errors import FENCED_SINCE, TransactionError
from ottla.server.txn.state import TopicPartition
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

TRAITS = Traits(
    Inside(
        Need(Operation.WRITE, Resource.TRANSACTIONAL_ID),
        Need(Operation.WRITE, Resource.TOPIC),
        Need(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    )
)

BATCHED_SINCE = 4
CLIENT_VERSION_OF_BROKERS = 2


_Results = list[AddPartitionsToTxnTopicResult]
_Answer = _Results | Awaitable[_Results]
_Answers = list[_Answer]


def handle(
    body: AddPartitionsToTxnRequest, request: Request
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    if request.api_version >= BATCHED_SINCE:
        names = [each.transactional_id for each in body.transactions]
        answers = take_steps(_add_each(body.transactions, request), request.broker.clock)
        if isinstance(answers, Promise):
            return _batched_answer_later(names, answers)
        now = [each for each in answers if isinstance(each, list)]
        return _batched_answer(names, now) if len(now) == len(answers) else _batched_answer_later(names, answers)
    only = AddPartitionsToTxnTransaction(
        body.v3_and_below_transactional_id,
        body.v3_and_below_producer_id,
        body.v3_and_below_producer_epoch,
        topics=body.v3_and_below_topics,
    )
    answer = take_steps(_add(only, request), request.broker.clock)
    return _single_answer(answer) if isinstance(answer, list) else _single_answer_later(answer)


def _single_answer(results: _Results) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


async def _single_answer_later(later: Awaitable[_Results] | Promise[_Answer]) -> AddPartitionsToTxnResponse:
    answer = await later
    return _single_answer(answer if isinstance(answer, list) else await answer)


def _batched_answer(names: Sequence[str], answers: Sequence[_Results]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_transaction=list(map(AddPartitionsToTxnResult, names, answers)))


async def _batched_answer_later(names: Sequence[str], later: _Answers | Promise[_Answers]) -> AddPartitionsToTxnResponse:
    answers = await later if isinstance(later, Promise) else later
    return _batched_answer(names, [each if isinstance(each, list) else await each for each in answers])


def _add_each(transactions: Sequence[AddPartitionsToTxnTransaction], request: Request) -> Steps[_Answers]:
    answers: _Answers = []
    for each in transactions:
        answers.append((yield from _add(each, request)))
        yield None
    return answers


def _add(transaction: AddPartitionsToTxnTransaction, request: Request) -> Steps[_Answer]:
    """Makes steps that add or verify the partitions of one transaction, and return their results, or an awaitable of them."""
    partitions = _partitions(transaction.topics)
    yield None
    missing = {each for each in partitions if request.broker.metadata.partition(*each) is None}
    yield None
    if missing:
        codes = {
            each: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if each in missing else ErrorCode.OPERATION_NOT_ATTEMPTED
            for each in partitions
        }
        return _results_by_topic(codes)
    coordinator = request.broker.transaction_coordinator()
    producer = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
    batched = request.api_version >= BATCHED_SINCE
    try:
        if transaction.verify_only:
            verified = coordinator.verify_partitions(*producer, partitions)
            return (
                _results_by_topic(verified)
                if isinstance(verified, dict)
                else _results_later(verified, transaction.topics, request.api_version)
            )
        version = CLIENT_VERSION_OF_BROKERS if batched else 0
        added = coordinator.add_partitions(*producer, partitions, client_version=version)
    except TransactionError as error:
        return _refusal(transaction.topics, error, request.api_version)
    return (
        _same_result(transaction.topics, ErrorCode.NONE)
        if added is None
        else _results_later(added, transaction.topics, request.api_version)
    )


async def _results_later(
    answer: Awaitable[dict[TopicPartition, ErrorCode] | None], topics: Sequence[AddPartitionsToTxnTopic], version: int
) -> _Results:
    """Waits for the coordinator, which answers a code for each verified partition, or None once all are added."""
    try:
        codes = await answer
    except TransactionError as error:
        return _refusal(topics, error, version)
    return _same_result(topics, ErrorCode.NONE) if codes is None else _results_by_topic(codes)


def _refusal(topics: Sequence[AddPartitionsToTxnTopic], error: TransactionError, version: int) -> _Results:
    return _same_result(topics, error.code_for(knows_fencing=version >= FENCED_SINCE))


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    """Returns the partitions in the order of the request, each once."""
    return list(dict.fromkeys((topic.name, partition) for topic in topics for partition in topic.partitions))


def _same_result(topics: Sequence[AddPartitionsToTxnTopic], code: ErrorCode) -> list[AddPartitionsToTxnTopicResult]:
    """Returns the same code for every partition of a transaction, in the shape of the request."""
    return [
        AddPartitionsToTxnTopicResult(topic.name, [AddPartitionsToTxnPartitionResult(each, code) for each in topic.partitions])
        for topic in topics
    ]


def _results_by_topic(codes: dict[TopicPartition, ErrorCode]) -> list[AddPartitionsToTxnTopicResult]:
    """Returns each partition's own code. One that was named twice is answered once, a topic without partitions not at all."""
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, partition), code in codes.items():
        topics.setdefault(topic, []).append(AddPartitionsToTxnPartitionResult(partition, code))
    return [AddPartitionsToTxnTopicResult(*each) for each in topics.items()]
