"""Directories that one broker formatted and the other is the first to serve: StorageTool's, in its variants.

What it writes decides how the broker knows its quorum (kraft.version 0 by the settings, 1 by the directory) and which records it
may write (metadata.version). ottla must take either as it is and Apache Kafka must then find what it would have left itself.
A directory that ottla formatted is served by Kafka in test_cold_swap.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests import directory_history
from compat_tests.directory_history import BROKER, TOPIC, accepted, alter
from compat_tests.directory_manifest import differences, take
from compat_tests.directory_swap import Directory
from compat_tests.wire import batch


@pytest.mark.parametrize(
    ("options", "static_voters", "levels"),
    [
        (("--standalone", "--release-version", "4.0"), False, {"metadata.version": 25, "kraft.version": 1}),
        (("--feature", "group.version=0"), True, {"metadata.version": 33, "transaction.version": 2}),
    ],
    ids=["standalone, of release 4.0", "static voters"],
)
def test_what_storage_tool_formatted_is_served(
    options: tuple[str, ...], static_voters: bool, levels: dict[str, int], tmp_path: Path
) -> None:
    directory = Directory(tmp_path / "directory", static_voters=static_voters)
    directory.format(*options)
    with directory.served_by("ottla") as ottla:
        ottla.wire.warm_up()
        topic = ottla.wire.create("t", 3, retention_ms="86400000")
        accepted(ottla.wire, topic, batch(b"1", b"2"), partition=2)
        alter(ottla.wire, TOPIC, topic, max_message_bytes="100000")
        alter(ottla.wire, BROKER, "1", log_cleaner_threads="2")
        directory_history.delete_topic(ottla.wire, ottla.wire.create("gone", 1))
        directory_history.commit(ottla.wire, "group", topic, 1)
        written = take(ottla.address)
    with directory.served_by("kafka") as kafka:
        kafka.wire.warm_up()
        found = take(kafka.address)
        accepted(kafka.wire, topic, batch(b"3"), partition=2)
        accepted(kafka.wire, kafka.wire.create("u"), batch(b"4"))
        more = take(kafka.address)
    with directory.served_by("ottla") as ottla:
        last = take(ottla.address)
    assert levels.items() <= found["cluster"]["features"].items()
    assert not differences(written, found)
    assert not differences(more, last)
