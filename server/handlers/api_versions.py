"""ApiVersions v0-5 lists the APIs, versions and features that this broker serves (KIP-511, KIP-584, KIP-1242).

- The APIs are those that have a handler (`handlers.served`); at the controller's listener, those that are served there. The two
  of clients' telemetry are listed only if `ottla.client.metrics` is true. Produce is advertised from version 0 although versions
  below 3 are refused, because older librdkafka takes a higher minimum for a broker without compression.
- v3 brings the name and version of the client's software, which must be well formed: 42 INVALID_REQUEST otherwise. From v3 on the
  answer also has the supported and the finalized features, but only those that this broker registers, whatever else the metadata
  log of another cluster may name. v3 itself leaves out supported features that can be turned off (their lowest level is 0),
  because old clients fail on them.
- v5 brings the cluster and the node that the client believes it is talking to, both or neither (42 INVALID_REQUEST). If it is
  mistaken the answer is 129 REBOOTSTRAP_REQUIRED.
- Dispatch answers a version that is too new, in version 0.
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

TRAITS = Traits(Open("clients send it before they log in"), before_authentication=True)

MIN_LEVEL_ZERO_SINCE: Final = 4
"""The version of ApiVersions from which on clients understand that a feature's lowest level is 0."""
TELEMETRY: Final = frozenset({71, 72})
"""The telemetry APIs are always served, but advertised only if metrics are wanted, because stock clients use what is listed."""
ADVERTISED_FROM: Final = {0: 0}
"""The lowest versions to advertise, by API key, where they differ from those that are served."""
_SOUND: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
_ANY_NODE: Final = -1
LONGEST_KEPT: Final = 250
"""So many characters of the software's name and of its version are kept for as long as the connection lasts: anybody may send
hundreds of thousands before a login."""


def handle(body: ApiVersionsRequest, request: Request) -> ApiVersionsResponse:
    if request.api_version >= 3 and not (
        _SOUND.fullmatch(body.client_software_name) and _SOUND.fullmatch(body.client_software_version)
    ):
        return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
    if request.api_version >= 3:
        request.session.client_software = (body.client_software_name[:LONGEST_KEPT], body.client_software_version[:LONGEST_KEPT])
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
