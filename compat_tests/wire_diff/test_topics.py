"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords (docs/kafka-behaviour.md)."""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.wire import Wire, batch
from compat_tests.wire_diff.same import check, same_answer
from ottla.wire.messages import create_partitions, create_topics, delete_records, delete_topics
from ottla.wire.primitives import ZERO_UUID

Topic, Setting, Replicas = (
    create_topics.CreatableTopic,
    create_topics.CreatableTopicConfig,
    create_topics.CreatableReplicaAssignment,
)


def create(wire: Wire, *topics: create_topics.CreatableTopic, version: int = 7, validate_only: bool = False) -> Any:
    """The answer, with the new topics' ids labelled."""
    answer = wire.call(create_topics.CreateTopicsRequest(list(topics), 30_000, validate_only), version)
    for topic in answer.topics:
        if topic.topic_id != ZERO_UUID:
            wire.label(topic.topic_id, f"id of {topic.name}")
    return answer


@pytest.mark.parametrize("version", range(2, 8))
def test_create_every_version(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        new = Topic(wire.name("t"), 3, 1, [], [Setting("retention.ms", "1000")])
        assigned = Topic(wire.name("assigned"), -1, -1, [Replicas(0, [1]), Replicas(1, [1])])
        answers = [create(wire, new, assigned, version=version), create(wire, new, version=version)]
        wire.wait_for_topic(wire.name("assigned"), 2)
        wire.wait_for_topic(wire.name("t"), 3)
        return answers, wire.metadata(new.name, assigned.name)

    check(wires, "CT1", scenario)


@pytest.mark.parametrize("version", [2, 4, 7])
def test_create_with_the_brokers_defaults(wires: dict[str, Wire], version: int) -> None:
    check(wires, "CT6", lambda wire: create(wire, Topic(wire.name("t"), -1, -1), version=version))


@same_answer("CT3")
def test_create_validate_only(wire: Wire) -> Any:
    there = wire.create("there")
    new = Topic(wire.name("t"), 2, 1)
    bad = Topic(wire.name("bad"), 0, 1)
    return create(wire, new, bad, Topic(there, 1, 1), validate_only=True), wire.metadata(new.name)


BAD_TOPICS = {
    "CT4 slash": Topic("a/b", 1, 1),
    "dot": Topic(".", 1, 1),
    "dotdot": Topic("..", 1, 1),
    "empty": Topic("", 1, 1),
    "250 characters": Topic("x" * 250, 1, 1),
    "unicode": Topic("é", 1, 1),
    "CT7 two replicas on one broker": Topic("ct", 1, 2),
    "CT8 no replicas": Topic("ct", 1, 0),
    "replicas -2": Topic("ct", 1, -2),
    "no partitions": Topic("ct", 0, 1),
    "partitions -2": Topic("ct", -2, 1),
    "CT10 unknown broker": Topic("ct", -1, -1, [Replicas(0, [77])]),
    "CT11 partitions from 1": Topic("ct", -1, -1, [Replicas(1, [1])]),
    "partition twice": Topic("ct", -1, -1, [Replicas(0, [1]), Replicas(0, [1])]),
    "a broker twice": Topic("ct", -1, -1, [Replicas(0, [1, 1])]),
    "no brokers": Topic("ct", -1, -1, [Replicas(0, [])]),
    "uneven replicas": Topic("ct", -1, -1, [Replicas(0, [1]), Replicas(1, [])]),
    "assignment and count": Topic("ct", 2, -1, [Replicas(0, [1])]),
    "assignment and factor": Topic("ct", -1, 1, [Replicas(0, [1])]),
    "CT12 unknown setting": Topic("ct", 1, 1, [], [Setting("no.such", "1")]),
    "CT14 null value": Topic("ct", 1, 1, [], [Setting("retention.ms", None)]),
    "CT20 cleanup policy": Topic("ct", 1, 1, [], [Setting("cleanup.policy", "bogus")]),
    "not a number": Topic("ct", 1, 1, [], [Setting("retention.ms", "abc")]),
    "empty number": Topic("ct", 1, 1, [], [Setting("retention.ms", "")]),
    "below the bound": Topic("ct", 1, 1, [], [Setting("segment.bytes", "1")]),
    "negative": Topic("ct", 1, 1, [], [Setting("max.message.bytes", "-5")]),
    "not a boolean": Topic("ct", 1, 1, [], [Setting("preallocate", "maybe")]),
    "not a codec": Topic("ct", 1, 1, [], [Setting("compression.type", "brotli")]),
    "ratio over 1": Topic("ct", 1, 1, [], [Setting("min.cleanable.dirty.ratio", "1.5")]),
    "timestamp type": Topic("ct", 1, 1, [], [Setting("message.timestamp.type", "Never")]),
    "compaction lags crossed": Topic(
        "ct", 1, 1, [], [Setting("min.compaction.lag.ms", "100"), Setting("max.compaction.lag.ms", "50")]
    ),
    "a gone setting": Topic("ct", 1, 1, [], [Setting("message.format.version", "3.0")]),
    "internal name": Topic("__consumer_offsets", 1, 1),
    "metadata topic": Topic("__cluster_metadata", 1, 1),
}


@pytest.mark.parametrize("case", BAD_TOPICS)
def test_create_bad_topics(wires: dict[str, Wire], case: str) -> None:
    """Nothing is made; a good topic beside it is."""

    def scenario(wire: Wire) -> Any:
        good = Topic(wire.name("good"), 1, 1)
        return create(wire, BAD_TOPICS[case], good), wire.metadata(BAD_TOPICS[case].name, version=9).topics[0].error_code

    check(wires, case.split(" ", maxsplit=1)[0] if case.startswith("CT") else case, scenario)


GOOD_SETTINGS = {
    "compact,delete": [Setting("cleanup.policy", "compact,delete")],
    "empty policy": [Setting("cleanup.policy", "")],
    "spaces": [Setting("retention.ms", " 5000 "), Setting("cleanup.policy", "compact , delete")],
    "case": [Setting("preallocate", "TRUE"), Setting("compression.type", "zstd")],
    "levels": [Setting("compression.type", "gzip"), Setting("compression.gzip.level", "9")],
    "the same twice": [Setting("retention.ms", "1"), Setting("retention.ms", "2")],
    "no limits": [Setting("retention.ms", "-1"), Setting("retention.bytes", "-1")],
}


@pytest.mark.parametrize("case", GOOD_SETTINGS)
def test_create_with_settings(wires: dict[str, Wire], case: str) -> None:
    """The answer carries all 37 settings of the new topic with their sources."""
    check(wires, "CT19", lambda wire: create(wire, Topic(wire.name("t"), 1, 1, [], GOOD_SETTINGS[case])))


@same_answer("CT15")
def test_create_the_same_name_twice_in_a_request(wire: Wire) -> Any:
    topic = Topic(wire.name("t"), 1, 1)
    return create(wire, topic, Topic(wire.name("other"), 1, 1), topic), create(wire)


@same_answer("CT16")
def test_create_names_whose_metrics_collide(wire: Wire) -> Any:
    return create(wire, Topic(wire.name("a.b"), 1, 1)), create(wire, Topic(wire.name("a_b"), 1, 1))


@pytest.mark.parametrize("version", range(1, 7))
def test_delete_every_version(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        name, missing = wire.create("t"), wire.name("nope")
        state = [delete_topics.DeleteTopicState(n) for n in (name, missing)]
        request = delete_topics.DeleteTopicsRequest(state if version >= 6 else [], [name, missing], 5000)
        answer = wire.call(request, version)
        wire.wait_until_gone(name)
        return answer

    check(wires, "DT1", scenario)


@same_answer("DT4")
def test_delete_by_id(wire: Wire) -> Any:
    name = wire.create("t")
    state = delete_topics.DeleteTopicState
    asked = [
        [state(None, wire.topic_ids[name])],
        [state(None, b"0123456789abcdef")],
        [state(None, ZERO_UUID)],
        [state(None, wire.topic_ids[name])],
    ]
    answers = [wire.call(delete_topics.DeleteTopicsRequest(topics, timeout_ms=5000), 6) for topics in asked]
    wire.wait_until_gone(name)
    return answers


@same_answer("DT6")
def test_delete_twice_and_by_both(wire: Wire) -> Any:
    one, two = wire.create("one"), wire.create("two")
    state = delete_topics.DeleteTopicState
    asked = [
        [state(one), state(one)],
        [state(one, wire.topic_ids[one])],
        [state(one), state(None, wire.topic_ids[one])],
        [state(two)],
    ]
    return [wire.call(delete_topics.DeleteTopicsRequest(topics, timeout_ms=5000), 6) for topics in asked]


@same_answer("a topic that is made again")
def test_a_topic_made_again_is_another_topic(wire: Wire) -> Any:
    name = wire.create("t")
    wire.produce(name, batch(b"old"))
    before = wire.topic_ids[name]
    wire.call(delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(name)], timeout_ms=5000), 6)
    wire.wait_until_gone(name)
    wire.create("t")
    return (
        before != wire.topic_ids[name],
        wire.fetch(name),
        wire.fetch(before, version=13),
        wire.produce(before, batch(b"x"), version=13),
    )


@pytest.mark.parametrize("version", range(4))
def test_create_partitions(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        name = wire.create("t", 2)
        many = create_partitions.CreatePartitionsTopic

        def ask(*topics: create_partitions.CreatePartitionsTopic, validate_only: bool = False) -> Any:
            return wire.call(create_partitions.CreatePartitionsRequest(list(topics), 5000, validate_only), version)

        def assigned(count: int, *brokers: list[int]) -> create_partitions.CreatePartitionsTopic:
            return many(name, count, [create_partitions.CreatePartitionsAssignment(ids) for ids in brokers])

        refused = [ask(many(name, count, None)) for count in (0, -1, 1, 2)] + [ask(many(wire.name("nope"), 2, None))]
        refused += [ask(assigned(3, [77])), ask(assigned(4, [1])), ask(assigned(3, [])), ask(assigned(3, [1, 1]))]
        refused += [ask(many(name, 3, None), many(name, 4, None)), ask(many(name, 5, None), validate_only=True)]
        made = [ask(many(name, 3, None)), ask(assigned(4, [1]))]
        wire.wait_for_topic(name, 4)
        return refused, made, wire.metadata(name)

    check(wires, "CP2", scenario)


@pytest.mark.parametrize("version", range(3))
def test_delete_records(wires: dict[str, Wire], version: int) -> None:
    """Answers with the low watermark; what lies below is out of range from then on."""

    def scenario(wire: Wire) -> Any:
        name = wire.create("t")
        for _ in range(5):
            wire.produce(name, batch(b"a", b"b"))

        def delete(offset: int, topic: str = name, partition: int = 0) -> Any:
            wanted = [delete_records.DeleteRecordsPartition(partition, offset)]
            return wire.call(
                delete_records.DeleteRecordsRequest([delete_records.DeleteRecordsTopic(topic, wanted)], 5000), version
            )

        below = [delete(offset) for offset in (4, 2, 0, 11, -5, 5)]
        fetched = [wire.fetch(name, offset) for offset in (3, 4, 5)]
        rest = delete(-1)
        return (
            below,
            fetched,
            rest,
            wire.fetch(name, 10),
            wire.produce(name, batch(b"c")),
            delete(1, wire.name("nope")),
            delete(1, name, 9),
        )

    check(wires, "DR2", scenario)


@same_answer("DR8")
def test_delete_records_of_a_compacted_topic(wire: Wire) -> Any:
    answers = []
    for policy in ("compact", "compact,delete"):
        name = wire.create(policy.replace(",", "-"), cleanup_policy=policy)
        wire.produce(name, batch(b"a", b"b"))
        wanted = [delete_records.DeleteRecordsPartition(0, 1)]
        answers.append(wire.call(delete_records.DeleteRecordsRequest([delete_records.DeleteRecordsTopic(name, wanted)], 5000), 2))
    return answers
