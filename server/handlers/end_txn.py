"""EndTxn v0-5 commits or aborts a producer's transaction (KIP-98, KIP-890).

- When the answer goes out, the decision is in the log, and the markers are in the partitions that could take them; the others
  follow. They are written in turns, for a transaction may have thousands of partitions. With more replicas than one the answer
  goes out once the decision is replicated, as in Apache Kafka, and all markers follow.
- v5 is transactions version 2: the answer has the producer's next epoch, or its next id with epoch 0, and an abort needs no
  transaction.
- Ending a transaction a second time in the same way, because the first answer was lost, succeeds.
- v5 is answered 35 UNSUPPORTED_VERSION as long as the feature transaction.version is 0, whose records cannot hold what such an
  end writes. Apache Kafka fails there with the same error, and its transaction hangs; ours goes on.
- Errors: the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and 16 NOT_COORDINATOR; 42
  INVALID_REQUEST for an empty transactional id; 48 INVALID_TXN_STATE if the transaction ended the other way or none was begun; 49
  INVALID_PRODUCER_ID_MAPPING; 51 CONCURRENT_TRANSACTIONS; 90 PRODUCER_FENCED (47 INVALID_PRODUCER_EPOCH below v2); 56
  KAFKA_STORAGE_ERROR if a new producer id is needed and none is available.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.log.errors import StorageError
from ottla.server.metadata.feature_levels import TRANSACTION_VERSION
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.txn.coordinator import Producer
from ottla.server.txn.errors import FENCED_SINCE, TransactionError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

TRAITS = Traits(Inside(Need(Operation.WRITE, Resource.TRANSACTIONAL_ID)))

EPOCH_BUMP_SINCE = 5


def handle(body: EndTxnRequest, request: Request) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    version = 0
    if request.api_version >= EPOCH_BUMP_SINCE:
        version = 2
        if not request.broker.metadata.features.get(TRANSACTION_VERSION):
            return EndTxnResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        ended = request.broker.transaction_coordinator().end(
            body.transactional_id, body.producer_id, body.producer_epoch, commit=body.committed, version=version
        )
    except TransactionError as error:
        return _refusal(error, request.api_version)
    if isinstance(ended, Producer):
        return EndTxnResponse(0, ErrorCode.NONE, *ended)
    return _answer_later(ended, request.api_version)


async def _answer_later(ended: Awaitable[Producer], version: int) -> EndTxnResponse:
    try:
        return EndTxnResponse(0, ErrorCode.NONE, *await ended)
    except TransactionError as error:
        return _refusal(error, version)
    except StorageError:  # logged where the directory went offline
        return EndTxnResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR)


def _refusal(error: TransactionError, version: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=error.code_for(knows_fencing=version >= FENCED_SINCE))
