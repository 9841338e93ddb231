"""Produce of a transaction whose coordinator answers later, because it is on another broker or replicates first."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.server.base.promise import Promise
from ottla.server.handlers import produce as produce_module
from ottla.server.txn.verification import Codes
from ottla.wire.errors import ErrorCode
from tests.fakes import MemoryBroker
from tests.log.support import batch
from tests.server.handlers.data_calls import produce_request
from tests.server.handlers.test_produce import kept
from tests.server.txn.fakes import TID

MINE = batch(1, producer=(7, 1, 0), transactional=True)

Partition = tuple[str, int]


class Coordinator:
    """A coordinator elsewhere: each question waits for the test's answer."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.asked: list[tuple[list[Partition], Promise[Codes]]] = []
        broker.context.optional_parts = cast(Any, SimpleNamespace(transaction_verifier=lambda _: self._ask))

    def _ask(
        self, name: str, producer_id: int, epoch: int, partitions: Sequence[tuple[str, int]], *, add: bool
    ) -> Promise[Codes]:
        assert (name, producer_id, epoch, add) == (TID, 7, 1, True)
        self.asked.append((list(partitions), Promise()))
        return self.asked[-1][1]

    def say(self, *codes: ErrorCode) -> None:
        """Answers the last question, with a code for each partition."""
        partitions, promise = self.asked[-1]
        promise.set_result(dict(zip(partitions, codes, strict=True)))


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"t": 2})


def send(broker: MemoryBroker, batches: dict[int, Any]) -> Promise[Any]:
    promise = produce_module.handle(produce_request("t", batches, 12, transactional_id=TID), broker.request(12))
    assert isinstance(promise, Promise)
    assert not promise.done()
    return promise


@pytest.mark.parametrize("partitions", [1, 2])
def test_what_is_in_the_transaction_is_appended_then(broker: MemoryBroker, partitions: int) -> None:
    coordinator = Coordinator(broker)
    frame = bytearray(MINE)
    promise = send(broker, dict.fromkeys(range(partitions), memoryview(frame)))
    frame[:] = bytes(len(frame))  # the receive buffer has other requests by then
    assert broker.replica().log.log_end_offset == 0
    coordinator.say(*[ErrorCode.NONE] * partitions)
    broker.clock.advance()
    assert [answer[:2] for answer in kept(promise, 12)] == [(ErrorCode.NONE, 0)] * partitions
    assert broker.replica().log.log_end_offset == 1


def test_what_is_not_is_refused_and_the_rest_is_not(broker: MemoryBroker) -> None:
    coordinator = Coordinator(broker)
    promise = send(broker, {0: MINE, 1: MINE})
    coordinator.say(ErrorCode.NONE, ErrorCode.NETWORK_EXCEPTION)
    broker.clock.advance()
    assert [answer[0] for answer in kept(promise, 12)] == [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]
    assert broker.replica("t", 1).log.log_end_offset == 0


def test_a_late_refusal_of_what_was_sent_again_and_appended_holds_up_nothing(broker: MemoryBroker) -> None:
    coordinator = Coordinator(broker)
    late = send(broker, {0: MINE})
    again = send(broker, {0: MINE})
    coordinator.say(ErrorCode.NONE)
    assert [answer[0] for answer in kept(again, 12)] == [ErrorCode.NONE]
    coordinator.asked[0][1].set_result({("t", 0): ErrorCode.NETWORK_EXCEPTION})
    assert [answer[0] for answer in kept(late, 12)] == [ErrorCode.NOT_ENOUGH_REPLICAS]
    following = batch(1, producer=(7, 1, 1), transactional=True)
    answer = produce_module.handle(produce_request("t", {0: following}, 12, transactional_id=TID), broker.request(12))
    assert not isinstance(answer, Promise), "the transaction is under way in the partition"
    assert answer is not None
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_a_batch_that_waits_for_a_thread_is_asked_about_again(broker: MemoryBroker) -> None:
    coordinator, threads = Coordinator(broker), broker.hold_threads()
    values = Random(5).randbytes(90_000)  # they do not compress
    promise = send(broker, {0: batch(2, value=values, codec=1, producer=(7, 1, 0), transactional=True)})
    coordinator.say(ErrorCode.NONE)
    threads.end_first()
    assert not promise.done()
    coordinator.say(ErrorCode.TRANSACTION_ABORTABLE)
    assert [answer[0] for answer in kept(promise, 12)] == [ErrorCode.TRANSACTION_ABORTABLE]
    assert len(coordinator.asked) == 2
