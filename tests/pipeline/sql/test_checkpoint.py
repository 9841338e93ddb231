"""Tests of what is kept beside Spark's checkpoint, on files in memory; compat_tests/test_pipeline_run.py has real ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.pipeline.sql import checkpoint
from ottla.pipeline.sql.checkpoint import Checkpoint, Extent
from ottla.pipeline.sql.job import JobError, Sink, Stream

OUT, PEOPLE = Sink("out", "topic", "t"), Stream("people", "p", is_table=True)
THEN, LATER = Extent({0: 0, 1: 3}, {0: 5, 1: 3}), Extent({0: 2, 1: 3, 2: 0}, {0: 9, 1: 4, 2: 1})


class Disk(dict[str, str]):
    """Path below the checkpoint -> text; stands for the class Files."""

    address = "mem:/c"

    def __call__(self, _spark: Any, _directory: str) -> Disk:
        return self

    def make(self) -> bool:
        return True

    def names(self, name: str = "") -> list[str]:
        above = f"{name}/" if name else ""
        return list({path.removeprefix(above).partition("/")[0] for path in self if path.startswith(above)})

    def exists(self, name: str) -> bool:
        return name in self

    def read_json(self, name: str) -> Any:
        return json.loads(self[name]) if name in self else None

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        self[name] = json.dumps(content)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(checkpoint, "Files", made)
    return made


def opened() -> Checkpoint:
    return Checkpoint(None, "c")  # type: ignore[arg-type]  # only Files would ask it


def test_tasks_follow_the_topic_until_the_first_batch(disk: Disk) -> None:
    assert [opened().tasks(OUT, partitions, 7) for partitions in (2, 1, 3)] == [2, 1, 3]
    disk["out/offsets/0"] = ""
    assert [opened().tasks(OUT, partitions, 7) for partitions in (3, 5)] == [3, 3]
    assert opened().directory_of(OUT) == "mem:/c/out"
    disk["out/_ottla.json"] = '{"tasks": 1}'
    assert opened().tasks(OUT, 1, 7) == 1


@pytest.mark.parametrize(
    ("note", "partitions", "said"),
    [
        ('{"tasks": 3}', 2, "t has 2 partitions, and the checkpoint of out is of 3"),
        ('{"tasks": 0}', 2, "mem:/c/out/_ottla.json does not say by how many tasks the query into out writes"),
        ("[]", 2, "mem:/c/out/_ottla.json cannot be read: ottla did not write it"),
        ("{", 2, "mem:/c/out/_ottla.json cannot be read: Expecting property name"),
        (None, 2, "mem:/c/out/_ottla.json cannot be read: there is no such file, though the query has run"),
    ],
)
def test_tasks_that_cannot_be_known_are_an_error(disk: Disk, note: str | None, partitions: int, said: str) -> None:
    disk["out/offsets/0"] = ""
    if note is not None:
        disk["out/_ottla.json"] = note
    with pytest.raises(JobError) as raised:
        opened().tasks(OUT, partitions, 7)
    assert str(raised.value).startswith(said)


def test_a_table_stays_while_a_batch_of_any_query_runs_again(disk: Disk) -> None:
    assert opened().extent(PEOPLE, THEN) == THEN
    disk |= {"out/offsets/9": "", "out/offsets/10": "", "out/offsets/.10.crc": "", "out/commits/9": "", "else/offsets/0": ""}
    disk["else/commits/0"] = ""
    assert opened().unfinished == ["out"]
    for now in (THEN, LATER, LATER):
        assert opened().extent(PEOPLE, now) == THEN
    started = opened()
    disk["out/commits/10"] = ""
    assert started.extent(PEOPLE, LATER) == THEN  # the batch may have ended since: it ran in this start
    assert opened().extent(PEOPLE, LATER) == LATER
    disk["out/offsets/11"] = ""
    assert opened().extent(Stream("people", "other", is_table=True), THEN) == THEN  # the job was changed
    assert opened().extent(Stream("new", "p", is_table=True), LATER) == LATER


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ('{"topic": "p", "starts": {"0": 0}, "ends": {"0": 10}}', "topic p has lost records of a micro-batch of out"),
        ('{"topic": "p", "starts": {"7": 0}, "ends": {"7": 0}}', "topic p has lost records of a micro-batch of out"),
        ('{"topic": "p", "starts": {"0": 0}, "ends": 5}', "mem:/c/_ottla/people.json does not say where the table people lies"),
        (
            '{"topic": "p", "starts": {"0": "x"}, "ends": {}}',
            "mem:/c/_ottla/people.json does not say where the table people lies",
        ),
        ("{", "mem:/c/_ottla/people.json cannot be read: "),
    ],
)
def test_a_table_that_cannot_be_as_it_was_is_an_error(disk: Disk, note: str, said: str) -> None:
    disk |= {"out/offsets/0": "", "_ottla/people.json": note}
    with pytest.raises(JobError) as raised:
        opened().extent(PEOPLE, LATER)
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)
    disk["out/commits/0"] = ""
    assert opened().extent(PEOPLE, LATER) == LATER  # what it was is no matter any more
