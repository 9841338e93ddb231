"""log/management/manager.py: several directories, identity, clean and unclean stops, flushes, and a directory that fails."""

from __future__ import annotations

import errno
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from ottla.log.disk import checkpoint
from ottla.log.disk.files import OsDisk, remove_tree
from ottla.log.errors import InconsistentMetadata, LogDirLocked, NoRoom, StorageError
from ottla.log.management.manager import LogManager
from ottla.log.management.passes import delete_steps, expiration_steps, retention_steps, run_pass
from tests.log.support import NOW_MS, TOPIC_ID, batch, settings
from tests.memdisk import MemDisk

SIZE = len(batch())


class Broker:
    """A manager over two directories in memory; `start` opens again what is there."""

    def __init__(self, *paths: str) -> None:
        self.now_ms = NOW_MS
        self.disk = MemDisk(lambda: self.now_ms)
        self.paths = paths or ("/a", "/b")
        self.config = settings(segment_bytes=3 * SIZE)
        self.start()

    def start(self) -> None:
        self.manager = LogManager(self.disk, self.paths, lambda: self.now_ms, self.config, random=Random(1))
        self.manager.open_all()

    def fill(self, topic: str, partition: int, batches: int) -> None:
        log = self.manager.create(topic, partition, TOPIC_ID, self.config)
        for _ in range(batches):
            log.append_as_leader(batch(), leader_epoch=0)

    def ends(self) -> dict[tuple[str, int], int]:
        return {name: log.log_end_offset for name, log in self.manager.logs.items()}


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_partitions_go_where_the_fewest_are(broker: Broker) -> None:
    for partition in range(5):
        broker.fill("topic-with-dashes", partition, 1)
    assert [
        sum(disk.startswith(path) for disk in (log.path for log in broker.manager.logs.values())) for path in ("/a", "/b")
    ] == [3, 2]
    assert broker.disk.list("/a/topic-with-dashes-0") == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert broker.manager.get("topic-with-dashes", 4) is broker.manager.logs["topic-with-dashes", 4]
    assert broker.manager.get("topic-with-dashes", 5) is None


def test_a_partition_that_finds_no_room_leaves_nothing_and_goes_where_there_is_some(broker: Broker) -> None:
    broker.disk.fail("write_bytes", errno.ENOSPC, path="t-0/partition.metadata")
    with pytest.raises(NoRoom):
        broker.fill("t", 0, 1)
    assert not broker.disk.exists("/a/t-0")
    broker.fill("t", 0, 1)
    broker.fill("t", 1, 1)
    assert [log.path for log in broker.manager.logs.values()] == ["/b/t-0", "/b/t-1"]
    assert [directory.failed for directory in broker.manager.directories] == [None, None]


def test_what_cannot_be_removed_either_is_completed_by_the_next_attempt(broker: Broker) -> None:
    """Otherwise the next start would find the partition in two directories."""
    broker.disk.fail("open", errno.EMFILE, path="t-0")
    broker.disk.fail("remove", errno.EMFILE, path="t-0")
    broker.disk.fail("list", errno.EMFILE, path="t-0", skip=1)
    with pytest.raises(NoRoom):
        broker.fill("t", 0, 1)
    assert broker.disk.exists("/a/t-0")
    broker.manager.create("u", 0, TOPIC_ID, broker.config)
    broker.fill("t", 0, 1)
    assert broker.manager.logs["t", 0].path == "/a/t-0"


def test_deletions_share_a_sync(broker: Broker) -> None:
    for partition in range(4):
        broker.fill("t", partition, 1)
    broker.disk.trace.clear()
    for partition in range(4):
        broker.manager.delete("t", partition, synced=False)
    assert [operation for operation, _ in broker.disk.trace] == ["rename"] * 4
    broker.disk.fail("sync_dir", errno.EMFILE)
    broker.manager.sync_deletions()
    broker.manager.sync_deletions()
    broker.disk.crash()
    assert not any(name.startswith("t-") and len(name) == 3 for path in broker.paths for name in broker.disk.list(path))


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_finds_everything(broker: Broker, clean: bool) -> None:
    for partition in range(4):
        broker.fill("t", partition, partition * 2)
    broker.manager.close(clean, broker_epoch=41)
    broker.start()
    assert broker.ends() == {("t", partition): partition * 2 for partition in range(4)}
    assert broker.manager.previous_broker_epoch == (41 if clean else None)
    assert not any(broker.disk.exists(f"{path}/.kafka_cleanshutdown") for path in broker.paths)
    broker.manager.close(clean=False)
    broker.start()
    assert broker.manager.previous_broker_epoch is None  # the marker counts once


def test_a_marker_of_an_earlier_run_does_not_make_the_last_stop_clean(broker: Broker) -> None:
    """The directory that has it was not there in the last run; what is in it is older than what the others have."""
    broker.manager.close(broker_epoch=41)
    for older, path in enumerate(broker.paths):
        marker = f"{path}/.kafka_cleanshutdown"
        broker.disk.write_bytes(marker, b'{"version":0,"brokerEpoch":40}')
        broker.start()
        assert broker.manager.previous_broker_epoch is None, older
        broker.manager.close(broker_epoch=41)
    broker.start()
    assert broker.manager.previous_broker_epoch == 41


def test_checkpoints_are_kafkas(broker: Broker) -> None:
    broker.fill("t", 0, 4)
    broker.fill("t", 1, 0)
    broker.fill("__cluster_metadata", 0, 1)
    broker.manager.close()
    assert broker.disk.read_bytes("/a/recovery-point-offset-checkpoint") == b"0\n1\nt 0 4\n"
    assert broker.disk.read_bytes("/a/replication-offset-checkpoint") == b"0\n1\nt 0 4\n"
    assert broker.disk.read_bytes("/a/log-start-offset-checkpoint") == b"0\n0\n"
    assert broker.disk.read_bytes("/b/recovery-point-offset-checkpoint") == b"0\n1\nt 1 0\n"
    assert broker.disk.read_bytes("/b/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'


def test_checkpoints_are_written_when_they_change(broker: Broker) -> None:
    broker.fill("t", 0, 2)
    broker.manager.checkpoint_pass()
    changes = broker.disk.changes
    broker.manager.checkpoint_pass()
    assert broker.disk.changes == changes
    broker.fill("t", 0, 1)
    broker.manager.checkpoint_pass()
    assert broker.disk.changes > changes


def test_high_watermarks_are_written_by_themselves_when_they_move(broker: Broker) -> None:
    broker.fill("t", 0, 2)
    broker.manager.checkpoint_pass([checkpoint.HIGH_WATERMARKS])
    assert broker.disk.read_bytes("/a/replication-offset-checkpoint") == b"0\n1\nt 0 2\n"
    assert not broker.disk.exists("/a/recovery-point-offset-checkpoint")
    broker.disk.fail("write_bytes", errno.EIO, path="/a/replication")
    broker.fill("t", 0, 1)
    broker.manager.checkpoint_pass([checkpoint.HIGH_WATERMARKS])
    assert [directory.failed is None for directory in broker.manager.directories] == [False, True]
    changes = broker.disk.changes
    broker.manager.checkpoint_pass([checkpoint.HIGH_WATERMARKS])
    assert broker.disk.changes == changes


def test_unreadable_checkpoints_only_cost_time(broker: Broker) -> None:
    broker.fill("t", 0, 4)
    broker.manager.close()
    for name in ("recovery-point", "log-start", "replication"):
        broker.disk.write_bytes(f"/a/{name}-offset-checkpoint", b"\xff\0nonsense")
    broker.start()
    assert broker.ends() == {("t", 0): 4}


def test_formatting(broker: Broker) -> None:
    assert broker.manager.meta_properties() == {"/a": None, "/b": None}
    formatted = broker.manager.format("cluster", 7)
    assert {(meta.cluster_id, meta.node_id, len(meta.directory_id)) for meta in formatted.values()} == {("cluster", 7, 22)}
    assert len({meta.directory_id for meta in formatted.values()}) == 2
    assert broker.manager.format("cluster", 7) == formatted == broker.manager.meta_properties()
    for cluster_id, node_id in (("other", 7), ("cluster", 8)):
        with pytest.raises(InconsistentMetadata, match="belongs to node 7 of cluster cluster"):
            broker.manager.format(cluster_id, node_id)


def test_a_directory_that_lost_its_name_is_not_given_another() -> None:
    """Also where it is the only one: the records in it belong to a cluster, and a new id would hide that."""
    disk = MemDisk()
    disk.makedirs("/only/__cluster_metadata-0")
    manager = LogManager(disk, ["/only"], lambda: NOW_MS, settings(), random=Random(1))
    with pytest.raises(InconsistentMetadata, match=r"holds __cluster.* but has lost its meta\.properties"):
        manager.format("cluster", 7)
    assert not disk.exists("/only/meta.properties")


def test_a_cordoned_directory_gets_no_new_partition_while_another_can(broker: Broker) -> None:
    broker.fill("t", 0, 1)
    broker.manager.cordoned = frozenset({"/a"})
    for partition in range(1, 4):
        broker.fill("t", partition, 1)
    assert [broker.manager.logs["t", n].directory.path for n in range(4)] == ["/a", "/b", "/b", "/b"]
    broker.manager.cordoned = frozenset({"/a", "/b"})
    broker.fill("t", 4, 1)
    assert broker.manager.logs["t", 4].directory.path == "/a", "whoever accepted it has to have it somewhere"


def test_one_broker_a_directory(broker: Broker) -> None:
    with pytest.raises(LogDirLocked):
        broker.start()
    broker.manager.close()


def test_topic_ids(broker: Broker) -> None:
    broker.fill("t", 0, 1)
    assert broker.manager.create("t", 0, TOPIC_ID, broker.config).log_end_offset == 1
    with pytest.raises(InconsistentMetadata):
        broker.manager.create("t", 0, bytes(16), broker.config)
    broker.manager.create("u", 0, None, broker.config)
    assert broker.manager.create("u", 0, TOPIC_ID, broker.config).topic_id == TOPIC_ID
    assert broker.disk.read_bytes("/b/u-0/partition.metadata").endswith(b"AAECAwQFBgcICQoLDA0ODw")


def test_what_is_no_partition_stays(broker: Broker) -> None:
    broker.manager.close()
    for name in ("lost+found", "no-number-x", "-3", "t-0.0123456789abcdef0123456789abcdef-delete"):
        broker.disk.makedirs(f"/a/{name}")
        broker.disk.write_bytes(f"/a/{name}/file", b"x")
    broker.start()
    assert broker.ends() == {}
    assert run_pass(delete_steps(broker.manager, NOW_MS)) == 1  # what a deletion left
    assert {"lost+found", "no-number-x", "-3"} <= set(broker.disk.list("/a"))
    assert not any(name.endswith("-delete") for name in broker.disk.list("/a"))


def test_a_partition_whose_files_are_gone_does_not_begin_anew_without_a_word(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.fill("t", 0, 2)
    broker.manager.close()
    remove_tree(broker.disk, "/a/t-0")
    broker.start()
    for topic in ("t", "u"):
        broker.manager.create(topic, 0, TOPIC_ID, broker.config, is_new=False)
    assert [line.getMessage() for line in caplog.records] == ["t-0 was in /a and has disappeared: it starts again, empty"]


def test_names_that_are_nearly_a_partitions_cost_the_others_nothing(broker: Broker) -> None:
    broker.fill("t", 0, 1)
    broker.manager.logs["t", 0].raise_log_start_offset(1)
    odd = ["t-00", "t-\u0663", "a b-0", "a\nb-0", "\udcff-0", "t-2147483648", "t-99999999999999999999"]
    for name in odd:
        broker.disk.makedirs(f"/a/{name}")
    for _ in range(2):
        broker.manager.close()
        broker.start()
        assert broker.ends() == {("t", 0): 1}
        assert broker.manager.logs["t", 0].log_start_offset == 1
    assert set(odd) <= set(broker.disk.list("/a"))


def test_a_partition_in_two_directories_is_refused(broker: Broker) -> None:
    broker.fill("t", 0, 1)
    broker.manager.close()
    broker.disk.makedirs("/b/t-0")
    with pytest.raises(StorageError, match="two log directories"):
        broker.start()


# A directory that fails


def test_others_go_on_when_a_directory_fails(broker: Broker) -> None:
    for partition in range(4):
        broker.fill("t", partition, 2)
    failed = []
    for directory in broker.manager.directories:
        directory.on_failure = lambda which: failed.append(which.path)
    broker.disk.fail("append", errno.EIO, path="/a/")
    with pytest.raises(StorageError):
        broker.fill("t", 0, 1)
    assert failed == ["/a"]
    with pytest.raises(StorageError):
        broker.fill("t", 2, 1)
    broker.fill("t", 1, 1)
    for steps in (retention_steps, delete_steps, expiration_steps):
        run_pass(steps(broker.manager, NOW_MS))
    broker.manager.flush_pass(NOW_MS)
    broker.manager.checkpoint_pass()
    broker.fill("u", 0, 1)
    assert broker.manager.logs["u", 0].path == "/b/u-0"
    broker.manager.close()
    assert [broker.disk.exists(f"{path}/.kafka_cleanshutdown") for path in broker.paths] == [False, True]
    broker.start()
    assert broker.ends() == {("t", 0): 2, ("t", 1): 3, ("t", 2): 2, ("t", 3): 2, ("u", 0): 1}


def test_no_directory_left() -> None:
    broker = Broker("/a")
    broker.fill("t", 0, 1)
    broker.disk.fail("append")
    with pytest.raises(StorageError):
        broker.fill("t", 0, 1)
    with pytest.raises(StorageError, match="every log directory is offline"):
        broker.fill("u", 0, 1)


@pytest.mark.parametrize("operation", ["sync", "write_bytes", "sync_dir"])
def test_a_failing_close_leaves_no_marker(operation: str) -> None:
    broker = Broker("/a")
    broker.fill("t", 0, 5)
    broker.disk.fail(operation)
    broker.manager.close()
    assert not broker.disk.exists("/a/.kafka_cleanshutdown")
    broker.start()
    assert broker.ends() == {("t", 0): 5}


def test_a_directory_that_cannot_be_read_at_the_start(broker: Broker) -> None:
    broker.fill("t", 0, 5)
    broker.fill("t", 1, 5)
    broker.manager.close()
    broker.disk.fail("list", path="/a/t-0")
    broker.start()
    assert broker.ends() == {("t", 1): 5}
    assert "offline" in broker.manager.unavailable["t", 0]


def test_what_may_lie_in_a_directory_that_is_offline_is_not_made_anew(broker: Broker) -> None:
    broker.fill("t", 0, 5)
    broker.manager.close()
    broker.disk.fail("list", path="/a")
    broker.start()
    assert broker.ends() == {}
    with pytest.raises(StorageError, match="t-0 is in no working directory"):
        broker.manager.create("t", 0, TOPIC_ID, broker.config, is_new=False)
    assert broker.manager.create("u", 0, TOPIC_ID, broker.config).path == "/b/u-0"
    broker.manager.close()
    broker.start()
    assert broker.ends() == {("t", 0): 5, ("u", 0): 0}


def test_the_metadata_log_has_a_place_of_its_own() -> None:
    disk, config = MemDisk(lambda: NOW_MS), settings()
    for directory in ("/m", "/b"):
        manager = LogManager(disk, ["/a", "/b"], lambda: NOW_MS, config, metadata_dir=directory, random=Random(1))
        manager.open_all()
        assert manager.create("__cluster_metadata", 0, TOPIC_ID, config).path == f"{directory}/__cluster_metadata-0"
        placed = [manager.create(f"t{directory[1:]}", partition, TOPIC_ID, config).directory.path for partition in range(4)]
        assert sorted(placed) == ["/a", "/a", "/b", "/b"]
        manager.close()


# Flushes


def test_the_flushes_that_are_due(broker: Broker) -> None:
    broker.config = settings(flush_ms=100)
    broker.fill("t", 0, 2)
    broker.fill("t", 1, 2)
    assert list(broker.manager.flush_steps(NOW_MS + 99)) == [None, None]
    jobs = list(broker.manager.flush_steps(NOW_MS + 100))
    assert len(jobs) == 2
    for job in jobs:
        assert job is not None
        job.run()
        job.finish()
    assert [log.unflushed for log in broker.manager.logs.values()] == [0, 0]
    broker.fill("t", 0, 1)
    assert broker.manager.flush_pass(NOW_MS + 10_000) == 1


def test_all_partitions_together_remember_so_many_producers_after_any_start() -> None:
    broker = Broker()
    for partition in range(4):
        broker.fill("t", partition, 1)
        for pid in range(30):
            broker.manager.logs["t", partition].append_as_leader(batch(producer=(pid, 0, 0)), leader_epoch=0)
    for clean in (True, False):
        broker.manager.close(clean)
        broker.manager = LogManager(
            broker.disk, broker.paths, lambda: NOW_MS, broker.config, random=Random(1), max_producers_in_all=50
        )
        broker.manager.open_all()
        remembered = [len(log.producers) for log in broker.manager.logs.values()]
        assert (min(remembered), sum(remembered) <= 54) == (1, True), remembered


# Who may read the data


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize(
    ("given", "of_directories", "of_files"),
    [(None, 0o700, 0o600), (0o700, 0o700, 0o600), (0o750, 0o750, 0o640), (0o755, 0o755, 0o644), (0o2770, 0o2750, 0o640)],
)
def test_data_is_the_owners_alone_unless_the_directory_says_otherwise(
    tmp_path: Path, given: int | None, of_directories: int, of_files: int
) -> None:
    tmp_path.chmod(0o755)
    path = tmp_path / "made" / "data"
    if given is not None:
        path.mkdir(parents=True)
        path.chmod(given)
    config = settings(segment_bytes=3 * SIZE)
    manager = LogManager(OsDisk(), [str(path)], lambda: NOW_MS, config, random=Random(1))
    manager.lock()
    manager.format("cluster", 1)
    manager.open_all()
    log = manager.create("t", 0, TOPIC_ID, config)
    for _ in range(7):
        log.append_as_leader(batch(producer=(1, 0, log.log_end_offset)), leader_epoch=0)
    manager.close()
    assert path.parent.stat().st_mode & 0o777 == 0o755
    assert path.stat().st_mode & 0o7777 == (of_directories if given is None else given)
    assert (path / "t-0").stat().st_mode & 0o7777 == of_directories
    files = [file for file in path.rglob("*") if file.is_file()]
    assert len(files) > 10
    assert {file.stat().st_mode & 0o7777 for file in files} == {of_files}


# Many


def test_a_thousand_idle_partitions_cost_little(tmp_path: Path) -> None:
    config = settings()
    manager = LogManager(OsDisk(), [str(tmp_path)], lambda: NOW_MS, config, random=Random(1))
    manager.open_all()
    manager.create("warm", 0, TOPIC_ID, config)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    tracemalloc.start()
    for partition in range(1000):
        manager.create("t", partition, TOPIC_ID, config)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 6 * 2**20
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors + 1
    manager.close()


def test_more_partitions_than_open_files(tmp_path: Path) -> None:
    config = settings()
    manager = LogManager(OsDisk(), [str(tmp_path)], lambda: NOW_MS, config, max_open_files=5, random=Random(1))
    manager.open_all()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        for partition in range(20):
            manager.create("t", partition, TOPIC_ID, config).append_as_leader(batch(2), leader_epoch=0)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 6
    for log in manager.logs.values():
        found = log.read(3, 1 << 20, upto=6)
        assert found is not None
        assert len(found.read()) == 2 * len(batch(2))
    manager.close()
    manager = LogManager(OsDisk(), [str(tmp_path)], lambda: NOW_MS, config, max_open_files=5, random=Random(1))
    manager.open_all()
    assert {log.log_end_offset for log in manager.logs.values()} == {6}
    manager.close()


def test_what_is_set_aside_stays_so_and_its_name_is_free(broker: Broker) -> None:
    broker.fill("t", 0, 2)
    broker.manager.set_aside("t", 0)
    broker.manager.close()
    broker.start()
    broker.now_ms += 86_400_000
    run_pass(delete_steps(broker.manager, broker.now_ms))
    assert broker.ends() == {}
    (stray,) = (name for path in broker.paths for name in broker.disk.list(path) if name.endswith("-stray"))
    assert stray.startswith("t-0.")
    broker.fill("t", 0, 1)
    assert len(broker.ends()) == 1
