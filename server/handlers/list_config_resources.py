"""ListConfigResources v0-1 lists the resources whose settings can be described (KIP-1142).

- v0 lists the subscriptions to client metrics. v1 lists the types that the client asks for, each once, or all if it names none:
  topics (2), brokers (4), the brokers' loggers (8), client metrics (16) and groups (32).
- Topics and brokers are listed whether or not they have settings of their own, subscriptions and groups only if they have.
- Error: 35 UNSUPPORTED_VERSION for the whole request if it asks for a type that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.server.metadata.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, MetadataImage
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TRAITS = Traits(Whole(Need(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)))

TYPES: Final = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def handle(body: ListConfigResourcesRequest, request: Request) -> ListConfigResourcesResponse:
    asked = dict.fromkeys(body.resource_types or TYPES) if request.api_version > 0 else [CLIENT_METRICS]
    if not set(asked) <= set(TYPES):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[ConfigResource(name, kind) for kind in asked for name in _names(kind, request.broker.metadata)]
    )


def _names(kind: int, image: MetadataImage) -> Iterable[str]:
    if kind == TOPIC:
        return image.topics
    if kind in (BROKER, BROKER_LOGGER):
        return map(str, image.brokers)
    return [name for each, name in image.configs if each == kind]
