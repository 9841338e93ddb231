"""Cases of the APIs about records, topics and settings. rights_cases.py says what they are for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from compat_tests.wire import batch
from compat_tests.wire_diff.rights import (
    AC,
    ACTION,
    DC,
    DESCRIBE,
    DOOMED,
    MISSING,
    NO_TOPIC,
    NODE,
    PRODUCER,
    UNKNOWN_ID,
    A,
    C,
    Case,
    D,
    G,
    R,
    T,
    U,
    W,
    X,
    case,
    cluster,
    group,
    topic,
    transaction,
)
from ottla.wire.messages import (
    alter_client_quotas,
    alter_configs,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_client_quotas,
    describe_configs,
    describe_producers,
    describe_topic_partitions,
    fetch,
    incremental_alter_configs,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)


def _produced(records: bytes, *names: str, transactional_id: str | None = None, acks: int = 1) -> produce.ProduceRequest:
    data = [produce.TopicProduceData(name, partition_data=[produce.PartitionProduceData(0, records)]) for name in names]
    return produce.ProduceRequest(transactional_id, acks, 5000, data)


def _produced_by_id(topic_id: Callable[[str], bytes]) -> produce.ProduceRequest:
    ids = topic_id(T), UNKNOWN_ID
    data = [
        produce.TopicProduceData(topic_id=each, partition_data=[produce.PartitionProduceData(0, batch(b"v"))]) for each in ids
    ]
    return produce.ProduceRequest(None, 1, 5000, data)


def _fetched(*names: str) -> fetch.FetchRequest:
    topics = [fetch.FetchTopic(name, partitions=[fetch.FetchPartition(0, partition_max_bytes=1)]) for name in names]
    return fetch.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, topics=topics)


def _fetched_by_id(topic_id: Callable[[str], bytes], replica_id: int = -1) -> fetch.FetchRequest:
    ids = topic_id(T), UNKNOWN_ID
    topics = [fetch.FetchTopic(topic_id=each, partitions=[fetch.FetchPartition(0, partition_max_bytes=1)]) for each in ids]
    request = fetch.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, topics=topics)
    request.replica_state = fetch.ReplicaState(replica_id, -1)
    return request


def _transactional() -> bytes:
    return batch(b"v", producer_id=PRODUCER, producer_epoch=0, base_sequence=0, transactional=True)


def _records() -> Iterator[Case]:
    yield case("produce", lambda _: _produced(batch(b"v"), T, U, MISSING), topic(W), topic(W, U), topic(W, MISSING), version=12)
    yield case("produce by id", _produced_by_id, topic(W))
    yield case(
        "produce in a transaction",
        lambda _: _produced(_transactional(), T, transactional_id=X),
        transaction(W),
        topic(W),
        version=9,
    )
    yield case("produce with an id only", lambda _: _produced(batch(b"v"), T, transactional_id=X), topic(W), version=9)
    yield case("produce transactional without an id", lambda _: _produced(_transactional(), T), topic(W), version=9)
    yield case("fetch", lambda _: _fetched(T, U, MISSING), topic(R), topic(R, U), topic(R, MISSING), version=12)
    yield case("fetch by id", _fetched_by_id, topic(R))
    yield case("fetch as a replica", partial(_fetched_by_id, replica_id=2), cluster(ACTION, NO_TOPIC))
    for name, module, api in (("list_offsets", list_offsets, list_offsets.ListOffsetsRequest),):
        topics = [module.ListOffsetsTopic(each, [module.ListOffsetsPartition(0, timestamp=-1)]) for each in (T, MISSING)]
        yield case(name, api(-1, 0, topics), topic(DESCRIBE), topic(DESCRIBE, MISSING))
    epochs = offset_for_leader_epoch
    asked = [epochs.OffsetForLeaderTopic(each, [epochs.OffsetForLeaderPartition(0, -1, 0)]) for each in (T, MISSING)]
    yield case(
        "offset_for_leader_epoch", epochs.OffsetForLeaderEpochRequest(-1, asked), topic(DESCRIBE), topic(DESCRIBE, MISSING)
    )
    yield case("offset_for_leader_epoch of a broker", epochs.OffsetForLeaderEpochRequest(2, asked), cluster(ACTION, NO_TOPIC))
    gone = [delete_records.DeleteRecordsTopic(each, [delete_records.DeleteRecordsPartition(0, 0)]) for each in (T, MISSING)]
    yield case("delete_records", delete_records.DeleteRecordsRequest(gone, 1000), topic(D), topic(D, MISSING))
    seen = [describe_producers.TopicRequest(each, [0]) for each in (U, MISSING)]
    yield case("describe_producers", describe_producers.DescribeProducersRequest(seen), topic(R, U), topic(R, MISSING))


def _topics() -> Iterator[Case]:
    def named(*names: str, create: bool = False) -> metadata.MetadataRequest:
        return metadata.MetadataRequest([metadata.MetadataRequestTopic(name=name) for name in names], create, True, True)

    def by_id(topic_id: Callable[[str], bytes]) -> metadata.MetadataRequest:
        return metadata.MetadataRequest([metadata.MetadataRequestTopic(each, None) for each in (topic_id(T), UNKNOWN_ID)], False)

    yield case("metadata", named(T, U, MISSING), topic(DESCRIBE), topic(DESCRIBE, U), topic(DESCRIBE, MISSING))
    yield case("metadata with operations of the cluster", named(T), topic(R), topic(AC, code=0), cluster(DESCRIBE, 0), version=10)
    yield case("metadata by id", by_id, topic(DESCRIBE))
    yield case("metadata of all topics", metadata.MetadataRequest(None), topic(DESCRIBE, code=0), topic(DESCRIBE, U, 0))
    yield case("metadata of all topics in v0", metadata.MetadataRequest([]), topic(DESCRIBE, code=0), version=0)
    new = "rights-new"
    yield case("metadata that creates", named(new, create=True), topic(DESCRIBE, new), topic(C, new))
    pages = describe_topic_partitions
    yield case(
        "describe_topic_partitions",
        pages.DescribeTopicPartitionsRequest([pages.TopicRequest(each) for each in (MISSING, T, U)]),
        topic(DESCRIBE),
        topic(DESCRIBE, U),
        topic(DESCRIBE, MISSING),
    )
    yield case("describe_topic_partitions of all", pages.DescribeTopicPartitionsRequest([]), topic(DESCRIBE, code=0))
    made = [create_topics.CreatableTopic(each, 1, 1) for each in ("rights-made", T)]
    yield case(
        "create_topics",
        create_topics.CreateTopicsRequest(made, 5000, True),
        topic(C, "rights-made"),
        topic(C),
        topic(DC, "rights-made", 0),
    )
    yield case("create_topics of the cluster", create_topics.CreateTopicsRequest(made, 5000, True), cluster(C, NO_TOPIC))
    yield case(
        "delete_topics",
        delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(each) for each in (DOOMED, MISSING)], [], 5000),
        topic(D, DOOMED),
        topic(D, MISSING),
    )
    yield case(
        "delete_topics by id",
        lambda topic_id: delete_topics.DeleteTopicsRequest(
            [delete_topics.DeleteTopicState(None, each) for each in (topic_id(f"{DOOMED}-2"), UNKNOWN_ID)], [], 5000
        ),
        topic(D, f"{DOOMED}-2"),
        topic(DESCRIBE, f"{DOOMED}-2", 0),
    )
    yield case(
        "delete_topics in v5",
        delete_topics.DeleteTopicsRequest([], [MISSING, "rights-none"], 5000),
        topic(D, MISSING),
        topic(D, "rights-none"),
        version=5,
    )
    more = [create_partitions.CreatePartitionsTopic(each, 2, None) for each in (T, MISSING)]
    yield case("create_partitions", create_partitions.CreatePartitionsRequest(more, 5000, True), topic(A), topic(A, MISSING))


def _configs() -> Iterator[Case]:
    kinds = (2, T, topic), (2, MISSING, topic), (32, G, group)
    cluster_kinds = (4, NODE), (8, NODE), (16, "rights-metrics")
    for name, operation, make in (
        (
            "describe_configs",
            DC,
            lambda kind, name: describe_configs.DescribeConfigsResource(kind, name, ["retention.ms", "no.such"]),
        ),
        ("alter_configs", AC, lambda kind, name: alter_configs.AlterConfigsResource(kind, name, [])),
        ("incremental_alter_configs", AC, lambda kind, name: incremental_alter_configs.AlterConfigsResource(kind, name, [])),
    ):
        asked = [make(kind, resource) for kind, resource, _ in kinds]
        rest = [make(*each) for each in cluster_kinds if name != "alter_configs" or each[0] == 16]
        requests: dict[str, Callable[[Any], Any]] = {
            "describe_configs": describe_configs.DescribeConfigsRequest,
            "alter_configs": lambda resources: alter_configs.AlterConfigsRequest(resources, True),
            "incremental_alter_configs": lambda resources: incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources, True
            ),
        }
        request = requests[name]
        yield case(name, request(asked), *(right(operation, resource) for _, resource, right in kinds))
        yield case(f"{name} of brokers", request(rest), cluster(operation))
    yield case("list_config_resources", list_config_resources.ListConfigResourcesRequest([2]), cluster(DC))
    yield case("list_config_resources in v0", list_config_resources.ListConfigResourcesRequest(), cluster(DC), version=0)
    quotas = describe_client_quotas
    any_user = [quotas.ComponentData("user", 2, None)]
    yield case("describe_client_quotas", quotas.DescribeClientQuotasRequest(any_user, False), cluster(DC))
    entry = alter_client_quotas.RequestEntryData(
        [alter_client_quotas.RequestEntityData("user", "x")], [alter_client_quotas.OpData("request_percentage", 5.0, False)]
    )
    yield case("alter_client_quotas", alter_client_quotas.AlterClientQuotasRequest([entry], True), cluster(AC))


def cases() -> list[Case]:
    return [each for make in (_records, _topics, _configs) for each in make()]
