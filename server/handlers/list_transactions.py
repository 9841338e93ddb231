"""ListTransactions v0-2 lists the transactional ids that this broker coordinates (KIP-664).

- An id is listed if it passes all filters; an empty filter lets everything pass. States are given by name; unknown names match
  nothing, and the answer lists them. v1 adds `duration_filter`: only transactions that have run for longer than so many ms
  (KIP-994). v2 adds a regular expression of RE2 that the whole id has to match (KIP-1152): 128 INVALID_REGULAR_EXPRESSION if it
  does not compile, or is beyond the bounds of server/base/expressions.py.
- An answer of more than `ottla.response.max.bytes` closes the connection: ids are as long as clients make them.
- 14 COORDINATOR_LOAD_IN_PROGRESS while the transactions of some partition are not known yet.
"""

from __future__ import annotations

from ottla.server.base.expressions import ExpressionError, compile_expression, matching
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.txn.errors import TransactionError
from ottla.server.txn.state import State, Transaction
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState

TRAITS = Traits(Inside(Need(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID)), long_answer=True)

TRANSACTIONS_A_STEP = 100
"""So many transactions are looked at before others may come first."""
_STATES = {state.text: state for state in State}


def handle(body: ListTransactionsRequest, request: Request) -> ListTransactionsResponse | Promise[ListTransactionsResponse]:
    return take_steps(_list(body, request), request.broker.clock)


def _list(body: ListTransactionsRequest, request: Request) -> Steps[ListTransactionsResponse]:
    """Makes steps that list the transactions that there are when the first is taken."""
    now_ms = request.broker.clock.now_ms()
    states = {_STATES[name] for name in body.state_filters if name in _STATES}
    unknown = [name for name in dict.fromkeys(body.state_filters) if name not in _STATES]
    producer_ids = set(body.producer_id_filters)
    pattern = None
    if body.transactional_id_pattern:
        try:
            pattern = compile_expression(body.transactional_id_pattern)
        except ExpressionError:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)

    def wanted(transaction: Transaction) -> bool:
        return (
            (not producer_ids or transaction.producer_id in producer_ids)
            and (not body.state_filters or transaction.state in states)
            and (body.duration_filter < 0 or now_ms - transaction.started_ms > body.duration_filter)
        )

    coordinator = request.broker.transaction_coordinator()
    try:
        known = list(coordinator.all_transactions())
    except TransactionError as error:
        return ListTransactionsResponse(error_code=error.code)
    listed = []
    for at, each in enumerate(known):
        if at and at % TRANSACTIONS_A_STEP == 0:
            yield None
        if wanted(each):
            listed.append(TransactionState(each.transactional_id, each.producer_id, each.state.text))
    if pattern is not None:
        ids = yield from matching(pattern, (each.transactional_id for each in listed), request.broker.pattern_workers)
        listed = [each for each in listed if each.transactional_id in ids]
    answer = coordinator.answer_about_all(
        ListTransactionsResponse(0, ErrorCode.NONE, unknown, request.broker.long_answers.bounded(listed)),
        lambda _: ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE),
    )
    if isinstance(answer, Promise):
        yield answer
        return answer.result()
    return answer
