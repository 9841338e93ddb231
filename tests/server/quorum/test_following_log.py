"""FollowingLog: what is appended, what counts, what is cut off, and what a start finds."""

from __future__ import annotations

import json

import pytest

from ottla.log.errors import CorruptRecord, StorageError
from ottla.server.base.randomness import from_seed
from ottla.server.base.turns import at_once
from ottla.server.metadata import quorum_state
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.image_records import freeze
from ottla.server.metadata.snapshot import SnapshotId
from ottla.server.metadata.snapshot_writer import SnapshotWriter
from ottla.server.metadata.staging import RECORDS_A_STEP
from ottla.wire.messages.internal.begin_transaction_record import BeginTransactionRecord
from ottla.wire.messages.internal.end_transaction_record import EndTransactionRecord
from ottla.wire.metadata_records import MetadataError, build_encoded
from tests.server.metadata.support import NOW_MS
from tests.server.quorum.leaders_log import LEADER_ID, PATH, Follower, LeadersLog, topic

LOG = f"{PATH}/00000000000000000000.log"


def begun() -> LeadersLog:
    leader = LeadersLog()
    leader.begin()
    leader.name_voters()
    leader.topics("a", "b")
    return leader


def begin_at(follower: Follower, snapshot_id: SnapshotId) -> MetadataImage:
    """Has the log begin at a snapshot in its directory; returns the image of it."""
    image = MetadataImage("cluster")
    contents = at_once(follower.log.load_snapshot(snapshot_id, follower.log.read_snapshot(snapshot_id), image))
    assert not contents.records, "they are freed step by step"
    follower.log.begin_at(snapshot_id, contents)
    return image


def write_snapshot(follower: Follower) -> SnapshotId:
    """A snapshot of the follower's image, in its directory, as the leader would have it."""
    snapshot_id = SnapshotId(follower.log.applied, follower.log.epoch)
    writer = SnapshotWriter(
        follower.disk,
        PATH,
        snapshot_id,
        freeze(follower.image),
        controls=follower.log.voter_controls(),
        last_contained_ms=follower.log.last_append_ms,
        now_ms=lambda: NOW_MS,
        random=from_seed(1),
    )
    while writer.step():
        pass
    writer.finish()
    return snapshot_id


def test_what_the_leader_has_is_appended_byte_for_byte_and_applied() -> None:
    follower, leader = Follower(), begun()
    assert (follower.log.end_offset, follower.log.last_epoch) == (0, 0)
    follower.follow(leader)
    assert follower.topics == ["a", "b"]
    assert follower.disk.read_bytes(f"{PATH}/00000000000000000000.log") == leader.fetched(0)
    log = follower.log
    assert (log.end_offset, log.last_epoch, log.applied, log.epoch, log.last_append_ms) == (5, 1, 5, 1, NOW_MS)
    assert log.appended_bytes == len(leader.fetched(0))
    assert (follower.image.highest_offset, follower.image.kraft_version) == (4, 1)


def test_only_what_the_high_watermark_covers_is_applied() -> None:
    follower, leader = Follower(), begun()
    leader.topics("c")
    leader.topics("d")
    follower.follow(leader, high_watermark=3)
    assert follower.topics == []
    for high_watermark, topics in [(5, ["a", "b"]), (4, ["a", "b"]), (6, ["a", "b", "c"]), (100, ["a", "b", "c", "d"])]:
        follower.log.note_high_watermark(high_watermark)
        follower.apply()
        assert follower.topics == topics
    assert follower.log.partition_log.high_watermark == follower.log.end_offset == 7


def test_it_is_applied_one_batch_a_step() -> None:
    follower, leader = Follower(), begun()
    leader.topics("c")
    follower.follow(leader, high_watermark=0)
    follower.log.note_high_watermark(leader.end)
    seen = [follower.topics for _ in follower.log.apply(follower.image)]
    assert seen == [[], [], ["a", "b"], ["a", "b", "c"]]


def test_a_batch_of_many_records_is_applied_in_steps_and_takes_effect_at_once() -> None:
    follower, leader = Follower(), begun()
    names = [f"t-{number}" for number in range(2 * RECORDS_A_STEP + 1)]
    leader.topics(*names)
    follower.follow(leader, high_watermark=0)
    follower.log.note_high_watermark(leader.end)
    events: list[tuple[object, int]] = []
    follower.image.subscribe(lambda event: events.append((event, follower.image.highest_offset)))
    seen: list[tuple[int, int]] = []
    for _ in follower.log.apply(follower.image):
        seen.append((len(follower.topics), len(events)))
        assert (follower.log.applied == leader.end) == (len(events) == 2 + len(names) and not follower.image.is_reporting)
    decoded = staged = [(2, 2)] * 2
    reported = [(2 + len(names), 2 + number) for number in range(1, len(names) + 1)]
    assert seen == [(0, 0), (0, 0), (2, 2), *decoded, *staged, *reported, (2 + len(names), 2 + len(names))]
    assert {offset for _, offset in events[2:]} == {leader.end - 1}, "who listens finds the offset of what it hears of"


def test_every_append_has_to_be_flushed() -> None:
    follower, leader = Follower(), begun()
    job = follower.log.append(leader.fetched(0))
    assert job is not None
    job.run_and_finish()
    follower.disk.crash()
    follower.open()
    assert follower.log.end_offset == 5


def test_a_power_cut_may_tear_any_batch_of_an_append() -> None:
    follower, leader = Follower(), begun()
    follower.follow(leader)
    leader.topics("c")
    leader.topics("d")
    kept, bad = follower.log.end_offset, follower.disk.size(LOG)
    assert follower.log.append(leader.fetched(kept)) is not None  # it has both batches, and is not synced
    assert leader.end == kept + 2
    data = bytearray(follower.disk.read_bytes(LOG))
    data[bad + 70] ^= 1
    follower.disk.crash()
    follower.disk.write_bytes(LOG, bytes(data))
    follower.open()
    assert follower.log.end_offset == kept, "a sound batch behind a bad one is no reason not to start"
    follower.follow(leader)
    assert follower.topics == ["a", "b", "c", "d"]
    assert follower.disk.read_bytes(LOG) == leader.fetched(0)


def test_a_start_applies_nothing_before_a_leader_has_told_what_counts() -> None:
    follower, leader = Follower(), begun()
    follower.follow(leader)
    follower.close()
    follower.open()
    assert (follower.topics, follower.log.applied, follower.log.end_offset) == ([], 0, 5)
    follower.apply()
    assert follower.topics == []
    follower.follow(leader)
    assert follower.topics == ["a", "b"]


def test_a_start_begins_with_the_newest_snapshot() -> None:
    follower, leader = Follower(), begun()
    follower.follow(leader)
    write_snapshot(follower)
    leader.topics("c")
    follower.follow(leader)
    follower.close()
    follower.open()
    assert (follower.topics, follower.log.applied, follower.log.epoch) == (["a", "b"], 5, 1)
    assert (follower.log.kraft_version, follower.image.kraft_version) == (1, 1)
    assert [kind for kind, _ in follower.log.voter_controls()] == [5, 6]
    follower.follow(leader)
    assert follower.topics == ["a", "b", "c"]


def test_the_end_is_cut_off_where_it_parts_from_the_leader_s() -> None:
    follower, old, new = Follower(), begun(), begun()
    old.topics("lost")
    follower.follow(old, high_watermark=5)
    new.begin(2)
    new.topics("kept", epoch=2)
    assert [follower.log.end_offset_for(epoch) for epoch in (0, 1, 2)] == [0, 6, 6]
    follower.log.truncate(5)
    follower.follow(new)
    assert follower.topics == ["a", "b", "kept"]
    assert (follower.log.end_offset, follower.log.last_epoch) == (7, 2)
    assert [follower.log.end_offset_for(epoch) for epoch in (1, 2, 9)] == [5, 7, 7]


def test_what_counts_already_is_never_cut_off() -> None:
    follower = Follower()
    follower.follow(begun())
    with pytest.raises(MetadataError, match=r"ends at 4 where the records up to 5 count already: .*Restore its controllers"):
        follower.log.truncate(4)
    assert follower.log.end_offset == 5


def test_what_cannot_be_right_is_not_appended() -> None:
    follower, leader = Follower(), begun()
    data = bytearray(leader.fetched(0))
    data[-1] ^= 1
    with pytest.raises(CorruptRecord):
        follower.log.append(bytes(data))
    assert follower.log.end_offset == 3, "the batches before it are"


def test_a_record_that_is_not_known_ends_it() -> None:
    follower, leader = Follower(), begun()
    leader.add(build_encoded([b"\1\xe7\7\0"], NOW_MS))
    text = r"offset 5 of the cluster's metadata: a metadata record of kind 999 .* up to metadata.version 33"
    with pytest.raises(MetadataError, match=text):
        follower.follow(leader)


def test_an_operation_of_several_batches_takes_effect_at_its_end() -> None:
    follower, leader = Follower(), begun()
    leader.write(BeginTransactionRecord("c"))
    leader.topics("c")
    follower.follow(leader)
    assert (follower.topics, follower.log.is_in_transaction) == (["a", "b"], True)
    leader.write(topic("d"), EndTransactionRecord())
    follower.follow(leader)
    assert (follower.topics, follower.log.is_in_transaction) == (["a", "b", "c", "d"], False)


def test_a_large_operation_of_several_batches_is_one_until_it_has_been_reported() -> None:
    """A snapshot that was made while it takes effect would lack its first batches, and end behind them."""
    follower, leader = Follower(), begun()
    leader.write(BeginTransactionRecord("c"))
    leader.topics(*(f"t-{number}" for number in range(2 * RECORDS_A_STEP)))
    leader.write(EndTransactionRecord())
    follower.follow(leader, high_watermark=leader.end - 1)
    follower.log.note_high_watermark(leader.end)
    steps = [
        (follower.log.is_in_transaction, follower.log.applied == leader.end, len(follower.topics))
        for _ in follower.log.apply(follower.image)
    ]
    assert len(steps) > 2 * RECORDS_A_STEP
    assert all(in_transaction != applied for in_transaction, applied, _ in steps)
    assert {topics for _, applied, topics in steps if not applied} == {2, 2 + 2 * RECORDS_A_STEP}


def test_it_begins_again_at_a_snapshot_of_the_leader() -> None:
    source, leader = Follower(), begun()
    leader.topics("c")
    source.follow(leader)
    snapshot_id = write_snapshot(source)
    follower = Follower()
    other = LeadersLog()
    other.begin()
    follower.follow(other)
    follower.disk.write_bytes(f"{PATH}/{snapshot_id.file_name}", source.disk.read_bytes(f"{PATH}/{snapshot_id.file_name}"))
    image = begin_at(follower, snapshot_id)
    assert list(image.topics) == ["a", "b", "c"]
    log = follower.log
    assert (log.end_offset, log.last_epoch, log.applied, log.high_watermark) == (6, 1, 6, 6)
    assert log.partition_log.log_start_offset == 6
    leader.topics("d")
    follower.image = image
    follower.follow(leader)
    assert follower.topics == ["a", "b", "c", "d"]
    follower.close()
    follower.open()
    assert follower.topics == ["a", "b", "c"]


def test_a_snapshot_that_is_damaged_is_refused() -> None:
    follower, leader = Follower(), begun()
    follower.follow(leader)
    snapshot_id = write_snapshot(follower)
    path = f"{PATH}/{snapshot_id.file_name}"
    follower.disk.write_bytes(path, follower.disk.read_bytes(path)[:-1])
    with pytest.raises(MetadataError):
        begin_at(follower, snapshot_id)


def test_a_log_that_ends_before_its_snapshot_begins_again_there() -> None:
    follower, leader = Follower(), begun()
    follower.follow(leader)
    data = write_snapshot(follower)
    other = Follower()
    other.disk.write_bytes(f"{PATH}/{data.file_name}", follower.disk.read_bytes(f"{PATH}/{data.file_name}"))
    other.close()
    other.open()
    assert (other.topics, other.log.end_offset, other.log.last_epoch) == (["a", "b"], 5, 1)


def test_a_log_whose_snapshot_is_gone_is_refused() -> None:
    follower, leader = Follower(), begun()
    follower.follow(leader)
    snapshot_id = write_snapshot(follower)
    begin_at(follower, snapshot_id)
    follower.close()
    follower.disk.remove(f"{PATH}/{snapshot_id.file_name}")
    with pytest.raises(MetadataError, match=r"the newest snapshot ends at offset 0, the log holds 5\.\.5"):
        follower.open()


@pytest.mark.parametrize(("voters", "named"), [((), None), ((3000, 3001), [{"voterId": 3000}, {"voterId": 3001}])])
def test_epoch_and_leader_are_saved_as_kafka_s_observers_save_them(
    voters: tuple[int, ...], named: list[dict[str, int]] | None
) -> None:
    follower, leader = Follower(voters=voters), LeadersLog()
    leader.begin()
    if not voters:
        leader.name_voters()
    follower.follow(leader)
    follower.log.note_leader(7, LEADER_ID)
    saved = json.loads(follower.disk.read_bytes(f"{PATH}/quorum-state"))
    assert (saved["leaderEpoch"], saved["leaderId"], saved["votedId"]) == (7, LEADER_ID, -1)
    assert (saved["data_version"], saved.get("currentVoters")) == (0 if voters else 1, named)
    assert quorum_state.read(follower.disk, f"{PATH}/quorum-state") == (7, LEADER_ID, voters)


def test_a_disk_that_fails_is_said() -> None:
    follower = Follower()
    follower.follow(begun())
    follower.disk.fail("write_bytes")
    with pytest.raises(StorageError):
        follower.log.note_leader(7, LEADER_ID)
