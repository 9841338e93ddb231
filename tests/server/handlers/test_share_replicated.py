"""ShareFetch and ShareAcknowledge of a share coordinator that replicates later: what it keeps is answered then, and what it loses
is fetched again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from ottla.server.base.promise import Promise
from ottla.server.share.share_partitions import SharePartitions
from ottla.server.share.states import ACCEPT
from ottla.server.share_state.coordinator import ReadState
from ottla.server.share_state.errors import ShareStateError
from ottla.wire.errors import ErrorCode
from tests.fakes import MemoryBroker
from tests.log.support import batch
from tests.server.handlers.data_calls import produce, read
from tests.server.handlers.share_calls import Member, acquired, errors, parts
from tests.server.share.support import MemoryPersister

T = TypeVar("T")

T0 = ("t", 0)


class LatePersister:
    """Once it is `late` it promises everything; `keep` and `lose` decide what becomes of its promises."""

    def __init__(self) -> None:
        self.late = False
        self._kept = MemoryPersister()
        self._keep: list[Callable[[], None]] = []
        self._lose: list[Callable[[Exception], None]] = []

    def read(self, *key: Any) -> ReadState | Promise[ReadState]:
        return self._answer(self._kept.read(*key))

    def write(self, *state: Any) -> Promise[None] | None:
        self._kept.write(*state)
        return self._answer(None)

    def _answer(self, value: T) -> T | Promise[T]:
        if not self.late:
            return value
        promise: Promise[T] = Promise()
        self._keep.append(lambda: promise.set_result(value))
        self._lose.append(promise.set_exception)
        return promise

    def keep(self) -> None:
        keep, self._keep, self._lose = self._keep, [], []
        for each in keep:
            each()

    def lose(self) -> None:
        lose, self._keep, self._lose = self._lose, [], []
        for each in lose:
            each(ShareStateError(ErrorCode.NOT_COORDINATOR))


@pytest.fixture
def persister() -> LatePersister:
    return LatePersister()


@pytest.fixture
def broker(persister: LatePersister) -> MemoryBroker:
    broker = MemoryBroker({"t": 1})
    broker.image.features["share.version"] = 1
    context = broker.context
    context.existing_share_partitions = SharePartitions(
        persister, context.settings, broker.image, broker.replicas, broker.clock, context.controller, context.workers
    )
    produce(broker, "t", batch(10))
    return broker


@pytest.mark.parametrize("kept", [True, False])
def test_records_are_fetched_once_the_state_is_there(broker: MemoryBroker, persister: LatePersister, kept: bool) -> None:
    persister.late = True
    member = Member(broker)
    assert errors(member.fetch([T0])) == {T0: ErrorCode.OFFSET_NOT_AVAILABLE}
    assert errors(member.fetch()) == {T0: ErrorCode.OFFSET_NOT_AVAILABLE}
    if kept:
        persister.keep()
    else:
        persister.lose()
        assert errors(member.fetch()) == {T0: ErrorCode.OFFSET_NOT_AVAILABLE}, "it is read again"
        persister.keep()
    assert acquired(member.fetch()) == {T0: [(0, 9, 1)]}


def test_a_state_that_comes_after_the_leadership_ended_is_not_kept(broker: MemoryBroker, persister: LatePersister) -> None:
    persister.late = True
    Member(broker).fetch([T0])
    broker.elect("t", 2)
    persister.keep()
    shares = broker.context.existing_share_partitions
    assert shares is not None
    assert len(shares) == 0


@pytest.mark.parametrize("kept", [True, False])
def test_an_acknowledgement_is_answered_when_it_is_kept(broker: MemoryBroker, persister: LatePersister, kept: bool) -> None:
    member = Member(broker)
    member.fetch([T0])
    persister.late = True
    promise = member.acknowledge({T0: [(0, 4, [ACCEPT])]})
    assert isinstance(promise, Promise)
    assert not promise.done()
    if kept:
        persister.keep()
    else:
        persister.lose()
    answer = read("share_acknowledge", 2, promise.result())
    assert errors(answer) == {T0: ErrorCode.NONE if kept else ErrorCode.COORDINATOR_NOT_AVAILABLE}
    shares = broker.context.existing_share_partitions
    assert shares is not None
    assert len(shares) == int(kept), "what was lost is loaded anew"


def test_a_fetch_waits_for_the_acknowledgements_that_it_brings(broker: MemoryBroker, persister: LatePersister) -> None:
    member = Member(broker)
    member.fetch([T0])
    produce(broker, "t", batch(5))
    persister.late = True
    promise = member.fetch((), {T0: [(0, 9, [ACCEPT])]})
    assert isinstance(promise, Promise)
    assert not promise.done()
    persister.keep()
    answer = read("share_fetch", 2, promise.result())
    assert parts(answer)[T0].acknowledge_error_code == ErrorCode.NONE
    assert acquired(answer) == {T0: [(10, 14, 1)]}


def test_a_fetch_whose_client_has_gone_takes_no_records(broker: MemoryBroker, persister: LatePersister) -> None:
    member = Member(broker)
    member.fetch([T0])
    persister.late = True
    promise = member.fetch((), {T0: [(0, 9, [ACCEPT])]}, max_wait_ms=500)
    persister.keep()
    assert not promise.done(), "it is parked"
    promise.cancel()
    produce(broker, "t", batch(5))
    broker.context.purgatory.run_checks()
    assert acquired(Member(broker, "other").fetch([T0])) == {T0: [(10, 14, 1)]}
