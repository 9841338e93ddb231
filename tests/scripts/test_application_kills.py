"""Tests of what scripts/application_kills.py and its parts in compat_tests decide without a cluster: which lines are missing or
there again, what was miscounted, and what the ledger of proofs says of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from compat_tests.cluster import work_of_connect
from compat_tests.cluster.mixed import Mixed
from compat_tests.cluster.work_of_connect import Connecting, ConnectingOnce, _reason
from compat_tests.cluster.work_of_transactions import ClassicWordCounting
from compat_tests.cluster.workload import Workload, disturbances
from compat_tests.connect import TOPICS, Files
from scripts import proofs
from scripts.application_kills import Played


@pytest.fixture
def cluster(tmp_path: Path) -> Mixed:
    """Of which nothing runs."""
    return Mixed(tmp_path, ["ottla", "ottla", "kafka"])


class Line:
    """A record of the topic."""

    def __init__(self, number: int, partition: int = 0) -> None:
        self._value, self._partition = f'"line {number}"'.encode(), partition

    def value(self) -> bytes:
        return self._value

    def partition(self) -> int:
        return self._partition


class Asked:
    """A worker that answers like this, or that is gone."""

    def __init__(self, *, gone: bool = False, failed: Iterable[str] = (), **settings: dict[str, str]) -> None:
        self.gone, self.failed, self.settings, self.restarted = gone, list(failed), settings, 0
        self.position = 0

    def status(self, name: str) -> Any:
        if self.gone:
            raise ConnectionRefusedError
        tasks = [{"state": "FAILED", "worker_id": "b", "trace": trace} for trace in self.failed]
        return {
            "connector": {"state": "RUNNING", "worker_id": "a"},
            "tasks": tasks or [{"state": "RUNNING", "worker_id": "b"}],
        }

    def restart(self, name: str, *, only_failed: bool = False) -> None:
        self.restarted += only_failed

    def settled(self, method: str, path: str) -> Any:
        name = path.rpartition("/")[2]
        return {"config": self.settings[name] | {"name": name}}

    def offsets(self, name: str) -> list[Any]:
        return [{"offset": {"position": self.position}}]


class Known:
    """An administrator whose internal topics have so many replicas."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas

    def list_topics(self, timeout: float) -> Any:
        class Found:
            def __init__(self, **fields: Any) -> None:
                self.__dict__ |= fields

        partition = Found(replicas=[1, 2, 3][: self._replicas])
        return Found(topics={name: Found(partitions=dict.fromkeys(range(count), partition)) for name, count in TOPICS.items()})


def through(
    kind: type[Connecting], cluster: Mixed, directory: Path, monkeypatch: pytest.MonkeyPatch, lines: Iterable[Line]
) -> Connecting:
    """Three lines that came to the other file, and to the topic as is said."""
    work = kind(cluster, directory)
    work.files = Files(directory)
    work.files.write(3)
    work.files.sink.write_text(work.files.source.read_text())
    work._connectors = {"source": {"a": "b"}}
    worker: Any = Asked(source={"a": "b"})
    worker.position = work.files.source.stat().st_size
    work.workers = [worker]
    cluster.__dict__["admin"] = Known(3)
    monkeypatch.setattr(work_of_connect, "committed_records", lambda *_: list(lines))
    return work


@pytest.mark.parametrize("kind", [Connecting, ConnectingOnce])
def test_lines_that_came_once_pass_and_missing_ones_are_found(
    kind: type[Connecting], cluster: Mixed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert through(kind, cluster, tmp_path, monkeypatch, [Line(0), Line(2, 1), Line(1)]).faults() == []
    lost = through(kind, cluster, tmp_path, monkeypatch, [Line(0), Line(2)])
    lost.files.sink.write_text("line 1\nline 2\n")
    assert lost.faults() == [
        f"{kind.kind}: 1 lines are not in the topic, the first is line 1",
        f"{kind.kind}: 1 lines did not come to the other file, the first is line 0",
    ]


def test_a_line_may_come_again_unless_the_source_promises_once(
    cluster: Mixed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [Line(0), Line(1), Line(1, 2), Line(2)]
    often = through(Connecting, cluster, tmp_path, monkeypatch, lines)
    assert (often.faults(), often.told["came to the topic again"]) == ([], 1)
    once = through(ConnectingOnce, cluster, tmp_path, monkeypatch, lines)
    assert once.faults() == ["connect-once: 1 lines are in the topic again, the first is line 1"]


def test_settings_and_internal_topics_that_are_not_as_they_were_are_found(
    cluster: Mixed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = through(Connecting, cluster, tmp_path, monkeypatch, map(Line, range(3)))
    work._connectors = {"source": {"a": "c"}}
    cluster.__dict__["admin"] = Known(2)
    first, *others = work.faults()
    assert first == "connect: the settings of source were {'a': 'c'}, and are {'a': 'b', 'name': 'source'}"
    assert len(others) == len(TOPICS)


def test_tasks_that_failed_are_restarted_by_a_worker_that_is_there(cluster: Mixed, tmp_path: Path) -> None:
    work = Connecting(cluster, tmp_path)
    gone: Any = Asked(gone=True)
    there: Any = Asked(failed=["a.b.ConnectException: x\n\tat c\nCaused by: d.e.TimeoutException: y\n\tat f"])
    work.workers = [gone, there]
    (task,) = work._failed("source")
    assert there.restarted == 1
    assert _reason(task["trace"]) == "TimeoutException"
    assert _reason("a.b.ConnectException: x\n\tat c") == "ConnectException"


@pytest.mark.parametrize("kind", [Connecting, ConnectingOnce])
def test_a_batch_of_the_source_takes_all_that_may_wait_in_its_file(
    kind: type[Connecting], cluster: Mixed, tmp_path: Path
) -> None:
    """Lines that Kafka's FileStreamSource has read beyond a whole batch wait until the file grows."""
    most = work_of_connect.MOST_LINES + work_of_connect.LINES_AT_ONCE
    assert int(kind(cluster, tmp_path).source_settings()["batch_size"]) > most


def test_a_word_that_is_counted_twice_or_not_is_found(cluster: Mixed, tmp_path: Path) -> None:
    work = ClassicWordCounting(cluster, tmp_path)
    work._words.update({"a": 2, "b": 1})
    work._counts |= {"a": [1, 2], "b": [1]}
    assert work.faults() == []
    work._counts["a"] = [1, 2, 3]
    assert work.faults() == ["classic-streams: 1 words were miscounted, a: [1, 2, 3]"]
    work._counts["a"] = [2]
    assert len(work.faults()) == 1


def test_each_broker_is_killed_and_then_the_application(cluster: Mixed, tmp_path: Path) -> None:
    load = Workload(cluster)
    kills = ["kill of 1, ottla", "kill of 2, ottla", "kill of 3, kafka"]
    of_streams = list(disturbances(load, ClassicWordCounting(cluster, tmp_path)))
    of_connect = list(disturbances(load, Connecting(cluster, tmp_path)))
    assert [each.said for each in of_streams] == [*kills, "kill of the application"]
    assert [each.said for each in of_connect] == [*kills, "kill of a worker", "restart of the connectors"]
    assert [each.said for each in of_connect if each.is_kill] == kills


def test_what_was_played_is_in_the_ledger_and_on_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "proofs.json"
    real = proofs.record
    monkeypatch.setattr(proofs, "record", lambda *given, **more: real(*given, **more, path=path))
    origin = {"date": "2026-11-28", "commit": "1a2b3c4", "machine": "a machine"}
    Played("connect", "ook", [9.0, 12.34], 4, 5000, 3).record(origin)
    Played("connect", "ook", [11.0], 1, 1000, wrong="1 lines are not in the topic").record(origin)
    assert "| connect | ook | 3 | 5 | 6,000 | 3 | 12.3 s |" in path.with_suffix(".md").read_text()
    assert [each["what"] for each in json.loads(path.read_text())["findings"]] == ["ook, connect: 1 lines are not in the topic"]
