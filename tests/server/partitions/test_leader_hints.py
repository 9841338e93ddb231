"""These tests cover leader hints: the leader of a partition, and its address on the listener that the client used."""

from __future__ import annotations

from ottla.server.partitions.leader_hints import LeaderHint, leader_hint
from ottla.wire.messages.internal.broker_registration_change_record import BrokerRegistrationChangeRecord
from tests.fakes import LISTENER, MemoryBroker

OTHER = 2


def broker_led_by_another() -> MemoryBroker:
    broker = MemoryBroker({"t": 1})
    broker.register_broker(OTHER, port=9093)
    broker.elect("t", OTHER)
    return broker


def test_the_leader_is_named_with_its_epoch_and_address() -> None:
    broker = broker_led_by_another()
    assert leader_hint(broker.image, "t", 0, LISTENER) == LeaderHint(OTHER, 1, "host2", 9093, "")


def test_a_listener_that_the_leader_does_not_have_has_no_address() -> None:
    broker = broker_led_by_another()
    assert leader_hint(broker.image, "t", 0, "INTERNAL") == LeaderHint(OTHER, 1, None, 0, None)


def test_a_fenced_leader_has_no_address() -> None:
    broker = broker_led_by_another()
    broker.image.apply(BrokerRegistrationChangeRecord(OTHER, OTHER, fenced=1))
    assert leader_hint(broker.image, "t", 0, LISTENER) == LeaderHint(OTHER, 1, None, 0, None)


def test_a_partition_without_a_leader_has_none_to_hint_at() -> None:
    broker = MemoryBroker({"t": 1})
    broker.elect("t", -1)
    assert leader_hint(broker.image, "t", 0, LISTENER) == LeaderHint(-1, 1, None, 0, None)


def test_nothing_is_known_of_a_partition_that_does_not_exist() -> None:
    broker = MemoryBroker({"t": 1})
    nobody = LeaderHint(-1, -1, None, 0, None)
    assert leader_hint(broker.image, "t", 1, LISTENER) == leader_hint(broker.image, "u", 0, LISTENER) == nobody
