"""DescribeCluster, DescribeTopicPartitions and ListConfigResources: what there is, page by page
(docs/kafka-behaviour.md, rows DC and DTP).
"""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.waiting import wait_for
from compat_tests.wire import CLOSED, Wire
from compat_tests.wire_diff.same import check, same_answer
from ottla.wire.messages import (
    describe_cluster,
    describe_topic_partitions,
    incremental_alter_configs,
    list_config_resources,
)

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
LARGEST = 2**31 - 1


# DescribeCluster


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("operations", [False, True])
def test_the_cluster(wires: dict[str, Wire], version: int, operations: bool) -> None:
    def scenario(wire: Wire) -> Any:
        fenced = [False, True] if version > 1 else [False]
        return [wire.call(describe_cluster.DescribeClusterRequest(operations, 1, each), version) for each in fenced]

    check(wires, "DC1", scenario)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("endpoint_type", [2, 0, 3, 127, -1])
def test_endpoints_of_other_types(wires: dict[str, Wire], version: int, endpoint_type: int) -> None:
    check(wires, "DC2", lambda wire: wire.call(describe_cluster.DescribeClusterRequest(True, endpoint_type), version))


# DescribeTopicPartitions


def pages(wire: Wire, names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    topics = [describe_topic_partitions.TopicRequest(name) for name in names]
    begin = describe_topic_partitions.RequestCursor(*cursor) if cursor is not None else None
    return wire.call(describe_topic_partitions.DescribeTopicPartitionsRequest(topics, limit, begin), 0)


def three_topics(wire: Wire) -> tuple[str, str, str]:
    """In the order of their names, with 2, 1 and 3 partitions."""
    return wire.create("a", 2), wire.create("ab", 1), wire.create("b", 3)


@same_answer("DTP1")
def test_topics_by_name(wire: Wire) -> Any:
    a, ab, b = three_topics(wire)
    return [pages(wire, names) for names in ([b, a, ab], [a, a, b], [wire.name("nope"), b, "a b", ".", "x" * 250])]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 6, 7, 0, -1, LARGEST, -LARGEST - 1])
def test_limits_of_a_page(wires: dict[str, Wire], limit: int) -> None:
    def scenario(wire: Wire) -> Any:
        a, ab, b = three_topics(wire)
        return [pages(wire, names, limit) for names in ([a, ab, b], [wire.name("0"), a, wire.name("c")])]

    check(wires, "DTP2", scenario)


@same_answer("DTP3")
def test_cursors(wire: Wire) -> Any:
    a, ab, b = three_topics(wire)
    nope = wire.name("nope")
    inside = [pages(wire, [a, ab, b], limit, (a, index)) for limit in (1, 2, 2000) for index in (0, 1, 2, 9)]
    later = [pages(wire, [a, ab, b], limit, (b, 1)) for limit in (1, 2, 3)]
    return inside, later, [pages(wire, [a, nope], limit, (nope, index)) for limit in (1, 5) for index in (0, 5)]


@same_answer("DTP5")
def test_cursors_that_are_none(wire: Wire) -> Any:
    a, ab, b = three_topics(wire)
    return [
        pages(wire, names, 2000, cursor)
        for names in ([a, b], [a, a], [b])
        for cursor in ((a, -1), (ab, 0), ("", 0), (wire.name("zz"), 0), ("zz", -1), ("a b", 3))
    ]


@same_answer("DTP6")
def test_going_through_all_pages(wire: Wire) -> Any:
    three_topics(wire)
    seen, cursor = [], None
    for _ in range(5):
        answer = pages(wire, [wire.name(stem) for stem in ("a", "ab", "b", "zz")], 2, cursor)
        seen.append(answer)
        if answer.next_cursor is None:
            break
        cursor = answer.next_cursor.topic_name, answer.next_cursor.partition_index
    return seen


@same_answer("DTP4")
def test_all_topics(wire: Wire) -> Any:
    """The brokers are shared: of all topics, those of this test, and that the others are in order."""
    three_topics(wire)
    answers = [pages(wire, [], LARGEST, cursor) for cursor in (None, (wire.name("aa"), 1), ("~", 0), ("", -1))]
    own = [[topic for topic in answer.topics if topic.name.startswith(wire.prefix)] for answer in answers]
    names = [[topic.name for topic in answer.topics] for answer in answers]
    return own, [each == sorted(each) for each in names], [bool(answer.topics) for answer in answers[2:]]


@same_answer("DTPempty")
def test_a_topic_without_a_name(wire: Wire) -> Any:
    return pages(wire, [""]).topics[0].error_code


@same_answer("DTPhuge")
def test_a_cursor_at_the_end_of_numbers(wire: Wire) -> Any:
    a = wire.create("a", 2)
    return pages(wire, [a], 1, (a, LARGEST)).next_cursor is None


@pytest.mark.parametrize("partition", [0, 1])
def test_the_consumers_offsets(wires: dict[str, Wire], partition: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = pages(wire, ["__consumer_offsets"], 1, ("__consumer_offsets", partition)).topics[0]
        wire.label(topic.topic_id, "id")
        return topic

    check(wires, "DTP7", scenario)


# ListConfigResources


def listed(wire: Wire, types: list[int], version: int = 1) -> Any:
    """Without what other tests have made."""
    answer = wire.call(list_config_resources.ListConfigResourcesRequest(types), version)
    if answer != CLOSED:
        answer.config_resources = [
            each
            for each in answer.config_resources
            if each.resource_name.startswith(wire.prefix) or each.resource_type in (BROKER, LOGGER)
        ]
    return answer


def make_resources(wire: Wire) -> None:
    """One of each type, with settings, and a topic without."""
    topic = wire.create("t", retention_ms="5000")
    wire.create("plain")
    alterable, resource = incremental_alter_configs.AlterableConfig, incremental_alter_configs.AlterConfigsResource
    changes = [
        resource(GROUP, wire.name("g"), [alterable("consumer.session.timeout.ms", 0, "46000")]),
        resource(CLIENT_METRICS, wire.name("m"), [alterable("interval.ms", 0, "1000")]),
    ]
    answer = wire.call(incremental_alter_configs.IncrementalAlterConfigsRequest(changes), 1)
    assert [each.error_code for each in answer.responses] == [0, 0], (topic, answer)
    wait_for(lambda: len(listed(wire, [GROUP, CLIENT_METRICS]).config_resources) == 2, "the broker knows them")


@pytest.mark.parametrize("version", [0, 1])
def test_resources_of_all_types(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        make_resources(wire)
        return listed(wire, [], version)

    check(wires, "LCR1", scenario)


@same_answer("LCR2")
def test_resources_by_type(wire: Wire) -> Any:
    make_resources(wire)
    types = ([TOPIC], [BROKER], [LOGGER], [CLIENT_METRICS], [GROUP], [TOPIC, TOPIC], [GROUP, TOPIC, LOGGER])
    return [listed(wire, list(each)) for each in types]


@same_answer("LCR3")
def test_types_that_do_not_exist(wire: Wire) -> Any:
    return [listed(wire, types) for types in ([0], [1], [3], [64], [127], [-1], [CLIENT_METRICS, 99], [99, 99])]


@same_answer("LCR4")
def test_resources_that_are_gone(wire: Wire) -> Any:
    """Without its last setting, a group or a subscription is none of the resources any more."""
    make_resources(wire)
    alterable, resource = incremental_alter_configs.AlterableConfig, incremental_alter_configs.AlterConfigsResource
    changes = [
        resource(GROUP, wire.name("g"), [alterable("consumer.session.timeout.ms", 1, None)]),
        resource(CLIENT_METRICS, wire.name("m"), [alterable("interval.ms", 1, None)]),
    ]
    answer = wire.call(incremental_alter_configs.IncrementalAlterConfigsRequest(changes), 1)
    wait_for(lambda: not listed(wire, [GROUP, CLIENT_METRICS]).config_resources, "they are gone")
    return answer
