"""One console for each kind of broker, and a visitor of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.console.running import Visitor, console


@pytest.fixture(scope="session")
def address(bootstrap: str) -> Iterator[str]:
    with console(bootstrap) as found:
        yield found


@pytest.fixture
def visitor(address: str) -> Visitor:
    return Visitor(address)
