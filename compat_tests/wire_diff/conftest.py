"""`wires`: raw access to both brokers at once, warm and with the same names on both."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.brokers import KINDS, Address, SharedBrokers
from compat_tests.seen import DIRECTORY_VARIABLE, LEDGER
from compat_tests.wire import Wire


def pytest_runtest_setup(item: pytest.Item) -> None:
    LEDGER.next_test()


def pytest_sessionfinish() -> None:
    """The ledger of this process, for scripts/wire_diff_complete.py, if the environment names a directory for it."""
    if directory := os.environ.get(DIRECTORY_VARIABLE):
        LEDGER.write(Path(directory))


@pytest.fixture(scope="session")
def warm_brokers(shared_brokers: SharedBrokers) -> list[Address]:
    return warm([shared_brokers.get(kind) for kind in KINDS])


@pytest.fixture(scope="session")
def brokers_apart(shared_brokers: SharedBrokers) -> list[Address]:
    """For bad input, in place of those that all tests share: a test that describes all groups would trip over them."""
    return warm([shared_brokers.get(kind, "-apart") for kind in KINDS])


def warm(addresses: list[Address]) -> list[Address]:
    for address in addresses:
        wire = Wire(address, "warm-up")
        wire.warm_up()
        wire.close()
    return addresses


@pytest.fixture
def wires(warm_brokers: list[Address], request: pytest.FixtureRequest) -> Iterator[dict[str, Wire]]:
    name = request.node.name.removeprefix("test_")  # the number tells [1] from [-1], and two files apart
    prefix = re.sub(r"[^a-z0-9]+", "-", name)[:60] + f"-{zlib.crc32(request.node.nodeid.encode()) % 10000}"
    made = {address.kind: Wire(address, prefix) for address in warm_brokers}
    yield made
    for wire in made.values():
        wire.close()
