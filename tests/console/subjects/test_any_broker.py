"""Tests of which broker is asked: the first that can be reached."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from ottla.commands.clients.brokers import Brokers
from ottla.commands.output import Failure
from ottla.console.subjects.any_broker import any_broker, controller
from tests.console.fakes import FakeSource

Connect = Callable[[Any], AbstractContextManager[Any]]


@pytest.mark.parametrize(
    ("connect", "dead", "reached"),
    [
        (any_broker, set(), 1),
        (any_broker, {1}, 2),
        (controller, set(), 2),
        (controller, {2}, 1),
        (controller, {1, 2}, 3),
    ],
)
def test_the_first_that_can_be_reached(connect: Connect, dead: set[int], reached: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def at(_: object, number: int) -> int:
        if number in dead:
            raise Failure(f"broker {number} is dead")
        return number

    monkeypatch.setattr(Brokers, "at", at)
    source: Any = FakeSource(brokers=(1, 2, 3), controller=2, metadata=object())
    source.cluster = None
    with connect(source) as found:
        assert found == reached
    dead |= {1, 2, 3}
    with pytest.raises(Failure, match="broker 1 is dead" if connect is any_broker else "broker 2 is dead"), connect(source):
        pass
