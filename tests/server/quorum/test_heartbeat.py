"""Heartbeat: what a beat says in each state, what answers change, and when there are none."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ottla.server.base.clock import Bell
from ottla.server.peers.outcomes import Disconnected, PeerError
from ottla.server.quorum.finder import Address
from ottla.server.quorum.heartbeat import RETRY_SECONDS, TRANSITIONS, Heartbeat, State, Times
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.primitives import WireStruct
from tests.fakes import ManualClock
from tests.server.quorum.played import A, B

TIMES = Times(interval_s=2, session_s=9)


class Rig:
    """A heartbeat whose thread is the test's own, and its controllers: each takes the next of `answers`."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.answers: list[BrokerHeartbeatResponse | PeerError] = []
        self.said: list[tuple[Address, BrokerHeartbeatRequest]] = []
        self.lines: list[tuple[Address, str]] = []
        self.lost: list[Address] = []
        self.serving: list[float] = []
        self.posted: list[Callable[[], object]] = []
        self.asked = threading.Event()
        self.heartbeat = Heartbeat(
            4,
            TIMES,
            connect=self.connect,
            monotonic=self.clock.monotonic,
            bell=Bell(),
            post=self.posted.append,
            lost=self.lost.append,
            serving=self.serving.append,
        )
        self.heartbeat.broker_epoch = 70
        self.heartbeat.metadata_offset = 80
        self.heartbeat.address = A

    def is_in(self, state: State) -> bool:
        return self.heartbeat.state is state

    def connect(self, address: Address) -> Any:
        self.lines.append((address, "opened"))
        return PlayedLine(self, address)

    def beat(self, *answers: BrokerHeartbeatResponse | PeerError) -> float:
        """One beat with these answers, and what it has the loop do."""
        self.answers += answers
        seconds = self.heartbeat.beat()
        posted, self.posted[:] = list(self.posted), []
        for action in posted:
            action()
        return seconds


class PlayedLine:
    def __init__(self, rig: Rig, address: Address) -> None:
        self.rig = rig
        self.address = address

    def ask(self, request: WireStruct, timeout_s: float) -> BrokerHeartbeatResponse:
        assert timeout_s == TIMES.session_s / 2
        assert isinstance(request, BrokerHeartbeatRequest)
        self.rig.said.append((self.address, request))
        self.rig.asked.set()
        answer = self.rig.answers.pop(0)
        if isinstance(answer, PeerError):
            raise answer
        return answer

    def close(self) -> None:
        self.rig.lines.append((self.address, "closed"))


def fenced() -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(is_fenced=True)


def unfenced() -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(is_fenced=False)


def test_a_broker_that_stands_back_asks_to_be_fenced_and_is_in_no_hurry() -> None:
    rig = Rig()
    rig.heartbeat.accept_clients()
    rig.heartbeat.stands_back = True
    rig.beat(unfenced())
    assert rig.beat(unfenced()) == TIMES.interval_s
    assert rig.beat(fenced()) == TIMES.interval_s
    rig.heartbeat.stands_back = False
    assert rig.beat(fenced()) == RETRY_SECONDS
    assert [each.want_fence for _, each in rig.said] == [False, True, True, False]
    rig.heartbeat.stands_back = True
    rig.heartbeat.begin_shutdown()
    rig.beat(unfenced())
    assert not rig.said[-1][1].want_fence


def test_the_longest_gap_between_two_answers() -> None:
    rig = Rig()
    rig.clock.advance(1.0)
    rig.beat(unfenced())
    assert (rig.heartbeat.longest_gap_s, rig.heartbeat.answered_at) == (1.0, 1.0)
    rig.clock.advance(2.0)
    rig.beat(Disconnected("no"))
    assert rig.heartbeat.longest_gap_s == 1.0, "that was no answer"
    rig.clock.advance(2.0)
    rig.beat(unfenced())
    rig.clock.advance(2.0)
    rig.beat(unfenced())
    assert (rig.heartbeat.longest_gap_s, rig.heartbeat.answered_at) == (4.0, 7.0)


def test_a_life() -> None:
    rig = Rig()
    heart = rig.heartbeat
    assert rig.beat(fenced()) == TIMES.interval_s
    assert rig.beat(unfenced()) == TIMES.interval_s
    assert rig.is_in(State.STARTING), "it did not ask to be unfenced"
    heart.accept_clients()
    assert rig.beat(fenced()) == RETRY_SECONDS, "it waits for this"
    assert not heart.unfenced.done()
    rig.beat(unfenced())
    assert rig.is_in(State.SERVING)
    assert heart.unfenced.done()
    assert rig.beat(fenced()) == RETRY_SECONDS, "it hurries to serve again"
    assert rig.is_in(State.SERVING), "the controllers have fenced it for a while"
    heart.begin_shutdown()
    assert rig.beat(unfenced()) == RETRY_SECONDS
    assert not heart.may_stop.done()
    rig.beat(BrokerHeartbeatResponse(should_shut_down=True))
    assert rig.is_in(State.STOPPED)
    assert heart.may_stop.done()
    assert [(each.want_fence, each.want_shut_down) for _, each in rig.said] == [
        (True, False), (True, False), (False, False), (False, False), (False, False), (False, True), (False, True),
    ]  # fmt: skip
    assert {(each.broker_id, each.broker_epoch, each.current_metadata_offset) for _, each in rig.said} == {(4, 70, 80)}
    assert rig.lines == [(A, "opened")]


def test_only_an_answer_that_does_not_fence_says_that_it_serves_and_counts_from_when_it_was_asked() -> None:
    rig = Rig()
    rig.clock.advance(3)
    rig.answers = [unfenced()]
    rig.heartbeat.beat()
    rig.clock.advance(1)
    rig.posted.pop()()
    assert (rig.serving, rig.heartbeat.answered_at) == ([3], 4)
    rig.beat(fenced())
    rig.beat(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, is_fenced=False))
    assert rig.serving == [3]


def test_every_state_can_be_left() -> None:
    assert {state for afters in TRANSITIONS.values() for state in afters} == set(State) - {State.STARTING}
    assert all(afters for state, afters in TRANSITIONS.items() if state is not State.STOPPED)
    with pytest.raises(AssertionError):
        Rig().heartbeat.begin_shutdown()


def test_directories_that_failed_are_said() -> None:
    rig = Rig()
    rig.heartbeat.offline_log_dirs = (b"d" * 16,)
    rig.beat(unfenced())
    assert rig.said[0][1].offline_log_dirs == [b"d" * 16]


@pytest.mark.parametrize(
    "end", [BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER), Disconnected("a:9093 closed the connection")]
)
def test_a_controller_that_is_not_active_or_does_not_answer_is_left(end: BrokerHeartbeatResponse | PeerError) -> None:
    rig = Rig()
    answered = rig.heartbeat.answered_at
    rig.clock.advance(1)
    assert rig.beat(end) == RETRY_SECONDS
    assert (rig.lost, rig.heartbeat.answered_at) == ([A], answered)
    rig.heartbeat.address = None
    assert rig.beat() == RETRY_SECONDS
    rig.heartbeat.address = B
    rig.beat(unfenced())
    assert rig.lines == [(A, "opened"), (A, "closed"), (B, "opened")]
    assert rig.heartbeat.answered_at == 1


def test_a_new_leader_is_asked_from_the_next_beat_on() -> None:
    rig = Rig()
    rig.beat(unfenced())
    rig.heartbeat.address = B
    rig.beat(unfenced())
    assert rig.lines == [(A, "opened"), (A, "closed"), (B, "opened")]


def test_when_the_loop_is_dead_the_heart_stops(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.beat(unfenced())
    rig.clock.advance(TIMES.session_s)
    rig.beat(unfenced())
    assert len(rig.said) == 2, "it is not yet older than the session"
    rig.clock.advance(0.1)
    assert [rig.beat(), rig.beat()] == [RETRY_SECONDS] * 2
    assert rig.lines[-1] == (A, "closed")
    assert [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR] == [
        "the event loop has not run for 9.1 s: no more heartbeats, so that other brokers lead, until it does"
    ]
    rig.heartbeat.alive_at = rig.clock.monotonic()
    rig.beat(unfenced())
    assert len(rig.said) == 3
    assert "runs again" in caplog.records[-1].getMessage()


def test_an_error_is_logged_once_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.heartbeat.accept_clients()
    for _ in range(3):
        rig.beat(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, is_fenced=False))
    assert rig.is_in(State.UNFENCING)
    assert [each.getMessage() for each in caplog.records] == [
        "the controllers answer heartbeats of this broker with STALE_BROKER_EPOCH; it goes on trying"
    ]


def test_the_thread_beats_and_ends() -> None:
    rig = Rig()
    rig.answers += [unfenced()] * 1000
    rig.heartbeat.start()
    assert rig.asked.wait(30)
    rig.asked.clear()
    rig.heartbeat.beat_now()
    assert rig.asked.wait(30), "rung before the interval is over"
    thread = rig.heartbeat.stop()
    assert thread is not None
    thread.join(30)
    assert not thread.is_alive()
    assert rig.lines[-1] == (A, "closed")


def test_a_bug_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()

    def broken_then_sound() -> float:
        if rig.heartbeat.state is State.STARTING and not caplog.records:
            rig.heartbeat._bell.ring()  # so that the pause is over at once
            return 1 // 0
        rig.asked.set()
        return TIMES.interval_s

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig.heartbeat, "beat", broken_then_sound)
        rig.heartbeat.start()
        assert rig.asked.wait(10)
        thread = rig.heartbeat.stop()
        assert thread is not None
        thread.join(10)
    assert [(each.levelno, each.exc_info is not None) for each in caplog.records] == [(logging.ERROR, True)]


def test_what_never_began_can_be_stopped() -> None:
    assert Rig().heartbeat.stop() is None
