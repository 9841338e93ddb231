"""DescribeCluster: who is shown, by which listener, and what an endpoint is taken for."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.internal.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.internal.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from tests.fakes import CLUSTER_ID, MemoryBroker
from tests.server.handlers.data_calls import call, versions

FENCE = 1


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({})


def ask(broker: MemoryBroker, version: int = 2, **fields: Any) -> Any:
    return call(broker, "describe_cluster", version, DescribeClusterRequest(**fields))


@pytest.mark.parametrize("version", versions("describe_cluster"))
def test_the_brokers(broker: MemoryBroker, version: int) -> None:
    broker.register_broker(2, port=9093)
    answer = ask(broker, version)
    assert (answer.throttle_time_ms, answer.error_code, answer.error_message) == (0, 0, None)
    assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, 1)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [
        (1, "host1", 9092, ""),
        (2, "host2", 9093, ""),
    ]
    assert answer.cluster_authorized_operations == -(2**31)


def test_operations(broker: MemoryBroker) -> None:
    assert ask(broker, include_cluster_authorized_operations=True).cluster_authorized_operations == 8096


def test_fenced_brokers_are_shown_to_those_who_ask(broker: MemoryBroker) -> None:
    broker.image.apply(BrokerRegistrationChangeRecord(1, 1, FENCE))
    assert [each.broker_id for each in ask(broker).brokers] == []
    answer = ask(broker, include_fenced_brokers=True)
    assert [(each.broker_id, each.is_fenced) for each in answer.brokers] == [(1, True)]
    assert answer.controller_id == -1


def test_brokers_without_the_client_s_listener_are_left_out(broker: MemoryBroker) -> None:
    other = RegisterBrokerRecord(broker_id=7, broker_epoch=7, end_points=[BrokerEndpoint("OTHER", "h", 1, 0)], fenced=False)
    broker.image.apply(other)
    assert [each.broker_id for each in ask(broker).brokers] == [1]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (-1, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_other_endpoints(broker: MemoryBroker, version: int, endpoint_type: int, code: ErrorCode) -> None:
    answer = ask(broker, version, endpoint_type=endpoint_type, include_cluster_authorized_operations=True)
    assert answer.error_code == code
    assert (answer.error_message is None, answer.endpoint_type, answer.cluster_id, answer.brokers) == (False, 1, "", [])
    assert answer.cluster_authorized_operations == -(2**31)
