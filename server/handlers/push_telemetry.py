"""PushTelemetry v0 takes a client's metrics, checks them, and keeps them for /metrics or drops them (KIP-714);
server/telemetry/subscriptions.py has the rules.

- Like GetTelemetrySubscriptions it is advertised if `ottla.client.metrics` is true; otherwise everything that is pushed is
  dropped.
- A client that knows its subscription id may push without asking for its subscriptions first.
- Errors: 42 INVALID_REQUEST (a reserved id, or a push after the terminating one), 76 UNSUPPORTED_COMPRESSION_TYPE, 87
  INVALID_RECORD (the metrics do not decompress to telemetry.max.bytes or less, or are not OTLP and would have to be kept), 89
  THROTTLING_QUOTA_EXCEEDED, 117 UNKNOWN_SUBSCRIPTION_ID, 118 TELEMETRY_TOO_LARGE.
"""

from __future__ import annotations

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Open
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

TRAITS = Traits(Open("a client reports its own metrics"))


def handle(body: PushTelemetryRequest, request: Request) -> PushTelemetryResponse | Promise[PushTelemetryResponse]:
    return take_steps(_answer(body, request), request.broker.clock)


def _answer(body: PushTelemetryRequest, request: Request) -> Steps[PushTelemetryResponse]:
    code = yield from request.broker.client_telemetry().push(
        body.client_instance_id,
        request.client_id,
        request.session,
        subscription_id=body.subscription_id,
        codec=body.compression_type,
        metrics=body.metrics,
        terminating=body.terminating,
    )
    return PushTelemetryResponse(error_code=code)
