"""Asks a broker that holds much for all of it, and has it do what it does by itself; nothing of it is compiled (__main__.py).

The requests are short, and what they cost depends on what there is: topics, groups, offsets, transactional ids, quotas, settings,
users, access rules.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, Final

from ottla.server.dispatch import routes
from ottla.server.group.streams import topology as streams_topology
from ottla.server.txn.state import State
from ottla.wire.api import APIS
from ottla.wire.messages import (
    add_partitions_to_txn,
    alter_client_quotas,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_topics,
    delete_acls,
    delete_groups,
    describe_acls,
    describe_client_quotas,
    describe_log_dirs,
    describe_topic_partitions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    get_telemetry_subscriptions,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_groups,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_fetch,
    share_group_heartbeat,
    streams_group_describe,
)
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ottla.wire.primitives import WireStruct
from tests.stalls import share_sessions, streams_members
from tests.stalls.big_requests import PARTITIONS
from tests.stalls.memberships import LEAVING
from tests.stalls.sweep import InVirtualTime, Seen, Sweep, run_scaled

HELD: Final = 10_000
"""The number of each, before it is scaled."""
READERS: Final = 200
"""The number of members, before it is scaled, of a consumer group that read all topics."""
STREAMED: Final = "streamed"
ROUNDS: Final = 3
"""The heartbeats of each member of a streams group until nothing changes any more."""
LOT: Final = 50
"""So many are made with one request."""


class Large(InVirtualTime):
    """A broker with HELD of everything, divided by the scale."""

    producer: tuple[int, int]
    """The id and epoch of the producer that has a transaction with all partitions."""

    async def grow(self) -> None:
        self.disk.space = lambda path: (1 << 40, 1 << 39)  # type: ignore[method-assign]  # a disk in memory adds up its files
        names = [f"held-{number}" for number in range(HELD // self.scale)]
        for start in range(0, len(names), LOT):
            for request in self._lots(names[start : start + LOT]):
                await self._succeed(request)
        await self._share(names)
        await self._stream()
        for number in range(READERS // self.scale):
            await self._succeed(joining(f"reader-{number}", names))
        for name in names:
            await self._succeed(self._commit(name, names[0]), 9)
            await self._succeed(self._commit("wide", name), 9)
            await self._succeed(init_producer_id.InitProducerIdRequest(name, 60_000))
        await self.settle()

    async def begin_transactions(self, timeout_ms: int) -> None:
        """Begins as many transactions as there are topics, with a partition each, and one with all partitions."""
        names = [f"held-{number}" for number in range(HELD // self.scale)]
        for name in names:
            await self._begin(f"tx-{name}", names[:1], timeout_ms)
        self.producer = await self._begin("tx", names, MOST_TIMEOUT_MS)

    async def _begin(self, name: str, topics: list[str], timeout_ms: int) -> tuple[int, int]:
        begun = await self._succeed(init_producer_id.InitProducerIdRequest(name, timeout_ms))
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=begun.producer_id,
            v3_and_below_producer_epoch=begun.producer_epoch,
            v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(topic, [0]) for topic in topics],
        )
        await self._succeed(request, 3)
        return begun.producer_id, begun.producer_epoch

    async def _share(self, names: list[str]) -> None:
        """Opens a share session of all topics, of which each has a record, and lets it grow to all of them."""
        assert self.broker.context is not None
        topic_ids = [self.broker.context.metadata.topics[name].topic_id for name in names]
        self.share_epoch = 0
        for start in range(0, len(names), LOT):
            lot = topic_ids[start : start + LOT]
            await self._succeed(share_sessions.begun(lot, 1))
            await self._succeed(share_sessions.produced(lot, 1))
            await self._succeed(share_sessions.fetched(lot, 1, self.share_epoch))
            self.share_epoch += 1

    async def _stream(self) -> None:
        """Has members join a streams group with as many tasks as it may have, and reach their targets."""
        await self._succeed(create_topics.CreateTopicsRequest([create_topics.CreatableTopic(STREAMED, PARTITIONS, 1)], 10_000))
        epochs = {f"streamer-{number}": 0 for number in range(READERS // self.scale)}
        for member in epochs:
            epochs[member] = (await self._succeed(self.streaming(member))).member_epoch
        for _ in range(ROUNDS):
            await asyncio.sleep(5)
            for member, epoch in epochs.items():
                epochs[member] = (await self._succeed(StreamsGroupHeartbeatRequest(STREAMED, member, epoch))).member_epoch
        (group,) = (await self._succeed(streams_group_describe.StreamsGroupDescribeRequest([STREAMED]))).groups
        tasks = [task for member in group.members for task in member.assignment.active_tasks]
        assert (group.group_state, sum(len(each.partitions) for each in tasks)) == ("Stable", len(self.parts) * PARTITIONS), group

    @property
    def parts(self) -> list[str]:
        """Returns the names of the subtopologies of the streams group."""
        return [str(number) for number in range(streams_topology.MOST_TASKS // PARTITIONS)]

    def streaming(self, member: str) -> WireStruct:
        """Returns the first heartbeat of a member of the streams group."""
        return streams_members.joining(STREAMED, member, streams_members.topology(self.parts, STREAMED))

    def shared(self) -> Iterator[WireStruct]:
        """Yields requests in that session that name nothing: for the records of all topics, for more of them, and for its end."""
        for epoch in (self.share_epoch, self.share_epoch + 1, -1):
            yield share_sessions.fetched((), 0, epoch)

    async def _succeed(self, request: WireStruct, version: int | None = None) -> Any:
        answer = await self.ask(request, version)
        assert set(_codes(answer)) <= {0}, answer
        return answer

    def _lots(self, names: list[str]) -> Iterator[WireStruct]:
        """Yields the requests that make what has these names."""
        yield create_topics.CreateTopicsRequest([create_topics.CreatableTopic(name, 1, 1) for name in names], 10_000)
        subscriptions = [(CLIENT_METRICS, name) for name in names]
        yield set_configs(subscriptions, "interval.ms", "1000")
        yield set_configs(subscriptions, "match", "client_id=.*[05]")
        yield alter_client_quotas.AlterClientQuotasRequest(
            [
                alter_client_quotas.RequestEntryData(
                    [alter_client_quotas.RequestEntityData("user", name)],
                    [alter_client_quotas.OpData("producer_byte_rate", 1e9)],
                )
                for name in names
            ]
        )
        credentials = [
            alter_user_scram_credentials.ScramCredentialUpsertion(name, 1, 4096, b"s" * 16, b"p" * 32) for name in names
        ]
        yield alter_user_scram_credentials.AlterUserScramCredentialsRequest([], credentials)
        yield create_acls.CreateAclsRequest([rule_for(name) for name in names])

    @staticmethod
    def _commit(group: str, topic: str) -> WireStruct:
        partition = offset_commit.OffsetCommitRequestPartition(0, 5)
        return offset_commit.OffsetCommitRequest(
            group, topics=[offset_commit.OffsetCommitRequestTopic(topic, partitions=[partition])]
        )


def _load_anew(runtime: Any) -> None:
    runtime.unload(0)
    runtime.refresh()


MOST_TIMEOUT_MS: Final = 900_000
CLIENT_METRICS: Final = 16
ALL_BROKERS: Final = (4, "")


def _codes(value: Any) -> Iterator[int]:
    if isinstance(value, WireStruct):
        for name in value.__slots__:
            found = getattr(value, name)
            if name == "error_code":
                yield int(found)
            else:
                yield from _codes(found)
    elif isinstance(value, list):
        for each in value:
            yield from _codes(each)


def set_configs(resources: list[tuple[int, str]], name: str, value: str) -> WireStruct:
    config = incremental_alter_configs.AlterableConfig(name, 0, value)
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        [incremental_alter_configs.AlterConfigsResource(*resource, [config]) for resource in resources]
    )


def rule_for(name: str) -> create_acls.AclCreation:
    """Returns an access rule: all that a broker holds are about one principal and one resource, and of different hosts."""
    return create_acls.AclCreation(2, "ruled", 3, "User:u", name, 3, 3)


def joining(member: str, topics: list[str]) -> WireStruct:
    """Returns the first heartbeat of a member of a consumer group."""
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest("read", member, 0, None, None, 60_000, topics, None, None, [])


def sharing(topics: list[str]) -> WireStruct:
    """Returns the first heartbeat of the member of a share group."""
    return share_group_heartbeat.ShareGroupHeartbeatRequest("shared", "m", 0, None, topics)


def limit(name: str) -> WireStruct:
    """Returns a request that sets a quota of one client."""
    entity = [alter_client_quotas.RequestEntityData("client-id", name)]
    ops = [alter_client_quotas.OpData("consumer_byte_rate", 1e9)]
    return alter_client_quotas.AlterClientQuotasRequest([alter_client_quotas.RequestEntryData(entity, ops)])


ALL_RULES: Final = delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(1, None, 1, None, None, 1, 1)])
QUESTIONS: Final[tuple[WireStruct, ...]] = (
    consumer_group_describe.ConsumerGroupDescribeRequest(["read"]),
    describe_acls.DescribeAclsRequest(1, None, 1, None, None, 1, 1),
    describe_client_quotas.DescribeClientQuotasRequest([], False),
    describe_log_dirs.DescribeLogDirsRequest(None),
    describe_topic_partitions.DescribeTopicPartitionsRequest([], 2000, None),
    describe_user_scram_credentials.DescribeUserScramCredentialsRequest(None),
    elect_leaders.ElectLeadersRequest(0, None, 10_000),
    get_telemetry_subscriptions.GetTelemetrySubscriptionsRequest(),
    list_config_resources.ListConfigResourcesRequest([]),
    list_groups.ListGroupsRequest(),
    list_partition_reassignments.ListPartitionReassignmentsRequest(10_000, None),
    list_transactions.ListTransactionsRequest(),
    list_transactions.ListTransactionsRequest([], [], -1, "held-.*[05]"),
    metadata.MetadataRequest(None),
    offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup("wide", topics=None)]),
    streams_group_describe.StreamsGroupDescribeRequest(["streamed"]),
)
"""Short requests that ask for everything of a kind."""


class StateSweep(Sweep):
    """Asks one broker that holds much."""

    async def ask_for_all(self) -> AsyncIterator[Seen]:
        broker = Large(self)
        await broker.start()
        await broker.make_everything()
        await broker.grow()
        context: Any = broker.broker.context
        dispatch = routes.Dispatch(context)
        for request in QUESTIONS:
            await self._ask_short(dispatch, request)  # whatever is imported, is imported now
            context.metadata.changes += 1  # so that what is kept is made anew
            yield await self._ask_short(dispatch, request)
        for request in broker.shared():
            yield await self._ask_short(dispatch, request)
        await broker.begin_transactions(timeout_ms=1_000)
        end = end_txn.EndTxnRequest("tx", *broker.producer, True)
        yield Seen("EndTxn", "", "", await self._do(lambda: broker.ask(end, 3)), "answered")
        await asyncio.sleep(2)
        coordinator = context.transaction_coordinator()
        assert sum(each.state is State.ONGOING for each in coordinator.all_transactions()) == HELD // self.scale
        yield Seen("timed-out transactions", "", "", await self._do(coordinator.abort_overdue), "answered")
        assert all(each.is_idle for each in coordinator.all_transactions())
        for name, work in self._works(broker, context):
            await asyncio.sleep(10)
            yield Seen(name, "", "", await self._do(work), "answered")

    async def _ask_short(self, dispatch: routes.Dispatch, request: WireStruct) -> Seen:
        messages = import_module(type(request).__module__)
        api = APIS[messages.API_KEY]
        parts: list[Any] = []
        messages.ENCODE_REQUEST[api.max_version](request, parts)
        return Seen(api.name, "", "", *await self._ask(dispatch, api, b"".join(parts)))

    def _works(self, broker: Large, context: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yields what the broker does by itself, or for one short request that changes something."""
        yield "a setting of all brokers", lambda: broker.ask(set_configs([ALL_BROKERS], "log.retention.ms", "77777777"))
        yield "a quota of one client", lambda: broker.ask(limit("one"))
        yield "an access rule", lambda: broker.ask(create_acls.CreateAclsRequest([rule_for("one")]))
        yield "all access rules are removed", lambda: broker.ask(ALL_RULES)
        yield "a group gets another target", lambda: broker.ask(joining("one", ["held-0"]))
        yield "a streams group gets another target", lambda: broker.ask(broker.streaming("one"))
        names = [f"held-{number}" for number in range(HELD // self.scale)]
        yield "a member that reads all topics joins", lambda: broker.ask(joining("last", names))
        yield "it leaves", lambda: broker.ask(consumer_group_heartbeat.ConsumerGroupHeartbeatRequest("read", "last", LEAVING))
        yield "a member of a share group that reads all topics joins", lambda: broker.ask(sharing(names))
        yield "a target is made for it", lambda: broker.ask(sharing(names))
        yield "it gets all partitions", lambda: broker.ask(sharing(names))
        yield "offsets expire", context.groups.expire
        yield "the offsets of a topic from which all groups read are deleted", lambda: context.groups.topic_deleted("held-0")
        shards = context.groups._shards, context.transaction_coordinator()._shards
        for what, runtime in zip(("groups", "transactions"), shards, strict=True):
            yield f"{what} are loaded", partial(_load_anew, runtime)
        yield "a group is deleted that has offsets of all topics", lambda: broker.ask(delete_groups.DeleteGroupsRequest(["wide"]))
        yield "transactional ids expire", context.transaction_coordinator().expire
        cluster: Any = broker.broker.cluster
        cluster._snapshot_pass()
        yield "the metadata is written to a snapshot", lambda: cluster._keeper.take("a test asks for it")

    async def _do(self, work: Callable[[], Any]) -> int:
        with self.work:
            self.loop.forget()
            await asyncio.sleep(0)
            result = work()
            if inspect.isawaitable(result):
                await result
            for _ in range(HELD // self.scale):
                await asyncio.sleep(0)
        return self.loop.longest


def sweep_state(scale: int) -> Iterator[Seen]:
    """Yields what each of them did."""
    sweep = StateSweep(scale)

    async def ask() -> list[Seen]:
        return [seen async for seen in sweep.ask_for_all()]

    yield from run_scaled(sweep, ask())
