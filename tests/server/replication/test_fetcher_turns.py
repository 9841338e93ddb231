"""Fetcher: what happens to partitions, and to the fetcher, while it waits for an answer or lets others have a turn."""

from __future__ import annotations

import pytest

from ottla.server.replication import fetch_session
from ottla.server.replication.fetcher import START_OFFSETS_SECONDS
from ottla.wire.messages.fetch import FetchResponse
from tests.log.support import batch
from tests.server.replication.played import LEADER, SESSION_ID, Rig, run, turns


def test_a_partition_that_goes_while_others_have_a_turn_is_not_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """This broker may lead it from then on."""
    monkeypatch.setattr("ottla.server.replication.fetcher.SLICE_BYTES", 100)

    async def scenario(rig: Rig) -> None:
        first, second = rig.follow("first"), rig.follow("second")
        rig.leader_log(first).fill(3)
        rig.leader_log(second).fill(3)
        await turns()
        rig.leader.answer()
        while not first.log.log_end_offset:
            await turns(1)
        assert second.log.log_end_offset == 0
        rig.fetcher.remove(second.key)
        await turns()
        assert second.log.log_end_offset == 0
        assert first.log.log_end_offset == 3

    run(scenario)


def test_an_answer_to_an_earlier_request_is_none_for_a_partition_that_began_anew() -> None:
    """It may say where the logs part that were: another leader has made ours longer since, and a cut would lose its records."""

    async def scenario(rig: Rig) -> None:
        following = rig.topic()
        log, leader = following.log, rig.leader_log(following)
        for _ in range(3):
            log.append_as_leader(batch(), leader_epoch=0)
        leader.fill(2)
        rig.fetcher.add(type(following)(following.replica, following.leader))
        await turns()
        late = rig.leader.fetch(rig.leader.open.request)
        rig.fetcher.remove(following.key)
        rig.broker.elect("t", LEADER)
        log.append_as_leader(batch(), leader_epoch=0)
        log.high_watermark = 4
        leader.fill(3)
        rig.fetcher.add(type(following)(following.replica, following.leader))
        await rig.answer(late)
        assert (log.log_end_offset, log.high_watermark) == (4, 4)
        (topic,) = rig.leader.open.request.topics
        assert [each.fetch_offset for each in topic.partitions] == [4]
        await rig.answer()
        assert log.log_end_offset == 5

    run(scenario)


def test_an_answer_about_many_partitions_leaves_turns_to_others_however_small_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(rig: Rig) -> None:
        followings = [rig.follow(f"t{at}") for at in range(4)]
        for following in followings:
            rig.leader_log(following).fill(1)
        await turns()
        monkeypatch.setattr("ottla.server.replication.fetcher.TURN_NS", 0)
        rig.leader.answer()
        seen = set()
        for _ in range(30):
            await turns(1)
            seen.add(sum(following.log.log_end_offset for following in followings))
        assert seen == {0, 1, 2, 3, 4}

    run(scenario)


def test_looks_at_many_log_starts_leave_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(rig: Rig) -> None:
        followings = [rig.follow(f"t{at}") for at in range(6)]
        await turns()
        await rig.answer(FetchResponse(session_id=SESSION_ID))
        for following in followings:
            following.log.raise_high_watermark(0)
            following.asked = None  # so that it is named again
        rig.clock.advance(START_OFFSETS_SECONDS)
        monkeypatch.setattr("ottla.server.replication.fetcher.TURN_NS", 0)
        rig.leader.answer(FetchResponse(session_id=SESSION_ID))
        seen = set()
        for _ in range(30):
            await turns(1)
            seen.add(sum(following.asked is not None for following in followings))
            if len(seen) == 3:
                rig.fetcher.remove(followings[-1].key)
        assert seen == {1, 2, 3, 4, 5}, "one by one, and none that is gone"
        assert [topic.topic_id for topic in rig.leader.open.request.topics] == [each.key[0] for each in followings[:-1]]

    run(scenario)


def test_nothing_is_connected_any_more_once_it_is_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that it made then would be closed by nobody, and an answer waited for up to replica.socket.timeout.ms."""
    monkeypatch.setattr("ottla.server.replication.fetcher.TURN_NS", 0)

    async def scenario(rig: Rig) -> None:
        rig.follow()
        await turns(1)
        await rig.fetcher.close()
        await turns()
        assert rig.running.done()
        assert rig.connected == []

    run(scenario)


def test_an_answer_is_to_what_was_asked_last_though_a_session_of_many_partitions_is_only_begun(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A leader sends what follows the offset that it was told last. What has moved on since has to be told at once, even while
    partitions wait that were not named yet: records that are here already would come again, and look wrong."""
    monkeypatch.setattr(fetch_session, "MOST_ADDED", 2)

    async def scenario(rig: Rig) -> None:
        followings = [rig.follow(f"t{at}") for at in range(7)]
        await turns()
        for rounds in range(1, 6):
            for following in followings:
                rig.leader_log(following).fill(1)
            await rig.answer()
            named = min(2 * rounds, 7)
            assert [each.log.log_end_offset for each in followings] == [rounds] * named + [0] * (7 - named)

    run(scenario)
    assert not caplog.records
