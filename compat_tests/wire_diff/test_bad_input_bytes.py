"""Bytes that are no request, or hardly one, to the APIs that test_admin_bytes.py leaves out: the answer, or a closed connection.

The lowest and the highest version of each get a good request that ends too early, at every byte of it, and bodies of nonsense.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from compat_tests.brokers import Address
from compat_tests.wire import Wire, encode
from compat_tests.wire_diff.bad_requests import Names, Plausible
from compat_tests.wire_diff.same import check
from compat_tests.wire_diff.test_admin_bytes import BODIES, GOOD, Answers
from ottla.server.handlers import served
from ottla.wire.api import BY_MODULE

CASES: Final = [
    (api.module, version)
    for api in served().values()
    if api.module not in GOOD
    for version in sorted({api.min_version, api.max_version})
]
NOT_SENT: Final = {
    "produce": {"zeros"},  # acks 0, which is not answered
    "add_partitions_to_txn": {"ones"},  # no transactions at all, which Kafka never answers: TC-none
    "fetch": {"ones"},  # wait for more than there is, for four hours
}


@pytest.fixture(scope="session")
def warm_brokers(brokers_apart: list[Address]) -> list[Address]:
    return brokers_apart


def header_and_body(wire: Wire, module: str, version: int) -> tuple[bytes, bytes]:
    topic = wire.create("t")
    names = Names(topic, wire.topic_ids[topic], wire.name("fresh"))
    whole = encode(Plausible(module, version, names).request(), version, 7, None)
    size = 11 if version >= BY_MODULE[module].flexible_from else 10
    return whole[:size], whole[size:]


@pytest.mark.parametrize(("module", "version"), CASES)
def test_requests_that_end_too_early(wires: dict[str, Wire], module: str, version: int) -> None:
    def scenario(wire: Wire) -> Any:
        header, body = header_and_body(wire, module, version)
        answers = Answers(wire)
        return [answers.to(header + body[:size]) for size in range(len(body) + 1)]

    check(wires, "bodies cut short", scenario)


@pytest.mark.parametrize(("module", "version"), CASES)
def test_bodies_of_nonsense(wires: dict[str, Wire], module: str, version: int) -> None:
    def scenario(wire: Wire) -> Any:
        header, _ = header_and_body(wire, module, version)
        answers = Answers(wire)
        return {what: answers.to(header + body) for what, body in BODIES.items() if what not in NOT_SENT.get(module, ())}

    check(wires, "bodies of nonsense", scenario)
