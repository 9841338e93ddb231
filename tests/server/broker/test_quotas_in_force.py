"""Quotas of a whole broker: in force with the answer to AlterClientQuotas, after a restart, and as long as they are set; settings
of new connections likewise.
"""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.broker import quotas_in_force
from ottla.server.broker.broker import Broker
from ottla.server.quotas.enforcement import ClientQuotas
from ottla.wire.messages import alter_client_quotas, describe_client_quotas, incremental_alter_configs, metadata
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, OpData, RequestEntityData, RequestEntryData
from ottla.wire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from tests.asking import ask
from tests.fakes import NotingNetwork
from tests.server.broker.whole_broker import config, disk, run

EVERYBODY = ("user", None)
RATE = "max.connection.creation.rate"


async def quota(broker: Broker, entity: tuple[str, str | None], **values: float | None) -> None:
    ops = [OpData(key, value or 0.0, value is None) for key, value in values.items()]
    request = AlterClientQuotasRequest([RequestEntryData([RequestEntityData(*entity)], ops)])
    answer = await ask(broker.port, alter_client_quotas, 1, request)
    assert [entry.error_code for entry in answer.entries] == [0]


async def setting(broker: Broker, name: str, value: str | None) -> None:
    change = AlterableConfig(name, 1 if value is None else 0, value)
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(4, "", [change])])
    answer = await ask(broker.port, incremental_alter_configs, 1, request)
    assert [response.error_code for response in answer.responses] == [0]


async def throttle_time(broker: Broker) -> int:
    answer = await ask(broker.port, metadata, 9, metadata.MetadataRequest(topics=[]))
    return int(answer.throttle_time_ms)


def test_a_quota_is_in_force_at_once_and_as_long_as_it_is_set() -> None:
    async def scenario() -> None:
        broker = Broker(config(), disk=disk())
        await broker.start()
        assert broker.context is not None
        assert await throttle_time(broker) == 0
        assert broker._quotas is None
        await quota(broker, EVERYBODY, request_percentage=1e-9)
        assert await throttle_time(broker) == 1000
        await quota(broker, EVERYBODY, request_percentage=None)
        assert await throttle_time(broker) == 0
        assert broker.context.quotas is None
        await broker.stop()

    run(scenario)


def test_hosts_with_a_quota_are_looked_up_in_the_network_of_the_broker() -> None:
    async def scenario() -> None:
        network = NotingNetwork(known="10.0.0.1")
        broker = Broker(config(), disk=disk(), network=network)
        await broker.start()
        network.asked.clear()
        await quota(broker, ("ip", "known"), connection_creation_rate=5.0)
        assert set(network.asked) == {("address_of", "known")}
        assert limits(broker) is not None
        await broker.stop()

    run(scenario)


def test_quotas_outlive_a_restart() -> None:
    async def scenario() -> None:
        storage = disk()
        for number in range(2):
            broker = Broker(config(quota_window_size_seconds="3"), disk=storage)
            await broker.start()
            if number == 0:
                await quota(broker, EVERYBODY, request_percentage=1e-9)
            assert await throttle_time(broker) == 3000
            answer = await ask(
                broker.port, describe_client_quotas, 1, describe_client_quotas.DescribeClientQuotasRequest([], strict=False)
            )
            assert [[(each.key, each.value) for each in entry.values] for entry in answer.entries] == [
                [("request_percentage", 1e-9)]
            ]
            await broker.stop()

    run(scenario)


def test_a_change_of_one_quota_looks_at_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 10,000 quotas each change of one took 50 ms, because all of them were set anew."""
    changed: list[tuple[Any, ...]] = []

    class Noting(ClientQuotas):
        def set_quota(self, entity: Any, key: str, value: float | None) -> None:
            changed.append((entity, key, value))
            super().set_quota(entity, key, value)

    monkeypatch.setattr(quotas_in_force, "ClientQuotas", Noting)

    async def scenario() -> None:
        broker = Broker(config(), disk=disk())
        await broker.start()
        for number in range(5):
            await quota(broker, ("user", str(number)), producer_byte_rate=1e9)
        assert changed == [((("user", str(number)),), "producer_byte_rate", 1e9) for number in range(5)]
        await quota(broker, ("user", "3"), producer_byte_rate=None)
        assert changed[5:] == [((("user", "3"),), "producer_byte_rate", None)]
        await broker.stop()

    run(scenario)


def limits(broker: Broker) -> Any:
    (listener,) = broker.listeners
    rates = listener.rates
    return None if rates is None else (rates._broker.limit, rates._listeners["PLAINTEXT"].limit, rates._of_others)


MOST = 2**31 - 1


def test_rates_of_connections_follow_quotas_and_settings() -> None:
    async def scenario() -> None:
        broker = Broker(config(), disk=disk())
        await broker.start()
        assert limits(broker) is None
        await setting(broker, RATE, "100")
        assert limits(broker) == (100, 100, MOST)
        await setting(broker, f"listener.name.plaintext.{RATE}", "50")
        assert limits(broker) == (100, 50, MOST)
        await setting(broker, RATE, None)
        assert limits(broker) == (MOST, 50, MOST)
        await setting(broker, f"listener.name.plaintext.{RATE}", None)
        assert limits(broker) is None
        await quota(broker, ("ip", None), connection_creation_rate=200.0)
        assert limits(broker) == (MOST, MOST, 200)
        await quota(broker, ("ip", None), connection_creation_rate=None)
        assert limits(broker) is None
        await broker.stop()

    run(scenario)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({RATE: "70"}, (70, 70, MOST)), ({f"listener.name.plaintext.{RATE}": "30"}, (MOST, 30, MOST)), ({}, None)],
)
def test_rates_of_connections_at_the_start(settings: dict[str, str], expected: Any) -> None:
    async def scenario() -> None:
        broker = Broker(config(**settings), disk=disk())
        await broker.start()
        assert limits(broker) == expected
        await broker.stop()

    run(scenario)
