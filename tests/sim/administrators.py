"""Administrators of a simulated world: they make topics and delete them, and delete records."""

from __future__ import annotations

import asyncio
from random import Random

from compat_tests.anomalies.history import Key
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import create_topics, delete_records, delete_topics, metadata
from tests.sim.client import Client, Lost
from tests.sim.stage import Stage


class Administrator:
    """Creates topics and deletes them, lists them, and deletes records."""

    def __init__(self, world: Stage, name: str, trimmed: Key | None) -> None:
        self.world = world
        self.random: Random = world.random(name)
        self.client = world.client(name)
        self.process = world.process()
        self._trimmed = trimmed
        self._made: list[str] = []
        self._count = 0

    async def once(self) -> None:
        act = self.random.choice((self._create, self._list, self._list, self._delete, self._trim))
        await act()

    async def _create(self) -> None:
        self._count += 1
        topic = f"made-{self.process}-{self._count}"
        operation = self.world.recorder.invoke(self.process, "create", topic=topic)
        code = await create(self.client, topic, self.random.randint(1, 3))
        if code == 0:
            operation.ok()
            self._made.append(topic)
        else:
            operation.info(error=code)

    async def _delete(self) -> None:
        if not self._made:
            await self._create()
            return
        topic = self._made.pop(self.random.randrange(len(self._made)))
        operation = self.world.recorder.invoke(self.process, "delete", topic=topic)
        try:
            request = delete_topics.DeleteTopicsRequest(topic_names=[topic], timeout_ms=3000)
            answer = await self.client.call(delete_topics, 5, request)
            code = answer.responses[0].error_code
        except Lost:
            code = ErrorCode.REQUEST_TIMED_OUT
        if code == 0:
            operation.ok()
        else:
            operation.info(error=code)

    async def _list(self) -> None:
        operation = self.world.recorder.invoke(self.process, "topics")
        try:
            answer = await self.client.call(metadata, 9, metadata.MetadataRequest(None, False))
        except Lost:
            operation.info()
            return
        operation.ok(names=sorted(topic.name for topic in answer.topics if not topic.error_code))

    async def choose_trim(self) -> int:
        """Returns an offset up to which records are to be deleted."""
        return self.random.randrange(1, 30)

    async def _trim(self) -> None:
        if self._trimmed is None:
            return
        topic, _, partition = self._trimmed.rpartition("-")
        offset = await self.choose_trim()
        operation = self.world.recorder.invoke(self.process, "trim", offsets={self._trimmed: offset})
        wanted = delete_records.DeleteRecordsTopic(topic, [delete_records.DeleteRecordsPartition(int(partition), offset)])
        try:
            answer = await self.client.call(delete_records, 2, delete_records.DeleteRecordsRequest([wanted], 3000))
        except Lost:
            operation.info()
            return
        code = answer.topics[0].partitions[0].error_code
        if code:
            operation.info(error=code)
        else:
            operation.ok()

    def restart(self) -> None:
        self.world.recorder.mark(self.process, "crash")
        self.client.close()
        self.process, self._made = self.world.process(), []


async def create(client: Client, topic: str, partitions: int, **settings: str) -> int:
    """Creates a topic, with _ for . in the names of its settings; returns the error code."""
    configs = [create_topics.CreatableTopicConfig(name.replace("_", "."), value) for name, value in settings.items()]
    wanted = create_topics.CreatableTopic(topic, partitions, 1, configs=configs)
    try:
        answer = await client.call(create_topics, 7, create_topics.CreateTopicsRequest([wanted], 3000))
    except Lost:
        return ErrorCode.REQUEST_TIMED_OUT
    return int(answer.topics[0].error_code)


async def create_surely(client: Client, topic: str, partitions: int, **settings: str) -> None:
    """Creates a topic, however often it has to be asked for."""
    while True:
        if await create(client, topic, partitions, **settings) in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
            return
        await asyncio.sleep(0.2)
