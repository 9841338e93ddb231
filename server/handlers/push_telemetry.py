"""PushTelemetry v0: a client's metrics, checked, and kept for /metrics or dropped (KIP-714); the rules:
server/telemetry/subscriptions.py.

- As GetTelemetrySubscriptions, it is advertised if `ottla.client.metrics` is true; without, what is pushed is dropped.
- A push needs no Get before it, if it knows its subscription id.
- Errors: 42 INVALID_REQUEST (a reserved id, or the next push after a terminating one), 76 UNSUPPORTED_COMPRESSION_TYPE, 87
  INVALID_RECORD (does not decompress to telemetry.max.bytes or less, or is no OTLP where it is kept), 89
  THROTTLING_QUOTA_EXCEEDED, 117 UNKNOWN_SUBSCRIPTION_ID, 118 TELEMETRY_TOO_LARGE.
"""

from __future__ import annotations

from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Open
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

TRAITS = Traits(Open("a client reports of itself"))


def handle(body: PushTelemetryRequest, request: Request) -> PushTelemetryResponse:
    code = request.broker.client_telemetry().push(
        body.client_instance_id,
        request.client_id,
        request.session,
        subscription_id=body.subscription_id,
        codec=body.compression_type,
        metrics=body.metrics,
        terminating=body.terminating,
    )
    return PushTelemetryResponse(error_code=code)
