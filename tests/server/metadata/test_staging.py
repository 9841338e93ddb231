"""Operations that are applied in steps: what comes of them is what `apply_all` makes of them, and it comes all at once."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from ottla.server.base.turns import at_once
from ottla.server.metadata import staging
from ottla.server.metadata.image import TOPIC, MetadataImage, PartitionChanged, TopicDeleted
from ottla.server.metadata.staging import FEW_RECORDS, RECORDS_A_STEP, apply_in_steps
from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord
from ottla.wire.messages.internal.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.internal.clear_elr_record import ClearElrRecord
from ottla.wire.messages.internal.client_quota_record import ClientQuotaRecord, EntityData
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.producer_ids_record import ProducerIdsRecord
from ottla.wire.messages.internal.register_broker_record import RegisterBrokerRecord
from ottla.wire.messages.internal.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from ottla.wire.messages.internal.remove_topic_record import RemoveTopicRecord
from ottla.wire.messages.internal.topic_record import TopicRecord
from ottla.wire.metadata_records import MetadataError
from ottla.wire.primitives import WireStruct
from tests.server.metadata.support import dump


def uuid(number: int) -> bytes:
    return number.to_bytes(16, "big")


class Writer:
    """Makes operations of random records that a controller could write, each after what was written before."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.topics: dict[int, tuple[str, int]] = {}
        """The name and the number of partitions of each topic, by the number in its id."""
        self.names = 0
        self.rules: list[int] = []
        self.brokers: dict[int, int] = {}

    def record(self) -> WireStruct:
        random = self.random
        kinds = ["topic", "quota", "rule", "broker", "level", "ids", "clear"]
        kinds += ["partition", "change", "change", "remove", "config"] if self.topics else []
        kind = random.choice(kinds)
        self.names += 1
        if kind == "topic":
            self.topics[self.names] = f"t{random.choice('._-')}{self.names}", 0
            return TopicRecord(self.topics[self.names][0], uuid(self.names))
        if kind == "rule":
            if self.rules and random.random() < 0.4:
                return RemoveAccessControlEntryRecord(uuid(self.rules.pop(random.randrange(len(self.rules)))))
            self.rules.append(random.choice([*self.rules, self.names]))
            return AccessControlEntryRecord(uuid(self.rules[-1]), 2, f"r{self.names}", 3, "User:a", "*", 3, 3)
        if kind == "broker":
            return self._broker(random.randrange(4))
        if kind in ("partition", "change", "remove", "config"):
            return self._of_topic(kind, random.choice(list(self.topics)))
        return {
            "quota": ClientQuotaRecord(
                [EntityData("user", f"u{self.names % 5}")], "producer_byte_rate", 1.0, self.names % 2 == 0
            ),
            "level": FeatureLevelRecord(f"f{self.names % 3}", self.names % 2),
            "ids": ProducerIdsRecord(1, 1, self.names),
            "clear": ClearElrRecord(""),
        }[kind]

    def _broker(self, broker_id: int) -> WireStruct:
        if broker_id in self.brokers and self.random.random() < 0.7:
            return BrokerRegistrationChangeRecord(broker_id, self.brokers[broker_id], fenced=self.random.choice((-1, 1)))
        self.brokers[broker_id] = self.names
        return RegisterBrokerRecord(broker_id=broker_id, broker_epoch=self.names, fenced=True)

    def _of_topic(self, kind: str, number: int) -> WireStruct:
        name, count = self.topics[number]
        if kind == "remove":
            del self.topics[number]
            return RemoveTopicRecord(uuid(number))
        if kind == "config":
            return ConfigRecord(TOPIC, name, f"k{self.names % 3}", self.random.choice((None, "1", "2")))
        if kind == "change" and count:
            index = self.random.randrange(count)
            return PartitionChangeRecord(index, uuid(number), isr=[1], leader=self.names % 3, eligible_leader_replicas=[2])
        self.topics[number] = name, count + 1
        return PartitionRecord(count, uuid(number), [1, 2], [1, 2], leader=1)


def heard(image: MetadataImage) -> list[object]:
    events: list[object] = []
    image.subscribe(events.append)
    return events


def same(one: Sequence[object], other: Sequence[object]) -> bool:
    return [repr(each) for each in one] == [repr(each) for each in other]


@pytest.mark.parametrize("seed", range(40))
def test_it_comes_to_what_apply_all_makes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "FEW_RECORDS", 0)
    writer = Writer(Random(seed))
    at_once_image, in_steps = MetadataImage("cluster"), MetadataImage("cluster")
    events, others = heard(at_once_image), heard(in_steps)
    offset = 0
    for _ in range(10):
        records = [writer.record() for _ in range(writer.random.randrange(1, 60))]
        offset += len(records)
        at_once_image.apply_all(records, offset)
        at_once(apply_in_steps(in_steps, records, offset))
        assert same(events, others)
        assert dump(in_steps) == dump(at_once_image)
        assert {name: list(map(str, getattr(in_steps, name))) for name in ("topics", "topics_by_id", "configs", "kept")} == {
            name: list(map(str, getattr(at_once_image, name))) for name in ("topics", "topics_by_id", "configs", "kept")
        }, "in the same order"
        for name in at_once_image.topics:
            assert in_steps.named_like(name) == at_once_image.named_like(name)


def changes(topic: int, count: int) -> list[WireStruct]:
    return [PartitionChangeRecord(index, uuid(topic), isr=[1], leader=2) for index in range(count)]


def image_with(count: int) -> MetadataImage:
    image = MetadataImage("cluster")
    image.apply_all([TopicRecord("t", uuid(1)), *(PartitionRecord(n, uuid(1), [1, 2], [1, 2], leader=1) for n in range(count))])
    return image


def test_nobody_sees_half_of_it() -> None:
    count = 2 * RECORDS_A_STEP
    image = image_with(count)
    events, partitions, before = heard(image), image.topics["t"].partitions, image.changes
    seen = []
    for _ in apply_in_steps(image, changes(1, count), 7):
        leaders = {each.leader for each in partitions.values()}
        seen.append((leaders, image.changes - before, image.highest_offset, image.is_reporting, len(events)))
    assert seen[:2] == [({1}, 0, -1, False, 0)] * 2
    assert seen[2:] == [({2}, 1, 7, True, number) for number in range(1, count + 1)]
    assert image.topics["t"].partitions is partitions, "others may hold it"
    assert not image.is_reporting


def test_a_late_subscriber_gets_events_of_the_next_operation_only() -> None:
    """A broker may be starting: what it made of the image must not be changed again, nor be deleted as what it replaced."""
    image = image_with(FEW_RECORDS + 1)
    events = heard(image)
    steps = apply_in_steps(image, changes(1, FEW_RECORDS + 1), 7)
    next(steps)
    late = heard(image)
    at_once(steps)
    assert (len(events), len(late)) == (FEW_RECORDS + 1, 0)
    at_once(apply_in_steps(image, changes(1, FEW_RECORDS + 1), 8))
    assert late == events[FEW_RECORDS + 1 :]


def test_a_few_records_are_applied_in_one_step_with_their_events() -> None:
    image = image_with(FEW_RECORDS)
    events = heard(image)
    assert list(apply_in_steps(image, changes(1, FEW_RECORDS), 7)) == []
    assert (len(events), image.highest_offset, image.is_reporting) == (FEW_RECORDS, 7, False)


def test_a_topic_may_be_changed_and_removed_in_the_same_operation() -> None:
    image = image_with(FEW_RECORDS)
    events = heard(image)
    at_once(apply_in_steps(image, [*changes(1, FEW_RECORDS), RemoveTopicRecord(uuid(1))]))
    assert not image.topics
    deleted = events[-1]
    assert isinstance(deleted, TopicDeleted)
    assert {each.leader for each in deleted.topic.partitions.values()} == {2}
    assert all(isinstance(each, PartitionChanged) and each.topic is deleted.topic for each in events[:-1])


def test_a_record_that_does_not_fit_changes_nothing() -> None:
    image = image_with(FEW_RECORDS)
    before = dump(image)
    with pytest.raises(MetadataError, match="does not exist"):
        at_once(apply_in_steps(image, changes(1, FEW_RECORDS + 1)))
    with pytest.raises(MetadataError, match="which no topic has"):
        at_once(apply_in_steps(image, [*changes(1, FEW_RECORDS), RemoveTopicRecord(uuid(1)), RemoveTopicRecord(uuid(1))]))
    assert dump(image) == before
