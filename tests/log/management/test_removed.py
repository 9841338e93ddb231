"""log/management/removed.py: files that somebody removes under a running broker are missed, and nothing else goes with them."""

from __future__ import annotations

import pytest

from ottla.log.disk.checkpoint import TopicPartition
from ottla.log.disk.directory import do_at_once
from ottla.log.disk.files import remove_tree
from ottla.log.errors import StorageError
from ottla.log.management.removed import forget_removed, lose_removed
from tests.log.management.test_manager import Broker
from tests.log.support import NOW_MS, batch


@pytest.fixture
def broker() -> Broker:
    return Broker()


def lost(broker: Broker) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    do_at_once(lose_removed(broker.manager, found.append))
    return found


def test_a_partition_whose_directory_is_removed_goes_offline_alone(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    for partition in range(3):
        broker.fill("t", partition, 4)
    broker.manager.logs["t", 0].flush()
    broker.manager.checkpoint_pass()
    log = broker.manager.logs["t", 0]
    remove_tree(broker.disk, log.path)
    assert lost(broker) == [("t", 0)]
    assert lost(broker) == []
    with pytest.raises(StorageError, match="t-0 is closed"):
        log.append_as_leader(batch(), leader_epoch=0)
    with pytest.raises(StorageError, match="/a/t-0, or a file in it, was removed while the broker was using it"):
        broker.fill("t", 0, 1)
    assert "t-0 goes offline: /a/t-0" in caplog.text
    broker.fill("t", 2, 1)
    broker.manager.checkpoint_pass()
    assert b"t 0 4\n" in broker.disk.read_bytes("/a/recovery-point-offset-checkpoint"), "for files that are put back"
    broker.manager.close()
    assert [broker.disk.exists(f"{path}/.kafka_cleanshutdown") for path in broker.paths] == [False, True], (
        "what is put back is checked"
    )
    broker.start()
    assert broker.ends() == {("t", 1): 4, ("t", 2): 5}


def test_a_partition_that_is_made_while_a_directory_is_listed_is_not_missed() -> None:
    broker = Broker("/a")
    for partition in range(3):
        broker.fill("t", partition, 1)
    found: list[TopicPartition] = []
    steps = lose_removed(broker.manager, found.append)
    job = next(steps)
    assert job is not None
    job()
    broker.fill("new", 0, 1)
    assert next(steps) is None
    broker.manager.delete("t", 2)
    do_at_once(steps)
    assert found == []
    assert broker.ends() == {("t", 0): 1, ("t", 1): 1, ("new", 0): 1}


@pytest.mark.parametrize("is_back", [False, True])
def test_the_name_of_a_removed_partition_is_free_again_once_it_is_deleted_and_nothing_is_there(
    broker: Broker, *, is_back: bool
) -> None:
    broker.fill("t", 0, 4)
    remove_tree(broker.disk, broker.manager.logs["t", 0].path)
    assert lost(broker) == [("t", 0)]
    if is_back:
        broker.disk.makedirs("/a/t-0")
    forget_removed(broker.manager, ("t", 0))
    if is_back:
        with pytest.raises(StorageError, match="was removed while the broker was using it"):
            broker.fill("t", 0, 1)
        return
    broker.fill("t", 0, 1)
    broker.manager.close()
    assert all(broker.disk.exists(f"{path}/.kafka_cleanshutdown") for path in broker.paths)
    broker.start()
    assert broker.ends() == {("t", 0): 1}


@pytest.mark.parametrize("replaced", [True, False])
def test_a_segment_that_is_removed_or_replaced_is_noticed(broker: Broker, *, replaced: bool) -> None:
    broker.fill("t", 0, 4)
    active = broker.manager.logs["t", 0].segments.active.path(".log")
    data = broker.disk.read_bytes(active)
    broker.disk.remove(active)
    if replaced:
        broker.disk.write_bytes(active, data)
    assert lost(broker) == [("t", 0)]


def test_nothing_is_lost_of_logs_that_change(broker: Broker) -> None:
    broker.fill("t", 0, 7)
    broker.fill("t", 1, 1)
    broker.manager.logs["t", 0].apply_retention(NOW_MS + 7 * 86_400_000 + 1)
    broker.manager.logs["t", 1].truncate_to(0)
    broker.manager.delete("t", 1)
    broker.manager.set_aside("t", 0)
    broker.fill("t", 1, 1)
    assert lost(broker) == []


def test_a_log_directory_or_a_metadata_log_that_is_removed_is_offline(broker: Broker) -> None:
    broker.fill("__cluster_metadata", 0, 1)
    broker.fill("t", 0, 1)
    broker.fill("t", 1, 1)
    remove_tree(broker.disk, "/b")
    assert lost(broker) == []
    assert [directory.failed is not None for directory in broker.manager.directories] == [False, True]
    remove_tree(broker.disk, "/a/__cluster_metadata-0")
    assert lost(broker) == []
    assert "somebody has removed it" in (broker.manager.directories[0].failed or "")
