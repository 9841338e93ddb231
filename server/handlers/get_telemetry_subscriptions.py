"""GetTelemetrySubscriptions v0 tells a client which metrics to push, and how often (KIP-714); server/telemetry/subscriptions.py
has the rules.

- ApiVersions advertises this API if `ottla.client.metrics` is true. Otherwise it does not, like a Kafka without a reporter that
  takes clients' metrics, and then stock clients never ask.
- An all-zero client instance id is replaced by a new one. The broker wants deltas, not totals, and takes all codecs.
- Error, with everything else at its default: 89 THROTTLING_QUOTA_EXCEEDED (the client asked again before its interval was over).
"""

from __future__ import annotations

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Open
from ottla.server.telemetry.subscriptions import CODECS
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

TRAITS = Traits(Open("a client asks which of its own metrics to report"))


def handle(
    body: GetTelemetrySubscriptionsRequest, request: Request
) -> GetTelemetrySubscriptionsResponse | Promise[GetTelemetrySubscriptionsResponse]:
    return take_steps(_answer(body, request), request.broker.clock)


def _answer(body: GetTelemetrySubscriptionsRequest, request: Request) -> Steps[GetTelemetrySubscriptionsResponse]:
    telemetry = request.broker.client_telemetry()
    found = yield from telemetry.get(body.client_instance_id, request.client_id, request.session)
    if isinstance(found, ErrorCode):
        return GetTelemetrySubscriptionsResponse(error_code=found)
    instance_id, subscription = found
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription.id,
        accepted_compression_types=list(CODECS),
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(subscription.metrics),
    )
