"""Other brokers that answer when a test says so."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from ottla.server.base.promise import Promise
from ottla.server.interbroker.other_brokers import OtherBrokers
from ottla.wire.primitives import WireStruct


class Question(NamedTuple):
    """A request that was sent to a broker."""

    broker_id: int
    request: Any
    timeout_ms: int
    min_version: int
    answer: Promise[Any]


class PlayedBrokers:
    """Notes what is asked of them, as `OtherBrokers`."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.closed = False

    def ask(self, broker_id: int, request: WireStruct, timeout_ms: int, *, min_version: int = 0) -> Promise[Any]:
        question = Question(broker_id, request, timeout_ms, min_version, Promise())
        self.asked.append(question)
        return question.answer

    @property
    def as_others(self) -> OtherBrokers:
        return cast(OtherBrokers, self)
