"""Requests that name many things: their handlers do a bounded number of them in a turn, and answer the same as in one turn."""

from __future__ import annotations

import ast
import asyncio
import importlib
import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.base.clock import TURN_NS, Turns
from ottla.server.base.promise import Promise
from ottla.server.handlers import add_partitions_to_txn, offset_commit, offset_fetch
from ottla.server.handlers.leave_group import MEMBERS_A_STEP
from ottla.server.handlers.offset_delete import TOPICS_A_STEP
from ottla.server.requests.request import Request
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import delete_share_group_state as deleting
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.fakes import MemoryBroker
from tests.in_loop import in_loop
from tests.server.coordination.memory import NODE_ID
from tests.server.group.fakes import Broker
from tests.server.handlers.test_find_coordinator import Cluster
from tests.server.share_state.fakes import TOPIC_ID, Driver

MANY = 60
ITEMS_A_TURN = 3
NAMES = [f"n{number}" for number in range(MANY)]
INDEXES = range(MANY)
WIDE = 20 * 100
"""Partitions of one topic, of which a hundred are a step."""

EPOCHS = [OffsetForLeaderPartition(index, -1, 0) for index in INDEXES]
DATA: dict[str, tuple[int, Any]] = {
    "delete_records": (2, DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(each, 0) for each in INDEXES])])),
    "describe_configs": (4, DescribeConfigsRequest([DescribeConfigsResource(2, name) for name in NAMES])),
    "describe_producers": (0, DescribeProducersRequest([TopicRequest("t", [*INDEXES])])),
    "metadata": (12, MetadataRequest([MetadataRequestTopic(name=name) for name in NAMES], allow_auto_topic_creation=False)),
    "offset_for_leader_epoch": (
        4,
        OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic("t", [OffsetForLeaderPartition(each, -1, 0) for each in INDEXES])]
        ),
    ),
    "write_txn_markers": (
        2,
        WriteTxnMarkersRequest([WritableTxnMarker(7, 0, False, [WritableTxnMarkerTopic("t", [*INDEXES])], 0)]),
    ),
}
GROUPS: dict[str, tuple[int, Any]] = {
    "consumer_group_describe": (1, ConsumerGroupDescribeRequest(NAMES)),
    "delete_groups": (2, DeleteGroupsRequest(NAMES)),
    "describe_groups": (6, DescribeGroupsRequest(NAMES)),
    "find_coordinator": (6, FindCoordinatorRequest(coordinator_keys=NAMES)),
    "offset_fetch": (9, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name) for name in NAMES])),
    "share_group_describe": (1, ShareGroupDescribeRequest(NAMES)),
    "streams_group_describe": (0, StreamsGroupDescribeRequest(NAMES)),
}


def answer(module: str, version: int, body: Any, request: Request, ticks_a_look: int) -> tuple[bytes, int]:
    """The answer's bytes, and in how many turns it was made if each look at the clock finds it so much later."""
    clock: Any = request.broker.clock
    looks = itertools.count()
    later: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "ticks_ns", lambda: next(looks) * ticks_a_look)
        patch.setattr(clock, "call_later", lambda seconds, callback: later.append(callback))
        patch.setattr(Turns, "is_spent", lambda turns, now_ns: False)
        found = importlib.import_module(f"ottla.server.handlers.{module}").handle(body, request)
        turns = 1
        while later:
            assert not found.done()
            later.pop()()
            turns += 1
    if isinstance(found, Promise):
        found = found.result()
    parts: list[Any] = []
    importlib.import_module(f"ottla.wire.messages.{module}").ENCODE_RESPONSE[version](found, parts)
    return b"".join(parts), turns


def check(module: str, version: int, body: Any, request: Request, least_turns: int) -> None:
    """Takes half a turn for each look at the clock, so that the third item is the last of a turn."""
    whole, turns = answer(module, version, body, request, 0)
    assert turns == 1
    assert len(whole) > MANY
    pieces, turns = answer(module, version, body, request, TURN_NS // 2)
    assert pieces == whole
    assert turns >= least_turns


@pytest.mark.parametrize("module", DATA)
def test_many_topics_or_partitions(module: str) -> None:
    broker = MemoryBroker({"t": MANY})
    version, body = DATA[module]
    check(module, version, body, broker.request(version), MANY // ITEMS_A_TURN)


@pytest.mark.parametrize("module", GROUPS)
@in_loop
async def test_many_groups(module: str) -> None:
    version, body = GROUPS[module]
    broker: Any = Cluster([1])
    broker.config = SimpleNamespace(values={"group.coordinator.rebalance.protocols": ["streams"]})
    check(module, version, body, broker.context(version), MANY // ITEMS_A_TURN)


def test_the_partitions_of_a_share_group() -> None:
    driver = Driver()
    data = [deleting.DeleteStateData(TOPIC_ID, [deleting.PartitionData(index) for index in INDEXES])]
    broker = SimpleNamespace(share_coordinator=lambda: driver.coordinator, clock=driver.clock)
    request: Any = SimpleNamespace(broker=broker, api_version=0)
    check("delete_share_group_state", 0, deleting.DeleteShareGroupStateRequest("g", data), request, MANY // ITEMS_A_TURN)


def test_the_partitions_that_a_share_group_is_described_by() -> None:
    driver = Driver()
    broker = MemoryBroker({"t": MANY})
    broker.image.features["share.version"] = 1
    broker.context.existing_share_coordinator = driver.coordinator
    topics = [DescribeShareGroupOffsetsRequestTopic("t", [*INDEXES])]
    body = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("g", topics)])
    check("describe_share_group_offsets", 1, body, broker.request(1), MANY // ITEMS_A_TURN)


@in_loop
async def test_transactions_whose_partitions_are_added() -> None:
    """Nobody may have to wait for the answer of any of them, so it comes from a task."""
    broker = MemoryBroker({})
    transactions = [AddPartitionsToTxnTransaction(name, 1, 0, topics=[AddPartitionsToTxnTopic("none", [0])]) for name in NAMES]
    clock: Any = broker.clock
    looks = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "ticks_ns", lambda: next(looks) * TURN_NS // 2)
        later: Any = add_partitions_to_txn.handle(AddPartitionsToTxnRequest(transactions), broker.request(5))
        assert clock.waiting == 1
        answer = asyncio.ensure_future(later)
        while clock.waiting:
            clock.advance()
        results = (await answer).results_by_transaction
    assert [each.transactional_id for each in results] == NAMES
    assert {each.topic_results[0].results_by_partition[0].partition_error_code for each in results} == {3}


@pytest.mark.parametrize(("version", "topics"), [(0, []), (12, [MetadataRequestTopic(name="wide")])], ids=["all", "one"])
def test_the_partitions_of_one_wide_topic(version: int, topics: Any) -> None:
    broker = MemoryBroker({"wide": WIDE})
    check("metadata", version, MetadataRequest(topics), broker.request(version), WIDE // 100 // ITEMS_A_TURN)


@in_loop
async def test_the_offsets_of_one_group() -> None:
    topics = [OffsetFetchRequestTopics("t", partition_indexes=[*range(WIDE)])]
    body = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)])
    check("offset_fetch", 9, body, Broker().context(9), WIDE // 100 // ITEMS_A_TURN)


def goes(broker: Broker) -> None:
    broker.log.leaders = [NODE_ID + 1] * len(broker.log.leaders)
    broker.groups.refresh()


def is_in_doubt(broker: Broker) -> None:
    broker.log.in_doubt = True


def goes_and_comes_back(broker: Broker) -> None:
    before = broker.groups.shard("g")
    broker.log.epoch += 1
    broker.groups.refresh()
    again = broker.groups.shard("g")
    assert again is not before
    assert not again.loading


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (goes, ErrorCode.NOT_COORDINATOR),
        (is_in_doubt, ErrorCode.NOT_COORDINATOR),
        (goes_and_comes_back, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
@in_loop
async def test_offsets_of_a_group_that_is_not_here_any_more_are_not_absent(
    change: Callable[[Broker], None], code: ErrorCode
) -> None:
    """An answer without offsets would send the consumers to the beginning or the end."""
    broker = Broker()
    topics = [OffsetFetchRequestTopics("t", partition_indexes=[*range(WIDE)])]
    body = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)])
    with pytest.MonkeyPatch.context() as patch:
        looks = itertools.count()
        patch.setattr(broker.clock, "ticks_ns", lambda: next(looks) * TURN_NS)
        promise = offset_fetch.handle(body, broker.context(9))
    assert isinstance(promise, Promise)
    assert not promise.done()
    change(broker)
    broker.clock.advance(0)
    (group,) = promise.result().groups
    assert (group.error_code, group.topics) == (code, [])


@in_loop
async def test_members_that_leave() -> None:
    members = [MemberIdentity(f"m{number}", None, None) for number in range(3 * MEMBERS_A_STEP)]
    check("leave_group", 5, LeaveGroupRequest("g", members=members), Broker().context(5), 2)


@in_loop
async def test_topics_whose_offsets_are_deleted() -> None:
    broker = Broker()
    offset_commit.handle(committed_offsets(range(3)), broker.context(9))
    topics = [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(index % 4)]) for index in range(4 * TOPICS_A_STEP)]
    body, request = OffsetDeleteRequest("g", topics), broker.context(0)
    found, turns = answer("offset_delete", 0, body, request, TURN_NS)
    assert turns >= 2
    assert broker.groups.shard("g").offsets.of_group("g") == {}
    assert found == answer("offset_delete", 0, body, request, 0)[0], "what is not there counts as deleted"


def committed_offsets(partitions: range) -> OffsetCommitRequest:
    committed = [OffsetCommitRequestPartition(index, 5) for index in partitions]
    return OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=committed)])


def test_partitions_that_are_to_move() -> None:
    broker = MemoryBroker({"t": 1})
    topics = [AlterReplicaLogDirTopic("t", [*range(WIDE)])]
    body = AlterReplicaLogDirsRequest([AlterReplicaLogDir("/data", topics)])
    check("alter_replica_log_dirs", 2, body, broker.request(2), WIDE // 100 // ITEMS_A_TURN)


TURNS = "ottla.server.base.turns"
TAKERS = {
    (TURNS, "answer_in_turns"),
    (TURNS, "answer_once"),
    (TURNS, "promise_if_long"),
    (TURNS, "take_steps"),
    ("ottla.server.base.waiting", "take_to_the_end"),
    ("ottla.server.share_state.answers", "answer_each"),
}
"""Functions by which a handler answers in turns, with their modules."""
SHARE_STATE = "it shares server/share_state/answers.py with delete_share_group_state, which is asked here"
STALLS = "only tests/stalls/test_every_api.py measures what it does at once"
NOT_HERE = {
    "add_partitions_to_txn": "its answer comes from a task: test_transactions_whose_partitions_are_added",
    "alter_client_quotas": STALLS,
    "alter_partition_reassignments": "its steps are in tests/server/metadata/test_reassignments.py beside that module",
    "alter_share_group_offsets": "test_alter_share_group_offsets.py",
    "alter_user_scram_credentials": STALLS,
    "consumer_group_heartbeat": STALLS,
    "create_acls": STALLS,
    "create_topics": STALLS,
    "delete_acls": STALLS,
    "delete_share_group_offsets": "test_delete_share_group_offsets.py",
    "describe_acls": STALLS,
    "describe_client_quotas": STALLS,
    "describe_delegation_token": "test_delegation_tokens.py",
    "describe_log_dirs": STALLS,
    "describe_transactions": STALLS,
    "describe_user_scram_credentials": STALLS,
    "elect_leaders": "its steps are in tests/server/metadata/test_elect_leaders.py beside that module",
    "share_group_heartbeat": STALLS,
    "fetch": "test_fetch_in_turns.py",
    "get_telemetry_subscriptions": "its steps are in tests/server/telemetry/test_subscriptions_in_turns.py beside that module",
    "initialize_share_group_state": SHARE_STATE,
    "list_groups": STALLS,
    "list_offsets": "test_list_offsets.py",
    "list_transactions": STALLS,
    "offset_commit": STALLS,
    "produce": "test_produce_in_turns.py",
    "push_telemetry": "its steps are in tests/server/telemetry/test_subscriptions_in_turns.py beside that module",
    "read_share_group_state": SHARE_STATE,
    "read_share_group_state_summary": SHARE_STATE,
    "share_acknowledge": "test_share_in_turns.py",
    "share_fetch": "test_share_in_turns.py",
    "streams_group_heartbeat": "its steps are in tests/server/group/streams/test_answers.py beside that module",
    "txn_offset_commit": STALLS,
    "write_share_group_state": SHARE_STATE,
}
"""Handlers that answer in turns and have no request above, and why, or the module of their test."""


def takes_turns(source: str) -> bool:
    froms = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return not TAKERS.isdisjoint((node.module, each.name) for node in froms for each in node.names)


def asked_here() -> set[str]:
    """The handlers in the tables, and those that a call of `check` or `answer` names."""
    calls = [node for node in ast.walk(ast.parse(Path(__file__).read_text())) if isinstance(node, ast.Call) and node.args]
    named = [call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id in {"check", "answer"}]
    return {*DATA, *GROUPS, *(first.value for first in named if isinstance(first, ast.Constant) and isinstance(first.value, str))}


def test_every_handler_that_answers_in_turns_is_asked() -> None:
    folder = Path(str(offset_fetch.__file__)).parent
    in_turns = {path.stem for path in folder.glob("*.py") if takes_turns(path.read_text())}
    assert in_turns - asked_here() == NOT_HERE.keys()
    missing = [test for test in NOT_HERE.values() if test.endswith(".py") and not Path(__file__).with_name(test).exists()]
    assert missing == []
