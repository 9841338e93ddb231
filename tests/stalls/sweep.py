"""Sends the longest requests of every API to a broker in memory; nothing of it is compiled (__main__.py)."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Coroutine, Iterable, Iterator
from importlib import import_module
from itertools import chain
from random import Random
from typing import Any, Final, NamedTuple

from ottla.server.base.errors import CloseConnection
from ottla.server.coordination import shard as coordinator_shard
from ottla.server.dispatch import routes
from ottla.server.dispatch.route import Waiting
from ottla.server.group import shard as group_shard
from ottla.server.group.modern import group as modern_group
from ottla.server.group.modern import names, operations, target_jobs
from ottla.server.group.modern import topics as group_topics
from ottla.server.group.streams import heartbeat as streams_heartbeat
from ottla.server.group.streams import target as streams_target
from ottla.server.group.streams import topology as streams_topology
from ottla.server.handlers import BROKER, delete_acls, delete_groups, describe_acls, describe_log_dirs, served
from ottla.server.handlers import create_acls as create_acls_handler
from ottla.server.handlers import fetch as fetch_handler
from ottla.server.handlers import metadata as metadata_handler
from ottla.server.handlers import share_fetch as share_fetch_handler
from ottla.server.handlers import streams_group_heartbeat as streams_heartbeat_handler
from ottla.server.metadata import access, operation, quotas, scram, snapshot_writer, standalone
from ottla.server.requests.session import Session
from ottla.server.share import acknowledging
from ottla.wire.api import Api
from ottla.wire.errors import ErrorCode
from ottla.wire.header import decode_response_header, encode_request_header
from ottla.wire.messages import create_acls, create_topics, incremental_alter_configs
from ottla.wire.primitives import Parts
from tests.server.broker.asked import AUTHORIZED, INTERNAL, Asked, codes
from tests.sim.network import Port
from tests.stalls import memberships, share_sessions, streams_members
from tests.stalls.big_requests import PARTITIONS, TOPICS, big_requests, topic_name
from tests.stalls.memberships import IN_GROUPS
from tests.stalls.share_sessions import IN_SESSIONS
from tests.stalls.work import Time, Work, WorkClock, WorkLoop

SCALE: Final = 20
"""Requests have a twentieth of the items that they may have, and turns a twentieth of their length."""
MOST: Final = 50_000
"""The most items that a request may have, `ottla.request.max.items`."""
PAGE: Final = 2_000
"""The most partitions on a page, `max.request.partition.size.limit`."""
FEW: Final = 6_000
"""The number of items in the requests of the first round, of which nothing is reported."""
RULES: Final = 2_000
"""The number of access rules, before it is scaled."""
TOO_MUCH: Final = frozenset(
    {
        "refused: POLICY_VIOLATION",
        "refused: INVALID_COMMIT_OFFSET_SIZE",
        "refused: GROUP_MAX_SIZE_REACHED",
        "refused: STREAMS_INVALID_TOPOLOGY",
    }
)
"""The results of a request that is about more than it may be."""
NOT_THERE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LOG_DIR_NOT_FOUND,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)
"""The errors for an item that was looked for."""
WIDE: Final = "wide"
STREAMS: Final = "StreamsGroupHeartbeat"
BOUNDS: Final = tuple(
    (module, name, getattr(module, name))
    for module, name in (
        (metadata_handler, "ENCODED_AT_ONCE"),
        (coordinator_shard, "BYTES_A_STEP"),
        (coordinator_shard, "RECORDS_A_STEP"),
        (describe_log_dirs, "PARTITIONS_A_STEP"),
        (fetch_handler, "PARTITIONS_A_STEP"),
        (fetch_handler, "PARTITIONS_AT_ONCE"),
        (access, "MAX_RECORDS"),
        (access, "MAX_COMPARISONS"),
        (access, "RULES_A_STEP"),
        (create_acls_handler, "RULES_A_STEP"),
        (delete_acls, "FILTERS_A_STEP"),
        (describe_acls, "RULES_A_STEP"),
        (quotas, "ENTITIES_A_STEP"),
        (scram, "USERS_A_STEP"),
        (standalone, "_ENCODED_A_STEP"),
        (standalone, "_ENCODED_AT_ONCE"),
        (share_fetch_handler, "AT_ONCE"),
        (acknowledging, "AT_ONCE"),
        (acknowledging, "CARRIED_OUT_AT_ONCE"),
        (delete_groups, "AT_ONCE"),
        (target_jobs, "AT_ONCE"),
        (streams_target, "AT_ONCE"),
        (streams_heartbeat, "MOST_OFFSETS"),
        (streams_topology, "MOST_TASKS"),
        (streams_heartbeat_handler, "MOST_NAMED"),
        (group_topics, "NAMES_A_STEP"),
        (modern_group, "LARGE"),
        (names, "MOST_NAMES"),
        (operations, "LARGE"),
        (group_shard, "GROUPS_A_STEP"),
        (group_shard, "RECORDS_A_PIECE"),
        (routes, "ITEMS_AT_ONCE"),
        (routes, "BYTES_AT_ONCE"),
        (operation, "MAX_RECORDS"),
        (operation, "PART_SIZE"),
        (scram, "MAX_RECORDS"),
        (snapshot_writer, "BATCH_RECORDS"),
        (snapshot_writer, "STEP_RECORDS"),
        (standalone, "MAX_RECORDS"),
    )
)
"""Bounds of the broker that are no settings, with the modules that have them; they are scaled as well."""
BATCH_BYTES: Final = 1_048_588
"""The most bytes that a batch may have by default."""
PATIENCE_S: Final = 30.0


class Seen(NamedTuple):
    """The course of one request. `path` is the list in it that was long, `way` how its items differ (big_requests.py), and
    `units` the most work between two looks at the network."""

    api: str
    path: str
    way: str
    units: int
    outcome: str


class Sweep:
    """Asks one broker, `scale` times less than it takes; with a scale of 1, the time is measured."""

    def __init__(self, scale: int) -> None:
        self.work, self.scale = Time() if scale == 1 else Work(), scale
        self.loop = WorkLoop(self.work)

    async def ask_all(self, apis: Iterable[Api], most: int) -> list[Seen]:
        """Asks one broker all requests of these APIs, with up to `most` items."""
        broker = InVirtualTime(self)
        await broker.start()
        topic_ids = await broker.make_topics()
        assert broker.broker.context is not None
        dispatch = routes.Dispatch(broker.broker.context)
        seen = []
        for api in apis:
            if api.name in IN_SESSIONS or api.name == STREAMS:
                continue
            changes = IN_GROUPS.get(api.name, (_unchanged,))
            for request in chain(*(big_requests(api, api.max_version, most, WIDE, topic_ids, change) for change in changes)):
                count, units, outcome = request.items, 0, ""
                while not outcome or (outcome in TOO_MUCH and count):
                    await broker.make_rules()
                    if api.name in IN_GROUPS:
                        await broker.make_groups()
                    took, outcome = await self._ask(dispatch, api, request.with_items(count))
                    units, count = max(units, took), count * 4 // 5  # as many as are accepted, or a few less
                seen.append(Seen(api.name, request.path, request.way, units, outcome))
        for api in apis:
            if api.name == STREAMS:
                seen += await self._ask_as_members(broker, dispatch, api, most, topic_ids)
        for api in apis:
            for how, change in IN_SESSIONS.get(api.name, {}).items():
                for request in big_requests(api, api.max_version, most, WIDE, topic_ids, change):
                    await broker.open_share_session(topic_ids, most)
                    took, outcome = await self._ask(dispatch, api, request.with_items(request.items))
                    seen.append(Seen(api.name, request.path, f"{request.way}, {how}", took, outcome))
        return seen

    async def _ask_as_members(
        self, broker: InVirtualTime, dispatch: routes.Dispatch, api: Api, most: int, topic_ids: list[bytes]
    ) -> list[Seen]:
        """Asks the requests by which members of streams groups join, and those of one that has joined."""
        member, names = streams_members.Staying(), [WIDE, *(topic_name(number) for number in range(TOPICS))]
        seen = []
        for how, change in (("joining", streams_members.join_another), ("staying", member.change)):
            for request in big_requests(api, api.max_version, most, WIDE, topic_ids, change):
                count, units, outcome = request.items, 0, ""
                while not outcome or (outcome in TOO_MUCH and count):
                    await member.enter(broker.ask, lambda: asyncio.sleep(1), names, WIDE)
                    took, outcome = await self._ask(dispatch, api, request.with_items(count))
                    units, count = max(units, took), count * 2 // 3
                seen.append(Seen(api.name, request.path, f"{request.way}, {how}", units, outcome))
        return seen

    async def _ask(self, dispatch: routes.Dispatch, api: Api, body: bytes) -> tuple[int, str]:
        """Sends a request; returns the longest work, and what came of it."""
        frame = encode_request_header(api.key, api.max_version, 1, "client") + body
        await asyncio.sleep(10)  # what the one before has left to do
        with self.work:
            self.loop.forget()
            await asyncio.sleep(0)
            outcome = "answered"
            answer: Any = None
            try:
                answer = dispatch.serve(memoryview(frame), Session("PLAINTEXT", "127.0.0.1"))
                if isinstance(answer, Waiting):
                    promised = await asyncio.wait_for(_done(answer.answer), PATIENCE_S)
                    answer = answer.route.finish(promised, answer)
            except CloseConnection as reason:
                outcome = f"closed: {reason}"
            except TimeoutError:
                outcome = "not answered"
            for _ in range(3):
                await asyncio.sleep(0)
        if outcome == "answered" and answer:
            outcome = outcome_of(api, answer)
        return self.loop.longest, outcome


def _unchanged(request: Any) -> Any:
    return request


def outcome_of(api: Api, answer: bytes | Parts) -> str:
    """Returns what an answer says of the request as a whole: that it was refused, if there is only one error code, but for many
    items that were looked for and are not there."""
    frame = answer if isinstance(answer, bytes) else b"".join(part.read() if hasattr(part, "read") else part for part in answer)
    _, at = decode_response_header(api.key, api.max_version, frame, 4)
    messages = import_module(f"ottla.wire.messages.{api.module}")
    found = list(codes(messages.DECODE_RESPONSE[api.max_version](frame, at)[0]))
    if len(set(found)) != 1 or found[0] == ErrorCode.NONE or (len(found) > 1 and found[0] in NOT_THERE):
        return "answered"
    return f"refused: {ErrorCode(found[0]).name}"


class InVirtualTime(Asked):
    """The broker that is asked, on a loop whose time is virtual."""

    def __init__(self, sweep: Sweep) -> None:
        clock = WorkClock(sweep.loop, sweep.work, sweep.scale)
        most = {
            "ottla_max_partitions": "1000",
            "ottla_request_max_items": str(MOST // sweep.scale),
            "max_request_partition_size_limit": str(PAGE // sweep.scale),
            "group_streams_max_session_timeout_ms": "3600000",
            "group_streams_session_timeout_ms": "3600000",
            "transaction_abort_timed_out_transaction_cleanup_interval_ms": "3600000",  # state.py has them aborted
        }
        self.scale = sweep.scale
        super().__init__(None, clock, Port(sweep.loop, Random(16), contextvars.copy_context()), **AUTHORIZED, **most)

    async def make_topics(self) -> list[bytes]:
        """Makes what requests name; returns the ids of the topics."""
        await self.make_everything()
        names = [topic_name(number) for number in range(TOPICS)]
        topics = [
            create_topics.CreatableTopic(WIDE, PARTITIONS, 1),
            *(create_topics.CreatableTopic(name, 1, 1) for name in names),
        ]
        await self.ask(create_topics.CreateTopicsRequest(topics, 1000))
        size = incremental_alter_configs.AlterableConfig("max.message.bytes", 0, str(BATCH_BYTES // self.scale))
        resources = [incremental_alter_configs.AlterConfigsResource(2, name, [size]) for name in INTERNAL]
        await self.ask(incremental_alter_configs.IncrementalAlterConfigsRequest(resources))
        await self.settle()
        assert self.broker.context is not None
        return [self.broker.context.metadata.topics[name].topic_id for name in (WIDE, *names)]

    async def make_rules(self) -> None:
        """Adds those of RULES access rules that are not there: a request may have removed them."""
        rules = [create_acls.AclCreation(2, f"ruled-{number}", 3, "User:u", "*", 3, 3) for number in range(RULES // self.scale)]
        await self.ask(create_acls.CreateAclsRequest(rules))

    async def make_groups(self) -> None:
        """Makes groups without what requests before this one have left in them."""
        names = [WIDE, *(topic_name(number) for number in range(TOPICS))]
        for request in memberships.ending():
            await self.ask(request)
        for request in memberships.founding(names):
            answer = await self.ask(request)
            assert set(codes(answer)) == {ErrorCode.NONE}, answer

    async def open_share_session(self, topic_ids: list[bytes], records: int) -> None:
        """Opens a share session of all partitions, whose member holds so many records of each topic's first one."""
        await self.ask(share_sessions.begun(topic_ids[:1], PARTITIONS))
        await self.ask(share_sessions.begun(topic_ids[1:], 1))
        await self.ask(share_sessions.produced(topic_ids, records))
        opened = await self.ask(share_sessions.fetched(topic_ids, 1))
        assert {part.error_code for topic in opened.responses for part in topic.partitions} == {0}, opened

    async def wait_for(self, answer: Any) -> Any:
        return (await asyncio.wait_for(_done(answer), PATIENCE_S)).result()

    async def settle(self) -> None:
        await asyncio.sleep(1)


async def _done(promised: Any) -> Any:
    """Returns what is promised once it is there; it may have failed."""
    if inspect.iscoroutine(promised):
        promised = asyncio.ensure_future(promised)
    if not promised.done():
        woken = asyncio.get_running_loop().create_future()
        promised.add_done_callback(lambda _: None if woken.done() else woken.set_result(None))
        await woken
    return promised


def sweep(apis: str, scale: int) -> Iterator[Seen]:
    """Yields what each long request did, of the APIs whose name contains `apis`; each API has a broker of its own."""
    chosen = [api for api in served(BROKER).values() if apis in api.name]
    _run(chosen, FEW, scale)  # whatever is imported, is imported now
    for api in chosen:
        yield from _run([api], MOST, scale)


def _run(apis: list[Api], most: int, scale: int) -> list[Seen]:
    one = Sweep(scale)
    return run_scaled(one, one.ask_all(apis, most // one.scale))


def run_scaled(one: Sweep, asking: Coroutine[Any, Any, list[Seen]]) -> list[Seen]:
    """Runs it on the sweep's loop, in a broker whose bounds are scaled as the sweep is."""
    for module, name, bound in BOUNDS:
        setattr(module, name, max(1, bound // one.scale))
    asyncio.set_event_loop(one.loop)
    try:
        return one.loop.run_until_complete(asking)
    finally:
        for task in asyncio.all_tasks(one.loop):
            task.cancel()
        one.loop.close()
        asyncio.set_event_loop(None)
