"""AlterClientQuotas and DescribeClientQuotas: who may have which quotas, and which filter finds them
(docs/kafka-behaviour.md, rows Q).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from compat_tests.brokers import KINDS, Address, SharedBrokers
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.conftest import warm
from compat_tests.wire_diff.same import check
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, OpData, RequestEntityData, RequestEntryData
from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

PRODUCE, FETCH, SHARE, CHANGES, CONNECTIONS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
HUGE = 2.0**40
"""A rate that nobody reaches."""
Part = tuple[str, str | None]
Op = tuple[str, float | None]
Entry = tuple[Sequence[Part], Sequence[Op]]
EXACT, DEFAULT, ANY = 0, 1, 2


@pytest.fixture(scope="session")
def warm_brokers(shared_brokers: SharedBrokers) -> list[Address]:
    """Returns brokers at which other tests do not look for quotas, and find some."""
    return warm([shared_brokers.get(kind, "-quotas") for kind in KINDS])


def entries(wire: Wire, *asked: Entry) -> list[RequestEntryData]:
    """Names of users and clients get the scenario's prefix, so that tests do not meet; a value of None removes."""
    return [
        RequestEntryData(
            [RequestEntityData(kind, _named(wire, kind, name)) for kind, name in parts],
            [OpData(key, 0.0 if value is None else value, value is None) for key, value in ops],
        )
        for parts, ops in asked
    ]


def _named(wire: Wire, kind: str, name: str | None) -> str | None:
    return wire.name(name) if name and kind in ("user", "client-id") else name


def alter(wire: Wire, version: int, *asked: Entry, validate_only: bool = False) -> Any:
    return wire.call(AlterClientQuotasRequest(entries(wire, *asked), validate_only), version)


def described(wire: Wire, version: int, *parts: tuple[str, int, str | None], strict: bool = False) -> Any:
    """The answer, as far as it is about this test."""
    components = [ComponentData(kind, match, _named(wire, kind, name)) for kind, match, name in parts]
    answer = wire.call(DescribeClientQuotasRequest(components, strict), version)
    answer.entries = [e for e in answer.entries if any((part.entity_name or "").startswith(wire.prefix) for part in e.entity)]
    return answer


def settled(wire: Wire, version: int, values: int) -> Any:
    """All of this test, once it is so many quotas: a Kafka broker hears of a change a moment after its controller answered."""
    answers: list[Any] = []

    def is_so() -> bool:
        answers.append(described(wire, version))
        return sum(len(entry.values) for entry in answers[-1].entries) == values

    wait_for(is_so, f"{values} quotas are set")
    return answers[-1]


USER: list[Part] = [("user", "u")]
CLIENT: list[Part] = [("client-id", "c")]
BOTH: list[Part] = [*USER, *CLIENT]
U_EVERY: list[Part] = [*USER, ("client-id", None)]
EVERY_C: list[Part] = [("user", None), *CLIENT]
SET: list[Entry] = [
    (USER, [(PRODUCE, HUGE), (SHARE, 1e6)]),
    (CLIENT, [(FETCH, HUGE)]),
    (BOTH, [(CHANGES, 1e6 + 0.5)]),
    (U_EVERY, [(PRODUCE, HUGE)]),
    (EVERY_C, [(PRODUCE, HUGE)]),
]
FILTERS: dict[str, list[tuple[str, int, str | None]]] = {
    "all": [],
    "a user": [("user", EXACT, "u")],
    "any user": [("user", ANY, None)],
    "the default user": [("user", DEFAULT, None)],
    "a client": [("client-id", EXACT, "c")],
    "any client": [("client-id", ANY, None)],
    "the default client": [("client-id", DEFAULT, None)],
    "both": [("user", EXACT, "u"), ("client-id", EXACT, "c")],
    "user and any client": [("user", EXACT, "u"), ("client-id", ANY, None)],
    "user and the default client": [("client-id", DEFAULT, None), ("user", EXACT, "u")],
    "the default user and a client": [("user", DEFAULT, None), ("client-id", EXACT, "c")],
    "any of both": [("user", ANY, None), ("client-id", ANY, None)],
    "somebody else": [("user", EXACT, "nobody")],
}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("strict", [False, True])
def test_what_is_set_is_described(wires: dict[str, Wire], version: int, strict: bool) -> None:
    def scenario(wire: Wire) -> Any:
        answers = [alter(wire, version, *SET), settled(wire, version, 6)]
        answers += [described(wire, version, *parts, strict=strict) for parts in FILTERS.values()]
        fewer: list[Entry] = [(USER, [(PRODUCE, HUGE + 1), (SHARE, None), (FETCH, None)]), (CLIENT, [(FETCH, None)])]
        answers += [alter(wire, version, *fewer), settled(wire, version, 4)]
        answers.append(described(wire, version, ("user", EXACT, "u"), strict=strict))
        answers.append(alter(wire, version, *[(parts, [(key, None) for key in (PRODUCE, CHANGES)]) for parts, _ in SET]))
        answers.append(settled(wire, version, 0))
        return answers

    check(wires, "Q3", scenario)


ENTITIES: dict[str, list[Part]] = {
    "nobody": [],
    "an unknown kind": [("zzz", "a")],
    "wrong case": [("User", "a")],
    "an empty kind": [("", "a")],
    "an empty user": [("user", "")],
    "an empty client": [("client-id", "")],
    "an empty ip": [("ip", "")],
    "a user and an unknown kind": [("user", "a"), ("zzz", "a")],
    "a user and an empty client": [("user", "a"), ("client-id", "")],
    "a kind twice": [("user", "a"), ("user", "b")],
    "ip and user": [("ip", "127.0.0.1"), ("user", "a")],
    "ip and client": [("ip", None), ("client-id", "a")],
    "all three": [("ip", None), ("client-id", "a"), ("user", "a")],
    "no host": [("ip", "no.such.host.invalid")],
    "no host's name": [("ip", "no..such host")],
    "an IPv6 address": [("ip", "2001:db8::1")],
    "an address": [("ip", "192.0.2.1")],
    "localhost": [("ip", "localhost")],
    "not only ASCII": [("user", "Ñandú ☃"), ("client-id", "a/b c%")],
    "reserved words": [("user", "<default>")],
}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("case", ENTITIES)
def test_entities(wires: dict[str, Wire], case: str, version: int) -> None:
    key = CONNECTIONS if any(kind == "ip" for kind, _ in ENTITIES[case]) else PRODUCE

    def scenario(wire: Wire) -> Any:
        parts = ENTITIES[case]
        answers = [alter(wire, version, (parts, ops), validate_only=True) for ops in ([], [(key, 1000.0)], [(key, None)])]
        return [*answers, described(wire, version)]

    check(wires, "Q4", scenario)


IP: list[Part] = [("ip", "192.0.2.7")]
VALUES: dict[str, Entry] = {
    "an unknown quota": (USER, [("zzz", 1.0)]),
    "an unknown quota removed": (USER, [("zzz", None)]),
    "of an ip": (USER, [(CONNECTIONS, 1.0)]),
    "of a user": (IP, [(PRODUCE, 1.0)]),
    **{f"{key} {value}": (USER, [(key, value)]) for key in (PRODUCE, SHARE) for value in (0.0, -1.0, math.inf, -math.inf, 1e-9)},
    "bytes with a fraction": (CLIENT, [(FETCH, 10.5)]),
    "bytes with hardly a fraction": (CLIENT, [(FETCH, 10.0000001)]),
    "bytes just below": (CLIENT, [(FETCH, 9.9999999)]),
    "most bytes": (CLIENT, [(FETCH, 2.0**63)]),
    "too many bytes": (CLIENT, [(FETCH, 2.0**63 + 2048)]),
    "a large share": (CLIENT, [(SHARE, 1e300)]),
    "changes with a fraction": (CLIENT, [(CHANGES, 0.25)]),
    "most connections": (IP, [(CONNECTIONS, 2.0**31 - 1)]),
    "too many connections": (IP, [(CONNECTIONS, 2.0**31)]),
    "connections with a fraction": (IP, [(CONNECTIONS, 1.5)]),
    "a quota twice": (USER, [(PRODUCE, 1.0), (PRODUCE, 2.0)]),
    "a quota twice, removed": (USER, [(PRODUCE, 1.0), (PRODUCE, None)]),
    "one of two is wrong": (USER, [(PRODUCE, 1.0), (FETCH, -2.0)]),
    "nothing": (USER, []),
}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("case", VALUES)
def test_values(wires: dict[str, Wire], case: str, version: int) -> None:
    check(wires, "values of quotas", lambda wire: alter(wire, version, VALUES[case], validate_only=True))


@pytest.mark.parametrize("version", [0, 1])
def test_a_value_that_is_no_number(wires: dict[str, Wire], version: int) -> None:
    asked: Entry = (USER, [(PRODUCE, math.nan)])
    check(wires, "a quota that is no number", lambda wire: alter(wire, version, asked, validate_only=True))


@pytest.mark.parametrize("version", [0, 1])
def test_each_entity_by_itself(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        wrong: Entry = ([("user", "w")], [(PRODUCE, HUGE), ("zzz", 1.0)])
        answers = [alter(wire, version), alter(wire, version, SET[0], wrong, SET[1]), settled(wire, version, 3)]
        twice: list[Entry] = [(BOTH, [(PRODUCE, HUGE)]), (BOTH[::-1], [(PRODUCE, HUGE + 1), (FETCH, HUGE)])]
        answers += [alter(wire, version, *twice), settled(wire, version, 4)]
        bad_first: list[Entry] = [(EVERY_C, [(PRODUCE, -1.0)]), (EVERY_C, [(PRODUCE, HUGE)])]
        answers += [alter(wire, version, *bad_first), settled(wire, version, 4)]
        answers.append(
            alter(wire, version, *[(parts, [(key, None) for key in (PRODUCE, FETCH, SHARE)]) for parts in (USER, CLIENT, BOTH)])
        )
        return [*answers, settled(wire, version, 0)]

    check(wires, "each entity by itself", scenario)


def test_validate_only(wires: dict[str, Wire]) -> None:
    def scenario(wire: Wire) -> Any:
        return [alter(wire, 1, *SET, validate_only=True), described(wire, 1)]

    check(wires, "quotas that are only validated", scenario)
