"""Fetcher: rounds of one request at a time, what each answer does to the log, pauses after errors, and the end."""

from __future__ import annotations

import errno
import logging

import pytest

from ottla.server.peers.outcomes import Disconnected
from ottla.server.replication.fetcher import OLDEST_FETCH, START_OFFSETS_SECONDS
from ottla.server.replication.following import Following, State
from ottla.server.replication.range_lookup import EPOCHS_SINCE
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.fakes import NODE_ID
from tests.log.support import batch
from tests.server.replication.played import BACKOFF_S, SESSION_ID, Rig, offsets, records, run, turns


def refused(following: Following, code: int) -> FetchResponse:
    """An answer that refuses the one partition."""
    key = following.key
    return FetchResponse(session_id=SESSION_ID, responses=[FetchableTopicResponse("", key[0], [PartitionData(key[1], code, -1)])])


def state_of(following: Following) -> State:
    """The state now; mypy would take a second look at the attribute for the first."""
    return following.state


def test_nothing_is_asked_before_there_is_a_partition_and_everything_it_says_then() -> None:
    async def scenario(rig: Rig) -> None:
        assert rig.leader.asked == []
        following = rig.follow()
        await turns()
        request = rig.leader.open.request
        assert isinstance(request, FetchRequest)
        assert rig.leader.open.min_version == OLDEST_FETCH
        state = request.replica_state
        assert state is not None
        assert (request.replica_id, state.replica_id, state.replica_epoch) == (NODE_ID, NODE_ID, 5)
        assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 10_000)
        assert (request.session_id, request.session_epoch, request.isolation_level) == (0, 0, 0)
        (topic,) = request.topics
        (asked,) = topic.partitions
        assert (topic.topic_id, asked.partition, asked.partition_max_bytes) == (*following.key, 1_000)
        assert (asked.fetch_offset, asked.last_fetched_epoch, asked.log_start_offset, asked.current_leader_epoch) == (0, -1, 0, 0)
        assert rig.connected == [("leader", 9092)]

    run(scenario)


def test_records_are_appended_as_they_are_and_the_next_request_names_what_changed() -> None:
    async def scenario(rig: Rig) -> None:
        following, idle = rig.follow(), rig.follow("idle")
        leader = rig.leader_log(following)
        leader.fill(3, count=2)
        leader.high_watermark = 4
        await rig.answer()
        log = following.log
        assert (log.log_end_offset, log.high_watermark, log.leader_epoch) == (6, 4, 0)
        assert records(following.replica) == b"".join(leader.log.iterate_batches(0))
        assert following.lag == 0
        request = rig.leader.open.request
        assert (request.session_id, request.session_epoch) == (SESSION_ID, 1)
        assert [(topic.topic_id, each.fetch_offset) for topic in request.topics for each in topic.partitions] == [
            (following.key[0], 6)
        ]
        assert request.topics[0].partitions[0].last_fetched_epoch == 0
        assert request.forgotten_topics_data == []
        leader.high_watermark = None
        await rig.answer()
        assert log.high_watermark == 6
        assert idle.log.log_end_offset == 0
        assert rig.leader.open.request.topics == []
        assert rig.fetcher.bytes_in == leader.log.size_bytes

    run(scenario)


def test_the_high_watermark_is_at_most_the_end_and_the_lag_is_the_rest() -> None:
    async def scenario(rig: Rig) -> None:
        following = rig.follow()
        rig.leader_log(following).fill(30)
        await rig.answer()
        end = following.log.log_end_offset
        assert 0 < end < 30
        assert following.log.high_watermark == end
        assert rig.fetcher.lag() == following.lag == 30 - end

    run(scenario)


def test_a_log_that_parts_from_the_leaders_is_cut_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        following = rig.topic_with(5)
        log, leader = following.log, rig.leader_log(following)
        log.high_watermark = 3
        leader.fill(3)
        leader.append(leader_epoch=2)
        rig.fetcher.add(following)
        await rig.answer()
        assert (log.log_end_offset, log.leader_epoch) == (3, 0)
        assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []
        await turns()
        assert rig.leader.open.request.topics[0].partitions[0].fetch_offset == 3
        await rig.answer()
        assert log.log_end_offset == 3, "the next batch is of epoch 2, which the metadata here does not have yet"
        assert rig.fetcher._followings[following.key].state is State.DELAYED

    run(scenario)


def test_where_the_leaders_log_starts_within_a_batch_other_records_at_its_offsets_go() -> None:
    """The leader's epochs do not reach below its start. Seed 230 of the simulated cluster: the batch was refused for ever."""

    async def scenario(rig: Rig) -> None:
        following = rig.topic_with(6)
        log, leader = following.log, rig.leader_log(following)
        log.high_watermark = 3
        leader.fill(5)
        leader.append(batch(3))
        leader.log.high_watermark = 8
        leader.log.raise_log_start_offset(6)
        rig.fetcher.add(following)
        await rig.answer()
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (6, 8, 8)
        assert offsets(b"".join(log.iterate_batches(6))) == [5]

    run(scenario)


def test_a_log_that_ends_where_the_leaders_starts_stays_as_it_is() -> None:
    async def scenario(rig: Rig) -> None:
        following = rig.topic_with(6)
        log, leader = following.log, rig.leader_log(following)
        leader.fill(7)
        leader.log.high_watermark = 7
        leader.log.raise_log_start_offset(6)
        rig.fetcher.add(following)
        await rig.answer()
        assert (log.log_start_offset, log.log_end_offset, log.cuts) == (6, 7, 0)

    run(scenario)


def test_a_cut_below_the_high_watermark_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        following = rig.topic_with(5)
        following.log.high_watermark = 5
        rig.leader_log(following).fill(2)
        rig.fetcher.add(following)
        await rig.answer()
        assert (following.log.log_end_offset, following.log.high_watermark) == (2, 2)
        assert "is cut at offset 2, below its high watermark 5, and loses records" in caplog.text

    run(scenario)


def test_a_log_without_epochs_is_cut_to_its_high_watermark_first() -> None:
    async def scenario(rig: Rig) -> None:
        following = rig.topic()
        log = following.log
        for _ in range(5):
            log.append_as_leader(batch(), leader_epoch=0)
        log.epochs.clear()
        log._latest_epoch = -1
        log.high_watermark = 2
        following = type(following)(following.replica, following.leader)
        assert following.state is State.TRUNCATING
        rig.fetcher.add(following)
        await turns()
        assert log.log_end_offset == 2
        assert rig.leader.open.request.topics[0].partitions[0].fetch_offset == 2

    run(scenario)


def test_a_follower_below_the_leaders_start_begins_anew_there() -> None:
    async def scenario(rig: Rig) -> None:
        following = rig.follow()
        leader = rig.leader_log(following)
        leader.fill(6)
        leader.log.delete_records_before(4)
        await rig.answer()
        assert following.state is State.LOOKING_UP
        asked = rig.leader.open
        assert isinstance(asked.request, ListOffsetsRequest)
        assert (asked.request.replica_id, asked.min_version) == (NODE_ID, EPOCHS_SINCE)
        assert asked.request.topics[0].partitions[0].current_leader_epoch == 0
        await rig.answer()
        await rig.answer()
        assert (following.log.log_start_offset, following.log.log_end_offset) == (4, 4)
        request = rig.leader.open.request
        assert isinstance(request, FetchRequest)
        assert request.topics[0].partitions[0].fetch_offset == 4
        await rig.answer()
        assert following.log.log_end_offset == 6

    run(scenario)


def test_a_follower_that_is_longer_than_a_leader_without_epochs_is_cut_to_its_end() -> None:
    async def scenario(rig: Rig) -> None:
        following = rig.topic_with(5)
        following.log.high_watermark = 1
        leader = rig.leader_log(following)
        leader.fill(2)
        rig.fetcher.add(following)
        await rig.answer(refused(following, ErrorCode.OFFSET_OUT_OF_RANGE))
        await rig.answer()
        await rig.answer()
        assert following.log.log_end_offset == 2

    run(scenario)


@pytest.mark.parametrize("found", ["in range", "refused", "missing", "no answer", "fenced"])
def test_a_range_that_does_not_help_is_followed_by_a_pause(found: str) -> None:
    async def scenario(rig: Rig) -> None:
        following = rig.follow()
        await rig.answer(refused(following, ErrorCode.OFFSET_OUT_OF_RANGE))
        if found == "no answer":
            await rig.answer(Disconnected("gone"))
        else:
            code = {"refused": ErrorCode.NOT_LEADER_OR_FOLLOWER, "fenced": ErrorCode.FENCED_LEADER_EPOCH}.get(found, 0)
            partitions = [] if found == "missing" else [ListOffsetsPartitionResponse(0, code, -1, 0)]
            for _ in range(2):
                await rig.answer(ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", partitions)]))
        assert following.state is (State.STOPPED if found == "fenced" else State.DELAYED)
        await rig.pass_time(BACKOFF_S)
        assert following.state is (State.STOPPED if found == "fenced" else State.FETCHING)

    run(scenario)


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.KAFKA_STORAGE_ERROR, 12345]
)
def test_a_refused_partition_is_left_out_for_a_while_and_the_others_are_not(code: int) -> None:
    async def scenario(rig: Rig) -> None:
        following, other = rig.follow(), rig.follow("other")
        rig.leader_log(other).fill(1)
        await rig.answer(refused(following, code))
        assert following.state is State.DELAYED
        request = rig.leader.open.request
        assert [(each.topic_id, each.partitions) for each in request.forgotten_topics_data] == [(following.key[0], [0])]
        await rig.pass_time(BACKOFF_S - 0.01)
        await rig.answer(FetchResponse(session_id=SESSION_ID))
        assert following.state is State.DELAYED
        await rig.pass_time(0.01)
        await rig.answer(FetchResponse(session_id=SESSION_ID))
        assert state_of(following) is State.FETCHING
        assert [topic.topic_id for topic in rig.leader.open.request.topics] == [following.key[0]]

    run(scenario)


def test_a_fenced_partition_waits_for_the_metadata() -> None:
    async def scenario(rig: Rig) -> None:
        following = rig.follow()
        await rig.answer(refused(following, ErrorCode.FENCED_LEADER_EPOCH))
        assert following.state is State.STOPPED
        await rig.pass_time(1000)
        assert [asked for asked in rig.leader.asked if not asked.answer.done()] == []
        rig.broker.elect("t", 2)
        rig.fetcher.add(type(following)(following.replica, 2))
        await turns()
        assert rig.leader.open.request.topics[0].partitions[0].current_leader_epoch == 1

    run(scenario)


def test_no_answer_is_followed_by_a_pause_and_a_request_that_names_everything() -> None:
    async def scenario(rig: Rig) -> None:
        following = rig.follow()
        await rig.answer()
        await rig.answer(Disconnected("gone"))
        await rig.pass_time(BACKOFF_S - 0.01)
        assert len(rig.leader.asked) == 2
        rig.address = ("elsewhere", 9092)
        await rig.pass_time(0.01)
        request = rig.leader.open.request
        assert (request.session_id, request.session_epoch) == (SESSION_ID, 0)
        assert [topic.topic_id for topic in request.topics] == [following.key[0]]
        assert rig.connected == [("leader", 9092), ("elsewhere", 9092)]

    run(scenario)


def test_a_leader_without_an_address_is_asked_when_it_has_one() -> None:
    async def scenario(rig: Rig) -> None:
        rig.address = None
        rig.follow()
        await turns()
        assert rig.leader.asked == []
        rig.address = ("back", 1)
        await rig.pass_time(BACKOFF_S)
        assert rig.connected == [("back", 1)]
        assert rig.leader.open.request.session_epoch == 0

    run(scenario)


def test_a_session_that_the_leader_lost_begins_anew_at_once_and_other_errors_wait() -> None:
    async def scenario(rig: Rig) -> None:
        rig.follow()
        await rig.answer()
        await rig.answer(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        request = rig.leader.open.request
        assert (request.session_id, request.session_epoch, len(request.topics)) == (0, 0, 1)
        await rig.answer(FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        assert [asked for asked in rig.leader.asked if not asked.answer.done()] == []
        await rig.pass_time(BACKOFF_S)
        assert rig.leader.open.request.session_epoch == 0

    run(scenario)


def test_an_answer_for_a_partition_that_is_gone_or_began_anew_changes_nothing() -> None:
    async def scenario(rig: Rig) -> None:
        following = rig.follow()
        leader = rig.leader_log(following)
        leader.fill(2)
        await turns()
        rig.fetcher.remove(following.key)
        rig.broker.elect("t", 2)
        again = type(following)(following.replica, 2)
        rig.fetcher.add(again)
        again.replica.log.append_as_leader(batch(3), leader_epoch=0)
        answer = rig.leader.fetch(rig.leader.open.request)
        rig.fetcher.remove(again.key)
        await rig.answer(answer)
        assert following.log.log_end_offset == 3
        assert len(rig.fetcher) == 0

    run(scenario)


def test_damage_on_the_way_keeps_what_was_whole_and_fetches_the_rest_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        following = rig.follow()
        rig.leader_log(following).fill(2)
        await turns()
        answer = rig.leader.fetch(rig.leader.open.request)
        data = answer.responses[0].partitions[0]
        assert isinstance(data.records, bytes)
        data.records = data.records[:-1] + b"x"
        await rig.answer(answer)
        assert following.log.log_end_offset == 1
        assert following.state is State.DELAYED
        assert "does not match its CRC; it is fetched again" in caplog.text
        await rig.pass_time(BACKOFF_S)
        await rig.answer()
        assert offsets(records(following.replica)) == [0, 1]

    run(scenario)


def test_a_full_disk_is_tried_again_and_a_failed_one_is_not() -> None:
    async def scenario(rig: Rig) -> None:
        following = rig.follow()
        rig.leader_log(following).fill(1)
        rig.broker.disk.fail("append", errno.ENOSPC)
        await rig.answer()
        assert (following.state, following.log.log_end_offset) == (State.DELAYED, 0)
        await rig.pass_time(BACKOFF_S)
        await rig.answer()
        assert following.log.log_end_offset == 1
        rig.leader_log(following).fill(1)
        rig.broker.disk.fail("append", errno.EIO)
        await rig.answer()
        assert (following.state, following.log.log_end_offset) == (State.STOPPED, 1)

    run(scenario)


def test_the_log_start_of_the_leader_is_taken_over_and_ours_is_told() -> None:
    async def scenario(rig: Rig) -> None:
        following = rig.follow()
        leader = rig.leader_log(following)
        leader.fill(4)
        await rig.answer()
        assert following.log.log_end_offset == 4
        leader.log.delete_records_before(3)
        await rig.answer()
        assert following.log.log_start_offset == 3
        assert rig.leader.open.request.topics[0].partitions[0].log_start_offset == 3
        following.log.raise_log_start_offset(4)  # as our own retention does
        await rig.answer(FetchResponse(session_id=SESSION_ID))
        assert rig.leader.open.request.topics == []
        await rig.pass_time(START_OFFSETS_SECONDS)
        await rig.answer(FetchResponse(session_id=SESSION_ID))
        assert rig.leader.open.request.topics[0].partitions[0].log_start_offset == 4

    run(scenario)


def test_what_flush_messages_wants_flushed_is_before_it_is_acknowledged() -> None:
    async def scenario(rig: Rig) -> None:
        following = rig.follow(flush_messages="1")
        rig.leader_log(following).fill(2)
        await rig.answer()
        while not [asked for asked in rig.leader.asked if not asked.answer.done()]:
            await turns()
        assert following.log.recovery_point == 2
        assert rig.leader.open.request.topics[0].partitions[0].fetch_offset == 2

    run(scenario)


def test_an_answer_of_many_mib_is_appended_in_slices_and_ends_with_its_following(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.server.replication.leader_answers.SLICE_BYTES", 300)

    async def scenario(rig: Rig) -> None:
        following = rig.follow()
        rig.leader_log(following).fill(8)
        await turns()
        request = rig.leader.open.request
        request.topics[0].partitions[0].partition_max_bytes = 1 << 20
        rig.leader.answer()
        ends: list[int] = []
        while following.log.log_end_offset < 4:
            await turns(1)
            ends.append(following.log.log_end_offset)
        assert 0 < min(end for end in ends if end) < 4
        rig.fetcher.remove(following.key)
        end = following.log.log_end_offset
        await turns()
        assert following.log.log_end_offset == end

    run(scenario, max_partition_bytes=1 << 20)


def test_a_throttled_replica_is_left_out_while_the_quota_is_used_up_unless_it_is_level() -> None:
    async def scenario(rig: Rig) -> None:
        rig.throttle.limit = 500
        following, other = rig.follow(follower_replication_throttled_replicas="0:1"), rig.follow("other")
        leader = rig.leader_log(following)
        leader.fill(30)
        rig.leader_log(other).fill(30)
        await rig.answer()
        end = following.log.log_end_offset
        assert 0 < end < 30
        assert following.state is State.DELAYED
        assert state_of(other) is State.FETCHING
        assert [each.topic_id for each in rig.leader.open.request.forgotten_topics_data] == [following.key[0]]
        await rig.pass_time(1.0)
        await rig.answer(FetchResponse(session_id=SESSION_ID))
        assert following.log.log_end_offset == end
        assert following.state is State.DELAYED, "about 1,000 bytes in a second are still twice of what is allowed"
        rig.throttle.limit = 10_000
        await rig.pass_time(1.0)
        for _ in range(6):
            await rig.answer()
        assert following.log.log_end_offset == 30
        rig.throttle.limit = 1
        leader.fill(1)
        await rig.answer()
        assert following.log.log_end_offset == 31
        await rig.answer()
        assert state_of(following) is State.FETCHING, "a replica that has everything is never held back"

    run(scenario)
