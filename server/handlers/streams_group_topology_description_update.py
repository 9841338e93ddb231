"""StreamsGroupTopologyDescriptionUpdate v0 gives the broker a description of a member's topology to keep (KIP-1331).

Kafka leaves the keeping to a plugin, a Java class; there is none here, nor in a Kafka with default settings. So the broker never
asks for a description, and a client that sends one all the same is answered 35 UNSUPPORTED_VERSION, with a message.
"""

from __future__ import annotations

from ottla.server.group.streams.answers import NOT_SERVED, is_served
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)

TRAITS = Traits(Inside(Need(Operation.READ, Resource.GROUP)))


def handle(body: StreamsGroupTopologyDescriptionUpdateRequest, request: Request) -> StreamsGroupTopologyDescriptionUpdateResponse:
    text = (
        "This broker keeps no descriptions of topologies."
        if is_served(request.broker.metadata.features, request.broker.config.values)
        else NOT_SERVED
    )
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=text)
