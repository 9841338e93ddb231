"""ApiVersions v0-5: what this broker speaks (KIP-511, KIP-584, KIP-1242).

- The list is that of the handlers there are (`handlers.served`), clients' telemetry only where it is wanted. Produce is
  advertised from 0 although versions below 3 are refused: older librdkafka takes a higher minimum for one without compression.
  At the controller's listener it is the list of what is served there.
- v3 the client's software name and version, which must be sound: 42 INVALID_REQUEST. From then on also features, supported and
  finalized: only those that this broker registers, whatever else a metadata log of somebody else's may name. Those that can be
  turned off (a lowest level of 0) v3 does not name among the supported: old clients stumble over that.
- v5 the cluster and node that the client believes to talk to, both or none (42): 129 REBOOTSTRAP_REQUIRED if it is mistaken.
- A version that is too new is answered by dispatch, in version 0.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from ottla.server.handlers import BROKER, CONTROLLER, served
from ottla.server.metadata.feature_levels import SUPPORTED_FEATURES
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Open
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

TRAITS = Traits(Open("a client asks for it before anybody knows who it is"), before_authentication=True)

MIN_LEVEL_ZERO_SINCE: Final = 4
"""The version that may say that a feature's lowest level is 0."""
TELEMETRY: Final = frozenset({71, 72})
"""Served to who asks, and advertised where somebody wants clients' metrics: stock clients ask whoever advertises it."""
ADVERTISED_FROM: Final = {0: 0}
"""Lowest versions that differ from what is served."""
_SOUND: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
_ANY_NODE: Final = -1


def handle(body: ApiVersionsRequest, request: Request) -> ApiVersionsResponse:
    if request.api_version >= 3 and not (
        _SOUND.fullmatch(body.client_software_name) and _SOUND.fullmatch(body.client_software_version)
    ):
        return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
    if request.api_version >= 3:
        request.session.client_software = (body.client_software_name, body.client_software_version)
    metadata = request.broker.metadata
    if request.api_version >= 5:
        if (body.cluster_id is None) != (body.node_id == _ANY_NODE):
            return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
        believed = (body.cluster_id, body.node_id)
        if body.cluster_id is not None and believed != (metadata.cluster_id, request.broker.config.node_id):
            return ApiVersionsResponse(ErrorCode.REBOOTSTRAP_REQUIRED)
    role = CONTROLLER if request.broker.config.is_controllers(request.session.listener) else BROKER
    response = ApiVersionsResponse(ErrorCode.NONE, _api_keys(role, request.broker.config.values["ottla.client.metrics"]))
    if request.api_version >= 3:
        broker = metadata.brokers.get(request.broker.config.node_id)
        supported = broker.features if broker is not None else {}
        response.supported_features = [
            SupportedFeatureKey(name, *supported[name])
            for name in sorted(SUPPORTED_FEATURES.keys() & supported.keys())
            if supported[name][0] > 0 or request.api_version >= MIN_LEVEL_ZERO_SINCE
        ]
        response.finalized_features_epoch = metadata.highest_offset
        levels = metadata.finalized
        response.finalized_features = [
            FinalizedFeatureKey(name, levels[name], levels[name]) for name in sorted(SUPPORTED_FEATURES.keys() & levels.keys())
        ]
    return response


@functools.cache
def _api_keys(role: str, telemetry: bool) -> list[ApiVersion]:
    return [
        ApiVersion(api.key, ADVERTISED_FROM.get(api.key, api.min_version), api.max_version)
        for api in served(role).values()
        if telemetry or api.key not in TELEMETRY
    ]
