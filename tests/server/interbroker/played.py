"""Other brokers that answer when a test says so."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from ottla.server.base.promise import Promise
from ottla.server.interbroker.other_brokers import OtherBrokers
from ottla.server.metadata.image import MetadataImage
from ottla.wire.primitives import WireStruct
from tests.fakes import NODE_ID


class Question(NamedTuple):
    """A request that was sent to a broker."""

    broker_id: int
    request: Any
    min_version: int
    answer: Promise[Any]


class PlayedBrokers:
    """Notes what is asked of them, as `OtherBrokers`; who leads what is in the image."""

    node_id = NODE_ID

    def __init__(self, image: MetadataImage) -> None:
        self.asked: list[Question] = []
        self.closed = False
        self._image = image

    def leader(self, topic: str, partition: int) -> int | None:
        return OtherBrokers.leader(self.as_others, topic, partition)

    def ask(self, broker_id: int, request: WireStruct, *, min_version: int = 0) -> Promise[Any]:
        question = Question(broker_id, request, min_version, Promise())
        self.asked.append(question)
        return question.answer

    @property
    def as_others(self) -> OtherBrokers:
        return cast(OtherBrokers, self)
