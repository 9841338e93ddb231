"""Groups over a log whose followers lag: an answer goes out when the high watermark has passed what it is about, and is
NOT_COORDINATOR if this broker loses the partition first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from ottla.server.base.promise import Promise
from ottla.server.group.records import InTransaction
from ottla.server.group.requests import Commit, Committer
from ottla.server.handlers import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    sync_group,
)
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.in_loop import in_loop
from tests.server.coordination.fakes import LaggingLog
from tests.server.group.fakes import Broker, Driver, answer_of

NONE, NOT_COORDINATOR = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR


class Serving(Broker):
    """A broker with what the handlers of share and streams groups ask of it besides."""

    settings: ClassVar[dict[str, Any]] = {}
    config = SimpleNamespace(values={"group.coordinator.rebalance.protocols": ["streams"]})

    def share_group_state(self) -> Any:
        return Initializing([])


class Lagging(Driver):
    """Groups over one partition whose followers have everything so far, until `lag` is called."""

    def __init__(self) -> None:
        self.log = LaggingLog(lag=False)
        super().__init__(Serving(self.log))

    def lag(self) -> None:
        self.log.lag = True

    def unload(self) -> None:
        self.broker.groups.unload(0)

    def ask(self, handler: Any, body: object, version: int) -> Any:
        return handler.handle(body, self.broker.context(version))

    def next_turn(self) -> None:
        """Answers that are made in turns go on, once what they waited for has come."""
        self.clock.advance(0)

    def write(self) -> None:
        """Somebody's commit, which is not replicated yet."""
        waiting(self.ask(offset_commit, commit(9, "other"), 9))


def commit(offset: int, group: str = "g") -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(0, offset)]
    return OffsetCommitRequest(group, -1, "", topics=[OffsetCommitRequestTopic("t", partitions=partitions)])


def fetch(group: str = "g") -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])


def waiting(answer: Any) -> Any:
    assert isinstance(answer, Promise | asyncio.Future)
    assert not answer.done()
    return answer


def commit_code(response: Any) -> int:
    code: int = response.topics[0].partitions[0].error_code
    return code


def top_code(response: Any) -> int:
    code: int = response.error_code
    return code


def first_code(response: Any) -> int:
    (described,) = getattr(response, "groups", None) or response.results
    code: int = described.error_code
    return code


# Offsets


def test_a_commit_is_answered_when_it_is_replicated() -> None:
    driver = Lagging()
    driver.lag()
    first, second = (waiting(driver.ask(offset_commit, commit(offset), 9)) for offset in (1, 2))
    driver.log.replicate()
    assert (commit_code(first.result()), second.done()) == (NONE, False)
    driver.log.replicate()
    assert commit_code(second.result()) == NONE


def test_a_commit_that_is_not_replicated_when_the_partition_is_lost_has_another_coordinator() -> None:
    driver = Lagging()
    driver.lag()
    unloaded, lost = Lagging(), Lagging()
    for each in (unloaded, lost):
        each.lag()
    first = waiting(unloaded.ask(offset_commit, commit(1), 9))
    unloaded.unload()
    second = waiting(lost.ask(offset_commit, commit(1), 9))
    lost.log.lose()
    assert [commit_code(answer.result()) for answer in (first, second)] == [NOT_COORDINATOR] * 2
    assert commit_code(lost.ask(offset_commit, commit(2), 9)) == NOT_COORDINATOR, "until it is unloaded"


@pytest.mark.parametrize("version", [7, 9])
def test_who_asks_for_offsets_waits_for_the_commits_among_them(version: int) -> None:
    driver = Lagging()
    assert commit_code(driver.ask(offset_commit, commit(1), 9)) == NONE
    driver.lag()
    waiting(driver.ask(offset_commit, commit(2), 9))
    body = fetch() if version > 7 else OffsetFetchRequest("g", None)
    answer, lost = (waiting(driver.ask(offset_fetch, body, version)) for _ in range(2))
    driver.log.replicate()
    driver.next_turn()
    response = answer.result()
    topics = response.groups[0].topics if version > 7 else response.topics
    assert [(each.partitions[0].committed_offset, each.partitions[0].error_code) for each in topics] == [(2, 0)]
    assert lost.done()


def test_offsets_of_several_groups_are_answered_together() -> None:
    driver = Lagging()
    driver.lag()
    body = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("a", topics=None), OffsetFetchRequestGroup("", topics=None)])
    assert len(driver.ask(offset_fetch, body, 9).groups) == 2
    driver.write()
    answer = waiting(driver.ask(offset_fetch, body, 9))
    driver.unload()
    driver.next_turn()
    assert [group.error_code for group in answer.result().groups] == [NOT_COORDINATOR] * 2


def test_a_transactional_commit_and_its_marker_are_answered_when_they_are_replicated() -> None:
    driver = Lagging()
    driver.lag()
    shard = driver.broker.groups.shard("g")
    shard.commit("g", Committer("", None, -1, 3), [Commit("t", bytes(16), 0, 5, -1, "")], transaction=InTransaction(9, 0))
    driver.log.replicate()
    marker: Promise[None] = Promise()
    driver.broker.groups.transaction_ended(0, 9, committed=True, replicated=marker)
    answer = waiting(driver.ask(offset_fetch, fetch(), 9))
    marker.set_result(None)
    driver.next_turn()
    assert answer.result().groups[0].topics[0].partitions[0].committed_offset == 5


def test_what_is_not_replicated_in_time_is_refused_and_stays() -> None:
    driver = Lagging()
    driver.lag()
    late = waiting(driver.ask(offset_commit, commit(1), 9))
    driver.clock.advance(1)
    read = waiting(driver.ask(offset_fetch, fetch(), 9))
    driver.clock.advance(4)
    assert commit_code(late.result()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    waiting(read)
    driver.clock.advance(1)
    driver.next_turn()
    assert first_code(read.result()) == NOT_COORDINATOR, "which every consumer takes for a reason to ask again"
    driver.log.replicate_all()
    answer = driver.ask(offset_fetch, fetch(), 9)
    assert answer.groups[0].topics[0].partitions[0].committed_offset == 1


# Classic members


@in_loop
async def test_a_join_and_a_sync_are_answered_when_the_group_is_replicated() -> None:
    driver = Lagging()
    driver.lag()
    first = waiting(driver.join("g"))
    driver.log.replicate()
    member = first.result().member_id
    assert first.result().error_code == ErrorCode.MEMBER_ID_REQUIRED
    driver.write()
    joined = driver.join("g", member)
    driver.clock.advance(0)
    waiting(joined)
    driver.log.replicate()
    generation = joined.result().generation_id
    assert (joined.result().error_code, generation) == (NONE, 1)
    body = SyncGroupRequest("g", generation, member, assignments=[SyncGroupRequestAssignment(member, b"all")])
    synced = waiting(driver.ask(sync_group, body, 4))
    again = waiting(driver.ask(sync_group, body, 4))
    driver.log.replicate()
    assert [answer.result().assignment for answer in (synced, again)] == [b"all"] * 2


@in_loop
async def test_members_that_wait_for_a_lost_group_look_for_its_new_coordinator() -> None:
    driver = Lagging()
    ((leader, follower), generation) = driver.stable(2)
    driver.lag()
    driver.write()
    asked = [
        waiting(driver.ask(heartbeat, HeartbeatRequest("g", generation, leader), 4)),
        waiting(driver.ask(sync_group, SyncGroupRequest("g", generation, leader), 4)),
        waiting(driver.join("g", leader)),
        waiting(driver.ask(leave_group, LeaveGroupRequest("g", members=[MemberIdentity(follower)]), 5)),
    ]
    driver.unload()
    assert [top_code(answer.result()) for answer in asked] == [NOT_COORDINATOR] * 4


@in_loop
async def test_members_whose_group_is_not_replicated_in_time_ask_again_and_find_it() -> None:
    driver = Lagging()
    ((leader, follower), generation) = driver.stable(2)
    driver.lag()
    driver.write()
    joined = waiting(driver.join("g", leader))
    again = waiting(driver.join("g", follower))
    driver.clock.advance(5)
    assert {top_code(answer.result()) for answer in (joined, again)} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    driver.log.replicate_all()
    driver.log.lag = False
    found = [answer_of(driver.join("g", member)) for member in (leader, follower)]
    assert {(answer.error_code, answer.generation_id) for answer in found} == {(NONE, generation + 1)}


@in_loop
async def test_a_parked_member_of_a_group_that_is_lost_is_told_so() -> None:
    driver = Lagging()
    ((leader, _), _) = driver.stable(2)
    parked = waiting(driver.join("g", leader))
    driver.lag()
    driver.write()
    driver.unload()
    assert (parked.result().error_code, parked.result().member_id) == (NOT_COORDINATOR, leader)


# Heartbeats of the other kinds


def consumer_beat(driver: Lagging, member: str = "m") -> Any:
    body = ConsumerGroupHeartbeatRequest(
        "g", member, 0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    return driver.ask(consumer_group_heartbeat, body, 1)


def share_beat(driver: Lagging, member: str = "m") -> Any:
    return driver.ask(share_group_heartbeat, ShareGroupHeartbeatRequest("g", member, 0, None, ["t"]), 1)


def streams_beat(driver: Lagging) -> Any:
    body = StreamsGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=1000, topology=Topology(1, []), active_tasks=[], standby_tasks=[], warmup_tasks=[]
    )
    body.process_id = "p"
    return driver.ask(streams_group_heartbeat, body, 0)


@pytest.mark.parametrize("beat", [consumer_beat, share_beat])
@pytest.mark.parametrize("kept", [True, False])
def test_a_heartbeat_is_answered_when_the_member_is_replicated(
    beat: Callable[[Lagging], Any], kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Lagging()
    monkeypatch.setattr(driver.broker, "share_group_state", lambda: Initializing(begun))
    begun: list[str] = []
    driver.lag()
    answer = waiting(beat(driver))
    assert begun == []
    if kept:
        driver.log.replicate_all()
    else:
        driver.unload()
    assert top_code(answer.result()) == (NONE if kept else NOT_COORDINATOR)
    assert begun == (["g"] if kept and beat is share_beat else [])


class Initializing:
    """Keeps the groups whose state is to begin."""

    def __init__(self, begun: list[str]) -> None:
        self._begun = begun

    def initialize_after_heartbeat(self, group_id: str, wanted: object) -> None:
        self._begun.append(group_id)


@pytest.mark.parametrize("kept", [True, False])
@in_loop
async def test_a_streams_heartbeat_is_answered_when_the_member_is_replicated(kept: bool) -> None:
    driver = Lagging()
    driver.lag()
    answer = asyncio.ensure_future(streams_beat(driver))
    await asyncio.sleep(0)
    waiting(answer)
    if kept:
        driver.log.replicate_all()
    else:
        driver.unload()
    assert top_code(await answer) == (NONE if kept else NOT_COORDINATOR)


# What is only read, and what is deleted


READS: list[tuple[Any, object, int]] = [
    (describe_groups, DescribeGroupsRequest(["other"]), 5),
    (consumer_group_describe, ConsumerGroupDescribeRequest(["g"]), 1),
    (share_group_describe, ShareGroupDescribeRequest(["g"]), 1),
    (streams_group_describe, StreamsGroupDescribeRequest(["g"]), 0),
]


def members(driver: Lagging, handler: Any) -> None:
    """Makes a group of the handler's kind."""
    if handler is consumer_group_describe:
        consumer_beat(driver)
    elif handler is share_group_describe:
        share_beat(driver)
    elif handler is streams_group_describe:
        asyncio.run(streams_beat(driver))


@pytest.mark.parametrize(("handler", "body", "version"), READS)
@pytest.mark.parametrize("kept", [True, False])
def test_a_group_is_described_when_it_is_replicated(handler: Any, body: object, version: int, kept: bool) -> None:
    driver = Lagging()
    members(driver, handler)
    assert first_code(driver.ask(handler, body, version)) == NONE
    driver.lag()
    driver.write()
    answer = waiting(driver.ask(handler, body, version))
    if kept:
        driver.log.replicate_all()
    else:
        driver.unload()
    driver.next_turn()
    assert first_code(answer.result()) == (NONE if kept else NOT_COORDINATOR)


@pytest.mark.parametrize("kept", [True, False])
def test_groups_are_listed_when_all_are_replicated(kept: bool) -> None:
    driver = Lagging()
    driver.lag()
    driver.write()
    answer = waiting(driver.ask(list_groups, ListGroupsRequest(), 5))
    if kept:
        driver.log.replicate_all()
        driver.next_turn()
        assert [group.group_id for group in answer.result().groups] == ["other"]
    else:
        driver.unload()
        driver.next_turn()
        assert top_code(answer.result()) == ErrorCode.COORDINATOR_NOT_AVAILABLE, "a client asks again"


@pytest.mark.parametrize("kept", [True, False])
def test_what_is_deleted_is_answered_when_that_is_replicated(kept: bool) -> None:
    driver = Lagging()
    for group in ("g", "h"):
        driver.ask(offset_commit, commit(1, group), 9)
    driver.lag()
    offsets = OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])])
    forgotten = waiting(driver.ask(offset_delete, offsets, 0))
    deleted = waiting(driver.ask(delete_groups, DeleteGroupsRequest(["h"]), 2))
    if kept:
        driver.log.replicate_all()
    else:
        driver.unload()
    driver.next_turn()
    code = NONE if kept else NOT_COORDINATOR
    assert [top_code(forgotten.result()), first_code(deleted.result())] == [code] * 2


# A new leader


def test_a_new_leader_answers_when_what_it_found_is_replicated() -> None:
    driver = Lagging()
    driver.lag()
    waiting(driver.ask(offset_commit, commit(1), 9))
    successor = Lagging()
    successor.log.batches, successor.log.waiting = driver.log.batches, driver.log.waiting
    answer = waiting(successor.ask(offset_fetch, fetch(), 9))
    successor.log.replicate_all()
    successor.next_turn()
    assert answer.result().groups[0].topics[0].partitions[0].committed_offset == 1
