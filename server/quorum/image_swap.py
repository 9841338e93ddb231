"""Puts another image in the place of the one that everybody holds, as after a snapshot: the difference becomes events.

A node that has been away for long gets a snapshot instead of the records that it missed. What follows the image (replicas,
coordinators, listeners) sees events as if each thing had changed once.

The image may have a hundred thousand partitions, so both to compare them and to report what is different takes many steps. In
between, everybody sees one image or the other as a whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

from ottla.server.base.turns import Steps, in_runs
from ottla.server.metadata.image import (
    DICTIONARIES,
    QUOTAS_AN_EVENT,
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
from ottla.server.metadata.staging import report_in_steps
from ottla.wire.messages.internal.client_quota_record import ClientQuotaRecord

if TYPE_CHECKING:
    from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord

    RuleChange = tuple[AccessControlEntryRecord | None, AccessControlEntryRecord | None]


def swap(image: MetadataImage, new: MetadataImage, begin: Callable[[], object]) -> Steps[None]:
    """Gives `image` the content of `new`, which must not be used afterwards, and sends the events of the difference. `begin` is
    called in the step in which the content changes, before it does. Nobody else may change the image until the last step is
    taken."""
    events: deque[Event] = deque()
    for event in _differences(image, new):
        if event is not None:
            events.append(event)
        yield None
    past = list(image.topics.values())
    begin()
    _take_over(image, new)
    yield from report_in_steps(image, (events.popleft() for _ in range(len(events))))
    while past:  # one by one, like the events, because a million objects are not freed within a turn
        past.pop()
        yield None


def _take_over(image: MetadataImage, new: MetadataImage) -> None:
    image.changes += 1
    for name in DICTIONARIES:
        mine, theirs = getattr(image, name), getattr(new, name)  # in place, because others may hold the dictionaries
        mine.clear()
        mine.update(theirs)
    image.kraft_version, image.next_producer_id = new.kraft_version, new.next_producer_id
    image.highest_offset = new.highest_offset


def _differences(old: MetadataImage, new: MetadataImage) -> Iterator[Event | None]:
    """Yields the events, and None now and then where there is none. Deletions come first: a new topic may have the name of a
    deleted one."""
    for topic_id, topic in old.topics_by_id.items():
        if topic_id not in new.topics_by_id:
            yield TopicDeleted(topic)
    for broker_id in {**old.brokers, **new.brokers}:
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
        yield None
    for resource in {**old.configs, **new.configs}:
        gone = resource[0] == TOPIC and resource[1] not in new.topics
        yield ConfigChanged(*resource) if not gone and old.configs.get(resource) != new.configs.get(resource) else None
    quotas: list[ClientQuotaRecord] = []
    rules: list[RuleChange] = []
    for key in {**old.kept, **new.kept}:
        was, now = old.kept.get(key), new.kept.get(key)
        if key[0] == "quota":
            quotas += _quota_change(cast("ClientQuotaRecord | None", was), cast("ClientQuotaRecord | None", now))
        elif key[0] == "acl" and was != now:
            rules.append((cast("AccessControlEntryRecord | None", was), cast("AccessControlEntryRecord | None", now)))
        yield None
    for run in in_runs(quotas, QUOTAS_AN_EVENT):
        yield QuotasChanged(list(run))
    if rules:
        yield AccessRulesChanged(rules)


def _quota_change(before: ClientQuotaRecord | None, after: ClientQuotaRecord | None) -> list[ClientQuotaRecord]:
    """Returns the record that makes the new quota of the old one, if it is another."""
    if after is None:
        assert before is not None
        return [ClientQuotaRecord(before.entity, before.key, 0.0, True)]
    return [after] if before is None or before.value != after.value else []
