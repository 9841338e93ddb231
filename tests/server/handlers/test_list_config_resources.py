"""ListConfigResources: which resources there are, by type."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.fakes import MemoryBroker
from tests.server.handlers.data_calls import call

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
TOPICS = [("t", TOPIC), ("u", TOPIC)]
METRICS, GROUPS = [("m", CLIENT_METRICS)], [("g", GROUP)]


@pytest.fixture
def broker() -> MemoryBroker:
    made = MemoryBroker({"t": 1, "u": 1})
    for kind, name in ((TOPIC, "t"), (GROUP, "g"), (CLIENT_METRICS, "m"), (BROKER, "")):
        made.image.apply(ConfigRecord(kind, name, "key", "value"))
    return made


def ask(broker: MemoryBroker, *types: int, version: int = 1) -> Any:
    return call(broker, "list_config_resources", version, ListConfigResourcesRequest(list(types)))


def listed(answer: Any) -> list[tuple[str, int]]:
    assert answer.error_code == 0
    return [(each.resource_name, each.resource_type) for each in answer.config_resources]


def test_version_0_is_about_client_metrics(broker: MemoryBroker) -> None:
    assert listed(ask(broker, version=0)) == METRICS


@pytest.mark.parametrize(
    ("types", "resources"),
    [
        ((), [*TOPICS, ("1", BROKER), ("1", LOGGER), *METRICS, *GROUPS]),
        ((TOPIC,), TOPICS),
        ((BROKER,), [("1", BROKER)]),
        ((LOGGER,), [("1", LOGGER)]),
        ((CLIENT_METRICS,), METRICS),
        ((GROUP, TOPIC, GROUP), [*GROUPS, *TOPICS]),
    ],
)
def test_by_type(broker: MemoryBroker, types: tuple[int, ...], resources: list[tuple[str, int]]) -> None:
    assert listed(ask(broker, *types)) == resources


@pytest.mark.parametrize("types", [(0,), (1,), (64,), (-1,), (TOPIC, 99)])
def test_a_type_that_does_not_exist_fails_the_request(broker: MemoryBroker, types: tuple[int, ...]) -> None:
    answer = ask(broker, *types)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


def test_a_group_without_its_last_setting_is_gone(broker: MemoryBroker) -> None:
    broker.image.apply(ConfigRecord(GROUP, "g", "key", None))
    assert listed(ask(broker, GROUP)) == []
