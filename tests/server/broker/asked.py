"""A whole broker in memory whose handlers are asked without a network: through the codecs, at any version."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from ottla.server.base.errors import CloseConnection
from ottla.server.base.randomness import from_seed
from ottla.server.broker.broker import Broker
from ottla.server.requests.kept_answers import Encoded
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.wire.api import APIS, Api
from ottla.wire.frame import MALFORMED
from ottla.wire.messages import (
    consumer_group_heartbeat,
    create_topics,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    initialize_share_group_state,
    offset_commit,
    share_fetch,
)
from ottla.wire.primitives import WireStruct
from tests.fakes import ManualClock
from tests.memdisk import MemDisk
from tests.server.broker.whole_broker import config, disk

TOPIC: Final = "t"
GROUP, TRANSACTION, SHARE = range(3)
AUTHORIZED: Final = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}
"""The settings of a broker with an authorizer, for which every client may do everything."""
INTERNAL: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
PATIENCE: Final = 12
"""The number of moves of the clock after which an answer that is still not there counts as never given."""


class Asked:
    """A broker in memory, and one client."""

    def __init__(self, storage: MemDisk | None = None, clock: Any = None, network: Any = None, **settings: str) -> None:
        self.clock = clock or ManualClock()
        self.disk = storage or disk()
        topics = ("offsets_topic", "transaction_state_log", "share_coordinator_state_topic")
        configured = config(**{f"{topic}_num_partitions": "1" for topic in topics}, **settings)
        self.broker = Broker(configured, disk=self.disk, clock=self.clock, random=from_seed(1), network=network)
        self.session = Session("PLAINTEXT", "127.0.0.1")

    @property
    def topic_id(self) -> bytes:
        assert self.broker.context is not None
        return self.broker.context.metadata.topics[TOPIC].topic_id

    async def start(self) -> None:
        """Starts the broker, and makes the topic if it is not there."""
        await self.broker.start()
        assert self.broker.context is not None
        self.broker.context.metadata.features["share.version"] = 1
        if TOPIC not in self.broker.context.metadata.topics:
            await self.ask(create_topics.CreateTopicsRequest([create_topics.CreatableTopic(TOPIC, 1, 1)], 1000))

    async def ask(self, request: WireStruct, version: int | None = None) -> Any:
        """Returns the answer to a request, which must come."""
        api = APIS[import_module(type(request).__module__).API_KEY]
        parts: list[Any] = []
        version = api.max_version if version is None else version
        import_module(f"ottla.wire.messages.{api.module}").ENCODE_REQUEST[version](request, parts)
        answer = await self.send(api, version, b"".join(parts))
        assert answer is not None, request
        return answer

    async def send(self, api: Api, version: int, body: bytes) -> WireStruct | None:
        """Returns what the handler answers, which can be encoded; None where it answers nothing, or cannot read the request."""
        messages, handler = (import_module(f"ottla.{folder}.{api.module}") for folder in ("wire.messages", "server.handlers"))
        try:
            decoded, _ = messages.DECODE_REQUEST[version](body, 0)
        except MALFORMED:
            return None
        context: Any = self.broker.context
        try:
            answer = handler.handle(decoded, Request(context, self.session, api.key, version, 1, "client"))
            if inspect.isawaitable(answer):
                answer = await self.wait_for(answer)
        except CloseConnection:
            return None
        if isinstance(answer, Encoded):
            found: WireStruct = messages.DECODE_RESPONSE[version](answer.body, 0)[0]
            return found
        if isinstance(answer, WireStruct):
            messages.ENCODE_RESPONSE[version](answer, [])
            return answer
        return None

    async def wait_for(self, answer: Any) -> Any:
        waiting = asyncio.ensure_future(_result(answer))
        for _ in range(PATIENCE):
            for _ in range(3):
                await asyncio.sleep(0)
            if waiting.done():
                return waiting.result()
            self.clock.advance(1)
        waiting.cancel()
        return None

    async def settle(self) -> None:
        for _ in range(5):
            self.clock.advance(0.1)
            await asyncio.sleep(0)

    # What there is

    async def make_everything(self) -> None:
        """Makes the internal topics, a group of each kind, and a transactional id."""
        for kind, key in ((GROUP, "g"), (TRANSACTION, "tx"), (SHARE, "g:AAAAAAAAAAAAAAAAAAAAAQ:0")):
            for _ in range(2):
                await self.ask(find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]))
                await self.settle()
        partition = offset_commit.OffsetCommitRequestPartition(0, 5)
        await self.ask(offset_commit.OffsetCommitRequest("g", topics=[self.committed([partition])]))
        heartbeat = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest("modern", "m", 0, rebalance_timeout_ms=1000)
        heartbeat.subscribed_topic_names, heartbeat.topic_partitions = [TOPIC], []
        await self.ask(heartbeat)
        await self.begin_share_group()
        await self.ask(init_producer_id.InitProducerIdRequest("tx", 60_000))
        await self.settle()

    async def begin_share_group(self) -> None:
        part = initialize_share_group_state.PartitionData(0, 1, 0)
        begun = initialize_share_group_state.InitializeStateData(self.topic_id, [part])
        answer = await self.ask(initialize_share_group_state.InitializeShareGroupStateRequest("shared", [begun]))
        assert set(codes(answer)) == {0}, answer

    async def share_fetch_code(self) -> int:
        """Returns the error code of the topic's partition in a ShareFetch that opens a session."""
        topics = [share_fetch.FetchTopic(self.topic_id, [share_fetch.FetchPartition(0)])]
        fetch = share_fetch.ShareFetchRequest("shared", "m", 0, 0, 1, 1 << 20, 100, 100, topics=topics)
        answer = await self.ask(fetch)
        (code,) = (part.error_code for topic in answer.responses for part in topic.partitions)
        return int(code)

    def committed(self, partitions: list[Any]) -> offset_commit.OffsetCommitRequestTopic:
        return offset_commit.OffsetCommitRequestTopic(TOPIC, self.topic_id, partitions)

    async def leave_no_room(self) -> None:
        """No record fits into the internal topics any more."""
        smallest = incremental_alter_configs.AlterableConfig("max.message.bytes", 0, "1")
        resources = [incremental_alter_configs.AlterConfigsResource(2, name, [smallest]) for name in INTERNAL]
        answer = await self.ask(incremental_alter_configs.IncrementalAlterConfigsRequest(resources))
        assert not any(each.error_code for each in answer.responses), answer


async def _result(answer: Any) -> Any:
    return await answer


def codes(value: Any) -> Iterator[int]:
    """Yields all error codes of an answer."""
    if isinstance(value, WireStruct):
        for name in value.__slots__:
            found = getattr(value, name)
            if name.endswith("error_code"):
                yield int(found)
            else:
                yield from codes(found)
    elif isinstance(value, list):
        for each in value:
            yield from codes(each)
