"""Attacks of the stall bench on a broker that holds much: short requests about all of it, and one that changes all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from compat_tests.wire import Connection
from ottla.wire.messages import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_topics,
    delete_groups,
    delete_topics,
    describe_client_quotas,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_topic_partitions,
    describe_user_scram_credentials,
    fetch,
    incremental_alter_configs,
    list_config_resources,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
)
from scripts.bench.stall_attacks import GROUP, LOT, SETTLE_S, Attack, answered, coordinated, framed, pipelined

SIZES: Final = (1_000, 10_000)
MIB: Final = 1 << 20
TOPIC: Final = 2


def _names(count: int) -> list[str]:
    return [f"held-{number}" for number in range(count)]


def _lots(names: list[str]) -> Iterable[list[str]]:
    rest = iter(names)
    while lot := list(islice(rest, LOT)):
        yield lot


def holding(count: int) -> Callable[[Connection], None]:
    """Returns what makes so many topics, groups with an offset each, a group with an offset of each topic, quotas and users."""

    def make(connection: Connection) -> None:
        names = _names(count)
        for lot in _lots(names):
            for request, version in _made_together(lot):
                answer = connection.call(request, version, SETTLE_S)
                assert not isinstance(answer, str), (type(request).__name__, answer)
        coordinated(connection, GROUP, "g")
        while connection.call(_commit("g", names[:1]), 8, SETTLE_S).topics[0].partitions[0].error_code:
            """The coordinator is loading."""
        for lot in _lots(names):
            assert not connection.call(_commit("wide", lot), 8, SETTLE_S).topics[0].partitions[0].error_code
            answered(connection, [framed(_commit(name, names[:1]), 8) for name in lot])

    return make


def _made_together(names: list[str]) -> Iterable[tuple[Any, int]]:
    topics = [create_topics.CreatableTopic(name, 1, 1, [], []) for name in names]
    yield create_topics.CreateTopicsRequest(topics, 60_000), 7
    quotas = [
        alter_client_quotas.RequestEntryData(
            [alter_client_quotas.RequestEntityData("user", name)], [alter_client_quotas.OpData("producer_byte_rate", 1e9)]
        )
        for name in names
    ]
    yield alter_client_quotas.AlterClientQuotasRequest(quotas), 1
    users = [alter_user_scram_credentials.ScramCredentialUpsertion(name, 1, 4096, b"s" * 16, b"p" * 32) for name in names]
    yield alter_user_scram_credentials.AlterUserScramCredentialsRequest([], users), 0


def _commit(group: str, topics: list[str]) -> offset_commit.OffsetCommitRequest:
    partition = offset_commit.OffsetCommitRequestPartition(0, 5, -1, "")
    return offset_commit.OffsetCommitRequest(
        group, -1, "", topics=[offset_commit.OffsetCommitRequestTopic(name, partitions=[partition]) for name in topics]
    )


def _alter_all(names: list[str]) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    config = incremental_alter_configs.AlterableConfig("retention.ms", 0, "777777777")
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        [incremental_alter_configs.AlterConfigsResource(TOPIC, name, [config]) for name in names]
    )


def _fetch_all(names: list[str]) -> fetch.FetchRequest:
    topics = [fetch.FetchTopic(name, partitions=[fetch.FetchPartition(0, partition_max_bytes=MIB)]) for name in names]
    return fetch.FetchRequest(max_wait_ms=0, max_bytes=MIB, session_id=0, session_epoch=-1, topics=topics)


def _offsets_of_all(names: list[str]) -> list_offsets.ListOffsetsRequest:
    partition = list_offsets.ListOffsetsPartition(0, -1, -1)
    return list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic(name, [partition]) for name in names])


def _delete_all(names: list[str]) -> delete_topics.DeleteTopicsRequest:
    return delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(name) for name in names], timeout_ms=60_000)


def state_attacks() -> list[Attack]:
    """Returns the attacks on brokers that hold 1,000 and 10,000 of everything; the last of each deletes it."""
    return [attack for count in SIZES for attack in _attacks_on(count)]


def _attacks_on(count: int) -> list[Attack]:
    names = _names(count)
    resources = [describe_configs.DescribeConfigsResource(TOPIC, name) for name in names]
    wide = offset_fetch.OffsetFetchRequestGroup("wide", topics=None)
    requests: list[tuple[str, Any, int]] = [
        ("Metadata of all topics", metadata.MetadataRequest(None), 12),
        (
            "DescribeTopicPartitions of all topics",
            describe_topic_partitions.DescribeTopicPartitionsRequest([], 2_000, None),
            0,
        ),
        ("DescribeLogDirs of everything", describe_log_dirs.DescribeLogDirsRequest(None), 4),
        ("ListConfigResources", list_config_resources.ListConfigResourcesRequest([]), 1),
        ("DescribeConfigs of all topics", describe_configs.DescribeConfigsRequest(resources), 4),
        ("ListGroups", list_groups.ListGroupsRequest([], []), 5),
        ("DescribeGroups of all groups", describe_groups.DescribeGroupsRequest(names), 5),
        ("OffsetFetch of all offsets of a group", offset_fetch.OffsetFetchRequest(groups=[wide]), 9),
        ("OffsetCommit for all topics", _commit("wide", names), 8),
        ("DescribeClientQuotas", describe_client_quotas.DescribeClientQuotasRequest([], False), 1),
        (
            "DescribeUserScramCredentials",
            describe_user_scram_credentials.DescribeUserScramCredentialsRequest(None),
            0,
        ),
        ("ListOffsets of all partitions", _offsets_of_all(names), 8),
        ("Fetch from all partitions", _fetch_all(names), 12),
        ("IncrementalAlterConfigs of all topics", _alter_all(names), 1),
        ("DeleteGroups of all groups", delete_groups.DeleteGroupsRequest(names), 2),
        ("DeleteTopics of all topics", _delete_all(names), 6),
    ]
    return [
        Attack(
            f"{name}, of {count:,}",
            pipelined(lambda request=request: request, version),  # type: ignore[misc]  # a lambda's default
            holding(count),
            held=f"{count:,} of everything",
        )
        for name, request, version in requests
    ]
