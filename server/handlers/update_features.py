"""UpdateFeatures v0-2 raises and lowers the feature levels that the cluster has agreed on (KIP-584); metadata/features.py has the
rules.

- v0 can only raise levels: its permission to lower them has no effect, as in Kafka. v1 says which kind of change is meant (0
  unknown, 1 upgrade, 2 safe downgrade, 3 unsafe downgrade), and may ask for the checks only.
- v0 and v1 answer a success for each feature, but an error only for the whole request; v2 has only the error of the request
  (KIP-1022).
- `timeout_ms` has no effect, since the answer never waits.
- Errors: 56 KAFKA_STORAGE_ERROR, 95 INVALID_UPDATE_VERSION.
"""

from __future__ import annotations

from ottla.log.errors import StorageError
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


async def handle(body: UpdateFeaturesRequest, request: Request) -> UpdateFeaturesResponse:
    try:
        return await request.broker.controller.update_features(body, request.caller())
    except StorageError as error:
        return UpdateFeaturesResponse(0, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
