"""InitProducerId v0-5: an id for a producer, with which the broker tells its retries from new batches.

- Without transactional id: a new id with epoch 0, whatever id and epoch (v3+) the producer had before.
- With one: 42 INVALID_REQUEST if it is empty, 50 INVALID_TRANSACTION_TIMEOUT if the timeout is not in
  1..`transaction.max.timeout.ms`, as in Kafka. There is no transaction coordinator yet, and nothing that a client could wait
  for: everything else is 53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client takes as final (15
  COORDINATOR_NOT_AVAILABLE would be asked again for ever, and librdkafka retries 35 UNSUPPORTED_VERSION). Clients get here only
  past FindCoordinator, which refuses them with a text.
- Other errors: 42 for an id without an epoch or the other way round, 56 KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from typing import Final

from ottla.log.errors import StorageError
from ottla.server.context import RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NONE: Final = -1


async def handle(request: InitProducerIdRequest, ctx: RequestContext) -> InitProducerIdResponse:
    error = _refusal(request, ctx)
    if error is not None:
        return _failure(error)
    try:
        return InitProducerIdResponse(producer_id=await ctx.broker.producer_ids.next_id())
    except StorageError:  # logged where the directory went offline
        return _failure(ErrorCode.KAFKA_STORAGE_ERROR)


def _failure(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=_NONE)


def _refusal(request: InitProducerIdRequest, ctx: RequestContext) -> ErrorCode | None:
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return None
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= ctx.broker.config.values["transaction.max.timeout.ms"]:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
