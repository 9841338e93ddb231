"""The Java client, Apache Kafka's own at 4.4.0: the newest version of every request, against ottla and against Apache Kafka.

It uses topic ids wherever the protocol has them, and asks what no other client does. See java_client.py for how it is driven.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests.java_client import Java, JavaAt, JavaError, running
from compat_tests.times import TODAY_MS
from compat_tests.waiting import wait_for

Unique = Callable[[str], str]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
STICKY = "org.apache.kafka.clients.consumer.StickyAssignor"
RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"
ROUND_ROBIN = "org.apache.kafka.clients.consumer.RoundRobinAssignor"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with running(tmp_path_factory.mktemp("java")) as java:
        yield java


@pytest.fixture
def java(program: Java, bootstrap: str) -> JavaAt:
    return program.at(bootstrap)


def fill(java: JavaAt, topic: str, per_partition: int, partitions: int = 3) -> None:
    """Values `p<partition>-<n>`, a second apart from TODAY_MS on."""
    records = [
        {"partition": p, "value": f"p{p}-{n}", "timestamp_ms": TODAY_MS + n * 1000}
        for n in range(per_partition)
        for p in range(partitions)
    ]
    java.call("produce", topic=topic, records=records)


def end_offset(java: JavaAt, topic: str, partition: int) -> int:
    found: int = java.call("list_offsets", topic=topic, partition=partition, specs=["latest"])["latest"][0]
    return found


SETTINGS = {
    "acks-0": {"acks": "0", "enable.idempotence": "false"},
    "acks-1": {"acks": "1", "enable.idempotence": "false"},
    "acks-all": {"acks": "all", "enable.idempotence": "false"},
    "idempotent": {"acks": "all", "enable.idempotence": "true"},
}


@pytest.mark.parametrize("how", SETTINGS)
def test_records_come_back_as_they_were_sent_in_every_codec(java: JavaAt, unique: Unique, how: str) -> None:
    topic = java.topic(unique("java"))
    headers = [["origin", "test"], ["empty", ""], ["null", None], ["origin", "again"]]
    sent: list[dict[str, Any]] = [
        {"key": "key", "value": "value", "headers": headers},
        {"key": None, "value": "no key", "headers": headers},
        {"key": "no value", "value": None, "headers": []},
        {"key": "", "value": "", "headers": []},
        {"key": "schlüssel", "value": "значение", "headers": headers},
        {"key": "large", "value": "0123456789abcdef" * 56_250, "headers": []},
    ]
    wanted: list[dict[str, Any]] = []

    def arrived() -> bool:  # acks=0 tells nobody when, and the next producer's records could overtake these
        return end_offset(java, topic, 1) == len(wanted)

    for codec in CODECS:
        first = len(wanted)
        records = [{**r, "partition": 1, "timestamp_ms": TODAY_MS + first + n} for n, r in enumerate(sent)]
        settings = {**SETTINGS[how], "compression.type": codec, "linger.ms": "20"}
        answers = java.call("produce", topic=topic, records=records, settings=settings)
        if how != "acks-0":
            places = [{"partition": 1, "offset": first + n, "timestamp_ms": TODAY_MS + first + n} for n in range(len(sent))]
            assert answers == places
        wanted += [{**r, "offset": first + n, "timestamp_type": "CreateTime"} for n, r in enumerate(records)]
        wait_for(arrived, f"{codec} has arrived")
    assert java.call("consume", topic=topic, partitions=[0, 1, 2], count=len(wanted)) == wanted


def test_a_record_larger_than_the_fetch_limit_is_delivered_and_too_large_a_one_refused(java: JavaAt, unique: Unique) -> None:
    topic = java.topic(unique("java"), 1)
    # One at a time: the flush of a client that has more in its buffer waits forever after the refusal, whatever the broker.
    for value, outcome in (("x" * 900_000, 0), ("x" * (2 << 20), "RecordTooLargeException"), ("after", 1)):
        (answer,) = java.call("produce", topic=topic, records=[{"value": value}], settings={"max.request.size": str(8 << 20)})
        assert (answer.get("error") or answer["offset"]) == outcome
    small = {"max.partition.fetch.bytes": "1000", "fetch.max.bytes": "1000"}
    got = java.call("consume", topic=topic, partitions=[0], count=2, settings=small)
    assert [len(r["value"]) for r in got] == [900_000, 5]


def test_consuming_from_an_offset_and_a_time_and_the_positions(java: JavaAt, unique: Unique) -> None:
    topic = java.topic(unique("java"))
    fill(java, topic, 20)
    got = java.call("consume", topic=topic, partitions=[0], offset=17, count=3)
    assert [r["value"] for r in got] == ["p0-17", "p0-18", "p0-19"]
    got = java.call("consume", topic=topic, partitions=[1, 2], timestamp_ms=TODAY_MS + 17_500, count=4)
    assert sorted(r["value"] for r in got) == ["p1-18", "p1-19", "p2-18", "p2-19"]
    got = java.call("consume", topic=topic, partitions=[0], offset=1000, count=20)  # out of range: back to the earliest
    assert [r["offset"] for r in got] == list(range(20))
    there = {"beginning": 0, "end": 20, "at": [5, TODAY_MS + 5000, 0]}
    assert java.call("positions", topic=topic, partitions=[0, 1], timestamp_ms=TODAY_MS + 4500) == {"0": there, "1": there}
    nowhere = {"beginning": 0, "end": 20, "at": None}
    assert java.call("positions", topic=topic, partitions=[2], timestamp_ms=TODAY_MS + 999_000) == {"2": nowhere}
    specs = ["earliest", "latest", "max_timestamp", "earliest_local", str(TODAY_MS + 4500)]
    assert java.call("list_offsets", topic=topic, partition=2, specs=specs) == {
        "earliest": [0, -1, 0],
        "latest": [20, -1, 0],
        "max_timestamp": [19, TODAY_MS + 19_000, 0],
        "earliest_local": [0, -1, 0],
        str(TODAY_MS + 4500): [5, TODAY_MS + 5000, 0],
    }


def test_broker_time_is_told_to_producer_and_consumer(java: JavaAt, unique: Unique) -> None:
    topic = java.topic(unique("java"), 1, message_timestamp_type="LogAppendTime")
    (answer,) = java.call("produce", topic=topic, records=[{"value": "x", "timestamp_ms": TODAY_MS}])
    (got,) = java.call("consume", topic=topic, partitions=[0], count=1)
    assert (got["timestamp_type"], got["timestamp_ms"]) == ("LogAppendTime", answer["timestamp_ms"])
    assert got["timestamp_ms"] > TODAY_MS


class Members:
    """Members of one group, by name."""

    def __init__(self, java: JavaAt, names: Iterator[str], group: str, topic: str) -> None:
        self.java, self.names, self.group, self.topic = java, names, group, topic
        self.present: list[str] = []

    def join(self, **settings: str) -> str:
        name = next(self.names)
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        self.java.call("join", member=name, topics=[self.topic], settings={"group.id": self.group, **dotted})
        self.present.append(name)
        return name

    def state(self, name: str) -> dict[str, Any]:
        state: dict[str, Any] = self.java.call("member", member=name)
        assert state["error"] is None, state["error"]
        return state

    def assigned(self, name: str) -> list[int]:
        found: list[int] = self.state(name)["assigned"]
        return found

    def shared(self) -> list[int]:
        """Returns the partitions that all have between them, with a partition of two members there twice."""
        return sorted(itertools.chain.from_iterable(self.assigned(name) for name in self.present))

    def events(self, name: str) -> list[list[Any]]:
        found: list[list[Any]] = self.state(name)["events"]
        return found

    def leave(self, name: str) -> dict[str, Any]:
        self.present.remove(name)
        state: dict[str, Any] = self.java.call("leave", member=name)
        assert (state["error"], state["alive"]) == (None, False)
        return state


@pytest.fixture
def group(java: JavaAt, unique: Unique) -> Iterator[Members]:
    """A group on a topic of four partitions, without members yet."""

    def names() -> Iterator[str]:
        while True:
            yield unique("member")

    members = Members(java, names(), unique("java-group"), java.topic(unique("java"), 4))
    yield members
    for name in list(members.present):
        members.leave(name)


ALL = [0, 1, 2, 3]


@pytest.mark.parametrize("assignor", [RANGE, ROUND_ROBIN, STICKY, COOPERATIVE])
def test_a_group_rebalances_and_loses_nothing(java: JavaAt, group: Members, assignor: str) -> None:
    settings = {"partition_assignment_strategy": assignor}
    first = group.join(**settings)
    wait_for(lambda: group.assigned(first) == ALL, "one member has all partitions")
    second = group.join(**settings)
    wait_for(lambda: group.shared() == ALL and len(group.assigned(first)) == 2, "the partitions are split")
    fill(java, group.topic, 10, 4)

    def read() -> set[str]:
        return set(itertools.chain.from_iterable(group.state(name)["values"] for name in group.present))

    wait_for(lambda: len(read()) == 40, "the two have read everything")
    revoked = [partitions for what, partitions in group.events(first) if what == "revoked" and partitions]
    # A cooperative member gives up only what another gets; the others all, at every rebalance.
    assert (len(revoked[0]) == 2) if assignor == COOPERATIVE else (revoked[0] == ALL)
    assert not [e for name in group.present for e in group.events(name) if e[0] == "lost"]
    group.leave(first)
    wait_for(lambda: group.assigned(second) == ALL, "who stays has all partitions")
    before = len(group.state(second)["values"])
    fill(java, group.topic, 5, 4)
    wait_for(lambda: len(group.state(second)["values"]) >= before + 20, "and reads on")
    group.leave(second)
    offsets = java.call("group_offsets", group=group.group)
    assert offsets == {f"{group.topic}-{p}": [15, 0, ""] for p in ALL}
    third = group.join(**settings)  # goes on where the group was
    wait_for(lambda: group.assigned(third) == ALL, "a later member has all partitions")
    java.call("produce", topic=group.topic, records=[{"value": "later"}])
    wait_for(lambda: group.state(third)["values"], "the later member reads")
    assert group.state(third)["values"] == ["later"]


def test_a_static_member_returns_without_a_rebalance(java: JavaAt, group: Members) -> None:
    one = group.join(group_instance_id="one")
    wait_for(lambda: group.assigned(one) == ALL, "one member has all partitions")
    two = group.join(group_instance_id="two")
    wait_for(lambda: group.shared() == ALL and len(group.assigned(one)) == 2, "they share the partitions")
    before, kept, events = group.assigned(two), group.assigned(one), group.events(one)
    group.leave(two)  # a static member says no farewell: its place waits for it
    described = java.call("describe_group", group=group.group)
    assert (described["state"], sorted(m["instance"] for m in described["members"])) == ("Stable", ["one", "two"])
    back = group.join(group_instance_id="two")
    wait_for(lambda: group.assigned(back) == before, "the returned member has its partitions back")
    assert (group.assigned(one), group.events(one)) == (kept, events)
    group.leave(back)
    java.call("remove_static_member", group=group.group, instance="two")
    wait_for(lambda: group.assigned(one) == ALL, "after its removal the other has all partitions")


def test_a_second_static_member_of_the_same_name_fences_the_first(group: Members) -> None:
    one = group.join(group_instance_id="same")
    wait_for(lambda: group.assigned(one) == ALL, "one member has all partitions")
    group.present.remove(one)
    again = group.join(group_instance_id="same")
    wait_for(lambda: group.assigned(again) == ALL, "the newer one has all partitions")
    wait_for(lambda: "FencedInstanceId" in str(group.java.call("member", member=one)["error"]), "the older one is fenced")
    group.java.call("leave", member=one)


def test_a_pattern_finds_topics_as_they_come(java: JavaAt, unique: Unique) -> None:
    stem, member = unique("java-pattern"), unique("member")
    java.topic(f"{stem}-a", 1)
    java.call("join", member=member, pattern=f"{stem}-.*", settings={"group.id": stem})
    try:
        java.call("produce", topic=f"{stem}-a", records=[{"value": "a"}])
        wait_for(lambda: java.call("member", member=member)["values"] == ["a"], "the first topic is read")
        java.topic(f"{stem}-b", 1)
        java.call("produce", topic=f"{stem}-b", records=[{"value": "b"}])
        wait_for(lambda: java.call("member", member=member)["values"] == ["a", "b"], "the topic that came later is read")
    finally:
        java.call("leave", member=member)


def test_groups_are_listed_described_altered_and_deleted(java: JavaAt, group: Members) -> None:
    fill(java, group.topic, 10, 4)
    name, topic = group.group, group.topic
    member = group.join(client_id="reader")
    wait_for(lambda: len(group.state(member)["values"]) == 40, "everything is read")
    assert java.call("list_groups")[name] == ["consumer", "Stable", "Classic"]
    assert name not in java.call("list_groups", states=["Empty"])
    described = java.call("describe_group", group=name)
    assert (described["state"], described["type"], described["assignor"], described["coordinator"]) == (
        "Stable",
        "Classic",
        "range",
        1,
    )
    (only,) = described["members"]
    assert only["id"] == group.state(member)["member_id"]
    assert (only["instance"], only["client"], only["host"], only["partitions"]) == ("", "reader", "/127.0.0.1", ALL)
    classic = java.call("describe_classic_group", group=name)
    assert (classic["state"], classic["protocol"], classic["protocol_data"]) == ("Stable", "consumer", "range")
    for command, arguments in (("alter_group_offsets", {"offsets": {"0": 1}}), ("delete_group", {})):
        refusal = {"alter_group_offsets": "UnknownMemberIdException", "delete_group": "GroupNotEmptyException"}[command]
        with pytest.raises(JavaError, match=refusal):
            java.call(command, group=name, topic=topic, **arguments)
    group.leave(member)
    assert java.call("list_groups", states=["Empty"])[name] == ["consumer", "Empty", "Classic"]
    java.call("alter_group_offsets", group=name, topic=topic, offsets={"0": 1, "2": 7})
    offsets = java.call("group_offsets", group=name)
    assert [offsets[f"{topic}-{p}"] for p in ALL] == [[1, -1, "altered"], [10, 0, ""], [7, -1, "altered"], [10, 0, ""]]
    back = group.join()
    wait_for(lambda: len(group.state(back)["values"]) == 12, "the altered offsets are where the next one begins")
    group.leave(back)
    java.call("delete_group", group=name)
    assert name not in java.call("list_groups")
    with pytest.raises(JavaError, match="GroupIdNotFoundException"):
        java.call("delete_group", group=name)


def test_group_offsets_are_deleted(java: JavaAt, group: Members) -> None:
    fill(java, group.topic, 1, 4)
    member = group.join()
    wait_for(lambda: len(group.state(member)["values"]) == 4, "everything is read")
    with pytest.raises(JavaError, match="GroupSubscribedToTopicException"):
        java.call("delete_group_offsets", group=group.group, topic=group.topic, partitions=[0])
    group.leave(member)
    java.call("delete_group_offsets", group=group.group, topic=group.topic, partitions=[0, 3])
    assert sorted(java.call("group_offsets", group=group.group)) == [f"{group.topic}-1", f"{group.topic}-2"]


def test_topics_are_created_described_extended_and_deleted(java: JavaAt, unique: Unique) -> None:
    name = unique("java-admin")
    made = java.call("create_topic", topic=name, partitions=2, configs={"retention.ms": "60000"})
    assert (made["partitions"], made["replicas"], made["configs"]["retention.ms"]["value"]) == (2, 1, "60000")
    assert made["configs"]["retention.ms"]["source"] == "DYNAMIC_TOPIC_CONFIG"
    assert made["configs"]["segment.bytes"]["source"] == "DEFAULT_CONFIG"
    java.call("positions", topic=name, partitions=[0, 1], timestamp_ms=0)  # Kafka answered before its broker knew the topic
    described = java.call("describe_topic", topic=name)
    assert (described["id"], described["internal"]) == (made["id"], False)
    assert described["partitions"] == [{"partition": p, "leader": 1, "replicas": [1], "isr": [1], "elr": []} for p in range(2)]
    for arguments, refusal in (
        ({"topic": name, "partitions": 2}, "TopicExistsException"),
        ({"topic": "not a name", "partitions": 1}, "InvalidTopicException"),
        ({"topic": unique("java"), "partitions": 0}, "InvalidPartitionsException"),
        ({"topic": unique("java"), "partitions": 1, "replicas": 2}, "InvalidReplicationFactorException"),
        ({"topic": unique("java"), "partitions": 1, "configs": {"retention.ms": "x"}}, "InvalidConfigurationException"),
    ):
        with pytest.raises(JavaError, match=refusal):
            java.call("create_topic", **arguments)
    java.call("create_partitions", topic=name, partitions=5)
    wait_for(lambda: len(java.call("describe_topic", topic=name)["partitions"]) == 5, "five partitions are there")
    with pytest.raises(JavaError, match="InvalidPartitionsException"):
        java.call("create_partitions", topic=name, partitions=5)
    java.call("delete_topic", topic=name)
    wait_for(lambda: name not in java.call("list_topics"), "the topic is gone")
    for command in ("delete_topic", "describe_topic"):
        with pytest.raises(JavaError, match="UnknownTopicOrPartitionException"):
            java.call(command, topic=name)
    again = java.call("create_topic", topic=name, partitions=1)
    assert again["id"] != made["id"]


def test_settings_are_described_and_altered(java: JavaAt, unique: Unique) -> None:
    topic = java.topic(unique("java"), retention_ms="60000")
    resource = {"type": "TOPIC", "name": topic}

    def setting(name: str) -> tuple[str, str]:
        found = java.call("describe_configs", **resource)[name]
        return found["value"], found["source"]

    described = java.call("describe_configs", **resource)
    retention = described["retention.ms"]
    assert (retention["type"], retention["read_only"], retention["sensitive"], retention["documented"]) == (
        "LONG",
        False,
        False,
        True,
    )
    assert retention["synonyms"][0] == ["retention.ms", "60000", "DYNAMIC_TOPIC_CONFIG"]
    java.call("alter_configs", **resource, changes=[["retention.ms", "DELETE", None], ["cleanup.policy", "APPEND", "compact"]])
    wait_for(lambda: setting("cleanup.policy") == ("delete,compact", "DYNAMIC_TOPIC_CONFIG"), "compact was appended")
    assert setting("retention.ms") == (str(7 * 24 * 3_600_000), "DEFAULT_CONFIG")
    java.call(
        "alter_configs", **resource, changes=[["cleanup.policy", "SUBTRACT", "delete"], ["segment.bytes", "SET", "1048576"]]
    )
    wait_for(lambda: setting("cleanup.policy")[0] == "compact", "delete was subtracted")
    assert setting("segment.bytes") == ("1048576", "DYNAMIC_TOPIC_CONFIG")
    with pytest.raises(JavaError, match="InvalidConfigurationException"):
        java.call("alter_configs", **resource, changes=[["retention.ms", "SET", "soon"]])
    broker = java.call("describe_configs", type="BROKER", name="1")
    assert broker["node.id"]["value"] == "1"
    assert broker["node.id"]["read_only"]
    assert broker["offsets.topic.num.partitions"]["synonyms"][0] == ["offsets.topic.num.partitions", "4", "STATIC_BROKER_CONFIG"]


def test_records_are_deleted(java: JavaAt, unique: Unique) -> None:
    topic = java.topic(unique("java"))
    fill(java, topic, 10)
    assert java.call("delete_records", topic=topic, offsets={"0": 6, "1": -1}) == {"0": 6, "1": 10}
    with pytest.raises(JavaError, match="OffsetOutOfRangeException"):
        java.call("delete_records", topic=topic, offsets={"0": 11})
    got = java.call("consume", topic=topic, partitions=[0, 1], count=4)
    assert [r["value"] for r in got] == ["p0-6", "p0-7", "p0-8", "p0-9"]


def test_the_cluster(java: JavaAt, bootstrap: str) -> None:
    host, port = bootstrap.split(":")
    found = java.call("describe_cluster")
    assert (found["controller"], found["nodes"], len(found["id"])) == (1, [[1, host, int(port)]], 22)
    assert java.call("describe_features")["metadata.version"] > 20


def test_the_quorum(java: JavaAt) -> None:
    found = java.call("describe_quorum")
    assert (found["leader"], found["voters"], found["observers"]) == (1, [1], [])
    assert found["high_watermark"] > 0


def test_log_directories(java: JavaAt, unique: Unique) -> None:
    topic = java.topic(unique("java"))
    fill(java, topic, 10)
    found = java.call("describe_log_dirs", topic=topic, partition=1)
    ((path, directory),) = found["directories"].items()
    assert (found["current"], directory["error"]) == (path, "null")
    assert directory["total"] > directory["usable"] > 0
    sizes = {name: state for name, state in directory["replicas"].items() if name.startswith(topic)}
    assert sorted(sizes) == [f"{topic}-{p}" for p in range(3)]
    assert all(size > 100 and (lag, future) == (0, False) for size, lag, future in sizes.values())


def test_producers_of_a_partition(java: JavaAt, unique: Unique) -> None:
    topic = java.topic(unique("java"), 1)
    fill(java, topic, 10, 1)
    ((_, epoch, last_sequence, last_timestamp_ms),) = java.call("describe_producers", topic=topic)
    assert (epoch, last_sequence) == (0, 9)
    assert last_timestamp_ms >= TODAY_MS


def test_leaders_reassignments_quotas_and_resources(java: JavaAt, unique: Unique) -> None:
    topic = java.topic(unique("java"))
    assert java.call("elect_leaders", topic=topic) == "ElectionNotNeededException"
    assert java.call("elect_leaders", topic=topic, unclean=True) == "ElectionNotNeededException"
    assert java.call("elect_leaders", topic=unique("absent")) == "UnknownTopicOrPartitionException"
    assert java.call("list_reassignments") == []
    assert java.call("describe_quotas") == {}
    assert topic in java.call("list_config_resources", type="TOPIC")
    assert "1" in java.call("list_config_resources", type="BROKER")
