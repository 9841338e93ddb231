"""The metadata log: epochs, whole operations, and what a start refuses."""

from __future__ import annotations

import errno
import json
from random import Random

import pytest

from ottla.log.errors import StorageError
from ottla.server.metadata import quorum_state, snapshot
from ottla.server.metadata.eligible import MIN_ISR
from ottla.server.metadata.feature_levels import FORMATTED_FEATURES
from ottla.server.metadata.metadata_log import Transactions
from ottla.server.metadata.operation import Caller
from ottla.wire import metadata_records as records
from ottla.wire.batch import HEADER_SIZE, iter_batches, wrap
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.internal.abort_transaction_record import AbortTransactionRecord
from ottla.wire.messages.internal.begin_transaction_record import BeginTransactionRecord
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.internal.end_transaction_record import EndTransactionRecord
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.topic_record import TopicRecord
from ottla.wire.metadata_records import MetadataError
from ottla.wire.primitives import WireStruct
from ottla.wire.records import decode_records
from tests.memdisk import MemDisk, PowerCut
from tests.server.metadata.support import METADATA, NOW_MS, Node, at_once, dump

LOG = f"{METADATA}/00000000000000000000.log"
ANYBODY = Caller("User:ANONYMOUS", "127.0.0.1", None, 1)
A, B = ConfigRecord(4, "", "a", "1"), ConfigRecord(4, "", "b", "2")


def levels_of(found: snapshot.Snapshot) -> list[tuple[str, int]]:
    """The levels of features in a snapshot that has nothing else."""
    levels = [record for record in found.records if isinstance(record, FeatureLevelRecord)]
    assert len(levels) == len(found.records)
    return [(record.name, record.feature_level) for record in levels]


def append(node: Node, *made: WireStruct) -> None:
    """Records as another leader of this log might have written them."""
    node.controller._log._append(records.build_records(made, 33, NOW_MS))


def config(node: Node) -> dict[str, str]:
    """But what a new cluster writes down for itself."""
    return {name: text for name, text in node.image.config_of(4, "").items() if name != MIN_ISR}


def test_a_new_directory_is_formatted_as_kafka_does() -> None:
    node = Node()
    controller = node.start()
    assert node.disk.read_bytes(f"{METADATA}/partition.metadata") == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    state = json.loads(node.disk.read_bytes(f"{METADATA}/quorum-state"))
    assert state == {
        "clusterId": "",
        "leaderId": 1,
        "leaderEpoch": 1,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}],
        "data_version": 0,
    }
    found = snapshot.read(node.disk, f"{METADATA}/00000000000000000000-0000000000.checkpoint")
    levels = dict(levels_of(found))
    assert levels == {"metadata.version": 33} | FORMATTED_FEATURES
    batches = list(iter_batches(node.disk.read_bytes(LOG)))
    assert batches[0][0].is_control
    assert {header.partition_leader_epoch for header, _ in batches} == {1}
    assert node.cluster.epoch == 1
    assert controller.image.config_of(4, "") == {MIN_ISR: "1"}
    assert controller.image.brokers[1].epoch == 3 + len(found.records)  # the offset of the registration itself


def test_every_start_is_a_new_epoch() -> None:
    node = Node()
    for epoch in (1, 2, 3):
        node.start()
        assert node.cluster.epoch == epoch
        assert quorum_state.read(node.disk, f"{METADATA}/quorum-state") == (epoch, 1, (1,))
        if epoch == 1:
            node.stop()
        else:
            node.kill()
    leaders = [header.partition_leader_epoch for header, _ in iter_batches(node.disk.read_bytes(LOG)) if header.is_control]
    assert leaders == [1, 2, 3]


def test_an_epoch_that_was_only_voted_for_is_not_used_again() -> None:
    node = Node()
    node.start()
    node.stop()
    quorum_state.write(node.disk, f"{METADATA}/quorum-state", epoch=9, leader_id=1, kraft_version=0)
    node.start()
    assert node.cluster.epoch == 10


def test_voters_in_the_log() -> None:
    """As kafka-storage format --standalone leaves it: kraft.version 1."""
    node = Node(controller_quorum_bootstrap_servers="127.0.0.1:9093", listeners="PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093")
    node.start()
    found = snapshot.read(node.disk, f"{METADATA}/00000000000000000000-0000000000.checkpoint")
    assert found.kraft_version == 1
    (voter,) = found.voters.voters
    assert (voter.voter_id, voter.voter_directory_id) == (1, node.image.brokers[1].log_dirs[0])
    assert [(endpoint.host, endpoint.port) for endpoint in voter.endpoints] == [("127.0.0.1", 9093)]
    _, first = next(iter_batches(node.disk.read_bytes(LOG)))
    assert records.decode_control(decode_records(first)[0]).message.version == 0  # version 1 stops Kafka 4.4 from starting
    assert json.loads(node.disk.read_bytes(f"{METADATA}/quorum-state"))["data_version"] == 1
    node.kill()
    node.start()
    assert node.cluster.epoch == 2


def test_a_transaction_counts_when_it_ends() -> None:
    node = Node()
    node.start()
    append(node, BeginTransactionRecord("x"), A)
    append(node, B)
    append(node, EndTransactionRecord())
    node.kill()
    node.start()
    assert config(node) == {"a": "1", "b": "2"}


def test_a_transaction_without_end_is_aborted_by_the_next_leader_for_good() -> None:
    node = Node()
    node.start()
    append(node, BeginTransactionRecord("x"), A)
    node.kill()
    node.start()
    assert config(node) == {}
    append(node, B)
    node.kill()
    node.start()
    assert config(node) == {"b": "2"}


def test_transactions() -> None:
    transactions = Transactions()
    begin, end, abort = BeginTransactionRecord("x"), EndTransactionRecord(), AbortTransactionRecord("y")
    assert list(transactions.feed([A, begin, B, end, A])) == [[A, B, A]]
    assert list(transactions.feed([begin, A, abort])) == []
    was_open = transactions.open
    assert list(transactions.feed([begin])) == []
    assert (was_open, transactions.open) == (False, True)
    with pytest.raises(MetadataError):
        list(transactions.feed([begin]))
    list(transactions.feed([end]))
    with pytest.raises(MetadataError):
        list(transactions.feed([end]))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"[" * 100_000,
        b'{"leaderEpoch":1}',
        b'{"leaderEpoch":1e999,"leaderId":1}',
        b'{"leaderEpoch":2147483647,"leaderId":1}',  # there is no next one
        b'{"leaderEpoch":-1,"leaderId":1}',
        b"\xff",
    ],
)
def test_a_quorum_state_that_cannot_be_read_is_refused(content: bytes) -> None:
    disk = MemDisk()
    disk.write_bytes("/quorum-state", content)
    with pytest.raises(MetadataError, match="restore it"):
        quorum_state.read(disk, "/quorum-state")


@pytest.mark.parametrize("damage", ["foreign voters", "unreadable quorum-state", "torn snapshot", "unknown record"])
def test_what_a_start_refuses(damage: str) -> None:
    node = Node()
    node.start()
    node.stop()
    bootstrap = f"{METADATA}/00000000000000000000-0000000000.checkpoint"
    match damage:
        case "foreign voters":
            quorum_state.write(node.disk, f"{METADATA}/quorum-state", epoch=1, leader_id=2, kraft_version=0)
        case "unreadable quorum-state":
            node.disk.write_bytes(f"{METADATA}/quorum-state", b"{")
        case "torn snapshot":
            node.disk.write_bytes(bootstrap, node.disk.read_bytes(bootstrap)[:-1])
        case "unknown record":
            node.start()
            append(node, TopicRecord("t", b"i" * 16), TopicRecord("t", b"j" * 16))
            node.kill()
    with pytest.raises(MetadataError):
        node.start()


@pytest.mark.parametrize("at", [9, 11, 16], ids=["too long", "too short", "another format"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_does_not_even_open_is_refused_with_the_way_out(at: int, clean: bool) -> None:
    node = Node()
    controller = node.start()
    at_once(controller.incremental_alter_configs(retention("60000"), ANYBODY))
    (node.stop if clean else node.kill)()
    good = node.disk.read_bytes(LOG)
    first = next(start for start in starts(good) if start)
    node.disk.write_bytes(LOG, good[: first + at] + bytes([good[first + at] ^ 1]) + good[first + at + 1 :])
    with pytest.raises(MetadataError) as caught:
        node.start()
    assert LOG.removesuffix(".log") in str(caught.value)
    assert str(caught.value).endswith(f"ottla log repair --skip {METADATA}")


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
def test_a_log_that_waits_for_room_or_a_disk_is_not_said_to_be_damaged(code: int) -> None:
    node = Node()
    node.start()
    node.kill()
    node.disk.fail("open", code, path=LOG)
    with pytest.raises(StorageError) as caught:
        node.start()
    assert "repair" not in str(caught.value)


def test_a_flipped_bit_in_the_log_is_refused_with_the_way_out() -> None:
    node = Node()
    controller = node.start()
    at_once(controller.incremental_alter_configs(retention("60000"), ANYBODY))
    node.stop()
    good = node.disk.read_bytes(LOG)
    at = good.index(b"60000")
    node.disk.write_bytes(LOG, good[:at] + b"7" + good[at + 1 :])
    with pytest.raises(MetadataError) as caught:
        node.start()
    position = max(start for start in starts(good) if start < at)
    assert str(caught.value).startswith(f"{LOG} is damaged at position {position} (offset ")
    assert str(caught.value).endswith(f"ottla log repair --skip {METADATA}")
    assert node.logs is not None
    node.logs.close(clean=False)
    node.disk.write_bytes(LOG, good)
    node.start()
    assert config(node) == {"log.retention.ms": "60000"}


def retention(value: str) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest([AlterConfigsResource(4, "", [AlterableConfig("log.retention.ms", 0, value)])])


def starts(data: bytes) -> list[int]:
    found, position = [], 0
    for header, _ in iter_batches(data):
        found.append(position)
        position += header.size
    return found


def test_records_that_cannot_be_told_apart_are_refused_as_well() -> None:
    node = Node()
    node.start()
    node.stop()
    data = node.disk.read_bytes(LOG)
    end = max(header.next_offset for header, _ in iter_batches(data))
    section = records.build_records([A, B], 33, NOW_MS)[HEADER_SIZE:-1]
    node.disk.write_bytes(LOG, data + wrap(section, 2, NOW_MS, NOW_MS, base_offset=end, partition_leader_epoch=1))
    with pytest.raises(MetadataError, match=f"the batch at offset {end} cannot be read"):
        node.start()


def test_a_damaged_snapshot_is_noticed() -> None:
    node = Node()
    node.start()
    path = f"{METADATA}/00000000000000000000-0000000000.checkpoint"
    good = node.disk.read_bytes(path)
    for at in range(len(good)):
        node.disk.write_bytes(path, good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :])
        try:
            found = snapshot.read(node.disk, path)
        except MetadataError:
            continue
        # What lies outside the CRCs (offsets, epochs) means nothing in a snapshot.
        assert found == snapshot.Snapshot(found.records, 0, None)
        assert [level for _, level in levels_of(found)] == [33, *FORMATTED_FEATURES.values()]


def test_a_power_cut_at_any_moment_leaves_whole_operations() -> None:
    """Each change to the disk in turn is the one that does not happen; what was answered is there, nothing is there by half."""
    request = CreateTopicsRequest([CreatableTopic("a", 3, 1), CreatableTopic("b", 2, 1)])
    answered = 0
    for seed, stop_after in enumerate(range(200)):
        node = Node()
        node.start()
        node.stop()
        done = False
        node.disk.stop_after(stop_after)
        try:
            at_once(node.start().create_topics(request, None))
            done = True
        except PowerCut:
            pass
        node.power_cut(Random(seed))
        node.start()
        made = {name: len(topic.partitions) for name, topic in node.image.topics.items()}
        assert made in ([{"a": 3, "b": 2}] if done else [{}, {"a": 3, "b": 2}])
        if done:
            answered += 1
            if answered == 3:
                return
    raise AssertionError("the operation never came to its end")


def test_a_disk_that_fails_changes_nothing() -> None:
    node = Node()
    controller = node.start()
    before = dump(node.image)
    node.disk.fail("sync", path="__cluster_metadata-0")
    with pytest.raises(StorageError):
        at_once(controller.create_topics(CreateTopicsRequest([CreatableTopic("a", 3, 1)]), None))
    assert dump(node.image) == before
    with pytest.raises(StorageError):  # and it is never tried again
        at_once(controller.create_topics(CreateTopicsRequest([CreatableTopic("b", 3, 1)]), None))
