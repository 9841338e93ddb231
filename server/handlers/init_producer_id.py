"""InitProducerId v0-5 gives a producer an id, by which the broker tells its retries from new batches.

- Without a transactional id the answer is a new id with epoch 0, whatever id and epoch (v3+) the producer had before.
- With a transactional id the answer is the producer of that id with its next epoch: a producer with an earlier epoch is fenced,
  and a transaction in progress is aborted (KIP-98). In v3 an id and an epoch in the request mean that the producer goes on after
  an error (KIP-360).
- Errors with a transactional id: the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and 16
  NOT_COORDINATOR; 42 INVALID_REQUEST if the id is empty; 50 INVALID_TRANSACTION_TIMEOUT if the timeout is not in
  1..`transaction.max.timeout.ms`; 51 CONCURRENT_TRANSACTIONS, after which the client asks again until the old transaction has
  ended; 90 PRODUCER_FENCED (47 INVALID_PRODUCER_EPOCH below v4).
- Other errors: 42 INVALID_REQUEST for an id without an epoch or an epoch without an id, 56 KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from typing import Final

from ottla.log.errors import StorageError
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Either, Inside, Need, Operation, Resource
from ottla.server.txn.errors import INIT_FENCED_SINCE, TransactionError
from ottla.server.txn.state import Expected
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

TRAITS = Traits(
    Inside(
        Need(Operation.WRITE, Resource.TRANSACTIONAL_ID),
        Either(Need(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER), Need(Operation.WRITE, Resource.TOPIC)),
    )
)

_NONE: Final = -1


async def handle(body: InitProducerIdRequest, request: Request) -> InitProducerIdResponse:
    broker = request.broker
    if (body.producer_id == _NONE) != (body.producer_epoch == _NONE):
        return _failure(ErrorCode.INVALID_REQUEST)
    try:
        if body.transactional_id is None:
            return InitProducerIdResponse(producer_id=await broker.producer_ids.next_id())
        expected = None if body.producer_id == _NONE else Expected(body.producer_id, body.producer_epoch)
        producer = await broker.transaction_coordinator().init_producer_id(
            body.transactional_id, body.transaction_timeout_ms, expected
        )
    except TransactionError as error:
        return _failure(error.code_for(knows_fencing=request.api_version >= INIT_FENCED_SINCE))
    except StorageError:  # logged where the directory went offline
        return _failure(ErrorCode.KAFKA_STORAGE_ERROR)
    return InitProducerIdResponse(0, ErrorCode.NONE, *producer)


def _failure(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=_NONE)
