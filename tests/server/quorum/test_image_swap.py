"""Putting another image in an image's place: the content, and an event for each difference."""

from __future__ import annotations

from typing import cast

from ottla.server.base.turns import at_once
from ottla.server.metadata.image import (
    BROKER,
    QUOTAS_AN_EVENT,
    TOPIC,
    AccessRulesChanged,
    BrokerChanged,
    ConfigChanged,
    MetadataImage,
    PartitionChanged,
    QuotasChanged,
    TopicCreated,
    TopicDeleted,
)
from ottla.server.quorum.image_swap import swap
from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord
from ottla.wire.messages.internal.client_quota_record import ClientQuotaRecord, EntityData
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.producer_ids_record import ProducerIdsRecord
from ottla.wire.messages.internal.register_broker_record import RegisterBrokerRecord
from ottla.wire.messages.internal.topic_record import TopicRecord
from ottla.wire.primitives import WireStruct
from tests.server.metadata.support import dump


def uuid(name: str) -> bytes:
    return name.encode().ljust(16, b".")


def topic(name: str, *leaders: int, as_id: str = "") -> list[WireStruct]:
    topic_id = uuid(as_id or name)
    partitions = [PartitionRecord(at, topic_id, [1, 2], [1, 2], leader=leader) for at, leader in enumerate(leaders)]
    return [TopicRecord(name, topic_id), *partitions]


def broker(broker_id: int, epoch: int = 1) -> WireStruct:
    return RegisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch, fenced=False)


def quota(value: float) -> WireStruct:
    return ClientQuotaRecord([EntityData("user", "alice")], "producer_byte_rate", value)


def image_of(*records: WireStruct, offset: int = 0) -> MetadataImage:
    image = MetadataImage("cluster")
    image.apply_all(records, offset)
    return image


def swapped(old: list[WireStruct], new: list[WireStruct]) -> list[object]:
    """The events of a swap, after which the image must be as if it had been made of the new records."""
    image = image_of(*old)
    topics = image.topics
    events: list[object] = []
    image.subscribe(events.append)
    changes = image.changes
    at_once(swap(image, image_of(*new, offset=9), lambda: None))
    assert dump(image) == dump(image_of(*new, offset=9))
    assert image.topics is topics, "others may hold it"
    assert image.changes > changes
    for name in image.topics:
        assert list(image.named_like(name)) == list(image_of(*new).named_like(name))
    return events


def test_what_is_the_same_has_no_event() -> None:
    same = [*topic("a", 1, 2), broker(1), quota(5.0), ConfigRecord(TOPIC, "a", "retention.ms", "1")]
    assert swapped(same, same) == []


def test_topics_that_came_and_went() -> None:
    events = swapped([*topic("gone", 1), *topic("a.b", 1)], [*topic("a.b", 1), *topic("new_one", 2)])
    assert [type(each) for each in events] == [TopicDeleted, TopicCreated, PartitionChanged]
    deleted, created, changed = events
    assert isinstance(deleted, TopicDeleted)
    assert isinstance(created, TopicCreated)
    assert isinstance(changed, PartitionChanged)
    assert (deleted.topic.name, list(deleted.topic.partitions)) == ("gone", [0])
    assert (created.topic.name, changed.topic.name, changed.partition, changed.previous) == ("new_one", "new_one", 0, None)


def test_a_topic_that_was_made_anew_is_deleted_first() -> None:
    events = swapped(topic("a", 1), topic("a", 1, as_id="another"))
    assert [type(each) for each in events] == [TopicDeleted, TopicCreated, PartitionChanged]


def test_a_partition_that_changed_and_one_that_came() -> None:
    events = swapped(topic("a", 1, 1), topic("a", 1, 2, 1))
    changed = [each for each in events if isinstance(each, PartitionChanged)]
    assert [(each.partition, each.previous is None, each.image.leader) for each in changed] == [(1, False, 2), (2, True, 1)]
    assert len(changed) == len(events)


def test_brokers_settings_and_quotas() -> None:
    old = [broker(1), broker(2), quota(1.0), ConfigRecord(BROKER, "1", "log.retention.ms", "1")]
    old += [*topic("gone"), ConfigRecord(TOPIC, "gone", "retention.ms", "1"), *topic("a")]
    new = [broker(1, epoch=5), broker(3), quota(2.0), *topic("a"), ConfigRecord(TOPIC, "a", "retention.ms", "1")]
    events = swapped(old, new)
    assert {each.broker_id for each in events if isinstance(each, BrokerChanged)} == {1, 2, 3}
    configs = [(each.resource_type, each.name) for each in events if isinstance(each, ConfigChanged)]
    assert sorted(configs) == [(TOPIC, "a"), (BROKER, "1")], "a deleted topic has no event of its own"
    assert [each.records for each in events if isinstance(each, QuotasChanged)] == [[quota(2.0)]]


def test_a_quota_that_went() -> None:
    (event,) = swapped([quota(1.0)], [])
    assert isinstance(event, QuotasChanged)
    (record,) = event.records
    image = image_of(quota(1.0), record)
    assert dump(image)["kept"] == {}


def test_what_has_no_event_is_taken_over_all_the_same() -> None:
    assert swapped([], [FeatureLevelRecord("metadata.version", 33), ProducerIdsRecord(1, 1, 5000)]) == []


def test_access_rules() -> None:
    def rule(name: str, as_id: str = "") -> AccessControlEntryRecord:
        return AccessControlEntryRecord(uuid(as_id or name), 2, name, 3, "User:a", "*", 3, 3)

    events = swapped([rule("kept"), rule("gone"), rule("old", "x")], [rule("kept"), rule("new"), rule("other", "x")])
    (event,) = events
    assert isinstance(event, AccessRulesChanged)
    by_name = {str(getattr(added or removed, "resource_name", None)): (removed, added) for removed, added in event.changes}
    assert by_name == {
        "gone": (rule("gone"), None),
        "new": (None, rule("new")),
        "other": (rule("old", "x"), rule("other", "x")),
    }


def test_a_swap_takes_many_steps_and_its_content_comes_at_once() -> None:
    image, new = image_of(*topic("old", *[1] * 30)), image_of(*topic("new", *[1] * 30), offset=9)
    events: list[object] = []
    begun: list[str] = []
    image.subscribe(events.append)
    steps = swap(image, new, lambda: begun.extend(image.topics))
    seen = [(next(iter(image.topics)), len(events), image.is_reporting) for _ in steps]
    assert begun == ["old"], "it begins before the content changes, in the same step"
    changed = next(at for at, (name, _, _) in enumerate(seen) if name == "new")
    assert changed >= 32, "each difference is a step"
    assert set(seen[:changed]) == {("old", 0, False)}
    assert [count for _, count, is_reporting in seen[changed:] if is_reporting] == list(range(1, 33))
    assert seen[-1] == ("new", 32, False)
    assert image.highest_offset == 9


def test_so_many_quotas_make_an_event() -> None:
    def of(client: int) -> WireStruct:
        return ClientQuotaRecord([EntityData("client-id", str(client))], "producer_byte_rate", 1.0)

    changes = [of(client) for client in range(2 * QUOTAS_AN_EVENT + 1)]
    sizes = [len(each.records) for each in swapped([], changes) if isinstance(each, QuotasChanged)]
    assert sizes == [QUOTAS_AN_EVENT, QUOTAS_AN_EVENT, 1]
    image, events = MetadataImage("cluster"), list[QuotasChanged]()
    image.subscribe(lambda event: events.append(cast(QuotasChanged, event)))
    image.apply_all(changes)
    assert [len(each.records) for each in events] == sizes
