"""AlterConfigs v0-2 gives topics (2), brokers (4), client metrics (16) or groups (32) exactly the settings that it names.

- A setting that is not named goes back to its default (KIP-133). IncrementalAlterConfigs changes single settings instead.
- Broker "" stands for all brokers; a broker's number must be that of this broker. `validate_only` gives the same answer and
  changes nothing.
- Each resource succeeds or fails as a whole and independently of the others. The answers come in the order of the request.
- Errors: 3 UNKNOWN_TOPIC_OR_PARTITION, 17 INVALID_TOPIC_EXCEPTION, 40 INVALID_CONFIG, 42 INVALID_REQUEST (another broker; a
  resource or a setting that is named twice; a null value; a type of resource without settings, which here includes loggers), 44
  POLICY_VIOLATION (more than 10,000 settings), 56 KAFKA_STORAGE_ERROR. Kafka 4.4 gives no answer at all if a resource is named
  twice.
"""

from __future__ import annotations

from ottla.log.errors import StorageError
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse

TRAITS = Traits(
    Inside(
        Need(Operation.ALTER_CONFIGS, Resource.TOPIC),
        Need(Operation.ALTER_CONFIGS, Resource.GROUP),
        Need(Operation.ALTER_CONFIGS, Resource.CLUSTER),
    )
)


async def handle(body: AlterConfigsRequest, request: Request) -> AlterConfigsResponse:
    try:
        return await request.broker.controller.alter_configs(body, request.caller())
    except StorageError as error:
        code = ErrorCode.KAFKA_STORAGE_ERROR
        return AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(code, str(error), each.resource_type, each.resource_name) for each in body.resources
            ]
        )
