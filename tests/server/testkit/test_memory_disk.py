"""The disk in memory: what is durable in it, also if several threads use it."""

from __future__ import annotations

import sys
import threading
from random import Random

from ottla.server.testkit.memory_disk import MemoryDisk


def test_a_synced_tree_outlasts_the_power() -> None:
    disk = MemoryDisk()
    disk.makedirs("/kit/copy/orders-0")
    disk.open("/kit/copy/orders-0/log", create=True).append([b"abc"])
    disk.write_bytes("/kit/copy/meta", b"x", sync=False)
    disk.makedirs("/kit/other")
    disk.sync_tree("/kit/copy")
    disk.crash()
    assert disk.list("/kit/copy") == ["meta", "orders-0"]
    assert disk.read_bytes("/kit/copy/orders-0/log") == b"abc"


def test_a_lock_knows_whether_the_power_was_cut() -> None:
    disk = MemoryDisk()
    disk.makedirs("/d")
    lock = disk.lock("/d/.lock")
    lock.note_boot()
    lock.release()
    again = disk.lock("/d/.lock")
    assert again.same_boot
    disk.crash(Random(1))
    disk.makedirs("/d")
    assert not disk.lock("/d/.lock").same_boot


def test_what_is_written_beside_an_fsync_is_durable_with_the_next() -> None:
    disk = MemoryDisk()
    disk.makedirs("/d")
    file = disk.open("/d/log", create=True)
    disk.sync_tree("/d")
    stop = threading.Event()

    def sync() -> None:
        while not stop.is_set():
            file.sync()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=sync)
    thread.start()
    try:
        for number in range(3000):
            file.append([bytes((number % 256,))])
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    file.sync()
    disk.crash()
    assert disk.read_bytes("/d/log") == bytes(number % 256 for number in range(3000))
