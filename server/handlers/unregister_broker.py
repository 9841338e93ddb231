"""UnregisterBroker v0 removes a broker that is gone for good from the cluster; metadata/membership.py has the rules.

Errors: 42 INVALID_REQUEST (it names this very broker, which Kafka would remove), 56 KAFKA_STORAGE_ERROR, 102
BROKER_ID_NOT_REGISTERED.
"""

from __future__ import annotations

from ottla.log.errors import StorageError
from ottla.server.metadata.operation import Refused
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


async def handle(body: UnregisterBrokerRequest, request: Request) -> UnregisterBrokerResponse:
    try:
        await request.broker.controller.unregister_broker(body.broker_id, request.caller())
    except Refused as refused:
        return UnregisterBrokerResponse(0, refused.code, refused.message)
    except StorageError as error:
        return UnregisterBrokerResponse(0, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return UnregisterBrokerResponse()
