"""log/compaction/cleaning_job.py: a job and what comes of it survive the way to another process, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

from ottla.log.compaction.cleaning_job import CleanedGroup, CleaningJob, CleaningStats
from ottla.log.compaction.filtered_batch import Rules
from ottla.log.compaction.offset_map import OffsetMap
from ottla.wire.batch import read_header
from ottla.wire.records import Record, build_batch
from tests.log.compaction.cleaning import CleanerRig


def test_a_job_travels() -> None:
    rig = CleanerRig()
    rig.put_each([0, 1, 0])
    job = rig.begin().job
    again = CleaningJob(**json.loads(json.dumps(job.fields())))
    assert again.fields().keys() == set(CleaningJob.__slots__)
    assert json.dumps(again.fields()) == json.dumps(job.fields())
    assert [tuple(each) for each in again.segments] == job.segments != []
    assert (again.topic, again.partition, again.path) == ("t", 0, rig.path)


def test_rules_are_made_of_a_job_that_travelled() -> None:
    """JSON makes lists of tuples, and compiled code checks what it is given."""
    rig = CleanerRig()
    rig.put((b"a", b"1"), producer=(7, 0, 0))
    rig.put((b"a", b"2"))
    again = CleaningJob(**json.loads(json.dumps(rig.begin().job.fields())))
    rules = Rules(OffsetMap(1000, 0.9, again.hash_seed), again)
    header = read_header(build_batch([Record(0, 1, b"a", b"1", [])], producer_id=7, producer_epoch=0, base_sequence=0))
    assert rules.stays_empty(header)
    assert not rules.stays_empty(header.replace(producer_id=8))


def test_fields_are_not_copied() -> None:
    rig = CleanerRig()
    rig.put_each([0, 0])
    job = rig.begin().job
    assert job.fields()["producers"] is job.producers


def test_what_comes_back_travels() -> None:
    group = CleanedGroup(5, 100, [5, 7], 9)
    assert CleanedGroup(*json.loads(json.dumps(group))) == group
    stats = CleaningStats(end_offset=9, bytes_read=3, map_utilization=0.5)
    assert CleaningStats(**json.loads(json.dumps(asdict(stats)))) == stats
