"""Log directories, with what is in one of them."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest

from ottla.commands.clients.brokers import Brokers
from ottla.commands.clients.partition import Partition
from ottla.commands.output import Failure
from ottla.console.cluster.source import Source
from ottla.console.subjects import storage as subject
from tests.console.browser import Browser, browsing, cells
from tests.console.conftest import Records
from tests.console.fakes import FakeSource


def test_the_directory_of_a_broker_and_what_is_in_it(browser: Browser, topic: Callable[..., str], produced: Records) -> None:
    name = topic("storage")
    produced(name, b"x" * 100_000)
    path, broker, state, replicas, moving, *_ = cells(browser.get("/broker/directories").text)[8:]
    assert (broker, state, moving) == ("1", "● online", "0")
    assert int(replicas) >= 1
    page = browser.get(f"/broker/directory?broker=1&path={quote(path, safe='')}").text
    shown = cells(page)
    at = shown.index(name)  # other tests' topics are there, too
    assert shown[at : at + 5] == [name, "0", "97.7 KiB", "0", "● in use"]
    assert browser.get("/broker/directory?broker=1&path=/none").status == 404
    assert browser.get("/broker/directory?broker=x&path=/none").status == 400


def test_what_is_wrong_with_a_directory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = subject.Replica(Partition("t", 1), 2048, 7, is_future=True)
    found = [
        subject.Directory(1, "/a", "closed", None, None, False, [replica]),
        subject.Directory(2, "/b", None, 1 << 30, 1 << 20, True, []),
    ]
    monkeypatch.setattr(subject, "directories", lambda _, broker=None: (found, ["note"]))
    with browsing(FakeSource()) as browser:
        page = browser.get("/broker/directories").text
        inside = browser.get("/broker/directory?broker=1&path=/a").text
    assert "<li>note</li>" in page
    assert cells(page)[8:] == [
        *("/a", "1", "✕ offline: closed", "1", "1", "2.0 KiB", "–", "–"),
        *("/b", "2", "▲ nearly full, cordoned", "0", "0", "0 B", "1.0 GiB", "1.0 MiB"),
    ]
    assert cells(inside)[5:] == ["t", "1", "2.0 KiB", "7", "▲ will replace the one elsewhere"]


def test_many_directories_are_counted_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    one = subject.Directory(1, "/a", None, None, None, False, [])
    monkeypatch.setattr(subject, "directories", lambda _, broker=None: ([one] * 201, []))
    with browsing(FakeSource()) as browser:
        assert "1–200 of 201 directories" in browser.get("/broker/directories").text


def test_if_no_broker_answers_that_is_a_failure(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object) -> None:
        raise Failure("closed")

    monkeypatch.setattr(Brokers, "at", closed)
    with pytest.raises(Failure, match="closed"):
        subject.directories(source)


def test_without_replicas_the_disks_are_there_all_the_same(source: Source, topic: Callable[..., str]) -> None:
    topic("storage-short")
    source.changed()
    (whole,), _ = subject.directories(source)
    (short,), notes = subject.directories(source, with_replicas=False)
    assert whole.replicas
    assert notes == []
    assert (short.path, short.total_bytes, list(short.replicas)) == (whole.path, whole.total_bytes, [])
    assert short.used_bytes is not None


def test_how_full_a_disk_is() -> None:
    def disk(total: int | None, usable: int | None) -> tuple[int | None, bool]:
        one = subject.Directory(1, "/a", None, total, usable, False, [])
        return one.used_bytes, one.is_nearly_full

    assert disk(100, 5) == (95, False)
    assert disk(1000, 49) == (951, True)
    assert disk(None, None) == (None, False)
    assert disk(100, 101) == (0, False)
