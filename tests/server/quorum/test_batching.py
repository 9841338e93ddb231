"""Batches: what goes out together, what is sent again, and what the log says of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, cast

import pytest

from ottla.server.quorum.batching import REMIND_SECONDS, Name, PartitionBatches
from ottla.wire.errors import ErrorCode
from ottla.wire.primitives import WireStruct
from tests.server.quorum.played import Played, turns
from tests.server.quorum.spawning import Spawned, run_spawned

T, U = b"t" * 16, b"u" * 16
PAUSE = 0.25


class Request(NamedTuple):
    node_id: int
    broker_epoch: int
    batch: dict[Name, str]


class Answer(NamedTuple):
    error_code: int
    settled: frozenset[Name]
    expected: bool


class Texts(PartitionBatches[str]):
    max_partitions = 3
    retry_seconds = PAUSE
    subject = "texts"

    breaks_at: Name | None = None
    """The partition of the batch whose answer runs into a bug."""

    def request(self, broker_epoch: int, batch: Mapping[Name, str]) -> WireStruct:
        return cast(WireStruct, Request(self._node_id, broker_epoch, dict(batch)))

    def settle(self, answer: Any, batch: dict[Name, str]) -> bool:
        for name in sorted(answer.settled):
            if name == self.breaks_at:
                raise RuntimeError("planted")
            del batch[name]
        return bool(answer.expected)


class Rig(Spawned):
    def __init__(self, played: Played) -> None:
        super().__init__(played)
        self.texts = Texts(7, played.channel, played.clock, lambda: 70, 1000, self.spawn)

    def gather(self, *indexes: int, text: str = "a", topic_id: bytes = T) -> None:
        self.texts.gather([((topic_id, index), text) for index in indexes])

    def answer(self, error_code: int = 0, *, but: tuple[int, ...] = (), expected: bool = True) -> dict[Name, str]:
        """Answers the request, for all its partitions but some; returns what it said."""
        request = self.played.open[0].request
        assert (request.node_id, request.broker_epoch) == (7, 70)
        settled = frozenset(name for name in request.batch if name[1] not in but)
        self.played.answer(Answer(error_code, settled, expected))
        return dict(request.batch)


def batches(scenario: Callable[[Rig], Awaitable[object]]) -> None:
    run_spawned(Rig, scenario)


async def pause(rig: Rig) -> None:
    """Lets the pause after a failure pass, and sees that nothing is sent before its end."""
    await turns()
    rig.played.clock.advance(PAUSE - 0.01)
    await turns()
    assert rig.played.open == []
    rig.played.clock.advance(0.01)
    await turns()


def test_what_gathers_while_a_request_is_under_way_goes_out_together_after_it() -> None:
    async def scenario(rig: Rig) -> None:
        rig.gather(0)
        await turns()
        rig.gather(1, 2)
        rig.gather(0, topic_id=U)
        await turns()
        assert len(rig.played.open) == 1
        assert rig.answer() == {(T, 0): "a"}
        await turns()
        assert rig.answer() == {(T, 1): "a", (T, 2): "a", (U, 0): "a"}

    batches(scenario)


def test_a_request_names_a_bounded_number_of_partitions_and_the_next_follows_at_once() -> None:
    async def scenario(rig: Rig) -> None:
        rig.gather(0, 1, 2, 3)
        await turns()
        assert list(rig.answer()) == [(T, 0), (T, 1), (T, 2)]
        await turns()
        assert list(rig.answer()) == [(T, 3)]

    batches(scenario)


def test_nothing_is_sent_where_nothing_was_gathered() -> None:
    async def scenario(rig: Rig) -> None:
        rig.gather()
        await turns()
        assert (rig.tasks, rig.played.asked) == ([], [])

    batches(scenario)


def test_what_comes_after_an_answer_is_sent_as_well() -> None:
    async def scenario(rig: Rig) -> None:
        for _ in range(2):
            rig.gather(0)
            await turns()
            rig.answer()
            await turns()

    batches(scenario)


def test_the_newest_of_a_partition_counts() -> None:
    async def scenario(rig: Rig) -> None:
        rig.gather(0, text="old")
        rig.gather(0, text="new")
        await turns()
        assert rig.answer() == {(T, 0): "new"}

    batches(scenario)


def test_what_changed_while_a_request_was_under_way_is_sent_after_it() -> None:
    async def scenario(rig: Rig) -> None:
        rig.gather(0, text="old")
        await turns()
        rig.gather(0, text="new")
        assert rig.answer() == {(T, 0): "old"}
        await turns()
        assert rig.answer() == {(T, 0): "new"}

    batches(scenario)


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
def test_a_request_that_is_refused_is_sent_again_after_a_pause(code: int) -> None:
    async def scenario(rig: Rig) -> None:
        rig.gather(0)
        await turns()
        rig.answer(code)
        await pause(rig)
        assert rig.answer() == {(T, 0): "a"}

    batches(scenario)


def test_one_that_came_meanwhile_takes_the_place_of_one_that_failed() -> None:
    async def scenario(rig: Rig) -> None:
        rig.gather(0, 1, text="old")
        await turns()
        rig.gather(0, text="new")
        rig.answer(ErrorCode.STALE_BROKER_EPOCH)
        await pause(rig)
        assert rig.answer() == {(T, 0): "new", (T, 1): "old"}

    batches(scenario)


def test_what_an_answer_leaves_out_is_sent_again_after_a_pause() -> None:
    async def scenario(rig: Rig) -> None:
        rig.gather(0, 1)
        await turns()
        rig.answer(but=(1,))
        await pause(rig)
        assert rig.answer() == {(T, 1): "a"}

    batches(scenario)


def test_partitions_that_go_on_failing_keep_nobody_else_from_being_sent() -> None:
    async def scenario(rig: Rig) -> None:
        rig.gather(0, 1, 2, 3)
        await turns()
        rig.answer(but=(0, 1, 2))
        await pause(rig)
        assert (T, 3) in rig.answer()
        await turns()
        rig.answer()

    batches(scenario)


def test_an_answer_that_nobody_expected_is_followed_by_a_pause() -> None:
    async def scenario(rig: Rig) -> None:
        rig.gather(0)
        await turns()
        rig.answer(expected=False)
        rig.gather(1)
        await pause(rig)
        assert rig.answer() == {(T, 1): "a"}

    batches(scenario)


def test_without_a_controller_it_goes_on_trying() -> None:
    async def scenario(rig: Rig) -> None:
        rig.played.finder.learn(4, -1)
        rig.gather(0)
        await rig.played.pass_time(2)
        rig.played.finder.learn(5, 2)
        await rig.played.pass_time(1)
        assert rig.answer() == {(T, 0): "a"}

    batches(scenario)


def test_an_unexpected_failure_loses_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        rig.gather(0, 1)
        await turns()
        rig.played.answer(RuntimeError("the connection has a bug"))
        await pause(rig)
        monkeypatch.setattr(Texts, "breaks_at", (T, 1))
        assert rig.answer() == {(T, 0): "a", (T, 1): "a"}
        await pause(rig)
        monkeypatch.undo()
        assert rig.answer() == {(T, 1): "a"}, "partition 0 was settled before the second bug"

    batches(scenario)
    assert "texts of 2 partitions must wait: there is a bug" in caplog.messages[0]
    assert "the connection has a bug" in caplog.text, "the log shows where"


def test_requests_that_go_on_failing_are_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(rig: Rig, code: int = ErrorCode.CLUSTER_AUTHORIZATION_FAILED) -> int:
        await turns()
        rig.answer(code)
        await turns()
        return len(caplog.messages)

    async def scenario(rig: Rig) -> None:
        rig.gather(0)
        for _ in range(5):
            assert await fail(rig) == 1, "one line for five failures"
            rig.played.clock.advance(PAUSE)
        await turns()
        rig.played.clock.advance(REMIND_SECONDS)
        assert await fail(rig) == 2
        rig.played.clock.advance(PAUSE)
        assert await fail(rig, ErrorCode.STALE_BROKER_EPOCH) == 3, "another failure is news"
        rig.played.clock.advance(PAUSE)
        await turns()
        rig.answer()
        await turns()
        rig.gather(0)
        assert await fail(rig, ErrorCode.STALE_BROKER_EPOCH) == 4, "and so is one after a success"
        rig.played.clock.advance(PAUSE)
        await turns()
        rig.answer()

    batches(scenario)
    assert caplog.messages[0] == "texts of 1 partitions must wait: error 31"
