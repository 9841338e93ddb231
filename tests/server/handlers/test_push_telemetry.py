"""PushTelemetry through the codecs. The rules: tests/server/telemetry/test_subscriptions.py."""

from __future__ import annotations

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.wire.messages.push_telemetry import PushTelemetryRequest
from tests.fakes import MemoryBroker
from tests.server.handlers.data_calls import call, versions

PUSH = "push_telemetry"


@pytest.mark.parametrize("version", versions(PUSH))
def test_a_client_from_its_first_request_to_its_last(version: int) -> None:
    broker = MemoryBroker({})
    told = call(broker, "get_telemetry_subscriptions", 0, GetTelemetrySubscriptionsRequest())

    def push(*, terminating: bool = False) -> int:
        request = PushTelemetryRequest(told.client_instance_id, told.subscription_id, terminating, 0, b"metrics")
        return int(call(broker, PUSH, version, request).error_code)

    codes = [push(), push(), push(terminating=True), push(terminating=True)]
    assert codes == [ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", versions(PUSH))
def test_an_unknown_subscription_id_is_refused(version: int) -> None:
    broker = MemoryBroker({})
    request = PushTelemetryRequest(bytes(range(16)), 1, False, 0, b"metrics")
    assert call(broker, PUSH, version, request).error_code == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
