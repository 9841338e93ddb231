"""UnregisterController v0 removes a controller that is gone for good from the cluster; metadata/membership.py has the rules.

Errors: 35 UNSUPPORTED_VERSION (metadata.version is below 4.4), 42 INVALID_REQUEST (it names this very controller), 56
KAFKA_STORAGE_ERROR, 136 CONTROLLER_ID_NOT_REGISTERED.
"""

from __future__ import annotations

from ottla.log.errors import StorageError
from ottla.server.metadata.operation import Refused
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


async def handle(body: UnregisterControllerRequest, request: Request) -> UnregisterControllerResponse:
    try:
        await request.broker.controller.unregister_controller(body.controller_id, request.caller())
    except Refused as refused:
        return UnregisterControllerResponse(0, refused.code, refused.message)
    except StorageError as error:
        return UnregisterControllerResponse(0, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return UnregisterControllerResponse()
