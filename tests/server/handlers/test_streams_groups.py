"""The three calls of streams groups, through their codecs: what is refused whatever the group, internal topics, descriptions."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.log.errors import StorageError
from ottla.server.group.streams.topology import Status
from ottla.server.handlers import streams_group_describe, streams_group_heartbeat
from ottla.server.metadata.operation import Caller
from ottla.server.requests.context import BrokerContext
from ottla.server.settings.broker_settings import BROKER_SETTINGS
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import decode_whole
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    RequestEndpoint,
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    TaskOffset,
    Topology,
)
from ottla.wire.messages.streams_group_topology_description_update import StreamsGroupTopologyDescriptionUpdateRequest
from tests.server.coordination.memory import slow
from tests.server.group.streams.support import GROUP, Cluster, subtopology

COUNTS = [subtopology("0", "t", sinks=["between"]), subtopology("1", repartition={"between": 0}, changelogs=["log"])]


class Node(Cluster):
    """A broker whose controller makes topics, but for those in `broken`, each with its error."""

    def __init__(self, **settings: str) -> None:
        super().__init__(None, **settings)
        self.values: dict[str, Any] = {
            "group.coordinator.rebalance.protocols": BROKER_SETTINGS["group.coordinator.rebalance.protocols"].default
        }
        self.made: list[tuple[str, int, int, dict[str, str]]] = []
        self.broken: dict[str, int] = {}
        self.full = False

    async def create_topics(self, request: CreateTopicsRequest, caller: Caller | None) -> CreateTopicsResponse:
        if self.full:
            raise StorageError("no room")
        results = []
        for topic in request.topics:
            code = self.broken.get(topic.name, 0)
            results.append(CreatableTopicResult(topic.name, error_code=code, error_message="it is broken" if code else None))
            configs = {each.name: each.value or "" for each in topic.configs}
            self.made.append((topic.name, topic.num_partitions, topic.replication_factor, configs))
            if not code:
                self.make_topic(topic.name, topic.num_partitions)
        return CreateTopicsResponse(topics=results)

    def context(self, version: int) -> Any:
        context = self.broker.context(version)
        config = SimpleNamespace(values=self.values)
        broker = SimpleNamespace(
            clock=self.broker.clock,
            groups=self.broker.groups,
            metadata=self.broker.metadata,
            config=config,
            controller=self,
            authorizer=None,
            long_answers=self.broker.long_answers,
        )
        context.broker = cast(BrokerContext, broker)
        return context

    def call(self, api: str, request: Any, version: int) -> Any:
        messages, handler = import_module(f"ottla.wire.messages.{api}"), import_module(f"ottla.server.handlers.{api}")
        sent: list[Any] = []
        messages.ENCODE_REQUEST[version](request, sent)
        answer = handler.handle(decode_whole(messages.DECODE_REQUEST[version], b"".join(sent)), self.context(version))
        if inspect.iscoroutine(answer):
            answer = asyncio.run(answer)
        received: list[Any] = []
        messages.ENCODE_RESPONSE[version](answer, received)
        return decode_whole(messages.DECODE_RESPONSE[version], b"".join(received))

    def beat(self, version: int = 1, **changes: Any) -> Any:
        """As a member that goes on."""
        fields: dict[str, Any] = {"group_id": GROUP, "member_id": "m", "member_epoch": 2}
        return self.call("streams_group_heartbeat", StreamsGroupHeartbeatRequest(**(fields | changes)), version)

    def join(self, version: int = 1, **changes: Any) -> Any:
        fields: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "topology": Topology(0, [subtopology("0", "t")]),
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "process_id": "p",
            "client_tags": [],
        }
        return self.beat(version, **(fields | changes))

    def describe(self, *groups: str, version: int = 1, **fields: Any) -> list[Any]:
        request = StreamsGroupDescribeRequest(list(groups), **fields)
        described: list[Any] = self.call("streams_group_describe", request, version).groups
        return described


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_and_leaves(version: int) -> None:
    node = Node()
    joined = node.join(version)
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "m", 2)
    assert [(each.subtopology_id, each.partitions) for each in joined.active_tasks] == [("0", [0, 1, 2])]
    assert joined.partitions_by_user_endpoint is None
    assert node.beat(version).active_tasks is None
    left = node.beat(version, member_epoch=-1)
    assert (left.error_code, left.member_epoch, left.status) == (0, -1, [])
    assert node.beat(version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("is_lost", [False, True])
def test_what_a_heartbeat_brings_is_looked_at_in_turns_and_the_group_may_be_elsewhere_by_then(is_lost: bool) -> None:
    node = Node()
    node.join()
    request = StreamsGroupHeartbeatRequest(GROUP, "m", 2, task_offsets=[TaskOffset("0", 0, 5)])
    partition = node.broker.groups.partition_for(GROUP)

    async def answered() -> Any:
        with slow(node.broker.clock):
            task = asyncio.ensure_future(streams_group_heartbeat.handle(request, node.context(1)))
            await asyncio.sleep(0)
            assert not task.done()
            if is_lost:
                node.broker.log.leaders[partition] = None
                node.broker.groups.unload(partition)
            while not task.done():
                node.advance(0)
                await asyncio.sleep(0)
            return await task

    answer = asyncio.run(answered())
    assert answer.error_code == (ErrorCode.NOT_COORDINATOR if is_lost else 0), answer.error_message


LONG = "x" * 32_768
REFUSED: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "no member": ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
    "no group": ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
    "an empty instance": ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
    "a long member": ({"member_id": LONG}, ErrorCode.INVALID_REQUEST),
    "a long group": ({"group_id": LONG}, ErrorCode.INVALID_GROUP_ID),
    "no timeout": ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
    "no topology": ({"topology": None}, ErrorCode.INVALID_REQUEST),
    "tasks": ({"standby_tasks": [RequestTaskIds("0", [0])]}, ErrorCode.INVALID_REQUEST),
    "no word of tasks": ({"active_tasks": None}, ErrorCode.INVALID_REQUEST),
    "a topology later": ({"member_epoch": 3}, ErrorCode.INVALID_REQUEST),
    "a goodbye for a while of nobody": ({"member_epoch": -2, "topology": None}, ErrorCode.INVALID_REQUEST),
    "an epoch that is none": ({"member_epoch": -3, "topology": None}, ErrorCode.INVALID_REQUEST),
    "a topic of the broker": (
        {"topology": Topology(0, [subtopology("0", "__transaction_state")])},
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
    ),
    "no topic's name": (
        {"topology": Topology(0, [subtopology("0", "t", changelogs=["a b"])])},
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
    ),
    "an id twice": (
        {"topology": Topology(0, [subtopology("0", "t"), subtopology("0", "u")])},
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
    ),
}


@pytest.mark.parametrize("most", [12, 11])
def test_how_much_a_topology_may_name(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two subtopologies, four topics, one of them in two places, two settings, a copartition group of two."""
    monkeypatch.setattr(streams_group_heartbeat, "MOST_NAMED", most)
    one, two = subtopology("0", "t", sinks=["r"]), subtopology("1", "u", repartition={"r": 0}, changelogs=["l"])
    two.state_changelog_topics[0].topic_configs = [KeyValue("a", "b"), KeyValue("c", "d")]
    two.copartition_groups = [CopartitionGroup([0], [], [0])]
    answer = Node().join(topology=Topology(0, [one, two]))
    assert answer.error_code == (0 if most == 12 else ErrorCode.STREAMS_INVALID_TOPOLOGY), answer.error_message


@pytest.mark.parametrize(("length", "code"), [(249, 0), (250, ErrorCode.STREAMS_INVALID_TOPOLOGY)])
def test_how_long_the_id_of_a_subtopology_may_be(length: int, code: int) -> None:
    """It stands in the records of every member that has a task of it."""
    assert Node().join(topology=Topology(0, [subtopology("0" * length, "t")])).error_code == code


@pytest.mark.parametrize("case", REFUSED)
def test_refused_whatever_the_group(case: str) -> None:
    changes, code = REFUSED[case]
    node = Node()
    answer = node.join(**changes)
    assert (answer.error_code, answer.member_id, answer.active_tasks) == (code, "", None)
    assert answer.error_message
    assert node.broker.log.records() == []


def test_internal_topics_are_made() -> None:
    node = Node()
    topology = Topology(0, COUNTS)
    topology.subtopologies[1].state_changelog_topics[0].topic_configs = [KeyValue("cleanup.policy", "compact")]
    topology.subtopologies[1].state_changelog_topics[0].replication_factor = 1
    joined = node.join(topology=topology)
    assert [status.status_code for status in joined.status] == [Status.MISSING_INTERNAL_TOPICS]
    assert sorted(node.made) == [("between", 3, -1, {}), ("log", 3, 1, {"cleanup.policy": "compact"})]
    again = node.beat()
    assert (again.status, [each.partitions for each in again.active_tasks]) == ([], [[0, 1, 2], [0, 1, 2]])


@pytest.mark.parametrize("full", [False, True])
def test_why_internal_topics_are_not_made(full: bool) -> None:
    """It is not tried at every heartbeat, and the member learns why they are missing."""
    node = Node()
    node.full, node.broken = full, {"between": 44}
    node.join(topology=Topology(0, COUNTS))
    told = node.beat().status[0].status_detail
    assert ("no room" if full else "between (it is broken)") in told
    assert len(node.made) == (0 if full else 2)
    node.full, node.broken = False, {}
    node.advance(10)
    node.beat()
    assert node.beat().status == []


def test_a_topic_that_somebody_else_made_meanwhile_is_no_failure() -> None:
    node = Node()
    node.broken = {"between": ErrorCode.TOPIC_ALREADY_EXISTS}
    node.join(topology=Topology(0, COUNTS))
    assert "could not" not in node.beat().status[0].status_detail


def test_members_know_where_partitions_are() -> None:
    node = Node()
    joined = node.join(topology=Topology(0, [subtopology("0", "t", "u")]), user_endpoint=RequestEndpoint("here", 4000))
    (here,) = joined.partitions_by_user_endpoint
    assert (here.user_endpoint.host, here.user_endpoint.port) == ("here", 4000)
    assert [(each.topic, each.partitions) for each in here.active_partitions] == [("t", [0, 1, 2]), ("u", [0])]
    assert node.beat(user_endpoint=RequestEndpoint("there", 4000)).endpoint_information_epoch == 1
    assert node.beat(endpoint_information_epoch=1).partitions_by_user_endpoint is None


def test_an_endpoint_before_its_topics() -> None:
    """Kafka 4.4 fails here: there are no subtopologies to look at."""
    node = Node()
    joined = node.join(topology=Topology(0, [subtopology("0", "nowhere")]), user_endpoint=RequestEndpoint("here", 4000))
    assert joined.error_code == 0
    assert [(each.active_partitions, each.standby_partitions) for each in joined.partitions_by_user_endpoint] == [([], [])]


@pytest.mark.parametrize("version", [0, 1])
def test_a_description(version: int) -> None:
    node = Node()
    node.join(topology=Topology(0, COUNTS), rack_id="r", client_tags=[KeyValue("zone", "a")])
    node.beat()
    (group,) = node.describe(GROUP, version=version, include_authorized_operations=True)
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 3, 3)
    assert [each.subtopology_id for each in group.topology.subtopologies] == ["0", "1"]
    (log,) = group.topology.subtopologies[1].state_changelog_topics
    assert (log.name, log.partitions) == ("log", 3)
    (member,) = group.members
    assert (member.member_id, member.rack_id, member.client_host) == ("m", "r", "/127.0.0.1")
    assert [each.partitions for each in member.assignment.active_tasks] == [[0, 1, 2], [0, 1, 2]]
    assert member.assignment == member.target_assignment
    assert group.authorized_operations != -(2**31)
    assert group.assignor_name == ("sticky" if version else None)


def test_a_description_takes_a_step_for_each_part_and_shows_the_group_as_it_was_at_the_first() -> None:
    node = Node()
    parts = [subtopology(f"{number}", "t") for number in range(20)]
    node.join(topology=Topology(0, parts))
    node.beat(task_offsets=[TaskOffset("0", partition, 5) for partition in range(3)])
    request = node.broker.context(1)
    steps = streams_group_describe._describe(GROUP, request)
    next(steps)
    assert node.beat(member_epoch=-1).error_code == 0
    described: list[Any] = []

    def whole() -> Iterator[object]:
        described.append((yield from steps))

    assert sum(1 for _ in whole()) >= 20 * 3 + 3, "the topology, the assignment, the target and the offsets"
    (member,) = described[0].members
    assert len(member.assignment.active_tasks) == len(member.target_assignment.active_tasks) == 20
    assert [each.offset for each in member.task_offsets] == [5, 5, 5]


def test_topologies_before_their_topics_are_shown_as_they_came() -> None:
    node = Node()
    node.broken = {"between": 44, "log": 44}
    node.join(topology=Topology(0, COUNTS))
    (group,) = node.describe(GROUP, include_topology_description=True)
    assert (group.group_state, group.topology_description_status) == ("NotReady", 1)
    assert [each.partitions for each in group.topology.subtopologies[1].repartition_source_topics] == [0]


def test_groups_that_cannot_be_described() -> None:
    node = Node()
    described = node.describe("", "nobody")
    assert [each.error_code for each in described] == [ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND]


@pytest.mark.parametrize("why", ["feature", "setting"])
def test_where_there_are_no_streams_groups(why: str) -> None:
    node = Node()
    if why == "feature":
        node.broker.metadata.features["streams.version"] = 0
    else:
        node.values["group.coordinator.rebalance.protocols"] = ("classic", "consumer")
    assert node.join().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [each.error_code for each in node.describe("a", "b")] == [ErrorCode.UNSUPPORTED_VERSION] * 2


def test_nobody_keeps_descriptions() -> None:
    request = StreamsGroupTopologyDescriptionUpdateRequest(GROUP, "m", 0)
    answer = Node().call("streams_group_topology_description_update", request, 0)
    assert (answer.error_code, bool(answer.error_message)) == (ErrorCode.UNSUPPORTED_VERSION, True)
