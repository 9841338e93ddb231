"""A leader that the test plays: logs on disks of its own, and answers to Fetch and ListOffsets as Kafka gives them to a follower.

Nothing is answered before the test says so (`answer`, `fail`), and time is the follower's ManualClock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ottla.log.config import LogConfig
from ottla.server.base.promise import Promise
from ottla.server.partitions.replica import Replica
from ottla.server.replication.fetcher import Fetcher
from ottla.server.replication.following import Following
from ottla.server.replication.settings import FetchSettings
from ottla.server.replication.throttle import Throttle
from ottla.wire.batch import iter_batches
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.primitives import WireStruct
from tests.fakes import NODE_ID, MemoryBroker
from tests.log import support
from tests.memdisk import MemDisk

LEADER = 2
SESSION_ID = 77
BACKOFF_S = 1.0
Name = tuple[bytes, int]


class LeaderLog(support.Rig):
    """A partition of the leader. `high_watermark` is what its answers say, None for the log's end."""

    def __init__(self, config: LogConfig | None = None) -> None:
        super().__init__(config)
        self.high_watermark: int | None = None

    def fetched(self, asked: FetchPartition) -> PartitionData:
        """The answer to a follower."""
        log, offset = self.log, asked.fetch_offset
        data = PartitionData(asked.partition, high_watermark=-1)
        if not log.log_start_offset <= offset <= log.log_end_offset and asked.last_fetched_epoch < 0:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return data
        if asked.last_fetched_epoch >= 0:
            epoch, end = log.end_offset_for_epoch(asked.last_fetched_epoch)
            if epoch >= 0 and (epoch < asked.last_fetched_epoch or end < offset):
                data.diverging_epoch = EpochEndOffset(epoch, end)
                return data
        if not log.log_start_offset <= offset <= log.log_end_offset:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return data
        data.high_watermark = log.log_end_offset if self.high_watermark is None else self.high_watermark
        data.log_start_offset = log.log_start_offset
        found = log.read(offset, asked.partition_max_bytes, upto=log.log_end_offset)
        data.records = b"" if found is None else bytes(found.read())
        return data


class Asked(NamedTuple):
    """One request to the leader, and the promise of its answer."""

    request: Any
    min_version: int
    answer: Promise[Any]


class PlayedLeader:
    """The connection to the leader, and the leader behind it, with a log for each of its partitions."""

    name = "leader:9092"

    def __init__(self) -> None:
        self.logs: dict[Name, LeaderLog] = {}
        self.asked: list[Asked] = []
        self.known: dict[Name, FetchPartition] = {}
        """The partitions of the session."""
        self.epoch = 0
        self.closed = False

    def call(self, request: WireStruct, timeout_ms: int, *, min_version: int = 0) -> Promise[Any]:
        asked = Asked(request, min_version, Promise())
        self.asked.append(asked)
        return asked.answer

    async def close(self) -> None:
        from ottla.server.peers.outcomes import Closed

        self.closed = True
        for asked in self.asked:
            if not asked.answer.done():
                asked.answer.set_exception(Closed("closed"))

    @property
    def open(self) -> Asked:
        """The request that has no answer."""
        (found,) = [asked for asked in self.asked if not asked.answer.done()]
        return found

    def answer(self, answer: object = None) -> Any:
        """Answers the request that is open, by its logs if no answer is given, and returns the request."""
        asked = self.open
        if answer is not None and isinstance(asked.request, FetchRequest):
            self.take(asked.request)
        if answer is None:
            answer = self.fetch(asked.request) if isinstance(asked.request, FetchRequest) else self.ranges(asked.request)
        if isinstance(answer, Exception):
            asked.answer.set_exception(answer)
        else:
            asked.answer.set_result(answer)
        return asked.request

    def fetch(self, request: FetchRequest) -> FetchResponse:
        """Answers as a leader with sessions does, with every partition of the session."""
        self.take(request)
        topics = [FetchableTopicResponse("", name[0], [self.logs[name].fetched(asked)]) for name, asked in self.known.items()]
        return FetchResponse(session_id=SESSION_ID, responses=topics)

    def take(self, request: FetchRequest) -> None:
        """Takes over what a request says of the session."""
        if request.session_epoch == 0:
            self.known = {}
        assert request.session_epoch in (0, self.epoch), request
        assert request.session_id == SESSION_ID or request.session_epoch == 0, request
        for topic in request.topics:
            self.known |= {(topic.topic_id, each.partition): each for each in topic.partitions}
        for gone in request.forgotten_topics_data:
            for index in gone.partitions:
                self.known.pop((gone.topic_id, index), None)
        self.epoch = request.session_epoch + 1

    def ranges(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        by_name = {name[0].rstrip(b".").decode(): name[0] for name in self.logs}
        for topic in request.topics:
            found = []
            for each in topic.partitions:
                log = self.logs[by_name[topic.name], each.partition_index].log
                offset = log.log_end_offset if each.timestamp == -1 else log.log_start_offset
                assert each.timestamp in (-1, -2)
                found.append(ListOffsetsPartitionResponse(each.partition_index, 0, -1, offset, log.leader_epoch))
            topics.append(ListOffsetsTopicResponse(topic.name, found))
        return ListOffsetsResponse(topics=topics)


def settings(**changes: Any) -> FetchSettings:
    from ottla.server.peers.peer import PeerSettings

    return FetchSettings(
        NODE_ID,
        fetchers_per_leader=1,
        max_bytes=10_000,
        max_partition_bytes=1_000,
        min_bytes=1,
        max_wait_ms=500,
        request_timeout_ms=30_000,
        backoff_ms=int(BACKOFF_S * 1000),
        quota_windows=4,
        quota_window_s=1,
        peer=PeerSettings(),
    )._replace(**changes)


class Rig:
    """A broker in memory, a fetcher that runs, and the leader that it asks."""

    def __init__(self, disk: MemDisk | None = None, **changes: Any) -> None:
        self.broker = MemoryBroker({}, disk=disk)
        self.clock = self.broker.clock
        self.leader = PlayedLeader()
        self.address: tuple[str, int] | None = ("leader", 9092)
        self.connected: list[tuple[str, int]] = []
        self.throttle = Throttle(NODE_ID, self.clock, 4, 1.0)
        self.fetcher = Fetcher(lambda: self.address, self._connect, settings(**changes), self.clock, lambda: 5, self.throttle)
        self.running = asyncio.ensure_future(self.fetcher.run())

    def _connect(self, address: tuple[str, int]) -> Any:
        self.connected.append(address)
        return self.leader

    def topic(self, name: str = "t", **settings: Any) -> Following:
        """A partition that the played leader leads, with a log there; it is not fetched yet."""
        topic_id = self.broker.create_topic(name, leader=LEADER, followers=(LEADER,), **settings)
        replica = self.broker.replica(name)
        self.leader.logs[topic_id, 0] = LeaderLog(replica.log.config)
        return Following(replica, LEADER)

    def topic_with(self, records: int) -> Following:
        """The same, with so many records here, of epoch 0, whatever the leader has."""
        following = self.topic()
        for _ in range(records):
            following.log.append_as_leader(support.batch(), leader_epoch=0)
        return Following(following.replica, LEADER)

    def follow(self, name: str = "t", **settings: Any) -> Following:
        """Likewise, and the fetcher fetches it."""
        following = self.topic(name, **settings)
        self.fetcher.add(following)
        return following

    def leader_log(self, following: Following) -> LeaderLog:
        return self.leader.logs[following.key]

    async def answer(self, answer: object = None) -> Any:
        """Answers the open request, and lets the fetcher do what follows."""
        await turns()
        request = self.leader.answer(answer)
        await turns()
        return request

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await turns()


def run(scenario: Callable[[Rig], Awaitable[object]], **changes: Any) -> None:
    """Runs a scenario, and ends the fetcher in order."""

    async def main() -> None:
        rig = Rig(**changes)
        try:
            await turns()
            await scenario(rig)
        finally:
            await rig.fetcher.close()
            await asyncio.wait_for(rig.running, 10)

    asyncio.run(main())


async def turns(count: int = 30) -> None:
    """Gives the loop as many turns as anything that is ready needs."""
    for _ in range(count):
        await asyncio.sleep(0)


def records(replica: Replica) -> bytes:
    """All bytes of a replica's log."""
    return b"".join(replica.log.iterate_batches(replica.log.log_start_offset)) if replica.log.log_end_offset else b""


def offsets(data: bytes) -> list[int]:
    """The base offsets of the batches in `data`."""
    return [header.base_offset for header, _ in iter_batches(data)]
