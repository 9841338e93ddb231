"""These tests cover how partitions follow the metadata image: its records create, lead, reconfigure and delete them, and waiting
requests are woken.
"""

from __future__ import annotations

import errno
import itertools
import re
from functools import partial
from random import Random
from typing import Any

import pytest

from ottla.log.config import LogConfig
from ottla.log.disk.directory import do_at_once
from ottla.log.disk.files import remove_tree
from ottla.log.errors import FencedLeaderEpoch, StorageError, UnknownLeaderEpoch
from ottla.log.management.manager import LogManager
from ottla.log.management.passes import delete_steps, run_pass
from ottla.server.base.clock import TURN_NS
from ottla.server.metadata.image import BROKER, TOPIC
from ottla.server.metadata.names import CLUSTER_METADATA
from ottla.server.metadata.staging import FEW_RECORDS, apply_in_steps
from ottla.server.partitions.backlog import RETRY_SECONDS
from ottla.server.partitions.replicas import SETTLED_SECONDS, TOPICS_A_STEP, Replicas
from ottla.server.partitions.roles import Leader
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.topic_record import TopicRecord
from tests.fakes import NODE_ID, MemoryBroker
from tests.log.support import batch
from tests.memdisk import MemDisk


def test_a_setting_of_all_brokers_reaches_many_topics_in_turns() -> None:
    names = [f"t{number}" for number in range(2 * TOPICS_A_STEP)]
    broker = MemoryBroker(dict.fromkeys(names, 1))
    looks, clock = itertools.count(), broker.clock
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "ticks_ns", lambda: next(looks) * 2 * TURN_NS)
        broker.image.apply_all([ConfigRecord(BROKER, "", "log.retention.ms", "6000")])
        broker.delete_topic(names[-1])
        broker.image.apply_all([ConfigRecord(TOPIC, names[-2], "retention.ms", "7000")])
        assert {broker.replica(name).log.config.retention_ms for name in names[TOPICS_A_STEP:-2]} != {6000}
        for _ in range(5):
            broker.clock.advance(0)
    assert {broker.replica(name).log.config.retention_ms for name in names[:-2]} == {6000}
    assert broker.replica(names[-2]).log.config.retention_ms == 7000


@pytest.mark.parametrize("in_cluster", [False, True])
def test_how_long_an_answer_waits_for_many_partitions(in_cluster: bool) -> None:
    broker = MemoryBroker({})
    clock, create, partitions = broker.clock, broker.logs.create, 10

    def slowly(*args: Any, **more: Any) -> Any:
        clock.spend(1.0)
        return create(*args, **more)

    if in_cluster:
        broker.replicas.keep_isr = lambda *_: pytest.fail("nobody follows")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker.logs, "create", slowly)
        broker.create_topic("t", partitions)
        waiting = broker.replicas.settled_soon()
        assert waiting is not None
        while not waiting.done():
            clock.advance()
        assert broker.replicas.settled() is not waiting if in_cluster else waiting.done()
        assert len(broker.replicas) < partitions if in_cluster else len(broker.replicas) == partitions
        while len(broker.replicas) < partitions:
            clock.advance()
        clock.advance(SETTLED_SECONDS)
    assert broker.replicas.settled() is None


def test_what_a_change_brings_that_is_still_going_out_is_on_its_way() -> None:
    broker = MemoryBroker({"t": 1})
    topic_id = broker.topic_id("new")
    records = [PartitionRecord(at, topic_id, [NODE_ID], [NODE_ID], leader=NODE_ID, leader_epoch=0) for at in range(FEW_RECORDS)]
    steps = apply_in_steps(broker.image, [TopicRecord("new", topic_id), *records])
    next(steps)  # the topic's own event
    assert len(broker.replicas) == 1
    assert broker.replicas.why_missing("new", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.replicas.why_missing("t", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for _ in steps:
        broker.clock.advance()
    assert len(broker.replicas) == 1 + FEW_RECORDS


def test_a_partition_that_is_made_between_two_events_about_it_does_not_go_back() -> None:
    broker = MemoryBroker({})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker.logs, "create", lambda *_, **__: pytest.fail("it is made later"))
        broker.replicas._backlog._has_next_slice = True
        topic_id = broker.create_topic("t", FEW_RECORDS)
    changes = [PartitionChangeRecord(at % FEW_RECORDS, topic_id, leader=NODE_ID) for at in range(2 * FEW_RECORDS)]
    steps = apply_in_steps(broker.image, changes)
    next(steps)
    broker.replicas._backlog._next_slice()  # makes all of them, as the image has them now
    epochs = {broker.replica("t", 1).leader_epoch}
    for _ in steps:
        epochs.add(broker.replica("t", 1).leader_epoch)
    assert epochs == {2}


def test_a_topic_makes_its_logs_and_its_deletion_takes_them() -> None:
    broker = MemoryBroker({"t": 2})
    assert [replica.log.path for replica in broker.replicas] == ["/data/t-0", "/data/t-1"]
    assert broker.replicas.get_by_id(broker.topic_id("t"), 1) is broker.replica("t", 1)
    replica = broker.replica("t")
    broker.delete_topic("t")
    assert len(broker.replicas) == 0
    assert broker.replicas.get_by_id(broker.topic_id("t"), 1) is None
    assert not replica.is_leader
    assert replica.log.closed


def test_what_no_topic_claims_is_set_aside_at_the_start() -> None:
    broker = MemoryBroker({"t": 1})
    for topic in ("gone", CLUSTER_METADATA):
        broker.logs.create(topic, 0, broker.topic_id(topic), LogConfig.from_overrides({}, None))
    Replicas(broker.logs, broker.image, broker.settings, broker.clock).start()
    names = sorted(name for name in broker.disk.list("/data") if broker.disk.is_dir(f"/data/{name}"))
    assert names[0] == f"{CLUSTER_METADATA}-0"
    assert re.fullmatch(r"gone-0\.[0-9a-f]{32}-stray", names[1])
    assert names[2:] == ["t-0"]
    assert ("gone", 0) not in broker.logs.logs
    assert broker.disk.list(f"/data/{names[1]}"), "its files stay"


def test_a_topic_id_that_is_not_the_topics_deletes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A flipped bit in partition.metadata looks like a topic of the same name that was deleted and made again."""
    broker = MemoryBroker({"t": 1})
    broker.replica("t").append(batch(3))
    broker.logs.close()
    path = "/data/t-0/partition.metadata"
    data = bytearray(broker.disk.read_bytes(path))
    data[-5] ^= 1
    broker.disk.write_bytes(path, bytes(data))
    again = MemoryBroker({"t": 1}, disk=broker.disk)
    assert again.replica("t").log.log_end_offset == 0
    aside, here = sorted(name for name in broker.disk.list("/data") if broker.disk.is_dir(f"/data/{name}"))[::-1]
    assert here == "t-0"
    assert re.fullmatch(r"t-0\.[0-9a-f]{32}-stray", aside)
    assert f"if the records in /data/{aside} are this topic's, stop the broker, remove partition.metadata" in caplog.text
    again.clock.advance(86_400)
    run_pass(delete_steps(again.logs, again.clock.now_ms()))
    again.logs.close()

    # What the line says brings the records back.
    for name in broker.disk.list("/data/t-0"):
        broker.disk.remove(f"/data/t-0/{name}")
    broker.disk.remove_dir("/data/t-0")
    broker.disk.remove(f"/data/{aside}/partition.metadata")
    broker.disk.rename(f"/data/{aside}", "/data/t-0")
    assert MemoryBroker({"t": 1}, disk=broker.disk).replica("t").log.log_end_offset == 3


def test_no_partition_of_a_deleted_topic_is_found_any_more_and_their_roles_end_in_slices() -> None:
    broker = MemoryBroker({"t": 20, "u": 1})
    replicas = [broker.replica("t", index) for index in range(20)]
    woken: list[int] = []
    for index, replica in enumerate(replicas):
        replica.watchers["me"] = partial(woken.append, index)
    looks = itertools.count()
    broker.clock.ticks_ns = lambda: next(looks) * TURN_NS // 2  # type: ignore[method-assign]  # of this clock only
    broker.delete_topic("t")
    assert [broker.replicas.get("t", index) for index in range(20)] == [None] * 20
    assert not any(replica.is_leader for replica in replicas)
    assert 0 < len(woken) < 5
    broker.clock.advance()
    assert woken == list(range(20)), "who waits hears it"
    assert [replica.role for replica in replicas] == [None] * 20
    assert [name for name, _ in broker.logs.logs] == ["u"]


def test_a_partition_whose_directory_is_removed_is_not_there_any_more_and_who_waits_hears_it() -> None:
    broker = MemoryBroker({"t": 2})
    replica = broker.replica("t")
    woken: list[int] = []
    replica.watchers["me"] = lambda: woken.append(1)
    do_at_once(broker.replicas.drop_removed())
    assert woken == []
    remove_tree(broker.disk, "/data/t-0")
    do_at_once(broker.replicas.drop_removed())
    assert woken == [1]
    assert not replica.is_leader
    assert broker.replicas.get("t", 0) is broker.replicas.get_by_id(broker.topic_id("t"), 0) is None
    assert broker.replicas.why_missing("t", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.replica("t", 1).is_leader


def test_leadership_follows_the_image_and_wakes_who_waits() -> None:
    broker = MemoryBroker({"t": 1})
    replica = broker.replica("t")
    woken: list[int] = []
    replica.watchers["me"] = lambda: woken.append(1)
    broker.elect("t", 2)
    assert (replica.is_leader, replica.leader, replica.leader_epoch, woken) == (False, 2, 1, [1])
    with pytest.raises(FencedLeaderEpoch):
        replica.check_epoch(0)
    with pytest.raises(UnknownLeaderEpoch):
        replica.check_epoch(2)
    replica.check_epoch(-1)


def test_settings_of_the_topic_win_over_dynamic_broker_ones() -> None:
    broker = MemoryBroker({"t": 1}, {"log.retention.ms": "5000"})
    log = broker.replica("t").log
    assert log.config.retention_ms == 5000
    broker.image.apply(ConfigRecord(4, "", "log.retention.ms", "6000"))
    assert log.config.retention_ms == 6000
    broker.image.apply(ConfigRecord(4, "1", "log.retention.ms", "7000"))
    assert log.config.retention_ms == 7000
    broker.image.apply(ConfigRecord(2, "t", "retention.ms", "8000"))
    assert log.config.retention_ms == 8000
    broker.image.apply(ConfigRecord(2, "t", "retention.ms", None))
    broker.image.apply(ConfigRecord(4, "1", "log.retention.ms", None))
    assert log.config.retention_ms == 6000


def test_changed_settings_reach_every_partition_that_they_are_for() -> None:
    broker = MemoryBroker({"t": 2, "u": 2})

    def retention() -> list[int]:
        return [broker.replica(topic, index).log.config.retention_ms for topic in ("t", "u") for index in (0, 1)]

    broker.image.apply_all([ConfigRecord(BROKER, "", "log.retention.ms", "6000")])
    assert retention() == [6000] * 4
    broker.image.apply_all([ConfigRecord(TOPIC, "u", "retention.ms", "7000"), ConfigRecord(TOPIC, "nobody", "retention.ms", "1")])
    assert retention() == [6000, 6000, 7000, 7000]


def test_topics_with_the_same_settings_share_one_config() -> None:
    """A change for all topics must not cost each of 5,000 of them the parsing of all settings."""
    broker = MemoryBroker({"t": 2, "u": 1})
    broker.create_topic("v", retention_ms="5000")
    broker.image.apply(ConfigRecord(BROKER, "", "log.retention.ms", "6000"))
    t, other, u, v = (broker.replica(topic, index).log.config for topic, index in (("t", 0), ("t", 1), ("u", 0), ("v", 0)))
    assert t is other is u
    assert (u.retention_ms, v.retention_ms) == (6000, 5000)


def test_a_setting_that_does_not_parse_counts_as_not_there(caplog: pytest.LogCaptureFixture) -> None:
    """A broker must not fail because of a setting that an older Kafka accepted."""
    broker = MemoryBroker({"t": 1})
    for name, value in (("segment.bytes", "14"), ("retention.ms", "1000"), ("of.a.later.kafka", "x")):
        broker.image.apply_all([ConfigRecord(TOPIC, "t", name, value)])
    config = broker.replica("t").log.config
    assert (config.segment_bytes, config.retention_ms) == (1 << 30, 1000)
    assert "topic t: a setting is ignored: segment.bytes: '14' is too small" in caplog.text


def test_a_disk_that_refuses_is_a_storage_error_to_clients() -> None:
    broker = MemoryBroker({"t": 1})
    broker.disk.fail("append", errno.EIO, path="t-0")
    with pytest.raises(StorageError):
        broker.replica("t").append(batch(1))
    broker.create_topic("late")
    assert broker.replicas.get("late", 0) is None
    assert broker.replicas.why_missing("late", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.replicas.why_missing("nope", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_a_deleted_topic_did_stays_in_the_broker_s_sum() -> None:
    broker = MemoryBroker({"t": 2, "u": 1})
    for index in (0, 1):
        broker.replica("t", index).append(batch(3))
    broker.delete_topic("t")
    assert set(broker.replicas.traffic) == {"u"}
    assert (broker.replicas.past_traffic.appends, broker.replicas.past_traffic.messages_in) == (2, 6)
    broker.create_topic("t")
    assert broker.replicas.traffic["t"].appends == 0


# What a start finds after a kill


def killed(topics: dict[str, int]) -> MemDisk:
    """The disk of a broker that was killed when each partition of the topics had two records."""
    broker = MemoryBroker(topics)
    for name, partitions in topics.items():
        for index in range(partitions):
            broker.replica(name, index).append(batch(2))
    broker.logs.close(clean=False)
    return broker.disk


def restarted(broker: MemoryBroker) -> Replicas:
    """The replicas of the same broker after a kill."""
    broker.logs.close(clean=False)
    config = LogConfig.from_overrides({}, broker.config.values)
    logs = LogManager(broker.disk, broker.config.log_dirs, broker.clock.now_ms, config, random=Random(1))
    logs.open_all()
    replicas = Replicas(logs, broker.image, broker.settings, broker.clock)
    replicas.start()
    return replicas


def visible(replicas: Replicas) -> int | None:
    """Returns up to which offset consumers of t-0 see records, None if it is not here."""
    replica = replicas.get("t", 0)
    return replica.log.high_watermark if replica is not None else None


@pytest.mark.parametrize("of_topic", [True, False])
def test_what_recovery_finds_is_durable_before_readers_see_it_if_every_append_is_to_be(of_topic: bool) -> None:
    """Found by the simulated broker: after a kill, readers saw records that a power cut then took."""
    broker = MemoryBroker({}, {} if of_topic else {"log.flush.interval.messages": "1"})
    if of_topic:
        broker.create_topic("t", flush_messages="1")
    else:
        broker.create_topic("t")
    broker.replica("t").append(batch(2))
    assert visible(broker.replicas) == 0
    assert visible(restarted(broker)) == 2
    broker.disk.crash()
    assert MemoryBroker({"t": 1}, disk=broker.disk).replica("t").log.log_end_offset == 2


def test_a_start_flushes_nothing_that_need_not_be() -> None:
    broker = MemoryBroker({"t": 1})
    broker.replica("t").append(batch(2))
    assert visible(restarted(broker)) == 2
    broker.disk.crash()
    assert MemoryBroker({"t": 1}, disk=broker.disk).replica("t").log.log_end_offset == 0


@pytest.mark.parametrize("error", [errno.EIO, errno.EMFILE])
def test_what_recovery_finds_and_no_flush_covers_is_not_shown(error: int) -> None:
    broker = MemoryBroker({}, {"log.flush.interval.messages": "1"})
    broker.create_topic("t")
    broker.replica("t").append(batch(2))
    broker.disk.fail("sync", error, path=".log")
    replicas = restarted(broker)
    assert visible(replicas) is None
    assert (replicas.logs.directories[0].failed is None) == (error == errno.EMFILE)
    broker.clock.advance(RETRY_SECONDS)
    assert visible(replicas) == (2 if error == errno.EMFILE else None)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
def test_what_a_start_has_no_room_for_comes_alive_when_there_is(error: int) -> None:
    disk = killed({"t": 2})
    for _ in range(2):
        disk.fail("open", error, path="/t-0/")
    broker = MemoryBroker({"t": 2}, disk=disk)
    assert broker.replica("t", 1).is_leader
    assert broker.replicas.why_missing("t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.replicas.drop_lost() == {}, "it is not lost"
    broker.clock.advance(RETRY_SECONDS)
    assert broker.replicas.get("t", 0) is None
    broker.clock.advance(RETRY_SECONDS)
    assert broker.replica("t", 0).is_leader
    assert broker.replica("t", 0).log.log_end_offset == 2


def test_a_start_says_once_for_how_many_new_partitions_there_is_no_room(caplog: pytest.LogCaptureFixture) -> None:
    broker = MemoryBroker({"t": 3})
    logs = LogManager(
        broker.disk, ["/other"], broker.clock.now_ms, LogConfig.from_overrides({}, None), random=Random(1), metadata_dir="/data2"
    )
    logs.lock()
    for _ in range(3):
        broker.disk.fail("open", errno.EMFILE, path="/other/t-")
    replicas = Replicas(logs, broker.image, broker.settings, broker.clock)
    replicas.start()
    assert len(replicas) == 0
    (line,) = (record.getMessage() for record in caplog.records if "until there is room" in record.getMessage())
    assert line.startswith("not available until there is room: 3 partitions; ")
    broker.clock.advance(RETRY_SECONDS)
    assert len(replicas) == 3


def test_a_topic_whose_directory_was_removed_can_be_deleted_and_made_again() -> None:
    broker = MemoryBroker({"t": 1})
    broker.replica("t").append(batch(2))
    remove_tree(broker.disk, broker.replica("t").log.path)
    do_at_once(broker.replicas.drop_removed())
    broker.delete_topic("t")
    other = broker.topic_id("another")
    broker.image.apply_all([TopicRecord("t", other), PartitionRecord(0, other, [1], [1], leader=1, leader_epoch=0)])
    assert broker.replica("t").is_leader
    assert broker.replica("t").log.log_end_offset == 0


def test_what_is_opened_late_and_belongs_to_no_topic_any_more_is_set_aside() -> None:
    disk = killed({"t": 1, "u": 1})
    for name in "tu":
        disk.fail("open", errno.EMFILE, path=f"/{name}-0/")
    broker = MemoryBroker({"t": 1, "u": 1}, disk=disk)
    for name in "tu":
        broker.delete_topic(name)
    other = broker.topic_id("another")
    broker.image.apply_all([TopicRecord("u", other), PartitionRecord(0, other, [1], [1], leader=1, leader_epoch=0)])
    broker.clock.advance(RETRY_SECONDS)
    broker.clock.advance()
    assert broker.replicas.get("t", 0) is None
    assert broker.replica("u").log.log_end_offset == 0
    assert broker.replica("u").topic_id == other
    aside = [name for name in disk.list("/data") if name.endswith("-stray")]
    assert [name[:3] for name in sorted(aside)] == ["t-0", "u-0"]


def test_a_broker_in_doubt_leads_nothing_and_keeps_what_waits() -> None:
    broker = MemoryBroker({"t": 2})
    broker.create_topic("led", followers=(2,))
    broker.create_topic("followed", leader=2, followers=(2,))
    led, roles = broker.replica("led"), {id(replica): replica.role for replica in broker.replicas}
    waits: list[Exception | None] = []
    assert isinstance(led.role, Leader)
    assert led.role.high_watermark is not None
    end = led.append(batch(1)).last_offset + 1
    led.role.high_watermark.when_passed(end, waits.append)
    broker.replicas.doubt(True)
    assert not any(replica.is_leader for replica in broker.replicas)
    broker.image.apply_all([PartitionChangeRecord(0, broker.topic_id("t"), isr=[NODE_ID])])
    broker.create_topic("new")
    assert not any(replica.is_leader for replica in broker.replicas), "whether that holds is not known, either"
    broker.replicas.doubt(False)
    led_here = {(replica.topic, replica.partition) for replica in broker.replicas if replica.is_leader}
    assert led_here == {("t", 0), ("t", 1), ("led", 0), ("new", 0)}
    assert {id(replica): replica.role for replica in broker.replicas if replica.topic != "new"} == roles
    led.role.high_watermark.on_fetch(2, end)
    assert waits == [None]
