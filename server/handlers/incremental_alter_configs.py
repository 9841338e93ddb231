"""IncrementalAlterConfigs v0-1 changes single settings of topics, brokers, client metrics and groups, and levels of loggers.

- The operations are 0 SET, 1 DELETE, and for lists 2 APPEND and 3 SUBTRACT. `validate_only` gives the same answer and changes
  nothing.
- Each resource succeeds or fails as a whole and independently of the others.
- The controller changes everything but the loggers. Those belong to this broker alone, are forgotten when it stops, and take only
  SET and DELETE.
- Errors of loggers: 40 INVALID_CONFIG (there is no such logger or level), 42 INVALID_REQUEST (another broker, another operation,
  a resource or a logger that is named twice, a SET without a level, a DELETE of the root logger's level).
- Errors of everything else come from the controller: 3 UNKNOWN_TOPIC_OR_PARTITION, 17 INVALID_TOPIC_EXCEPTION, 40 INVALID_CONFIG,
  42 INVALID_REQUEST, 44 POLICY_VIOLATION; and 56 KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections import Counter

from ottla.log.errors import StorageError
from ottla.server.metadata.configs import DELETE, SET
from ottla.server.metadata.image import BROKER_LOGGER
from ottla.server.metadata.operation import Refused
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.settings import loggers
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TRAITS = Traits(
    Inside(
        Need(Operation.ALTER_CONFIGS, Resource.TOPIC),
        Need(Operation.ALTER_CONFIGS, Resource.GROUP),
        Need(Operation.ALTER_CONFIGS, Resource.CLUSTER),
    )
)


async def handle(body: IncrementalAlterConfigsRequest, request: Request) -> IncrementalAlterConfigsResponse:
    times = Counter(each.resource_name for each in body.resources if each.resource_type == BROKER_LOGGER)
    elsewhere = [each for each in body.resources if each.resource_type != BROKER_LOGGER]
    answers = iter(await _alter_by_controller(elsewhere, body.validate_only, request) if elsewhere else [])
    responses = []
    for resource in body.resources:
        if resource.resource_type != BROKER_LOGGER:
            responses.append(next(answers))
            continue
        answer = AlterConfigsResourceResponse(0, None, BROKER_LOGGER, resource.resource_name)
        try:
            if times[resource.resource_name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "A request may name each resource only once.")
            _check_loggers(resource, request.broker.config.node_id)
        except Refused as refused:
            answer.error_code, answer.error_message = refused.code, refused.message
        else:
            if not body.validate_only:
                for config in resource.configs:
                    loggers.set_level(config.name, None if config.config_operation == DELETE else config.value)
        responses.append(answer)
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter_by_controller(
    resources: list[AlterConfigsResource], validate_only: bool, request: Request
) -> list[AlterConfigsResourceResponse]:
    """Has the controller change the settings; returns the answers in the order of `resources`."""
    try:
        response = await request.broker.controller.incremental_alter_configs(
            IncrementalAlterConfigsRequest(resources, validate_only), request.caller()
        )
    except StorageError as error:
        code = ErrorCode.KAFKA_STORAGE_ERROR
        return [AlterConfigsResourceResponse(code, str(error), each.resource_type, each.resource_name) for each in resources]
    return response.responses


def _check_loggers(resource: AlterConfigsResource, node_id: int) -> None:
    """Checks that all changes can be made. Raises Refused."""
    if resource.resource_name != str(node_id):
        text = f"This is broker {node_id}; its loggers are not those of '{resource.resource_name}'."
        raise Refused(ErrorCode.INVALID_REQUEST, text)
    names = [config.name for config in resource.configs]
    if len(set(names)) < len(names):
        raise Refused(ErrorCode.INVALID_REQUEST, "A request may name each setting of a resource only once.")
    nulls = [config.name for config in resource.configs if config.value is None and config.config_operation != DELETE]
    if nulls:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Every operation but DELETE needs a value: {', '.join(nulls)}.")
    for config in resource.configs:
        _check_logger(config)


def _check_logger(config: AlterableConfig) -> None:
    if config.config_operation not in (SET, DELETE):
        raise Refused(ErrorCode.INVALID_REQUEST, "The level of a logger can only be SET or DELETEd.")
    reason = loggers.check(config.name, config.value if config.config_operation == SET else None)
    if reason is not None:
        raise Refused(ErrorCode.INVALID_CONFIG, reason)
    if config.config_operation == DELETE and config.name == loggers.ROOT:
        raise Refused(ErrorCode.INVALID_REQUEST, "The root logger has no level above it to fall back to.")
