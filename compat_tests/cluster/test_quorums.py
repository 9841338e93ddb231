"""Tests of a broker in quorums of Apache Kafka's controllers: voters that are listed, a log that begins at a snapshot, several
directories of its own, and a pause that is longer than its session."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster.nodes import CONTROLLER_ID, KafkaController, OttlaBroker, connect
from compat_tests.waiting import wait_for
from ottla.log.disk.checkpoint import read_meta_properties
from ottla.log.disk.files import OsDisk
from ottla.wire.batch import iter_batches
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.wire.metadata_records import METADATA_VERSION, decode_value
from ottla.wire.primitives import WireStruct, uuid_from_text
from ottla.wire.records import decode_records

NODE_ID = 1


@contextmanager
def stopped_after(*nodes: KafkaController | OttlaBroker) -> Iterator[None]:
    """Stops what runs of the nodes, brokers first, when the block is left."""
    try:
        yield
    finally:
        for node in reversed(nodes):
            node.stop()


def make(broker: OttlaBroker, *names: str, partitions: int = 1) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
        made.result(60)
    return admin


def produce(broker: OttlaBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    failed: list[object] = []
    producer.produce(topic, b"v", on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(60) == 0
    assert failed == [None]


STOCK = {
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}
"""The settings in the broker.properties of Kafka's distribution besides addresses, directories and the replicas of internal
topics."""


class StaticController(KafkaController):
    """A quorum whose voters are listed in every node's settings (kraft.version 0)."""

    format_options: tuple[str, ...] = ()

    def place(self) -> dict[str, str]:
        settings = super().place()
        del settings["controller.quorum.bootstrap.servers"]
        return settings | {"controller.quorum.voters": f"{CONTROLLER_ID}@{self.bootstrap}"}


class BrokerWithVoters(OttlaBroker):
    def place(self) -> dict[str, str]:
        settings = super().place()
        address = settings.pop("controller.quorum.bootstrap.servers")
        return settings | {"controller.quorum.voters": f"{CONTROLLER_ID}@{address}"}


def test_voters_that_are_listed(tmp_path: Path) -> None:
    controller = StaticController(tmp_path / "controller")
    broker = BrokerWithVoters(tmp_path / "broker", NODE_ID, controller.bootstrap)
    with stopped_after(controller, broker):
        controller.start()
        broker.start()
        make(broker, "t")
        produce(broker, "t")
        saved = json.loads((broker.data_dir / "__cluster_metadata-0" / "quorum-state").read_text())
        assert (saved["leaderId"], saved["data_version"]) == (CONTROLLER_ID, 0)


def test_a_log_that_begins_at_a_snapshot(tmp_path: Path) -> None:
    """The controller deletes what lies before its newest snapshot when it starts, so a new broker gets the snapshot."""
    names = [f"t{n}" for n in range(20)]
    small = {"metadata.log.max.record.bytes.between.snapshots": "1", "metadata.max.retention.bytes": "1"}
    controller = KafkaController(tmp_path / "controller", small)
    old, new = (OttlaBroker(tmp_path / f"broker-{node_id}", node_id, controller.bootstrap) for node_id in (1, 2))
    with stopped_after(controller, old, new):
        controller.start()
        old.start()
        make(old, *names)
        folder = controller.data_dir / "__cluster_metadata-0"
        wait_for(lambda: len(list(folder.glob("*.checkpoint"))) > 1, lambda: str(sorted(folder.iterdir())))
        old.stop()
        controller.stop()
        controller.start()
        new.start()
        assert "fetching snapshot" in new.log_file.read_text()
        topics = AdminClient({"bootstrap.servers": new.bootstrap}).list_topics(timeout=30).topics
        assert set(names) <= topics.keys()
        make(new, "after")
        produce(new, "after")


def metadata_records(folder: Path) -> Iterator[WireStruct]:
    """Yields the records in a broker's copy of the metadata log."""
    for segment in sorted((folder / "__cluster_metadata-0").glob("*.log")):
        for header, batch in iter_batches(segment.read_bytes()):
            if not header.is_control:
                yield from (decode_value(record.value) for record in decode_records(bytes(batch)))


def assigned(folder: Path) -> dict[int, bytes]:
    """Returns, by partition, the directory that the controllers know; the broker has one topic."""
    found: dict[int, bytes] = {}
    for record in metadata_records(folder):
        if isinstance(record, PartitionRecord | PartitionChangeRecord) and record.directories:
            found[record.partition_id] = bytes(record.directories[0])
    return found


def places_of_four(*folders: Path) -> dict[int, bytes]:
    """Returns the id of the directory that each of the topic's four partitions lies in."""
    ids = {}
    for folder in folders:
        meta = read_meta_properties(OsDisk(), f"{folder}/meta.properties")
        assert meta is not None
        ids[folder] = uuid_from_text(meta.directory_id)
    places = {index: next(id for folder, id in ids.items() if (folder / f"t-{index}").exists()) for index in range(4)}
    assert len(set(places.values())) == len(folders)
    return places


class OldestController(StaticController):
    """A quorum that begins with the oldest features there are."""

    format_options = ("--release-version", "3.3-IV3")


def test_directories_are_recorded_from_the_level_on_whose_records_have_them(tmp_path: Path) -> None:
    """Until then, the controllers are not asked in vain."""
    one, two = tmp_path / "one", tmp_path / "two"
    controller = OldestController(tmp_path / "controller")
    broker = BrokerWithVoters(tmp_path / "broker", NODE_ID, controller.bootstrap, STOCK | {"log.dirs": f"{one},{two}"})
    with stopped_after(controller, broker):
        controller.start()
        broker.start()
        make(broker, "t", partitions=4)
        produce(broker, "t")
        places = places_of_four(one, two)
        wish = FeatureUpdateKey("metadata.version", METADATA_VERSION, upgrade_type=1)
        connection = connect(broker)
        try:
            answer = connection.call(UpdateFeaturesRequest(30_000, [wish]), 1)
        finally:
            connection.close()
        assert answer.error_code == 0, answer.error_message
        wait_for(lambda: assigned(one) == places, lambda: f"{assigned(one)} instead of {places}\n{broker.log_tail()}")
        assert "must wait" not in broker.log_file.read_text()


def test_the_controllers_know_which_of_two_directories_a_replica_is_in(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    controller = KafkaController(tmp_path / "controller")
    broker = OttlaBroker(tmp_path / "broker", NODE_ID, controller.bootstrap, STOCK | {"log.dirs": f"{one},{two}"})
    broker.settings["advertised.listeners"] = f"PLAINTEXT://localhost:{broker.port}"
    with stopped_after(controller, broker):
        controller.start()
        broker.start()
        make(broker, "t", partitions=4)
        places = places_of_four(one, two)
        wait_for(lambda: assigned(one) == places, lambda: f"{assigned(one)} instead of {places}")
        broker.stop()
        broker.start()
        produce(broker, "t")


def test_a_pause_longer_than_the_session(tmp_path: Path) -> None:
    controller = KafkaController(tmp_path / "controller")
    paused, other = (OttlaBroker(tmp_path / f"broker-{node_id}", node_id, controller.bootstrap) for node_id in (1, 2))
    with stopped_after(controller, paused, other):
        controller.start()
        paused.start()
        other.start()
        admin = AdminClient({"bootstrap.servers": other.bootstrap})
        admin.create_topics([NewTopic("t", 1, replica_assignment=[[1]])])["t"].result(60)

        def leader() -> int:  # a client of its own, which knows nobody but the other broker
            return AdminClient({"bootstrap.servers": other.bootstrap}).list_topics("t", 30).topics["t"].partitions[0].leader

        wait_for(lambda: leader() == 1, "the broker leads")
        assert paused.process is not None
        os.kill(paused.process.pid, signal.SIGSTOP)
        try:
            wait_for(lambda: leader() == -1, "the controllers have fenced the broker")
        finally:
            os.kill(paused.process.pid, signal.SIGCONT)
        wait_for(lambda: leader() == 1, "the broker leads again")
        produce(paused, "t")
