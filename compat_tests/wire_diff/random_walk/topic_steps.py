"""Steps that make, change and describe topics and their settings, and client quotas."""

from __future__ import annotations

import random
from typing import Any

from compat_tests.wire_diff.random_walk.session import TOPIC, Session
from compat_tests.wire_diff.random_walk.steps import PARTITIONS, TOPICS, draws, some, step, version_of
from ottla.wire.messages import (
    alter_client_quotas,
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_client_quotas,
    describe_configs,
    describe_topic_partitions,
    elect_leaders,
    incremental_alter_configs,
    metadata,
)

GROUP = 32
TOPIC_OF = some(*TOPICS, "never")
SETTINGS: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    ("cleanup.policy", ("delete", "compact", "compact,delete", "bogus", "")),
    ("compression.type", ("producer", "gzip", "uncompressed", "lz4", "none")),
    ("max.message.bytes", ("200", "100000", "-1", "x")),
    ("message.timestamp.type", ("CreateTime", "LogAppendTime", "Never")),
    ("message.timestamp.before.max.ms", ("1000", "9223372036854775807", "-5")),
    ("min.insync.replicas", ("1", "2", "0")),
    ("retention.ms", ("100000000", "-1", "-2", None)),
    ("segment.bytes", ("1048576", "10", "2000000")),
    ("max.compaction.lag.ms", ("3600000", "0")),
    ("min.cleanable.dirty.ratio", ("0.9", "1.5", "zero")),
    ("leader.replication.throttled.replicas", ("*", "0:1", "none", "")),
    ("unclean.leader.election.enable", ("true", "false", "maybe")),
    ("no.such.setting", ("1",)),
)
"""None that removes records in the background: the walk would see when."""


def settings(rng: random.Random, most: int = 3) -> dict[str, str | None]:
    chosen = rng.sample(SETTINGS, rng.choice((0, 0, 1, rng.randint(1, most))))
    return {name: rng.choice(values[:2] if rng.random() < 0.8 else values) for name, values in chosen}


def labelled(session: Session, name: str | None, topic_id: bytes) -> None:
    if any(topic_id):
        session.wire.label(topic_id, f"id of {name}")


@step(
    "topics",
    6,
    draws(
        topic=TOPIC_OF,
        partitions=some(1, 2, 2, PARTITIONS, -1, 0),
        configs=settings,
        version=version_of("create_topics"),
        validate=some(False, False, False, True),
    ),
)
def create(session: Session, topic: str, partitions: int, configs: dict[str, str | None], version: int, validate: bool) -> Any:
    name = session.name("no/name" if topic == "never" else topic)
    given = [create_topics.CreatableTopicConfig(*pair) for pair in configs.items()]
    wanted = create_topics.CreatableTopic(name, partitions, 1 if version < 4 or partitions >= 0 else -1, [], given)
    answer = session.call(create_topics.CreateTopicsRequest([wanted], 30_000, validate), version)
    if topic == "never":
        return answer
    if not answer.topics[0].error_code and not validate:
        session.wire.wait_for_topic(name, max(partitions, 1))
        session.settle()
    labelled(session, name, answer.topics[0].topic_id)
    return answer


@step(
    "topics",
    3,
    draws(topic=TOPIC_OF, by_id=some(False, True), twice=some(False, False, True), version=version_of("delete_topics")),
)
def delete(session: Session, topic: str, by_id: bool, twice: bool, version: int) -> Any:
    name, times = session.name(topic), 1 + twice
    states = [delete_topics.DeleteTopicState(None, session.topic_id(topic)) if by_id else delete_topics.DeleteTopicState(name)]
    answer = session.call(delete_topics.DeleteTopicsRequest(states * times, [name] * times, 30_000), version)
    if any(not each.error_code for each in answer.responses):
        session.wire.wait_until_gone(name)
        session.settle()
    return answer


@step(
    "topics",
    3,
    draws(topic=TOPIC_OF, count=some(1, 2, 3, 4, 0), validate=some(False, False, True), version=version_of("create_partitions")),
)
def grow(session: Session, topic: str, count: int, validate: bool, version: int) -> Any:
    name = session.name(topic)
    wanted = create_partitions.CreatePartitionsTopic(name, count, None)
    answer = session.call(create_partitions.CreatePartitionsRequest([wanted], 30_000, validate), version)
    if not answer.results[0].error_code and not validate:
        session.wire.wait_for_topic(name, count)
        session.settle()
    return answer


@step("topics", 3, draws(topics=lambda rng: rng.choices((*TOPICS, "never"), k=rng.randint(0, 3)), version=some(*range(4, 14))))
def describe(session: Session, topics: list[str], version: int) -> Any:
    """Below version 4 a request creates what it asks for, some time later."""
    wanted = [metadata.MetadataRequestTopic(name=session.name(topic)) for topic in topics]
    return session.call(metadata.MetadataRequest(wanted, False), version)


@step("topics", 1, draws(topic=TOPIC_OF, version=some(12, 13)))
def describe_by_id(session: Session, topic: str, version: int) -> Any:
    wanted = metadata.MetadataRequestTopic(session.topic_id(topic), None)
    return session.call(metadata.MetadataRequest([wanted], False), version)


@step(
    "topics",
    2,
    draws(
        topics=lambda rng: rng.choices((*TOPICS, "never"), k=rng.randint(1, 3)), limit=some(1, 2, 5), cursor=some(-1, -1, 0, 1, 2)
    ),
)
def list_partitions(session: Session, topics: list[str], limit: int, cursor: int) -> Any:
    at = describe_topic_partitions.RequestCursor(session.name(topics[0]), cursor) if cursor >= 0 else None
    named = [describe_topic_partitions.TopicRequest(session.name(topic)) for topic in topics]
    return session.call(describe_topic_partitions.DescribeTopicPartitionsRequest(named, limit, at), 0)


def one_setting(rng: random.Random) -> tuple[str, int, str | None]:
    name, values = rng.choice(SETTINGS)
    return name, rng.choice((0, 0, 0, 1, 2, 3)), rng.choice(values[:2] if rng.random() < 0.7 else values)


@step(
    "settings",
    6,
    draws(
        topic=TOPIC_OF,
        changes=lambda rng: [one_setting(rng) for _ in range(rng.choice((1, 1, 2)))],
        validate=some(False, False, True),
        version=some(0, 1),
    ),
)
def alter(session: Session, topic: str, changes: list[tuple[str, int, str | None]], validate: bool, version: int) -> Any:
    given = [incremental_alter_configs.AlterableConfig(*change) for change in changes]
    resource = incremental_alter_configs.AlterConfigsResource(TOPIC, session.name(topic), given)
    answer = session.call(incremental_alter_configs.IncrementalAlterConfigsRequest([resource], validate), version)
    session.settle()
    return answer


@step(
    "settings", 2, draws(topic=TOPIC_OF, configs=settings, validate=some(False, False, True), version=version_of("alter_configs"))
)
def alter_all(session: Session, topic: str, configs: dict[str, str | None], validate: bool, version: int) -> Any:
    given = [alter_configs.AlterableConfig(*pair) for pair in configs.items()]
    resource = alter_configs.AlterConfigsResource(TOPIC, session.name(topic), given)
    answer = session.call(alter_configs.AlterConfigsRequest([resource], validate), version)
    session.settle()
    return answer


@step(
    "settings",
    3,
    draws(
        topic=TOPIC_OF,
        keys=some(None, ["cleanup.policy", "max.message.bytes", "nosuch"]),
        synonyms=some(False, True),
        version=version_of("describe_configs"),
    ),
)
def described(session: Session, topic: str, keys: list[str] | None, synonyms: bool, version: int) -> Any:
    resource = describe_configs.DescribeConfigsResource(TOPIC, session.name(topic), keys)
    return session.call(describe_configs.DescribeConfigsRequest([resource], synonyms), version)


def quota(rng: random.Random) -> dict[str, Any]:
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "bogus_rate")
    return {
        "user": rng.choice((None, "u0", "u1")),
        "client": rng.choice((None, "c0", "c1")),
        "ops": [
            (rng.choice(keys[: rng.choice((4, 4, 5))]), rng.choice((1e9, 5e8, 100.0, -1.0)), rng.random() < 0.3)
            for _ in range(rng.randint(1, 2))
        ],
        "validate": rng.random() < 0.2,
        "version": rng.randint(0, 1),
    }


@step("quotas", 3, quota)
def limit(session: Session, user: str | None, client: str | None, ops: list[Any], validate: bool, version: int) -> Any:
    entity = [
        alter_client_quotas.RequestEntityData(kind, session.name(role))
        for kind, role in (("user", user), ("client-id", client))
        if role is not None
    ]
    changes = [alter_client_quotas.OpData(*op) for op in ops]
    answer = session.call(
        alter_client_quotas.AlterClientQuotasRequest([alter_client_quotas.RequestEntryData(entity, changes)], validate), version
    )
    session.settle()
    return answer


@step(
    "quotas", 2, draws(user=some(None, "u0", "u1"), client=some(None, "c0", "c1"), strict=some(False, True), version=some(0, 1))
)
def limits(session: Session, user: str | None, client: str | None, strict: bool, version: int) -> Any:
    exactly = 0
    wanted = [
        describe_client_quotas.ComponentData(kind, exactly, session.name(role))
        for kind, role in (("user", user), ("client-id", client))
        if role is not None
    ]
    if not wanted:
        return None  # that means everybody's
    return session.call(describe_client_quotas.DescribeClientQuotasRequest(wanted, strict), version)


@step(
    "topics",
    1,
    draws(topic=TOPIC_OF, partitions=some([0], [0, 1], [7], []), kind=some(0, 1), version=version_of("elect_leaders")),
)
def elect(session: Session, topic: str, partitions: list[int], kind: int, version: int) -> Any:
    """Nobody else can lead: refused, each in its way."""
    wanted = [elect_leaders.TopicPartitions(session.name(topic), partitions)]
    return session.call(elect_leaders.ElectLeadersRequest(kind if version else 0, wanted, 10_000), version)


GROUP_SETTINGS = (
    ("consumer.session.timeout.ms", ("45000", "60000", "1", "x")),
    ("consumer.heartbeat.interval.ms", ("5000", "7000", "1")),
    ("share.auto.offset.reset", ("earliest", "latest", "never")),
    ("share.record.lock.duration.ms", ("30000", "15000", "0")),
    ("streams.num.standby.replicas", ("0", "1", "-1")),
    ("nothing.such", ("1",)),
)


def one_of_a_group(rng: random.Random) -> tuple[str, int, str]:
    name, values = rng.choice(GROUP_SETTINGS)
    return name, rng.choice((0, 0, 0, 1, 2)), rng.choice(values)


@step("settings", 3, draws(group=some("g0", "g1", ""), change=one_of_a_group, validate=some(False, False, True)))
def alter_group(session: Session, group: str, change: tuple[str, int, str], validate: bool) -> Any:
    given = [incremental_alter_configs.AlterableConfig(*change)]
    resource = incremental_alter_configs.AlterConfigsResource(GROUP, session.name(group) if group else "", given)
    answer = session.call(incremental_alter_configs.IncrementalAlterConfigsRequest([resource], validate), 1)
    session.settle()
    return answer


@step("settings", 2, draws(group=some("g0", "g1"), synonyms=some(False, True)))
def described_group(session: Session, group: str, synonyms: bool) -> Any:
    resource = describe_configs.DescribeConfigsResource(GROUP, session.name(group), None)
    return session.call(describe_configs.DescribeConfigsRequest([resource], synonyms), 4)
