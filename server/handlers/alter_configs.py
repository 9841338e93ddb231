"""AlterConfigs v0-2: give topics (2), brokers (4), client metrics (16) or groups (32) these settings, and no others.

- The old way (KIP-133): what is not named goes back to its default. IncrementalAlterConfigs changes single settings.
- Broker "" is all brokers; one with a number must be this one. `validate_only` answers as if, and changes nothing.
- Each resource succeeds or fails on its own, and as a whole; they are answered in the order of the request.
- Errors: 3 UNKNOWN_TOPIC_OR_PARTITION, 17 INVALID_TOPIC_EXCEPTION, 40 INVALID_CONFIG, 42 INVALID_REQUEST (another broker's, a
  resource or a setting twice, a null value, a type without settings, which loggers are here), 44 POLICY_VIOLATION (over 10,000
  settings), 56 KAFKA_STORAGE_ERROR. Where a resource comes twice, Kafka 4.4 gives no answer at all.
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
        return await request.broker.controller.alter_configs(body)
    except StorageError as error:
        code = ErrorCode.KAFKA_STORAGE_ERROR
        return AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(code, str(error), each.resource_type, each.resource_name) for each in body.resources
            ]
        )
