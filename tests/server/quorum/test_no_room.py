"""Full log directories: when a broker lets others lead, and for how long."""

from __future__ import annotations

import pytest

from ottla.log.disk.directory import LogDirectory
from ottla.log.disk.files import OpenFiles
from ottla.server.metadata.image import MetadataImage
from ottla.server.quorum.no_room import should_stand_back
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.topic_record import TopicRecord
from tests.memdisk import MemDisk

NODE, OTHER = 1, 2
TOPIC_ID = bytes(15) + b"t"


def image(*partitions: tuple[int, list[int]]) -> MetadataImage:
    """Returns an image with a topic whose partitions have these leaders and in-sync replicas."""
    made = MetadataImage("cluster")
    made.apply_all([TopicRecord("t", TOPIC_ID)], 0)
    for index, (leader, isr) in enumerate(partitions):
        record = PartitionRecord(index, TOPIC_ID, [NODE, OTHER], isr, leader=leader, directories=[bytes(16)] * 2)
        made.apply_all([record], index + 1)
    return made


def directory(full: bool, failed: str | None = None) -> LogDirectory:
    disk = MemDisk(lambda: 0)
    made = LogDirectory(disk, "/d", OpenFiles(10))
    made.full, made.failed = full, failed
    return made


LEADS = image((OTHER, [OTHER]), (NODE, [OTHER, NODE]))
ALONE = image((NODE, [NODE]), (OTHER, [OTHER, NODE]))


@pytest.mark.parametrize(
    ("directories", "stands_back"),
    [
        ([directory(True)], True),
        ([directory(True), directory(True)], True),
        ([directory(True), directory(False)], False),
        ([directory(True), directory(False, "a failed write")], True),
        ([directory(False)], False),
        ([directory(True, "a failed write")], False),
    ],
)
def test_all_directories_that_work_have_to_be_full(directories: list[LogDirectory], stands_back: bool) -> None:
    assert should_stand_back(LEADS, NODE, directories, stands_back=False) is stands_back
    assert should_stand_back(LEADS, NODE, directories, stands_back=True) is stands_back


def test_it_has_to_lead_what_somebody_else_could() -> None:
    assert not should_stand_back(ALONE, NODE, [directory(True)], stands_back=False)
    assert should_stand_back(ALONE, OTHER, [directory(True)], stands_back=False)


def test_it_stays_so_after_others_have_taken_over() -> None:
    assert should_stand_back(ALONE, NODE, [directory(True)], stands_back=True)
    assert not should_stand_back(ALONE, NODE, [directory(False)], stands_back=True)
