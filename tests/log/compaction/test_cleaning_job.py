"""log/compaction/cleaning_job.py: a job and what comes of it survive the way to another process, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

from ottla.log.compaction.cleaning_job import CleanedGroup, CleaningJob, CleaningStats
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
