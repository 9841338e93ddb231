"""DescribeClientQuotas: what a filter may be, and which entities it matches."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.wire.messages.internal.client_quota_record import ClientQuotaRecord, EntityData
from tests.fakes import MemoryBroker
from tests.server.handlers.data_calls import call, versions

EXACT, DEFAULT, ANY = 0, 1, 2
Part = tuple[str, int, str | None]
Entity = tuple[tuple[str, str | None], ...]

U: Entity = (("user", "u"),)
EVERY_USER: Entity = (("user", None),)
U_WITH_C: Entity = (("client-id", "c"), ("user", "u"))
C: Entity = (("client-id", "c"),)
ADDRESS: Entity = (("ip", "127.0.0.1"),)
QUOTAS: dict[Entity, dict[str, float]] = {
    U: {"consumer_byte_rate": 1000.0, "producer_byte_rate": 0.5},
    EVERY_USER: {"request_percentage": 50.0},
    U_WITH_C: {"producer_byte_rate": 7.0},
    C: {"producer_byte_rate": 8.0},
    ADDRESS: {"connection_creation_rate": 3.0},
}


@pytest.fixture
def broker() -> MemoryBroker:
    made = MemoryBroker({})
    for entity, quotas in QUOTAS.items():
        for key, value in quotas.items():
            made.image.apply(ClientQuotaRecord([EntityData(*part) for part in entity], key, value))
    return made


def ask(broker: MemoryBroker, *parts: Part, strict: bool = False, version: int = 1) -> Any:
    request = DescribeClientQuotasRequest([ComponentData(*part) for part in parts], strict)
    return call(broker, "describe_client_quotas", version, request)


def entities(answer: Any) -> dict[Entity, dict[str, float]]:
    assert answer.error_code == 0
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {each.key: each.value for each in entry.values}
        for entry in answer.entries
    }


@pytest.mark.parametrize("version", versions("describe_client_quotas"))
@pytest.mark.parametrize(
    ("parts", "strict", "matched"),
    [
        ([], False, list(QUOTAS)),
        ([], True, []),
        ([("user", EXACT, "u")], False, [U, U_WITH_C]),
        ([("user", EXACT, "u")], True, [U]),
        ([("user", EXACT, "")], False, []),
        ([("user", DEFAULT, None)], False, [EVERY_USER]),
        ([("user", ANY, None)], True, [U, EVERY_USER]),
        ([("client-id", EXACT, "c"), ("user", ANY, None)], True, [U_WITH_C]),
        ([("client-id", DEFAULT, None)], False, []),
        ([("ip", EXACT, "127.0.0.1")], False, [ADDRESS]),
    ],
)
def test_filters(broker: MemoryBroker, version: int, parts: list[Part], strict: bool, matched: list[Entity]) -> None:
    assert entities(ask(broker, *parts, strict=strict, version=version)) == {entity: QUOTAS[entity] for entity in matched}


@pytest.mark.parametrize("version", versions("describe_client_quotas"))
@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", -1, "u")], ErrorCode.INVALID_REQUEST),
        ([("", EXACT, "u")], ErrorCode.INVALID_REQUEST),
        ([("User", EXACT, "u")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", EXACT, "u"), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("client-id", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", ANY, None), ("user", ANY, None), ("zzz", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", EXACT, None), ("zzz", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_are_none(broker: MemoryBroker, version: int, parts: list[Part], code: ErrorCode) -> None:
    answer = ask(broker, *parts, version=version)
    assert (answer.error_code, answer.entries) == (code, None)
    assert answer.error_message


def test_removed_quotas(broker: MemoryBroker) -> None:
    broker.image.apply(ClientQuotaRecord([EntityData("user", "u")], "producer_byte_rate", 0.0, True))
    assert entities(ask(broker, ("user", EXACT, "u"), strict=True)) == {U: {"consumer_byte_rate": 1000.0}}
