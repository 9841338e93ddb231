"""Members of groups of all four kinds, over the wire."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from ottla.wire.errors import ErrorCode
from ottla.wire.messages import (
    consumer_group_heartbeat,
    find_coordinator,
    join_group,
    leave_group,
    offset_commit,
    share_group_heartbeat,
    streams_group_heartbeat,
    sync_group,
)
from tests.server.testkit.lives_rig import Client, Rig

SUBSCRIPTION = b"\0\0" + struct.pack(">ih", 1, 6) + b"orders" + struct.pack(">i", -1)
SHARE_MEMBER = "share-member-0000000000"
NOT_YET = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


def assignment(*partitions: int) -> bytes:
    """A ConsumerProtocolAssignment with partitions of the topic `orders`."""
    return (
        b"\0\0" + struct.pack(">ih", 1, 6) + b"orders" + struct.pack(f">i{len(partitions)}ii", len(partitions), *partitions, -1)
    )


async def connect(rig: Rig, client_id: str, group: str, kind: int = 0) -> Client:
    """A client that has found the coordinator of a group (0), or of a transactional id (1)."""
    client = await Client(client_id).connect(rig.port)
    await until_coordinated(client, group, kind)
    return client


async def until_coordinated(client: Client, key: str, kind: int = 0) -> None:
    """Returns when the coordinator of a group (0) or of a transactional id (1) can be asked, whose topic is then made."""
    answer = await until_taken(client, find_coordinator, 2, find_coordinator.FindCoordinatorRequest(key, kind))
    assert answer.error_code == 0


async def until_taken(client: Client, messages: Any, version: int, request: Any) -> Any:
    """The answer, asked for again as long as the coordinator is not there yet."""
    while (answer := await client.ask(messages, version, request)).error_code in NOT_YET:
        pass
    return answer


async def send_join(client: Client, group: str, member_id: str = "") -> Any:
    request = join_group.JoinGroupRequest(
        group, 45_000, 60_000, member_id, None, "consumer", [join_group.JoinGroupRequestProtocol("range", SUBSCRIPTION)]
    )
    return await until_taken(client, join_group, 3, request)


async def send_sync(client: Client, group: str, joined: Any, assigned: dict[str, bytes]) -> Any:
    entries = [sync_group.SyncGroupRequestAssignment(member_id, data) for member_id, data in assigned.items()]
    request = sync_group.SyncGroupRequest(group, joined.generation_id, joined.member_id, assignments=entries)
    return await client.ask(sync_group, 3, request)


async def enter_classic(client: Client, group: str, *partitions: int) -> str:
    """Makes the client the only member of a classic group; its member id."""
    joined = await send_join(client, group)
    assert joined.error_code == 0
    assert (await send_sync(client, group, joined, {joined.member_id: assignment(*partitions)})).error_code == 0
    return str(joined.member_id)


async def leave_classic(client: Client, group: str, member_id: str) -> None:
    await client.ask(leave_group, 2, leave_group.LeaveGroupRequest(group, member_id))


async def enter_consumer(client: Client, group: str, member_id: str) -> Any:
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group, member_id, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"], topic_partitions=[]
    )
    return await until_taken(client, consumer_group_heartbeat, 1, request)


async def beat_consumer(client: Client, group: str, member_id: str, epoch: int, owned: list[Any] | None = None) -> Any:
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(group, member_id, epoch, topic_partitions=owned)
    return await client.ask(consumer_group_heartbeat, 1, request)


async def enter_share(client: Client, group: str) -> None:
    """Makes the client a member of a share group, with a heartbeat more for the partitions whose state is made."""
    request = share_group_heartbeat.ShareGroupHeartbeatRequest(group, SHARE_MEMBER, 0, None, ["orders"])
    epoch = (await until_taken(client, share_group_heartbeat, 1, request)).member_epoch
    answer = None
    while answer is None or answer.assignment is None or not answer.assignment.topic_partitions:
        request = share_group_heartbeat.ShareGroupHeartbeatRequest(group, SHARE_MEMBER, epoch, None, ["orders"])
        answer = await client.ask(share_group_heartbeat, 1, request)
        assert answer.error_code == 0
        epoch = answer.member_epoch
        await asyncio.sleep(0)


async def enter_streams(client: Client, group: str) -> Any:
    topology = streams_group_heartbeat.Topology(1, [streams_group_heartbeat.Subtopology("sub", ["orders"])])
    request = streams_group_heartbeat.StreamsGroupHeartbeatRequest(
        group,
        "streams-member",
        0,
        rebalance_timeout_ms=60_000,
        topology=topology,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="process",
    )
    return await until_taken(client, streams_group_heartbeat, 0, request)


async def commit(client: Client, group: str, offset: int, member_id: str = "", epoch: int = -1, partition: int = 0) -> None:
    """Commits an offset of the topic `orders`."""
    entry = offset_commit.OffsetCommitRequestPartition(partition, offset, committed_metadata="m")
    topic = offset_commit.OffsetCommitRequestTopic("orders", partitions=[entry])
    answer = await client.ask(offset_commit, 7, offset_commit.OffsetCommitRequest(group, epoch, member_id, None, -1, [topic]))
    assert answer.topics[0].partitions[0].error_code == 0
