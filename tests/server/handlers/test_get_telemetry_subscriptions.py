"""GetTelemetrySubscriptions through the codecs. The rules: tests/server/telemetry/test_subscriptions.py."""

from __future__ import annotations

import pytest

from ottla.server.metadata.image import CLIENT_METRICS
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse
from ottla.wire.messages.internal.config_record import ConfigRecord
from tests.fakes import MemoryBroker
from tests.server.handlers.data_calls import call, versions

GET = "get_telemetry_subscriptions"


@pytest.mark.parametrize("version", versions(GET))
def test_a_new_client(version: int) -> None:
    broker = MemoryBroker({})
    broker.image.apply(ConfigRecord(CLIENT_METRICS, "s", "metrics", "org.apache.kafka.producer."))
    first, second = (call(broker, GET, version, GetTelemetrySubscriptionsRequest()) for _ in range(2))
    assert (first.error_code, first.accepted_compression_types) == (0, [4, 3, 1, 2])
    assert (first.push_interval_ms, first.telemetry_max_bytes, first.delta_temporality) == (300_000, 1_048_576, True)
    assert first.requested_metrics == ["org.apache.kafka.producer."]
    assert len({bytes(16), first.client_instance_id, second.client_instance_id}) == 3
    assert first.subscription_id != second.subscription_id


@pytest.mark.parametrize("version", versions(GET))
def test_asked_again_too_early(version: int) -> None:
    broker = MemoryBroker({})
    request = GetTelemetrySubscriptionsRequest(bytes(range(16)))
    assert call(broker, GET, version, request).client_instance_id == bytes(range(16))
    refused = GetTelemetrySubscriptionsResponse(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert call(broker, GET, version, request) == refused
