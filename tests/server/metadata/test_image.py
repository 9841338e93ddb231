"""MetadataImage: what each kind of record does to it, and which events follow."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

from ottla.server.metadata import image as image_module
from ottla.server.metadata.image import (
    BROKER,
    MIGRATING,
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
from ottla.wire import metadata_records as records
from ottla.wire.messages import internal
from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord
from ottla.wire.messages.internal.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.internal.clear_elr_record import ClearElrRecord
from ottla.wire.messages.internal.client_quota_record import ClientQuotaRecord, EntityData
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.fence_broker_record import FenceBrokerRecord
from ottla.wire.messages.internal.no_op_record import NoOpRecord
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.producer_ids_record import ProducerIdsRecord
from ottla.wire.messages.internal.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from ottla.wire.messages.internal.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from ottla.wire.messages.internal.remove_topic_record import RemoveTopicRecord
from ottla.wire.messages.internal.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from ottla.wire.messages.internal.topic_record import TopicRecord
from ottla.wire.messages.internal.unfence_broker_record import UnfenceBrokerRecord
from ottla.wire.messages.internal.unregister_broker_record import UnregisterBrokerRecord
from ottla.wire.messages.internal.user_scram_credential_record import UserScramCredentialRecord
from ottla.wire.metadata_records import MetadataError
from ottla.wire.primitives import WireStruct

ID = bytes(range(16))
A, B = b"a" * 16, b"b" * 16


def partition(index: int = 0, **changes: object) -> PartitionRecord:
    record = PartitionRecord(index, ID, [1, 2], [1], leader=1, leader_epoch=3, partition_epoch=7, directories=[A, B])
    for name, value in changes.items():
        setattr(record, name, value)
    return record


def with_topic() -> MetadataImage:
    image = MetadataImage("cluster")
    image.apply_all([TopicRecord("t", ID), partition(0), partition(1)], 2)
    return image


def events_of(image: MetadataImage, *made: WireStruct) -> list[Event]:
    heard: list[Event] = []
    image.subscribe(heard.append)
    image.apply_all(made)
    return heard


def test_every_metadata_record_of_the_wire_is_read_and_has_a_place() -> None:
    modules = [import_module(f"{internal.__name__}.{found.name}") for found in pkgutil.iter_modules(internal.__path__)]
    defined = {
        module.API_KEY: module.__name__.rpartition(".")[2]
        for module in modules
        if hasattr(module, "API_KEY") and module.__name__.endswith("_record")
    }
    assert defined == records._KINDS
    classes = {"".join(word.capitalize() for word in name.split("_")) for name in defined.values()}
    assert set(image_module._APPLY) == classes


def test_a_topic_is_found_by_name_and_by_id() -> None:
    image = with_topic()
    topic = image.topics["t"]
    assert image.topics_by_id[ID] is topic
    assert list(topic.partitions) == [0, 1]
    found = image.partition("t", 1)
    assert found is not None
    assert (found.replicas, found.isr, found.leader, found.leader_epoch, found.partition_epoch) == ((1, 2), (1,), 1, 3, 7)
    assert found.directories == (A, B)
    assert image.partition("t", 2) is None
    assert image.partition_by_id(ID, 1) is found
    assert image.partition_by_id(ID, 2) is image.partition_by_id(bytes(16), 1) is None
    assert image.partition("u", 0) is None
    assert image.highest_offset == 2


def test_a_partition_without_directories_is_migrating() -> None:
    image = MetadataImage("cluster")
    image.apply_all([TopicRecord("t", ID), partition(directories=[])])
    assert image.topics["t"].partitions[0].directories == (MIGRATING, MIGRATING)


def test_events_come_after_the_whole_batch_and_in_order() -> None:
    image = MetadataImage("cluster")
    seen: list[tuple[str, int]] = []
    image.subscribe(lambda event: seen.append((type(event).__name__, len(image.topics["t"].partitions))))
    image.apply_all([TopicRecord("t", ID), ConfigRecord(TOPIC, "t", "a", "1"), partition(0), partition(1)])
    assert seen == [("TopicCreated", 2), ("ConfigChanged", 2), ("PartitionChanged", 2), ("PartitionChanged", 2)]


def test_an_election_raises_the_leader_epoch_and_any_change_the_partition_epoch() -> None:
    image = with_topic()
    before = image.topics["t"].partitions[0]
    (event,) = events_of(image, PartitionChangeRecord(0, ID, isr=[1, 2]))
    after = image.topics["t"].partitions[0]
    assert event == PartitionChanged(image.topics["t"], 0, after, before)
    assert (after.isr, after.leader, after.leader_epoch, after.partition_epoch) == ((1, 2), 1, 3, 8)
    image.apply(PartitionChangeRecord(0, ID, leader=1))  # the same one, elected again
    assert image.topics["t"].partitions[0][2:5] == (1, 4, 9)
    image.apply(PartitionChangeRecord(0, ID, leader=-1, isr=[], eligible_leader_replicas=[1], last_known_elr=[1]))
    after = image.topics["t"].partitions[0]
    assert (after.isr, after.leader, after.leader_epoch, after.elr, after.last_known_elr) == ((), -1, 5, (1,), (1,))
    assert image.topics["t"].partitions[1][2:5] == (1, 3, 7)


def test_a_change_of_everything_else() -> None:
    image = with_topic()
    change = PartitionChangeRecord(
        0, ID, replicas=[2, 3, 4], adding_replicas=[3, 4], removing_replicas=[1], leader_recovery_state=1
    )
    image.apply(change)
    after = image.topics["t"].partitions[0]
    assert (after.replicas, after.adding_replicas, after.removing_replicas) == ((2, 3, 4), (3, 4), (1,))
    assert after.leader_recovery_state == 1
    assert after.directories == (MIGRATING,) * 3  # of the old ones nobody knows whose they are
    image.apply(PartitionChangeRecord(0, ID, directories=[A, B, A]))
    after = image.topics["t"].partitions[0]
    assert (after.directories, after.leader_recovery_state) == ((A, B, A), 1)


def test_clearing_eligible_leaders_of_one_topic_and_of_all() -> None:
    image = with_topic()
    image.apply_all([TopicRecord("u", B), partition(0, topic_id=B)])
    for topic_id in (ID, B):
        image.apply(PartitionChangeRecord(0, topic_id, eligible_leader_replicas=[2], last_known_elr=[2]))
    image.apply_all([TopicRecord("v", A), partition(0, topic_id=A), partition(1, topic_id=A), partition(2, topic_id=A)])
    image.apply(PartitionChangeRecord(0, A, eligible_leader_replicas=[2]))
    image.apply(PartitionChangeRecord(1, A, last_known_elr=[2]))
    events = events_of(image, ClearElrRecord("v"))
    assert [event.partition for event in events if isinstance(event, PartitionChanged)] == [0, 1], "the third has none"
    events = events_of(image, ClearElrRecord("t"))
    assert [event.partition for event in events if isinstance(event, PartitionChanged)] == [0]
    assert image.topics["t"].partitions[0].elr == ()
    assert image.topics["u"].partitions[0].elr == (2,)
    image.apply(ClearElrRecord(""))
    assert image.topics["u"].partitions[0][9:] == ((), ())
    with pytest.raises(MetadataError):
        image.apply(ClearElrRecord("nobody"))


def test_a_deleted_topic_takes_its_settings_with_it_and_its_name_is_free() -> None:
    image = with_topic()
    image.apply(ConfigRecord(TOPIC, "t", "retention.ms", "5"))
    topic = image.topics["t"]
    assert events_of(image, RemoveTopicRecord(ID)) == [TopicDeleted(topic)]
    assert list(topic.partitions) == [0, 1]
    assert not image.topics
    assert not image.topics_by_id
    assert not image.configs
    image.apply(TopicRecord("t", B))
    assert image.topics["t"].topic_id == B


def test_the_events_of_many_settings_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConfigChanged, "__eq__", lambda *_: pytest.fail("9,000 resources in one batch took 4 s that way"))
    image = MetadataImage("cluster")
    for _ in range(2):  # the next batch tells again
        events = events_of(image, *(ConfigRecord(TOPIC, name, "a", "1") for name in ("t", "u", "t", "v")))
        assert [event.name for event in events if isinstance(event, ConfigChanged)] == ["t", "u", "v"]


def test_settings_come_and_go_and_are_reported_once_a_batch() -> None:
    image = MetadataImage("cluster")
    events = events_of(
        image,
        ConfigRecord(TOPIC, "t", "a", "1"),
        ConfigRecord(TOPIC, "t", "b", "2"),
        ConfigRecord(BROKER, "", "a", "3"),
        ConfigRecord(TOPIC, "t", "a", None),
    )
    assert events == [ConfigChanged(TOPIC, "t"), ConfigChanged(BROKER, "")]
    assert image.config_of(TOPIC, "t") == {"b": "2"}
    held = image.config_of(TOPIC, "t")
    image.apply(ConfigRecord(TOPIC, "t", "b", None))
    assert held == {"b": "2"}  # what somebody holds on to does not change under him
    assert (TOPIC, "t") not in image.configs
    assert image.config_of(TOPIC, "t") == {}


def test_a_broker_registers_is_fenced_stops_and_goes() -> None:
    image = MetadataImage("cluster")
    register = RegisterBrokerRecord(
        broker_id=1,
        broker_epoch=5,
        incarnation_id=ID,
        end_points=[BrokerEndpoint("PLAINTEXT", "h", 9092, 0)],
        rack="r",
        fenced=True,
        log_dirs=[A],
    )
    assert events_of(image, register) == [BrokerChanged(1)]
    assert not image.brokers[1].active
    assert image.brokers[1].endpoints["PLAINTEXT"].port == 9092
    image.apply(BrokerRegistrationChangeRecord(1, 5, fenced=-1))
    image.apply(BrokerRegistrationChangeRecord(1, 5, in_controlled_shutdown=1))
    stopping = image.brokers[1]
    assert stopping.in_controlled_shutdown
    assert stopping._replace(in_controlled_shutdown=False).active
    image.apply(BrokerRegistrationChangeRecord(1, 5, fenced=1, log_dirs=[B], cordoned_log_dirs=[B]))
    assert image.brokers[1].fenced
    assert (image.brokers[1].log_dirs, image.brokers[1].cordoned_log_dirs) == ((B,), (B,))
    image.apply(UnfenceBrokerRecord(1, 5))
    assert not image.brokers[1].fenced
    image.apply(FenceBrokerRecord(1, 5))
    assert image.brokers[1].fenced
    with pytest.raises(MetadataError):
        image.apply(BrokerRegistrationChangeRecord(1, 4, fenced=-1))
    image.apply(UnregisterBrokerRecord(1, 5))
    assert not image.brokers


def test_features_and_producer_ids() -> None:
    image = MetadataImage("cluster")
    assert image.metadata_version == 0
    image.apply_all([FeatureLevelRecord("metadata.version", 33), FeatureLevelRecord("x", 1), ProducerIdsRecord(1, 5, 2000)])
    image.apply(FeatureLevelRecord("x", 0))
    assert image.features == {"metadata.version": 33}
    assert image.metadata_version == 33
    assert image.next_producer_id == 2000


def test_quotas_and_rules_of_one_operation_are_one_event() -> None:
    """There may be 10,000 of them, and each event is for several subscribers."""
    image, events = MetadataImage("cluster"), list[Event]()
    image.subscribe(events.append)
    quotas = [ClientQuotaRecord([EntityData("user", name)], "rate", 5.0) for name in ("a", None)]
    rules = [AccessControlEntryRecord(each * 16, 2, "t", 3, "User:a", "*", 3, 3) for each in (b"a", b"b")]
    image.apply_all([*quotas, *rules])
    assert events == [QuotasChanged(quotas), AccessRulesChanged([(None, each) for each in rules])]
    assert image.quota([("user", None)], "rate") == 5.0
    assert image.quota([("user", "b")], "rate") is None
    gone = ClientQuotaRecord([EntityData("user", None)], "rate", 0.0, True)
    image.apply_all([RemoveAccessControlEntryRecord(b"a" * 16), gone, RemoveAccessControlEntryRecord(b"a" * 16)])
    assert events[2:] == [AccessRulesChanged([(rules[0], None)]), QuotasChanged([gone])]
    assert image.quota([("user", None)], "rate") is None


def test_what_nothing_acts_on_yet_is_kept_until_it_is_removed() -> None:
    image = MetadataImage("cluster")
    credential = UserScramCredentialRecord("alice", 1)
    quota = ClientQuotaRecord([EntityData("user", None)], "rate", 5.0)
    image.apply_all([credential, quota, NoOpRecord()])
    assert list(image.kept.values()) == [credential, quota]
    image.apply_all(
        [RemoveUserScramCredentialRecord("alice", 1), ClientQuotaRecord([EntityData("user", None)], "rate", 0.0, True)]
    )
    assert not image.kept


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord("t", B),
        TopicRecord("u", ID),
        partition(topic_id=B),
        PartitionChangeRecord(0, B),
        PartitionChangeRecord(2, ID),
        RemoveTopicRecord(B),
        UnregisterBrokerRecord(1, 5),
        EntityData("user", None),
    ],
)
def test_a_record_that_contradicts_the_image_is_an_error(record: WireStruct) -> None:
    with pytest.raises(MetadataError):
        with_topic().apply(record)


def test_a_topic_created_event_holds_the_topic() -> None:
    image = MetadataImage("cluster")
    (created, changed) = events_of(image, TopicRecord("t", ID), partition())
    assert created == TopicCreated(image.topics["t"])
    assert changed == PartitionChanged(image.topics["t"], 0, image.topics["t"].partitions[0], None)
