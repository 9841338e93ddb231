"""Clients' telemetry (KIP-714): not advertised by a default broker, and answered all the same.

A change of any subscription lets every client begin anew, so these tests have brokers of their own, whose subscriptions
nobody else changes.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.brokers import Address, one_of_each
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.same import check, same_answer
from ottla.wire.compression import compress
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.wire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.wire.messages.push_telemetry import PushTelemetryRequest

MAX_BYTES = 1_048_576
CLIENT_METRICS = 16
SET, DELETE = 0, 1


@pytest.fixture(scope="module")
def warm_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Address]]:
    """This file's own, in place of those that all tests share."""
    with one_of_each(tmp_path_factory.mktemp("own")) as addresses:
        yield addresses


def get(connection: Any, instance_id: bytes = bytes(16)) -> Any:
    return connection.call(GetTelemetrySubscriptionsRequest(instance_id), 0)


def push(
    connection: Any, instance_id: bytes, subscription_id: int, metrics: bytes = b"abc", codec: int = 0, *, last: bool = False
) -> int:
    return int(connection.call(PushTelemetryRequest(instance_id, subscription_id, last, codec, metrics), 0).error_code)


def told(wire: Wire) -> tuple[bytes, int]:
    """A new client's id and subscription id."""
    answer = get(wire)
    assert answer.error_code == 0
    return answer.client_instance_id, answer.subscription_id


@same_answer("TEL1")
def test_not_advertised(wire: Wire) -> Any:
    return [
        sorted(key.api_key for key in wire.call(ApiVersionsRequest("test", "1"), version).api_keys if key.api_key in (71, 72))
        for version in range(6)
    ]


@same_answer("TEL2")
def test_a_first_request(wire: Wire) -> Any:
    """The subscription id depends on the client's id alone while nothing is subscribed to."""
    fixed = [get(wire, bytes(range(number, number + 16))) for number in (7, 140)]
    new = get(wire)
    wire.label(new.client_instance_id, "chosen")
    new.subscription_id = 0
    return fixed, new, [get(wire, bytes(15) + bytes([n])).error_code for n in (1, 2)]


@same_answer("TEL3")
def test_keeping_time(wire: Wire) -> Any:
    instance_id, subscription_id = told(wire)
    other = Wire(wire.address, wire.prefix)
    seen: list[Any] = [get(wire, instance_id), get(other, instance_id)]
    other.close()
    wrong = subscription_id ^ 1
    seen += [push(wire, instance_id, subscription_id), push(wire, instance_id, subscription_id)]
    seen += [push(wire, instance_id, subscription_id, last=True), push(wire, instance_id, subscription_id, last=True)]
    seen += [get(wire, instance_id).error_code]
    instance_id, subscription_id = told(wire)
    seen += [push(wire, instance_id, subscription_id ^ 1), get(wire, instance_id).error_code, get(wire, instance_id).error_code]
    instance_id, subscription_id = told(wire)
    seen += [push(wire, instance_id, wrong), push(wire, instance_id, subscription_id), get(wire, instance_id).error_code]
    instance_id = os.urandom(16)
    seen += [push(wire, instance_id, 5), get(wire, instance_id).error_code, get(wire, instance_id).error_code]
    return seen


BAD_PUSHES: dict[str, tuple[int, bytes]] = {
    "empty": (0, b""),
    "no protobuf": (0, b"\xff\xff\xff"),
    "as large as may be": (0, b"x" * MAX_BYTES),
    "too large": (0, b"x" * (MAX_BYTES + 1)),
    "codec 5": (5, b"abc"),
    "codec -1": (-1, b"abc"),
    "no gzip": (1, b"abc"),
    "no snappy": (2, b"abc"),
    "no lz4": (3, b"abc"),
    "no zstd": (4, b"abc"),
    "gzip": (1, gzip.compress(b"x" * 100)),
    "gzip of nothing": (1, b""),
    "gzip cut": (1, gzip.compress(os.urandom(500))[:-100]),
    "gzip of the largest": (1, gzip.compress(bytes(MAX_BYTES))),
    "gzip of more": (1, gzip.compress(bytes(MAX_BYTES + 1))),
    "snappy": (2, compress(2, b"x" * 100)),
    "snappy of more": (2, compress(2, bytes(MAX_BYTES + 1))),
    "lz4": (3, compress(3, b"x" * 100)),
    "lz4 of more": (3, compress(3, bytes(MAX_BYTES + 1))),
    "zstd": (4, compress(4, b"x" * 100)),
    "zstd of more": (4, compress(4, bytes(MAX_BYTES + 1))),
}


@pytest.mark.parametrize("case", BAD_PUSHES)
def test_pushes(wires: dict[str, Wire], case: str) -> None:
    """Checks what is pushed, whether a Get clears the error, and which of two faults is named."""
    codec, metrics = BAD_PUSHES[case]

    def scenario(wire: Wire) -> Any:
        instance_id, subscription_id = told(wire)
        answers = push(wire, instance_id, subscription_id, metrics, codec), get(wire, instance_id).error_code
        instance_id, subscription_id = told(wire)
        return answers, push(wire, instance_id, subscription_id ^ 1, metrics, codec)

    check(wires, f"TEL4 {case}", scenario)


@same_answer("TEL5")
def test_reserved_ids(wire: Wire) -> Any:
    return [push(wire, bytes(15) + bytes([number]), 0) for number in range(4)]


@same_answer("TEL6")
def test_a_client_is_forgotten_with_its_connection(wire: Wire) -> Any:
    connection = wire.connect()
    first, second = os.urandom(16), os.urandom(16)
    get(connection, first)
    get(connection, second)
    connection.close()
    wire.connect()
    wait_for(lambda: get(wire, second).error_code == 0, "the broker has seen the connection go")
    return get(wire, first).error_code, get(wire, second).error_code


class Subscriptions:
    """Changes subscriptions of this test, and takes them away in the end. Clients see a change some time later."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.names: set[str] = set()

    def set(self, name: str, **settings: str) -> int:
        self.names.add(self.wire.name(name))
        configs = [AlterableConfig(key.replace("_", "."), SET, value) for key, value in settings.items()]
        return self._alter(self.wire.name(name), configs)

    def clear(self) -> None:
        for name in self.names:
            self._alter(name, [AlterableConfig(key, DELETE, None) for key in ("metrics", "interval.ms", "match")])

    def _alter(self, name: str, configs: list[AlterableConfig]) -> int:
        resource = AlterConfigsResource(CLIENT_METRICS, name, configs)
        (answer,) = self.wire.call(IncrementalAlterConfigsRequest([resource]), 1).responses
        return int(answer.error_code)


@pytest.fixture
def subscriptions(warm_brokers: list[Address], request: pytest.FixtureRequest) -> Iterator[dict[str, Subscriptions]]:
    wires = {address.kind: Wire(address, f"telemetry-{os.getpid()}") for address in warm_brokers}
    made = {kind: Subscriptions(wire) for kind, wire in wires.items()}
    yield made
    for each in made.values():
        each.clear()
        each.wire.close()


PATTERNS = [
    "client_id=compat",
    "client_id=comp",
    "client_id=comp.*",
    " client_id = compat ",
    "client_software_name=unknown",
    "client_software_name=lib,client_software_version=1\\.[0-9]+",
    "client_source_address=127\\.0\\.0\\.1,client_source_port=[0-9]+",
    "client_instance_id=.{22}",
    "client_id=nope,client_id=compat",
    "client_id=compat,client_software_name=nope",
]


def test_subscriptions_and_whom_they_match(subscriptions: dict[str, Subscriptions]) -> None:
    def scenario(wire: Wire) -> Any:
        mine = subscriptions[wire.kind]
        seen: list[Any] = [mine.set("all", metrics="b.c,a,b.c", interval_ms="60000")]
        wait_for(lambda: "a" in get(wire).requested_metrics, "the subscription is there")
        instance_id = os.urandom(16)
        before = get(wire, instance_id)
        seen += [sorted(before.requested_metrics), before.push_interval_ms]
        for number, pattern in enumerate(PATTERNS):
            connection = wire.connect()
            if "lib" in pattern:
                connection.call(ApiVersionsRequest("lib", "1.25"), 3)
            seen.append(mine.set("some", metrics=f"n{number}", match=pattern))
            seen.append(mine.set("mark", metrics=f"mark{number}", match="client_id=compat"))
            wait_for(lambda: f"mark{number}" in get(wire).requested_metrics, "the change is there")  # noqa: B023 - called within the round
            seen.append((pattern, sorted(get(connection).requested_metrics)))
        after = get(wire, instance_id)
        seen += [sorted(after.requested_metrics), after.subscription_id != before.subscription_id]
        seen.append(mine.set("all", metrics="*", interval_ms="100"))
        wait_for(lambda: get(wire).requested_metrics == ["*"], "everything is wanted")
        everything = get(wire, instance_id)
        mine.clear()
        wait_for(lambda: get(wire).requested_metrics == [], "the subscriptions are gone")
        return seen, everything.requested_metrics, everything.push_interval_ms, get(wire, instance_id).push_interval_ms

    check({kind: each.wire for kind, each in subscriptions.items()}, "TEL7", scenario)
