"""AddOffsetsToTxn v0-4 makes a group's offsets part of a producer's transaction (KIP-98).

What is added is the group's partition of `__consumer_offsets`, which gets its marker together with the transaction's other
partitions. Producers that speak transactions version 2 do not send this request, because TxnOffsetCommit v5 adds the partition
itself.

Errors: 15 COORDINATOR_NOT_AVAILABLE while `__consumer_offsets` does not exist; 14 COORDINATOR_LOAD_IN_PROGRESS and 16
NOT_COORDINATOR; 42 INVALID_REQUEST for an empty transactional id; 49 INVALID_PRODUCER_ID_MAPPING; 51 CONCURRENT_TRANSACTIONS; 90
PRODUCER_FENCED (47 INVALID_PRODUCER_EPOCH below v2).
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.group.errors import GroupError
from ottla.server.metadata.names import CONSUMER_OFFSETS
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.txn.errors import FENCED_SINCE, TransactionError
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

TRAITS = Traits(Inside(Need(Operation.WRITE, Resource.TRANSACTIONAL_ID), Need(Operation.READ, Resource.GROUP)))


def handle(body: AddOffsetsToTxnRequest, request: Request) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    broker = request.broker
    try:
        partition = (CONSUMER_OFFSETS, broker.groups.partition_for(body.group_id))
        added = broker.transaction_coordinator().add_partitions(
            body.transactional_id, body.producer_id, body.producer_epoch, [partition]
        )
    except GroupError as error:
        return AddOffsetsToTxnResponse(error_code=error.code)
    except TransactionError as error:
        return _refusal(error, request.api_version)
    return AddOffsetsToTxnResponse() if added is None else _answer_later(added, request.api_version)


async def _answer_later(added: Awaitable[None], version: int) -> AddOffsetsToTxnResponse:
    try:
        await added
    except TransactionError as error:
        return _refusal(error, version)
    return AddOffsetsToTxnResponse()


def _refusal(error: TransactionError, version: int) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error.code_for(knows_fencing=version >= FENCED_SINCE))
