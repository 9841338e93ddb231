"""Groups, members, connections and fetch sessions that come and go, for the soak. Nothing of them is promised to stay."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.wire.messages import (
    api_versions,
    consumer_group_heartbeat,
    delete_groups,
    find_coordinator,
    join_group,
    leave_group,
    metadata,
    offset_commit,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
    sync_group,
)
from scripts.soak.client import Client, fetch_request

TOPIC: Final = "ages"
SHARED: Final = "small"
CONNECTIONS: Final = 5
LEFT: Final = 4
"""The members of one group in so many vanish without a word, and it is not deleted: its session expires, and then its offsets."""
SHARERS: Final = "sharers"
VISITS: Final = 4
"""So often a member of the share group comes. The first assignment is made a second after it joined."""
_NO_SESSION: Final = 122
_NO_MEMBER: Final = (25, 110, 113)
"""UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH."""
_SESSION_MS: Final = 30_000
_NO_SUCH_GROUP: Final = 69
_MEMBER_ID_REQUIRED: Final = 79
_ACCEPT: Final = 1


@dataclass
class Sharer:
    """A member of the share group, with a connection that stays: a broker forgets where a group is going to begin when the
    connections of all its members are closed and nothing has been acknowledged."""

    client: Client
    member: str
    epoch: int = 0
    session_epoch: int = 0
    visits: int = 0
    assigned: list[bytes] = field(default_factory=list)


class Churn:
    """The load of connections and group members that come and go."""

    client: Client
    """The connection of the load."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._groups = 0
        self._sharer: Sharer | None = None
        self.taken = 0
        """The number of records that the share group has accepted."""

    def connect(self, client: Client) -> None:
        """Begins on a broker that has been started; `client` is the connection of the load."""
        self.client, self._sharer = client, None

    def close(self) -> None:
        if self._sharer is not None:
            self._sharer.client.close()

    def come_and_go(self) -> None:
        """Opens connections that ask for something, begin a fetch session, and go without a word."""
        for _ in range(CONNECTIONS):
            client = Client(self._port)
            client.call(api_versions.ApiVersionsRequest("soak", "1"), 3)
            client.call(metadata.MetadataRequest(None, False), 12)
            client.call(fetch_request(TOPIC, 0, session_epoch=0), 12)
            client.close()

    def _name(self, kind: str) -> str:
        self._groups += 1
        name = f"{kind}-{self._groups}"
        self.client.sure(find_coordinator.FindCoordinatorRequest(name, 0), 2)
        return name

    def _leaves(self) -> bool:
        return self._groups % LEFT > 0

    def _delete(self, name: str) -> None:
        if self._leaves():
            self.client.sure(delete_groups.DeleteGroupsRequest([name]), 2, _NO_SUCH_GROUP)

    # A classic group

    def classic_group(self) -> None:
        """Lets two members join, one after the other, so that there is a rebalance; they commit, and leave."""
        name = self._name("classic")
        first, second = Client(self._port), Client(self._port)
        one, generation = self._join(first, name, "")
        self._sync(first, name, generation, one, [one])
        two = self._member_id(second, name)
        second.send(self._join_request(name, two), 7)
        first.send(self._join_request(name, one), 7)
        answer = first.receive(join_group, 7)
        second.receive(join_group, 7)
        generation = answer.generation_id
        leader, other = ((first, one), (second, two)) if answer.leader == one else ((second, two), (first, one))
        self._sync(leader[0], name, generation, leader[1], [one, two])
        self._sync(other[0], name, generation, other[1], [])
        part = offset_commit.OffsetCommitRequestPartition(0, self._groups, committed_metadata="")
        topics = [offset_commit.OffsetCommitRequestTopic(TOPIC, partitions=[part])]
        first.sure(offset_commit.OffsetCommitRequest(name, generation, one, topics=topics), 8)
        for client, member in ((first, one), (second, two)):
            if self._leaves():
                client.sure(leave_group.LeaveGroupRequest(name, members=[leave_group.MemberIdentity(member)]), 4)
            client.close()
        self._delete(name)

    def _join_request(self, group: str, member_id: str) -> join_group.JoinGroupRequest:
        protocols = [join_group.JoinGroupRequestProtocol("range", b"")]
        return join_group.JoinGroupRequest(group, _SESSION_MS, _SESSION_MS, member_id, None, "consumer", protocols)

    def _member_id(self, client: Client, group: str) -> str:
        """Returns the id that a member has to join with (KIP-394)."""
        return str(client.sure(self._join_request(group, ""), 7, _MEMBER_ID_REQUIRED).member_id)

    def _join(self, client: Client, group: str, member_id: str) -> tuple[str, int]:
        member_id = member_id or self._member_id(client, group)
        answer = client.sure(self._join_request(group, member_id), 7)
        return member_id, answer.generation_id

    def _sync(self, client: Client, group: str, generation: int, member_id: str, members: list[str]) -> None:
        assignments = [sync_group.SyncGroupRequestAssignment(each, b"x" * 40) for each in members]
        client.sure(sync_group.SyncGroupRequest(group, generation, member_id, None, "consumer", "range", assignments), 5)

    # A group of the consumer protocol

    def consumer_group(self) -> None:
        """Lets a member join, beat, and leave (KIP-848)."""
        name, member = self._name("consumer"), str(uuid.uuid4())
        beat: dict[str, Any] = {"rebalance_timeout_ms": _SESSION_MS, "subscribed_topic_names": [TOPIC], "topic_partitions": []}
        request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest
        answer = self.client.sure(request(name, member, 0, **beat), 1)
        self.client.sure(request(name, member, answer.member_epoch), 1)
        if self._leaves():
            self.client.sure(request(name, member, -1), 1)
        self._delete(name)

    # A share group

    def share_group(self) -> None:
        """Makes the next visit of a member of a group that stays (KIP-932): it joins, takes records and acknowledges them in the
        visits after that, and leaves in the last one; the next is another member's."""
        if self._sharer is None:
            self._sharer = Sharer(Client(self._port), str(uuid.uuid4()))
            self.client.sure(find_coordinator.FindCoordinatorRequest(SHARERS, 0), 2)
        sharer = self._sharer
        subscribed = [SHARED] if sharer.epoch == 0 else None
        request = share_group_heartbeat.ShareGroupHeartbeatRequest
        answer = self.client.sure(request(SHARERS, sharer.member, sharer.epoch, None, subscribed), 1, *_NO_MEMBER)
        if answer.error_code:  # the rounds were so slow that its session expired
            sharer.client.close()
            self._sharer = None
            return
        sharer.epoch = answer.member_epoch
        if answer.assignment is not None:  # it is said only when it changes
            sharer.assigned = [part.topic_id for part in answer.assignment.topic_partitions]
        for topic_id in sharer.assigned:
            self.taken += self._take(sharer, topic_id)
        sharer.visits += 1
        if sharer.visits == VISITS:
            self._sharer = None
            sharer.client.sure(share_acknowledge.ShareAcknowledgeRequest(SHARERS, sharer.member, -1), 1, _NO_SESSION)
            sharer.client.close()
            self.client.sure(request(SHARERS, sharer.member, -1), 1)

    def _take(self, sharer: Sharer, topic_id: bytes) -> int:
        """Acquires records and accepts them; returns how many."""
        wanted = [share_fetch.FetchTopic(topic_id, [share_fetch.FetchPartition(0, 1 << 20)])]
        limits: dict[str, Any] = {"max_wait_ms": 100, "min_bytes": 1, "max_records": 200, "batch_size": 50, "topics": wanted}
        answer = sharer.client.sure(share_fetch.ShareFetchRequest(SHARERS, sharer.member, sharer.session_epoch, **limits), 1)
        sharer.session_epoch += 1
        taken = [
            share_acknowledge.AcknowledgementBatch(each.first_offset, each.last_offset, [_ACCEPT])
            for topic in answer.responses
            for part in topic.partitions
            for each in part.acquired_records
        ]
        if taken:
            topics = [share_acknowledge.AcknowledgeTopic(topic_id, [share_acknowledge.AcknowledgePartition(0, taken)])]
            request = share_acknowledge.ShareAcknowledgeRequest(SHARERS, sharer.member, sharer.session_epoch, topics=topics)
            sharer.client.sure(request, 1)
            sharer.session_epoch += 1
        return sum(each.last_offset - each.first_offset + 1 for each in taken)
