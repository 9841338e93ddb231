"""aiokafka: produce, consume, groups and administration, against ottla and against Apache Kafka.

Pure asyncio with codecs from cramjam, and the oldest requests of all clients here: Produce v7, Fetch v11, ListOffsets v3, groups
without topic ids. Each test is a coroutine in a loop of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import MessageSizeTooLargeError
from aiokafka.structs import OffsetAndMetadata, OffsetAndTimestamp

from compat_tests.times import TODAY_MS
from compat_tests.waiting import TIMEOUT_S

Unique = Callable[[str], str]
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]
TOPIC_EXISTS, UNKNOWN_TOPIC = 36, 3


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Ask until the answer is true. Fails with `what` when the time is over."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while not await condition():  # noqa: ASYNC110 - it is the broker that changes, and no event of ours says when
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"not within {TIMEOUT_S} s: {what}")


@asynccontextmanager
async def administering(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def topic_of(bootstrap: str, name: str, partitions: int = 3) -> str:
    """A new topic whose partitions answer: what acks=0 sends before that is lost."""
    parts = [TopicPartition(name, p) for p in range(partitions)]
    async with administering(bootstrap) as admin:
        await admin.create_topics([NewTopic(name, partitions, 1)])
    async with consumer(bootstrap) as reader:
        assert await reader.end_offsets(parts) == dict.fromkeys(parts, 0)
    return name


def consumer(bootstrap: str, *topics: str, **settings: Any) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, **({"auto_offset_reset": "earliest"} | settings))


async def drain(reader: AIOKafkaConsumer, count: int) -> list[Any]:
    """Exactly `count` records."""
    found: list[Any] = []

    async def enough() -> bool:
        for records in (await reader.getmany(timeout_ms=500)).values():
            found.extend(records)
        return len(found) >= count

    await until(enough, f"{count} records")
    assert len(found) == count
    return found


async def fill(bootstrap: str, topic: str, per_partition: int, partitions: int = 3) -> None:
    """Values `p<partition>-<n>`, a second apart from TODAY_MS on."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as client:
        sent = [
            await client.send(topic, f"p{p}-{n}".encode(), partition=p, timestamp_ms=TODAY_MS + n * 1000)
            for n in range(per_partition)
            for p in range(partitions)
        ]
        await asyncio.gather(*sent)


def fields(record: Any) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.timestamp_type, record.key, record.value, list(record.headers)


SETTINGS = [{"acks": 0}, {"acks": 1}, {"acks": "all"}, {"enable_idempotence": True}]


@pytest.mark.parametrize("settings", SETTINGS, ids=["acks-0", "acks-1", "acks-all", "idempotent"])
def test_records_come_back_as_they_were_sent_in_every_codec(bootstrap: str, unique: Unique, settings: dict[str, Any]) -> None:
    headers = [("origin", b"test"), ("empty", b""), ("origin", b"again")]
    small = [(b"key", b"value"), (None, b"no key"), (b"no value", None), (b"", b""), ("schlüssel".encode(), "значение".encode())]
    sent = [(key, value, headers) for key, value in small] + [(b"large", b"0123456789abcdef" * 56_250, [])]

    async def check() -> None:
        topic = await topic_of(bootstrap, unique("ak"))
        offset = 0

        async def arrived() -> bool:  # acks=0 tells nobody when, and the next producer's records could overtake these
            where = TopicPartition(topic, 1)
            async with consumer(bootstrap) as reader:
                return bool(await reader.end_offsets([where]) == {where: offset})

        for codec in CODECS:
            async with AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=20, **settings) as client:
                placed = [
                    await client.send(topic, value, key, 1, TODAY_MS + offset + n, their)
                    for n, (key, value, their) in enumerate(sent)
                ]
                answers = await asyncio.gather(*placed)
            if settings.get("acks") != 0:
                assert [(a.topic, a.partition, a.offset) for a in answers] == [(topic, 1, offset + n) for n in range(len(sent))]
            offset += len(sent)
            await until(arrived, f"{codec} has arrived")
        async with consumer(bootstrap, topic) as reader:
            got = await drain(reader, offset)
        wanted = [(n, TODAY_MS + n, 0, *sent[n % len(sent)]) for n in range(offset)]
        assert [fields(record) for record in got] == wanted

    asyncio.run(check())


def test_a_record_larger_than_the_fetch_limit_is_delivered_and_too_large_a_one_refused(bootstrap: str, unique: Unique) -> None:
    async def check() -> None:
        topic = await topic_of(bootstrap, unique("ak"), 1)
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, max_request_size=8 << 20) as client:
            await client.send_and_wait(topic, b"x" * 900_000)
            with pytest.raises(MessageSizeTooLargeError):
                await client.send_and_wait(topic, b"x" * (2 << 20))
            await client.send_and_wait(topic, b"after")
        async with consumer(bootstrap, topic, max_partition_fetch_bytes=1000, fetch_max_bytes=1000) as reader:
            assert [len(record.value) for record in await drain(reader, 2)] == [900_000, 5]

    asyncio.run(check())


def test_assign_seek_beginning_end_and_offsets_for_times(bootstrap: str, unique: Unique) -> None:
    async def check() -> None:
        topic = await topic_of(bootstrap, unique("ak"))
        await fill(bootstrap, topic, 20)
        zero, one, two = parts = [TopicPartition(topic, p) for p in range(3)]
        async with consumer(bootstrap) as reader:
            reader.assign([zero, one])
            assert await reader.beginning_offsets(parts) == dict.fromkeys(parts, 0)
            assert await reader.end_offsets(parts) == dict.fromkeys(parts, 20)
            found = await reader.offsets_for_times({zero: TODAY_MS + 4500, one: 0, two: TODAY_MS + 999_000})
            assert found == {zero: OffsetAndTimestamp(5, TODAY_MS + 5000), one: OffsetAndTimestamp(0, TODAY_MS), two: None}
            reader.seek(zero, found[zero].offset)
            await reader.seek_to_end(one)
            assert await reader.position(one) == 20
            assert [r.value for r in await drain(reader, 15)] == [b"p0-%d" % n for n in range(5, 20)]
            reader.pause(zero)
            await reader.seek_to_beginning(one)
            assert [r.offset for r in await drain(reader, 20)] == list(range(20))
            reader.resume(zero)
            reader.seek(zero, 1000)  # out of range: back to the earliest
            assert [r.offset for r in await drain(reader, 20)] == list(range(20))

    asyncio.run(check())


class Member(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """A group member that reads in a task of its own, and commits whenever it must give partitions up and when it leaves."""

    def __init__(self, bootstrap: str, topic: str, group: str, **settings: Any) -> None:
        own = {"group_id": group, "heartbeat_interval_ms": 300, "session_timeout_ms": 30_000, "auto_commit_interval_ms": 200}
        self.reader = consumer(bootstrap, **(own | settings))
        self.reader.subscribe([topic], listener=self)
        self.assigned: set[int] = set()
        self.rebalances = 0
        self.values: list[bytes] = []
        self.task = asyncio.create_task(self.run())

    async def run(self) -> None:
        async with self.reader:
            async for record in self.reader:
                self.values.append(record.value)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self.assigned = set()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.rebalances += 1
        self.assigned = {p.partition for p in assigned}

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def members(*present: Member) -> AsyncIterator[list[Member]]:
    """A list to add members to; all have left at its end."""
    everyone = list(present)
    try:
        yield everyone
    finally:
        for each in everyone:
            await each.leave()


async def becomes(everyone: list[Member], condition: Callable[[], bool], what: str) -> None:
    """Wait for the condition; a member that died is the failure to show."""

    async def holds() -> bool:
        for each in everyone:
            if each.task.done() and not each.task.cancelled():
                each.task.result()
        return condition()

    await until(holds, what)


@pytest.mark.parametrize("assignor", [RangePartitionAssignor, StickyPartitionAssignor])
def test_a_group_rebalances_and_loses_nothing(bootstrap: str, unique: Unique, assignor: type) -> None:
    async def check() -> None:
        topic, group = await topic_of(bootstrap, unique("ak"), 4), unique("ak-group")
        settings = {"partition_assignment_strategy": [assignor]}
        async with members(first := Member(bootstrap, topic, group, **settings)) as everyone:
            await becomes(everyone, lambda: first.assigned == {0, 1, 2, 3}, "one member has all partitions")
            everyone.append(second := Member(bootstrap, topic, group, **settings))
            await becomes(
                everyone,
                lambda: len(first.assigned) == len(second.assigned) == 2 and first.assigned | second.assigned == {0, 1, 2, 3},
                "the partitions are split",
            )
            await fill(bootstrap, topic, 10, 4)
            await becomes(everyone, lambda: len({*first.values, *second.values}) == 40, "the two have read everything")
            await first.leave()
            await becomes(everyone[1:], lambda: second.assigned == {0, 1, 2, 3}, "who stays has all partitions")
            before = len(second.values)
            await fill(bootstrap, topic, 5, 4)
            await becomes(everyone[1:], lambda: len(second.values) >= before + 20, "and reads on")
        async with consumer(bootstrap, topic, group_id=group) as later:  # everything was committed, by who left too
            assert not await later.getmany(timeout_ms=1000)
            assert {await later.position(TopicPartition(topic, p)) for p in range(4)} == {15}

    asyncio.run(check())


def test_a_static_member_returns_without_a_rebalance(bootstrap: str, unique: Unique) -> None:
    async def check() -> None:
        topic, group = await topic_of(bootstrap, unique("ak")), unique("ak-static")

        def member(name: str) -> Member:
            return Member(bootstrap, topic, group, group_instance_id=name)

        async with members(one := member("one")) as everyone:
            await becomes(everyone, lambda: one.assigned == {0, 1, 2}, "one member has all partitions")
            everyone.append(two := member("two"))
            await becomes(everyone, lambda: sorted(len(m.assigned) for m in everyone) == [1, 2], "they share the partitions")
            before, kept, rebalances = set(two.assigned), set(one.assigned), one.rebalances
            await two.leave()  # a static member says no farewell: its place waits for it
            everyone.append(back := member("two"))
            await becomes(everyone, lambda: back.assigned == before, "the returned member has its partitions back")
            assert (one.assigned, one.rebalances) == (kept, rebalances)

    asyncio.run(check())


def test_commits_are_kept_over_a_restart_of_the_consumer(bootstrap: str, unique: Unique) -> None:
    async def check() -> None:
        topic, group = await topic_of(bootstrap, unique("ak"), 1), unique("ak-group")
        await fill(bootstrap, topic, 10, 1)
        zero = TopicPartition(topic, 0)
        async with consumer(bootstrap, topic, group_id=group, enable_auto_commit=False) as reader:
            assert await reader.committed(zero) is None
            await drain(reader, 10)
            await reader.commit({zero: (4, "half way")})
            assert await reader.committed(zero) == 4
        async with consumer(bootstrap, topic, group_id=group, enable_auto_commit=False) as reader:
            assert [r.offset for r in await drain(reader, 6)] == [4, 5, 6, 7, 8, 9]
        async with administering(bootstrap) as admin:
            assert await admin.list_consumer_group_offsets(group) == {zero: OffsetAndMetadata(4, "half way")}

    asyncio.run(check())


def test_topics_are_created_described_extended_and_deleted(bootstrap: str, unique: Unique) -> None:
    async def check() -> None:
        name = unique("ak-admin")
        async with administering(bootstrap) as admin:

            async def partitions() -> dict[int, tuple[Any, ...]]:
                (topic,) = await admin.describe_topics([name])
                return {p["partition"]: (p["leader"], p["replicas"], p["isr"]) for p in topic["partitions"]}

            async def extended() -> bool:
                return await partitions() == dict.fromkeys(range(5), (1, [1], [1]))

            async def gone() -> bool:
                return name not in await admin.list_topics()

            new = NewTopic(name, 2, 1, topic_configs={"retention.ms": "60000"})
            assert [(t[0], t[1]) for t in (await admin.create_topics([new])).topic_errors] == [(name, 0)]
            assert [(t[0], t[1]) for t in (await admin.create_topics([new])).topic_errors] == [(name, TOPIC_EXISTS)]
            refused = await admin.create_topics([NewTopic("not a name", 1, 1)])
            assert [t[1] for t in refused.topic_errors] == [17]
            await admin.create_partitions({name: NewPartitions(5)})
            await until(extended, "five partitions are there")
            cluster = await admin.describe_cluster()
            assert [(b["node_id"], b["host"]) for b in cluster["brokers"]] == [(1, "127.0.0.1")]
            assert cluster["controller_id"] == 1
            await admin.delete_topics([name])
            await until(gone, "the topic is gone")
            assert [tuple(t) for t in (await admin.delete_topics([name])).topic_error_codes] == [(name, UNKNOWN_TOPIC)]

    asyncio.run(check())


def test_settings_are_described_and_altered(bootstrap: str, unique: Unique) -> None:
    """AlterConfigs says all settings of a topic anew: what it leaves out is back at its default."""

    async def check() -> None:
        name = await topic_of(bootstrap, unique("ak-configs"))
        async with administering(bootstrap) as admin:

            async def settings() -> dict[str, tuple[str, int]]:
                (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
                ((error, _, _, _, entries),) = answer.resources
                assert error == 0
                return {entry[0]: (entry[1], entry[3]) for entry in entries}  # value and source

            async def become(wanted: dict[str, str]) -> None:
                await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, wanted)])

                async def holds() -> bool:
                    return {k: v for k, (v, source) in (await settings()).items() if source == 1} == wanted

                await until(holds, f"the topic's own settings are {wanted}")

            assert (await settings())["segment.bytes"] == (str(1 << 30), 5)
            await become({"retention.ms": "123456", "cleanup.policy": "compact"})
            await become({"cleanup.policy": "compact"})
            (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "1")])
            assert {entry[0]: entry[1] for entry in answer.resources[0][4]}["node.id"] == "1"

    asyncio.run(check())


def test_records_are_deleted_and_groups_listed_and_described(bootstrap: str, unique: Unique) -> None:
    async def check() -> None:
        topic, group = await topic_of(bootstrap, unique("ak")), unique("ak-group")
        await fill(bootstrap, topic, 10)
        zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
        async with administering(bootstrap) as admin:
            low = await admin.delete_records({zero: RecordsToDelete(6), one: RecordsToDelete(-1)})
            assert low == {zero: 6, one: 10}
        async with administering(bootstrap) as admin, consumer(bootstrap, topic, group_id=group) as reader:
            assert await reader.beginning_offsets([zero, one]) == {zero: 6, one: 10}
            assert sorted(r.offset for r in await drain(reader, 14) if r.partition == 0) == [6, 7, 8, 9]
            assert (group, "consumer") in await admin.list_consumer_groups()
            assert await admin.find_coordinator(group) == 1
            (answer,) = await admin.describe_consumer_groups([group])
            ((error, name, state, protocol_type, protocol, described, *_),) = answer.groups
            assert (error, name, state, protocol_type, protocol) == (0, group, "Stable", "consumer", "roundrobin")
            assert [member[2] for member in described] == ["/127.0.0.1"]

    asyncio.run(check())
