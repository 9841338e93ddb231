"""The controller's listener of a combined node (KIP-919): what `bootstrap.controllers` leads to. The same bytes to both, there.

The nodes of a cluster speak to controllers as well, in the APIs of `OF_NODES`: Kafka serves them, and ottla, which is a quorum of
its own, does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.brokers import Address
from compat_tests.waiting import wait_for
from compat_tests.wire import CLOSED, Wire
from compat_tests.wire_diff.same import check, same_answer
from compat_tests.wire_diff.test_elections import settled_quorum
from ottla.wire.api import APIS
from ottla.wire.messages import (
    alter_client_quotas,
    api_versions,
    create_partitions,
    create_topics,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    metadata,
    unregister_broker,
    update_features,
)

OF_NODES: Final = frozenset({1}) | {key for key, api in APIS.items() if api.listeners == {"controller"}}
TOPIC, BROKER, LOGGER = 2, 4, 8


@pytest.fixture
def wires(warm_brokers: list[Address], request: pytest.FixtureRequest) -> Iterator[dict[str, Wire]]:
    """As everywhere here, but to the controllers' ports."""
    prefix = "controller-" + re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))
    made = {}
    for address in warm_brokers:
        written = Path(address.log_file).with_name("server.properties").read_text()
        found = re.search(r"CONTROLLER://[^:]+:(\d+)", written)
        assert found is not None
        made[address.kind] = Wire(replace(address, port=int(found[1])), prefix)
    yield made
    for wire in made.values():
        wire.close()


@pytest.mark.parametrize("version", range(6))
def test_api_versions(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        answer = wire.call(api_versions.ApiVersionsRequest("compat", "1.0"), version)
        answer.api_keys = [each for each in answer.api_keys if each.api_key not in OF_NODES]
        answer.finalized_features_epoch = min(answer.finalized_features_epoch, 0)  # an offset of the metadata log
        return answer

    check(wires, "ApiVersions at the controllers", scenario)


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("endpoint_type", [2, 1, 0, 3])
def test_describe_cluster(wires: dict[str, Wire], version: int, endpoint_type: int) -> None:
    asked = describe_cluster.DescribeClusterRequest(True, endpoint_type if version else 1)
    check(wires, "DescribeCluster at the controllers", lambda wire: wire.call(asked, version))


@pytest.mark.parametrize("version", range(3))
def test_describe_quorum(wires: dict[str, Wire], version: int) -> None:
    check(wires, "DescribeQuorum at the controllers", lambda wire: settled_quorum(wire, version))


@same_answer("what only brokers serve")
def test_what_only_brokers_serve_closes(wire: Wire) -> Any:
    answer = wire.call(metadata.MetadataRequest(None), 12)
    assert answer == CLOSED
    return answer


@same_answer("a topic's life at the controllers")
def test_a_topic_from_its_beginning_to_its_end(wire: Wire) -> Any:
    name, config = wire.name("t"), create_topics.CreatableTopicConfig("retention.ms", "1000")
    topics = [create_topics.CreatableTopic(name, 1, 1, [], [config]), create_topics.CreatableTopic("a b", 1, 1)]
    answers = [wire.call(create_topics.CreateTopicsRequest(topics, 30_000), 7)]
    wire.label(answers[0].topics[0].topic_id, "t")
    more = [create_partitions.CreatePartitionsTopic(each, 3) for each in (name, wire.name("nope"))]
    answers += [wire.call(create_partitions.CreatePartitionsRequest(more, 30_000), 3)]
    election = [elect_leaders.TopicPartitions(name, [0, 1, 7])]
    answers += [wire.call(elect_leaders.ElectLeadersRequest(0, election, 30_000), 2)]
    answers += [wire.call(list_partition_reassignments.ListPartitionReassignmentsRequest(30_000), 0)]
    gone = [delete_topics.DeleteTopicState(each) for each in (name, wire.name("nope"))]
    return [*answers, wire.call(delete_topics.DeleteTopicsRequest(gone, timeout_ms=30_000), 6)]


def altered(kind: int, name: str, key: str, value: str) -> incremental_alter_configs.AlterConfigsResource:
    return incremental_alter_configs.AlterConfigsResource(kind, name, [incremental_alter_configs.AlterableConfig(key, 0, value)])


def described_after(wire: Wire, request: describe_configs.DescribeConfigsRequest) -> Any:
    """The answer that has the change: Kafka's controller answers the change before it has published it to what describes."""
    answers: list[Any] = []

    def changed() -> bool:
        answers[:] = [wire.call(request, 4)]
        configs = [config for result in answers[0].results for config in result.configs]
        return any(config.name == "retention.ms" and config.value == "2000" for config in configs)

    wait_for(changed, "retention.ms is described as it was set")
    return answers[0]


@same_answer("settings at the controllers")
def test_settings(wire: Wire) -> Any:
    name = wire.name("t")
    wire.call(create_topics.CreateTopicsRequest([create_topics.CreatableTopic(name, 1, 1)], 30_000), 7)
    changes = [altered(TOPIC, each, "retention.ms", "2000") for each in (name, wire.name("nope"))]
    answer = wire.call(incremental_alter_configs.IncrementalAlterConfigsRequest(changes), 1)
    resources = [(TOPIC, name), (TOPIC, wire.name("nope")), (BROKER, "1"), (BROKER, "7"), (BROKER, ""), (LOGGER, "1")]
    asked = [
        describe_configs.DescribeConfigsResource(kind, of, None if kind == TOPIC else ["log.retention.ms", "kafka"])
        for kind, of in resources
    ]
    described = described_after(wire, describe_configs.DescribeConfigsRequest(asked, True, True))
    # Kafka's controller answers in the order of a hash table whose keys hash by identity: another one in each process.
    described.results.sort(key=lambda result: (result.resource_type, result.resource_name))
    return answer, described


@same_answer("CLCbroker")
def test_impossible_settings_of_brokers(wire: Wire) -> Any:
    changes = [altered(BROKER, "", "log.cleaner.threads", "none")]
    return wire.call(incremental_alter_configs.IncrementalAlterConfigsRequest(changes, True), 1).responses[0].error_code


@same_answer("the rest of administration at the controllers")
def test_the_rest_of_administration(wire: Wire) -> Any:
    entity = alter_client_quotas.RequestEntityData("user", wire.name("u"))
    quota = alter_client_quotas.RequestEntryData([entity], [alter_client_quotas.OpData("producer_byte_rate", 1.0)])
    feature = update_features.FeatureUpdateKey("nope", 1, upgrade_type=1)
    return [
        wire.call(alter_client_quotas.AlterClientQuotasRequest([quota], True), 1),
        wire.call(update_features.UpdateFeaturesRequest(30_000, [feature], True), 2),
        wire.call(unregister_broker.UnregisterBrokerRequest(99), 0),
        wire.call(describe_acls.DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3),
    ]
