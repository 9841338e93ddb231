"""min.insync.replicas where there are eligible leader replicas (KIP-966): the cluster's, and nobody's own."""

from __future__ import annotations

import asyncio

import pytest

from ottla.server.metadata.eligible import FEATURE, MIN_ISR, min_isr_records
from ottla.server.metadata.features import update
from ottla.server.metadata.image import BROKER, TOPIC, MetadataImage
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.fakes import CALLER
from tests.server.metadata.support import Node

SET, DELETE = 0, 1
INVALID = ErrorCode.INVALID_CONFIG
SUPPORTED = {"metadata.version": (7, 33), FEATURE: (0, 1)}


def alter(node: Node, kind: int, name: str, operation: int, text: str | None) -> int:
    resource = AlterConfigsResource(kind, name, [AlterableConfig(MIN_ISR, operation, text)])
    answer = asyncio.run(node.controller.incremental_alter_configs(IncrementalAlterConfigsRequest([resource]), CALLER))
    return answer.responses[0].error_code


@pytest.fixture
def node() -> Node:
    made = Node(min_insync_replicas="2")
    controller = made.start()
    asyncio.run(controller.create_topics(CreateTopicsRequest([CreatableTopic("t", 1, 1), CreatableTopic("u", 1, 1)]), CALLER))
    return made


def test_a_new_cluster_has_it_written_down(node: Node) -> None:
    assert node.image.config_of(BROKER, "") == {MIN_ISR: "2"}
    node.kill()
    node.config.values["min.insync.replicas"] = 3
    node.start()
    assert node.image.config_of(BROKER, "") == {MIN_ISR: "2"}


@pytest.mark.parametrize(
    ("name", "operation", "text", "code", "is_off"),
    [("", SET, "3", 0, 0), ("", DELETE, None, INVALID, 0), ("1", SET, "2", INVALID, 0), ("1", DELETE, None, INVALID, 0)],
)
def test_what_may_be_changed(node: Node, name: str, operation: int, text: str | None, code: int, is_off: int) -> None:
    assert alter(node, BROKER, name, operation, text) == code
    assert node.image.config_of(BROKER, "") == {MIN_ISR: text if code == 0 else "2"}
    node.controller.commit([FeatureLevelRecord(FEATURE, 0)])
    assert alter(node, BROKER, name, operation, text) == is_off


@pytest.mark.parametrize(
    ("kind", "name", "left"), [(TOPIC, "t", {"u"}), (TOPIC, "u", {"t"}), (BROKER, "", set()), (BROKER, "1", {"t", "u"})]
)
def test_whoever_was_eligible_is_so_no_more(node: Node, kind: int, name: str, left: set[str]) -> None:
    for topic in node.image.topics.values():
        node.controller.commit([PartitionChangeRecord(0, topic.topic_id, isr=[], eligible_leader_replicas=[1])])
    alter(node, kind, name, SET, "1")
    assert {topic.name for topic in node.image.topics.values() if topic.partitions[0].elr} == left


def an_image(metadata_version: int) -> MetadataImage:
    image = MetadataImage("cluster")
    image.apply(FeatureLevelRecord("metadata.version", metadata_version))
    return image


def raise_it(image: MetadataImage, *more: FeatureUpdateKey) -> int:
    request = UpdateFeaturesRequest(0, [FeatureUpdateKey(FEATURE, 1), *more])
    records, _, answer = update(image, 1, SUPPORTED, 4, request)
    image.apply_all(records)
    return answer.error_code


def test_turning_it_on_writes_it_down_and_takes_brokers_own_away() -> None:
    image = an_image(33)
    image.apply(ConfigRecord(BROKER, "7", MIN_ISR, "1"))
    image.apply(ConfigRecord(BROKER, "7", "other", "1"))
    assert raise_it(image) == 0
    assert (image.config_of(BROKER, ""), image.config_of(BROKER, "7")) == ({MIN_ISR: "4"}, {"other": "1"})
    image.apply(ConfigRecord(BROKER, "", MIN_ISR, "5"))
    assert raise_it(image) == 0
    assert image.config_of(BROKER, "") == {MIN_ISR: "5"}
    assert min_isr_records(image, 9) == []


def test_records_must_be_able_to_name_such_replicas() -> None:
    image = an_image(22)
    assert raise_it(image) == ErrorCode.INVALID_UPDATE_VERSION
    assert raise_it(image, FeatureUpdateKey("metadata.version", 23)) == 0
    assert image.finalized == {"metadata.version": 23, FEATURE: 1}
