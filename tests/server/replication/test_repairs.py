"""Damaged replicas: who is asked to lead them, when they are cut, and when they may be led from here again."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.log.errors import CorruptRecord
from ottla.server.coordination.internal_topic import InternalTopicLog
from ottla.server.metadata.image import NO_LEADER
from ottla.server.metadata.withdrawals import WITHDRAWN
from ottla.server.replication.repairs import Repairs
from ottla.wire.messages.internal.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.primitives import ZERO_UUID
from tests.fakes import NODE_ID, MemoryBroker
from tests.log.support import batch

TWO, THREE = 2, 3
TOPIC = "__consumer_offsets"
HERE = b"here".ljust(16, b".")
SEGMENT = f"/data/{TOPIC}-0/00000000000000000000.log"


class Rig:
    """A partition that this broker leads, of five records whose third is damaged, and controllers that do what the test says."""

    def __init__(self, *others: int) -> None:
        self.broker = MemoryBroker({})
        for node in (TWO, THREE):
            self.broker.register_broker(node, 9000 + node)
        self.asked: list[Any] = []
        self.refetched: list[int] = []
        self.possible = True
        replicas = self.broker.replicas
        self.repairs = Repairs(
            NODE_ID, self.broker.image, self, lambda _: HERE, lambda replica: self.refetched.append(replica.log.log_end_offset)
        )
        replicas.on_role, replicas.on_damage = self.repairs.update, self.repairs.note_damage
        self.broker.create_topic(TOPIC, followers=others)
        self.log = InternalTopicLog(replicas, self.broker.image, TOPIC)
        for _ in range(5):
            self.log.append(0, batch(1))
        self.damage(2)

    def damage(self, batches: int, at: int = -1) -> None:
        """Flips a bit behind so many batches, in the next one's last byte or where `at` says."""
        disk, size = self.broker.disk, len(batch(1))
        data = bytearray(disk.read_bytes(SEGMENT))
        data[batches * size + (at if at >= 0 else size - 1)] ^= 1
        disk.write_bytes(SEGMENT, bytes(data))
        for segment in self.replica.log.segments:
            segment.release_file()

    @property
    def replica(self) -> Any:
        return self.broker.replica(TOPIC)

    def load(self) -> str:
        """Reads the partition as its coordinator does; returns what is said about it."""
        with pytest.raises(CorruptRecord) as caught:
            list(self.log.read(0))
        return str(caught.value)

    # Withdrawals

    def are_possible(self) -> bool:
        return self.possible

    def withdraw(self, topic_id: bytes, partition: int) -> None:
        assert (topic_id, partition) == (self.broker.topic_id(TOPIC), 0)
        self.asked.append("withdraw")

    def restore(self, topic_id: bytes, partition: int, directory_id: bytes) -> None:
        assert (topic_id, partition, directory_id) == (self.broker.topic_id(TOPIC), 0, HERE)
        self.asked.append("restore")

    def told(self) -> list[Any]:
        """Returns what the controllers were asked for since the last time."""
        asked, self.asked = self.asked, []
        return asked

    # What the controllers write down

    def change(self, **fields: Any) -> None:
        self.broker.image.apply(PartitionChangeRecord(0, self.broker.topic_id(TOPIC), **fields))

    def withdrawn(self, leader: int = TWO, isr: tuple[int, ...] = (TWO,), **fields: Any) -> None:
        self.change(isr=list(isr), leader=leader, directories=self.directories(WITHDRAWN), **fields)

    def directories(self, own: bytes) -> list[bytes]:
        partition = self.broker.image.partition(TOPIC, 0)
        assert partition is not None
        return [own, *[ZERO_UUID] * (len(partition.replicas) - 1)]


def test_another_replica_in_sync_is_to_lead_and_this_one_is_fetched_again_from_there(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(TWO)
    assert rig.load() == (
        f"{SEGMENT} is damaged at position {2 * len(batch(1))} (offset 2): its CRC does not fit its bytes. The controllers are "
        "asked to have broker 2 lead it, and this replica is fetched again from there"
    )
    assert rig.told() == ["withdraw"]
    assert rig.replica.log.log_end_offset == 5, "as long as it leads"
    rig.withdrawn()
    assert rig.refetched == [2]
    assert (rig.replica.log.log_end_offset, rig.told()) == (2, [])
    assert (
        f"{TOPIC}-0: what was damaged, from offset 2 on, is cut, and fetched again from broker 2, which leads" in caplog.messages
    )
    assert len(list(rig.log.read(0))) == 2, "what is left is sound"
    rig.change(isr=[TWO, NODE_ID])
    assert rig.told() == ["restore"]
    rig.change(directories=rig.directories(HERE))
    rig.broker.elect(TOPIC, NODE_ID)
    assert (rig.told(), rig.refetched) == ([], [2])


def test_all_others_in_sync_are_named_and_no_broker_that_is_not_alive() -> None:
    assert "broker 2 or broker 3 lead it" in Rig(TWO, THREE).load()
    rig = Rig(TWO, THREE)
    rig.broker.image.apply(BrokerRegistrationChangeRecord(TWO, TWO, fenced=1))
    assert "broker 3 lead it" in rig.load()


@pytest.mark.parametrize("others", [(), (TWO,)])
def test_the_only_replica_in_sync_stays_as_it_is_until_there_is_another(others: tuple[int, ...]) -> None:
    rig = Rig(*others)
    rig.change(isr=[NODE_ID])
    assert rig.load().endswith(
        "No other replica can take over. Restore it from a copy. To do without what is damaged, run, while no broker does: "
        f"ottla log repair --skip /data/{TOPIC}-0"
    )
    assert (rig.told(), rig.replica.log.log_end_offset) == ([], 5)
    if others:
        rig.change(isr=[NODE_ID, TWO])
        assert rig.told() == ["withdraw"]


def test_below_the_level_that_has_directories_nobody_is_asked() -> None:
    rig = Rig(TWO)
    rig.possible = False
    assert "No other replica can take over" in rig.load()
    rig.change(isr=[NODE_ID, TWO])
    assert rig.told() == []


def test_a_follower_in_sync_is_taken_out_before_it_is_cut() -> None:
    """It lost the leadership by itself before the controllers withdrew it."""
    rig = Rig(TWO)
    rig.load()
    rig.told()
    rig.broker.elect(TOPIC, TWO)
    assert (rig.told(), rig.refetched) == (["withdraw"], [])
    rig.withdrawn(isr=(TWO, NODE_ID))
    assert (rig.told(), rig.refetched) == (["withdraw"], []), "it is back in sync with its damage"
    rig.withdrawn()
    assert rig.refetched == [2]


def test_where_nobody_else_was_left_it_leads_again_and_nothing_is_cut() -> None:
    """The other one fell out of sync at the same time. The controllers elect on the second request."""
    rig = Rig(TWO)
    rig.load()
    rig.told()
    rig.withdrawn(leader=NO_LEADER, isr=(), eligible_leader_replicas=[NODE_ID])
    assert rig.told() == ["restore"]
    rig.change(directories=rig.directories(HERE))
    assert rig.told() == ["restore"]
    rig.change(leader=NODE_ID, isr=[NODE_ID], eligible_leader_replicas=[])
    assert (rig.told(), rig.refetched, rig.replica.log.log_end_offset) == ([], [], 5)
    rig.change(isr=[NODE_ID, TWO])
    assert rig.told() == ["withdraw"]


def test_what_is_cut_is_not_elected_though_it_is_eligible_and_nobody_leads() -> None:
    rig = Rig(TWO)
    rig.load()
    rig.withdrawn(eligible_leader_replicas=[NODE_ID])
    rig.told()
    rig.change(leader=NO_LEADER, isr=[], eligible_leader_replicas=[NODE_ID, TWO])
    assert rig.told() == []
    rig.change(eligible_leader_replicas=[TWO])
    assert rig.told() == ["restore"], "only an operator can choose it now"


def test_a_restart_in_the_middle_goes_on_by_the_metadata(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    rig = Rig(TWO)
    rig.withdrawn()
    assert (rig.told(), rig.refetched) == ([], []), "nothing is known of damage"
    rig.change(isr=[TWO, NODE_ID])
    assert rig.told() == ["restore"]
    assert f"{TOPIC}-0 is in sync again, and may be led from here" in caplog.messages


def test_a_disk_that_fails_in_the_cut_ends_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(TWO)
    rig.load()
    rig.broker.disk.fail("sync", path=f"{TOPIC}-0")
    rig.withdrawn()
    assert rig.replica.log.directory.failed is not None
    assert rig.refetched == []
    assert any(line.startswith(f"{TOPIC}-0 stays damaged: ") for line in caplog.messages)


def test_what_was_found_ends_with_the_partition() -> None:
    rig = Rig(TWO)
    rig.load()
    rig.told()
    rig.broker.delete_topic(TOPIC)
    assert (rig.told(), rig.repairs._damaged) == ([], {})
    gone = Rig(TWO, THREE)
    gone.load()
    gone.told()
    gone.change(replicas=[TWO, THREE], isr=[TWO, THREE], leader=TWO, directories=[ZERO_UUID] * 2)
    assert (gone.told(), gone.repairs._damaged) == ([], {})
