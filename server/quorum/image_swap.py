"""Puts another image in the place of the one that everybody holds, as after a snapshot: the difference becomes events.

A node that has been away for long gets a snapshot instead of the records that it missed. What follows the image (replicas,
coordinators, listeners) sees events as if each thing had changed once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from ottla.server.metadata.image import (
    TOPIC,
    AccessRulesChanged,
    BrokerChanged,
    ConfigChanged,
    Event,
    MetadataImage,
    PartitionChanged,
    QuotasChanged,
    TopicCreated,
    TopicDeleted,
)
from ottla.wire.messages.internal.client_quota_record import ClientQuotaRecord

if TYPE_CHECKING:
    from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord


def swap(image: MetadataImage, new: MetadataImage) -> None:
    """Gives `image` the content of `new`, which must not be used afterwards, and sends the events of the difference."""
    events = list(_differences(image, new))
    image.replace(new, events)


def _differences(old: MetadataImage, new: MetadataImage) -> Iterator[Event]:
    """Yields deletions first: a new topic may have the name of a deleted one."""
    for topic_id, topic in old.topics_by_id.items():
        if topic_id not in new.topics_by_id:
            yield TopicDeleted(topic)
    for broker_id in old.brokers.keys() | new.brokers.keys():
        if old.brokers.get(broker_id) != new.brokers.get(broker_id):
            yield BrokerChanged(broker_id)
    for topic_id, topic in new.topics_by_id.items():
        before = old.topics_by_id.get(topic_id)
        if before is None:
            yield TopicCreated(topic)
        for index, partition in topic.partitions.items():
            previous = before.partitions.get(index) if before is not None else None
            if previous != partition:
                yield PartitionChanged(topic, index, partition, previous)
    for resource in old.configs.keys() | new.configs.keys():
        gone = resource[0] == TOPIC and resource[1] not in new.topics
        if not gone and old.configs.get(resource) != new.configs.get(resource):
            yield ConfigChanged(*resource)
    quotas = list(_quota_changes(_quotas(old), _quotas(new)))
    if quotas:
        yield QuotasChanged(quotas)
    rules, before_rules = _access_rules(new), _access_rules(old)
    ids = [each for each in before_rules.keys() | rules.keys() if before_rules.get(each) != rules.get(each)]
    if ids:
        yield AccessRulesChanged([(before_rules.get(each), rules.get(each)) for each in ids])


def _access_rules(image: MetadataImage) -> dict[tuple[object, ...], AccessControlEntryRecord]:
    return {key: cast("AccessControlEntryRecord", record) for key, record in image.kept.items() if key[0] == "acl"}


def _quotas(image: MetadataImage) -> dict[tuple[object, ...], ClientQuotaRecord]:
    return {key: cast("ClientQuotaRecord", record) for key, record in image.kept.items() if key[0] == "quota"}


def _quota_changes(
    old: dict[tuple[object, ...], ClientQuotaRecord], new: dict[tuple[object, ...], ClientQuotaRecord]
) -> Iterator[ClientQuotaRecord]:
    """Yields the records that make the new quotas of the old ones."""
    for key, record in old.items():
        if key not in new:
            yield ClientQuotaRecord(record.entity, record.key, 0.0, True)
    for key, record in new.items():
        before = old.get(key)
        if before is None or before.value != record.value:
            yield record
