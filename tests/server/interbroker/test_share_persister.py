"""The state of share groups where another broker coordinates it: requests, answers, attempts and their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from ottla.server.base.promise import Promise
from ottla.server.interbroker.share_persister import ATTEMPTS, SharePersister
from ottla.server.metadata.names import SHARE_GROUP_STATE
from ottla.server.peers.outcomes import Closed, Disconnected, UnsupportedVersion
from ottla.server.share_state.batches import StateBatch
from ottla.server.share_state.coordinator import ReadState, ShareCoordinator, Summary
from ottla.server.share_state.errors import ShareStateError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import (
    delete_share_group_state as deleting,
)
from ottla.wire.messages import (
    initialize_share_group_state as initializing,
)
from ottla.wire.messages import (
    read_share_group_state as reading,
)
from ottla.wire.messages import (
    read_share_group_state_summary as summarizing,
)
from ottla.wire.messages import (
    write_share_group_state as writing,
)
from tests.fakes import NODE_ID, MemoryBroker
from tests.server.interbroker.played import PlayedBrokers

TWO = 2
TOPIC = b"t" * 16
KEY = ("g", TOPIC, 3)


class Here:
    """The coordinator of this broker; it notes what it is asked, and answers or raises what the test says."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.answer: Any = None
        self.topic = True

    def has_topic(self) -> bool:
        return self.topic

    def partition_for(self, name: object) -> int:
        if not self.topic:
            raise ShareStateError(ErrorCode.NOT_COORDINATOR)
        return 0

    def __getattr__(self, name: str) -> Any:
        def ask(*asked: object) -> Any:
            self.asked.append((name, *asked))
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        return ask


class Rig:
    """The state of all share groups is coordinated by broker 2."""

    def __init__(self) -> None:
        self.broker = MemoryBroker({})
        self.broker.register_broker(TWO, 9002)
        self.broker.create_topic(SHARE_GROUP_STATE, leader=TWO, followers=(TWO,))
        self.others = PlayedBrokers(self.broker.image)
        self.here = Here()
        self.persister = SharePersister(self.others.as_others, self.broker.clock, lambda: cast(ShareCoordinator, self.here))

    def lead(self) -> None:
        self.broker.elect(SHARE_GROUP_STATE, NODE_ID)

    def delete(self, group_id: str = "g") -> Promise[None]:
        answer = self.persister.delete(group_id, *KEY[1:])
        assert isinstance(answer, Promise)
        return answer

    def answer(self, code: int = 0, text: str | None = None) -> None:
        """Answers the deletion that was asked for last."""
        result = deleting.PartitionResult(3, code, text)
        self.others.asked[-1].answer.set_result(
            deleting.DeleteShareGroupStateResponse([deleting.DeleteStateResult(TOPIC, [result])])
        )

    def wait(self, seconds: float) -> None:
        self.broker.clock.advance(seconds)


def code_of(promise: Promise[Any]) -> ErrorCode:
    with pytest.raises(ShareStateError) as refused:
        promise.result()
    return refused.value.code


BATCH = StateBatch(5, 7, 2, 4)

OPERATIONS: list[tuple[Callable[[SharePersister], Any], Any, Any, Any]] = [
    (
        lambda persister: persister.initialize(*KEY, 1, 40),
        initializing.InitializeShareGroupStateRequest(
            "g", [initializing.InitializeStateData(TOPIC, [initializing.PartitionData(3, 1, 40)])]
        ),
        initializing.InitializeShareGroupStateResponse(
            [initializing.InitializeStateResult(TOPIC, [initializing.PartitionResult(3)])]
        ),
        None,
    ),
    (
        lambda persister: persister.read(*KEY, 9),
        reading.ReadShareGroupStateRequest("g", [reading.ReadStateData(TOPIC, [reading.PartitionData(3, 9)])]),
        reading.ReadShareGroupStateResponse(
            [
                reading.ReadStateResult(
                    TOPIC,
                    [reading.PartitionResult(3, state_epoch=1, start_offset=5, state_batches=[reading.StateBatch(5, 7, 4, 2)])],
                )
            ]
        ),
        ReadState(1, 5, -1, (BATCH,)),
    ),
    (
        lambda persister: persister.write(*KEY, 1, 9, 5, 8, iter([BATCH])),
        writing.WriteShareGroupStateRequest(
            "g", [writing.WriteStateData(TOPIC, [writing.PartitionData(3, 1, 9, 5, 8, [writing.StateBatch(5, 7, 4, 2)])])]
        ),
        writing.WriteShareGroupStateResponse([writing.WriteStateResult(TOPIC, [writing.PartitionResult(3)])]),
        None,
    ),
    (
        lambda persister: persister.delete(*KEY),
        deleting.DeleteShareGroupStateRequest("g", [deleting.DeleteStateData(TOPIC, [deleting.PartitionData(3)])]),
        deleting.DeleteShareGroupStateResponse([deleting.DeleteStateResult(TOPIC, [deleting.PartitionResult(3)])]),
        None,
    ),
    (
        lambda persister: persister.read_summary(*KEY),
        summarizing.ReadShareGroupStateSummaryRequest(
            "g", [summarizing.ReadStateSummaryData(TOPIC, [summarizing.PartitionData(3, -1)])]
        ),
        summarizing.ReadShareGroupStateSummaryResponse(
            [
                summarizing.ReadStateSummaryResult(
                    TOPIC,
                    [summarizing.PartitionResult(3, state_epoch=1, leader_epoch=9, start_offset=5, delivery_complete_count=8)],
                )
            ]
        ),
        Summary(1, 9, 5, 8),
    ),
]
NAMES = ["initialize", "read", "write", "delete", "read_summary"]


@pytest.mark.parametrize(("ask", "request_", "response", "result"), OPERATIONS, ids=NAMES)
def test_another_broker_is_asked(ask: Callable[[SharePersister], Any], request_: Any, response: Any, result: Any) -> None:
    rig = Rig()
    answer = ask(rig.persister)
    (asked,) = rig.others.asked
    assert (asked.broker_id, asked.request) == (TWO, request_)
    asked.answer.set_result(response)
    assert answer.result() == result
    assert not rig.here.asked


@pytest.mark.parametrize(("ask", "name"), [(row[0], name) for row, name in zip(OPERATIONS, NAMES, strict=True)], ids=NAMES)
def test_this_broker_is_asked_without_a_request(ask: Callable[[SharePersister], Any], name: str) -> None:
    rig = Rig()
    rig.lead()
    rig.here.answer = "kept"
    assert ask(rig.persister) == "kept"
    (asked,) = rig.here.asked
    assert asked[:4] == (name, *KEY)
    rig.here.answer = ShareStateError(ErrorCode.FENCED_STATE_EPOCH)
    with pytest.raises(ShareStateError):
        ask(rig.persister)
    assert not rig.others.asked


def test_a_refusal_is_the_coordinators() -> None:
    rig = Rig()
    answer = rig.delete()
    rig.answer(ErrorCode.FENCED_STATE_EPOCH, "too old")
    with pytest.raises(ShareStateError, match="too old"):
        answer.result()
    rig.wait(10)
    assert len(rig.others.asked) == 1


def test_what_may_be_gone_soon_is_tried_again_with_growing_pauses() -> None:
    rig = Rig()
    answer = rig.delete()
    for pause_s in (0.1, 0.2, 0.4, 0.8):
        asked = len(rig.others.asked)
        rig.answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        rig.wait(pause_s - 0.01)
        assert len(rig.others.asked) == asked
        rig.wait(0.02)
        assert len(rig.others.asked) == asked + 1
    assert not answer.done()
    rig.answer(ErrorCode.NOT_COORDINATOR)
    assert code_of(answer) is ErrorCode.NOT_COORDINATOR
    rig.wait(10)
    assert len(rig.others.asked) == ATTEMPTS


def test_an_attempt_goes_to_whoever_coordinates_then() -> None:
    rig = Rig()
    answer = rig.delete()
    rig.others.asked[0].answer.set_exception(Disconnected("gone"))
    rig.lead()
    rig.wait(1)
    assert answer.result() is None
    assert rig.here.asked == [("delete", *KEY)]


def test_an_attempt_may_find_nobody_or_a_promise() -> None:
    rig = Rig()
    rig.broker.elect(SHARE_GROUP_STATE, -1)
    answer = rig.delete()
    rig.lead()
    kept: Promise[None] = Promise()
    rig.here.answer = kept
    rig.wait(0.2)
    assert not answer.done()
    kept.set_result(None)
    assert answer.result() is None
    assert not rig.persister._lines


@pytest.mark.parametrize("error", [Closed("stopping"), UnsupportedVersion("old")])
def test_what_will_not_change_is_not_tried_again(error: Exception) -> None:
    rig = Rig()
    answer = rig.delete()
    rig.others.closed = isinstance(error, Closed)
    rig.others.asked[0].answer.set_exception(error)
    assert code_of(answer) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    rig.wait(10)
    assert len(rig.others.asked) == 1


def test_a_connection_that_was_replaced_is_not_the_end() -> None:
    rig = Rig()
    answer = rig.delete()
    rig.others.asked[0].answer.set_exception(Closed("it has another address now"))
    rig.wait(0.1)
    rig.answer()
    assert answer.result() is None


def test_this_broker_is_tried_again_as_well() -> None:
    rig = Rig()
    rig.lead()
    rig.here.answer = ShareStateError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    answer = rig.delete()
    rig.here.answer = None
    rig.wait(0.1)
    assert answer.result() is None
    assert len(rig.here.asked) == 2


def test_an_answer_about_nothing_is_no_answer() -> None:
    rig = Rig()
    answer = rig.delete()
    rig.others.asked[0].answer.set_result(deleting.DeleteShareGroupStateResponse([]))
    rig.wait(0.1)
    assert len(rig.others.asked) == 2
    rig.answer()
    assert answer.result() is None


def test_operations_on_one_share_partition_keep_their_order() -> None:
    rig = Rig()
    first, second, other = rig.delete(), rig.delete(), rig.delete("h")
    assert [asked.request.group_id for asked in rig.others.asked] == ["g", "h"]
    rig.others.asked[0].answer.set_exception(Disconnected("gone"))
    rig.lead()
    third = rig.delete()
    assert not rig.here.asked, "what this broker could do at once waits for what came before"
    rig.wait(1)
    assert first.result() is second.result() is third.result() is None
    assert [asked[1] for asked in rig.here.asked] == ["g", "g", "g"]
    assert not other.done()


def test_whoever_waits_may_go() -> None:
    rig = Rig()
    first, second = rig.delete(), rig.delete()
    first.cancel()
    rig.answer()
    rig.wait(0)
    rig.answer()
    assert second.result() is None


def test_without_the_topic_nobody_coordinates() -> None:
    rig = Rig()
    assert rig.persister.has_topic()
    rig.here.topic = False
    assert not rig.persister.has_topic()
    with pytest.raises(ShareStateError) as refused:
        rig.persister.delete(*KEY)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
