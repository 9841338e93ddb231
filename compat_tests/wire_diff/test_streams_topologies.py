"""Streams groups (KIP-1071) and topics: topologies that fit and that do not, internal topics, source topics that come and go,
delays before assignments, descriptions that nobody keeps. test_streams_groups.py has the members' life.
"""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.wire import Wire
from compat_tests.wire_diff.offsets_of_members import listed
from compat_tests.wire_diff.same import check, same_answer
from compat_tests.wire_diff.streams import (
    Stream,
    at_once,
    counting,
    described,
    set_group,
    subtopology,
)
from ottla.wire.messages import (
    create_partitions,
    delete_topics,
    describe_configs,
    streams_group_describe,
    streams_group_heartbeat,
    streams_group_topology_description_update,
)

Endpoint = streams_group_heartbeat.RequestEndpoint


@same_answer("SG2")
def test_internal_topics_are_created(wire: Wire) -> Any:
    topic, group = wire.create("t", 3), at_once(wire)
    member = Stream(wire, group, "m")
    topology = counting(wire, topic)
    steps = [member.join(topology), described(wire, group)]
    member.until_ready()
    names = [wire.name("words-repartition"), wire.name("counts-changelog")]
    for name in names:
        wire.wait_for_topic(name, 3)
    resources = [describe_configs.DescribeConfigsResource(2, name, ["cleanup.policy"]) for name in names]
    steps += [wire.metadata(*names), wire.call(describe_configs.DescribeConfigsRequest(resources), 4)]
    seen = described(wire, group)
    steps += [seen.groups[0].topology, seen.groups[0].group_state, member.active, member.standby]
    again = Stream(wire, group, "n")
    joined = again.join(topology)
    return steps, joined.active_tasks, joined.status, joined.error_code


def topologies(wire: Wire, topic: str, other: str) -> dict[str, list[Any]]:
    """`topic` has 2 partitions, `other` 3."""
    a, b = wire.name("a-repartition"), wire.name("b-repartition")
    log = streams_group_heartbeat.TopicInfo(wire.name("c-changelog"), 5)
    fixed_log = subtopology("0", topic)
    fixed_log.state_changelog_topics = [log]
    regex = subtopology("0", topic)
    regex.source_topic_regex = ["t.*"]
    return {
        "the broker's topic": [subtopology("0", "__consumer_offsets")],
        "a name that is none": [subtopology("0", "no/topic")],
        "an expression": [regex],
        "a changelog with a count": [fixed_log],
        "nothing is read": [subtopology("0", changelogs=[wire.name("c-changelog")])],
        "nothing writes": [subtopology("0", topic), subtopology("1", repartition={a: 0})],
        "a circle": [subtopology("0", repartition={a: 0}, sinks=[b]), subtopology("1", repartition={b: 0}, sinks=[a])],
        "no subtopologies": [],
        "missing sources": [subtopology("0", topic, wire.name("nope"), wire.name("neither"))],
        "sources do not fit": [subtopology("0", topic, other, together=[([0, 1], [])])],
        "a fixed count does not fit": [subtopology("0", topic, repartition={a: 5}, together=[([0], [0])])],
        "fixed counts differ": [subtopology("0", repartition={a: 5, b: 4}, together=[([], [0, 1])])],
        "a flexible count follows": [
            subtopology("0", other, sinks=[a]),
            subtopology("1", topic, repartition={a: 0}, together=[([0], [0])]),
        ],
        "an internal topic has another count": [subtopology("0", topic, sinks=[other]), subtopology("1", repartition={other: 0})],
        "two subtopologies, one size": [subtopology("0", topic), subtopology("1", other), subtopology("2", topic, other)],
    }


CASES = (
    "the broker's topic",
    "a name that is none",
    "an expression",
    "a changelog with a count",
    "nothing is read",
    "nothing writes",
    "a circle",
    "no subtopologies",
    "missing sources",
    "sources do not fit",
    "a fixed count does not fit",
    "fixed counts differ",
    "a flexible count follows",
    "an internal topic has another count",
    "two subtopologies, one size",
)


@pytest.mark.parametrize("case", CASES)
def test_topologies(wires: dict[str, Wire], case: str) -> None:
    def scenario(wire: Wire) -> Any:
        topic, other, group = wire.create("t", 2), wire.create("u", 3), at_once(wire)
        chosen = topologies(wire, topic, other)
        assert tuple(chosen) == CASES
        member = Stream(wire, group, "m")
        answer = member.join(chosen[case])
        return answer, described(wire, group), listed(wire, group)

    check(wires, f"SG7 {case}", scenario)


@same_answer("SG8")
def test_a_missing_source_topic_comes_and_grows_and_goes(wire: Wire) -> Any:
    name, group = wire.name("t"), at_once(wire)
    member = Stream(wire, group, "m")
    steps = [member.join([subtopology("0", name)]), described(wire, group).groups[0].group_state]
    wire.create("t", 2)
    member.until_ready()
    steps += [member.until("two tasks", lambda answer: member.active == {"0": [0, 1]}).status, member.epoch]
    more = create_partitions.CreatePartitionsTopic(name, 3, None)
    wire.call(create_partitions.CreatePartitionsRequest([more], 30_000), 3)
    member.until("three tasks", lambda answer: member.active == {"0": [0, 1, 2]})
    steps += [member.epoch, described(wire, group).groups[0].group_state]
    wire.call(delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(name)], [], 30_000), 6)
    gone = member.until("no topic", lambda answer: bool(answer.status))
    return steps, gone.status, gone.active_tasks, gone.error_code, described(wire, group).groups[0].group_state


@same_answer("SG9")
def test_the_topology_stays(wire: Wire) -> Any:
    topic, group = wire.create("t", 2), at_once(wire)
    one, two = Stream(wire, group, "m1"), Stream(wire, group, "m2")
    topology = [subtopology("0", topic)]
    steps = [one.join(topology, topology_epoch=3), two.join(topology, topology_epoch=3), two.leave()]
    steps += [two.join([*topology, subtopology("1", topic)], topology_epoch=3), two.join(topology, topology_epoch=4)]
    steps += [two.join([*topology, subtopology("1", topic)], topology_epoch=2), two.beat(), described(wire, group)]
    return steps


@same_answer("SG13")
def test_delays(wire: Wire) -> Any:
    topic, group = wire.create("t", 2), wire.name("g")
    set_group(wire, group, initial_rebalance_delay_ms="2000", assignment_interval_ms="2000", heartbeat_interval_ms="6000")
    topology = [subtopology("0", topic)]
    one, two = Stream(wire, group, "m1"), Stream(wire, group, "m2")
    steps = [one.join(topology), one.beat(), two.join(topology), described(wire, group)]
    one.until("the delay is over", lambda answer: not answer.status)
    two.until("an assignment", lambda answer: bool(two.active))
    steps += [one.active, two.active, two.leave()]
    three = Stream(wire, group, "m3")
    steps.append(three.join(topology))
    three.until("an assignment", lambda answer: bool(three.active))
    return steps, three.active


@same_answer("SG21")
def test_the_filter_for_groups_that_are_not_ready(wire: Wire) -> Any:
    group = at_once(wire)
    Stream(wire, group, "m").join([subtopology("0", wire.name("nope"))])
    assert listed(wire, group)[0].group_state == "NotReady"
    return bool(listed(wire, group, states_filter=["NotReady"]))


@same_answer("SG26")
def test_internal_topics_that_cannot_be_created(wire: Wire) -> Any:
    """The member hears of it for as long as it lasts, and nothing is assigned."""
    topic, group = wire.create("t", 2), at_once(wire)
    member, log = Stream(wire, group, "m"), wire.name("a-changelog")
    wrong = subtopology("0", topic, changelogs=[log])
    wrong.state_changelog_topics[0].topic_configs[0].value = "nonsense"
    steps = [member.join([wrong])]
    told = member.until(
        "it is told why", lambda answer: len(answer.status[0].status_detail) > len(steps[0].status[0].status_detail)
    )
    return steps, told, wire.metadata(log), described(wire, group)


@same_answer("SG22")
def test_an_endpoint_before_its_topics(wire: Wire) -> Any:
    member = Stream(wire, at_once(wire), "m")
    return member.join([subtopology("0", wire.name("nope"))], user_endpoint=Endpoint("here", 1)).error_code


@pytest.mark.parametrize("case", ["no such source", "no such repartition topic", "an id twice"])
def test_topologies_that_make_kafka_fail(wires: dict[str, Wire], case: str) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t", 2)
        wrong = {
            "no such source": [subtopology("0", topic, together=[([1], [])])],
            "no such repartition topic": [subtopology("0", topic, together=[([0], [0])])],
            "an id twice": [subtopology("0", topic), subtopology("0", topic)],
        }
        return Stream(wire, at_once(wire), "m").join(wrong[case]).error_code

    check(wires, "SG23", scenario)


@same_answer("SG18")
def test_nobody_keeps_descriptions_of_topologies(wire: Wire) -> Any:
    topic, group = wire.create("t", 2), at_once(wire)
    member = Stream(wire, group, "m")
    joined = member.join([subtopology("0", topic)])
    update = streams_group_topology_description_update.StreamsGroupTopologyDescriptionUpdateRequest
    wanted = streams_group_describe.StreamsGroupDescribeRequest([group, wire.name("nope")], False, True)
    return joined, wire.call(update(group, member.id, 0), 0), wire.call(update("", "", 0), 0), wire.call(wanted, 1)
