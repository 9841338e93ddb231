"""The pages of a data directory: logs, segments, batches, records and small files; nothing on disk changes by looking."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.console.hostile import HOSTILE
from ottla.commands.config_rows import Entry
from ottla.console.disk import batches
from ottla.console.disk.directory import Directory, open_all
from ottla.console.rendering.templates import segment
from ottla.console.rendering.text import visible
from ottla.console.web.app import Beside
from ottla.log.disk.checkpoint import RECOVERY_POINTS, encode_offsets
from ottla.wire.records import Record, build_batch
from tests.console.browser import Browser, browsing, cells, check_page
from tests.console.disk.written import CODECS, FIRST, append, fingerprint, flip, new_log, write_meta, write_orders
from tests.console.fakes import FakeSource, topic_summary

SEGMENT = f"/files/orders-0/{FIRST}"


def looking(path: Path, source: FakeSource | None = None) -> Browser:
    return Browser(source or FakeSource(), beside=Beside((Directory(path),), source is not None))


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    write_orders(tmp_path)
    made = looking(tmp_path)
    yield made
    made.close()


def every_path(path: Path) -> list[str]:
    names = [one.name for one in (path / "orders-0").iterdir()]
    return [
        *("/files", "/files?q=x", "/files/orders-0", SEGMENT, f"{SEGMENT}?records=1", f"{SEGMENT}?batch=0", f"{SEGMENT}?check=1"),
        *(f"/files/orders-0/{name}" for name in names),
        *(f"/file/{one.name}" for one in path.iterdir() if one.is_file() and one.name != ".lock"),
    ]


def test_nothing_on_disk_changes(browser: Browser, tmp_path: Path) -> None:
    before = fingerprint(tmp_path)
    for path in every_path(tmp_path):
        assert browser.get(path).status == 200, path
    assert fingerprint(tmp_path) == before


def test_without_a_cluster_its_pages_say_what_would_bring_one(browser: Browser) -> None:
    answer = browser.get("/")
    assert (answer.status, answer.headers["location"]) == (303, "/files")
    for path in ("/topics", "/groups", "/brokers", "/topics/t/messages", "/new-topic"):
        answer = browser.get(path)
        assert answer.status == 404
        assert "start it with --bootstrap HOST:PORT" in answer.text
    assert browser.post("/new-topic", name="x").status == 405
    assert 'href="/topics"' not in browser.get("/files").text


def test_without_a_directory_its_pages_say_what_would_bring_one() -> None:
    with browsing(FakeSource([topic_summary("t")])) as browser:
        for path in ("/files", "/files/orders-0", SEGMENT, "/file/meta.properties"):
            answer = browser.get(path)
            assert answer.status == 404
            assert "start it with --data-dir DIR" in answer.text
        assert 'href="/files"' not in browser.get("/").text


def test_the_directory(browser: Browser) -> None:
    page = browser.get("/files").text
    assert "the last stop was clean" in page
    assert "the-cluster" in page
    assert cells(page)[6:10] == ["orders-0", "1", cells(page)[8], "0"]
    assert "No log has such a name" in browser.get("/files?q=x").text
    assert cells(browser.get("/file/meta.properties").text)[2:] == [
        *("node.id", "1", "directory.id", "AAAAAAAAAAAAAAAAAAAAAQ", "version", "1", "cluster.id", "the-cluster")
    ]


def test_several_directories_each_with_its_own_files(tmp_path: Path) -> None:
    for name, topic in (("one", "orders"), ("two", "paid")):
        (tmp_path / name).mkdir()
        log = new_log(tmp_path / name, topic)
        append(log, 2, value=name.encode())
        log.close()
        write_meta(tmp_path / name)
    both = open_all([tmp_path / "one", tmp_path / "two"])
    with browsing(FakeSource(), beside=Beside(both, False)) as browser:
        first, second = browser.get("/files").text, browser.get("/files?dir=2").text
        assert "orders-0" in first
        assert "paid-0" in second
        assert "paid-0" not in first
        assert f'<a href="/files?dir=2">{tmp_path}/two</a>' in first
        for path in ("/files/2%3Apaid-0", f"/files/2%3Apaid-0/{FIRST}", "/file/2%3Ameta.properties"):
            assert browser.get(path).status == 200
        assert f'href="{path}"' in second
        page = browser.get("/files/2%3Apaid-0").text
        assert page.count(f'href="/files/2%3Apaid-0/{FIRST}') == 2  # in the table, and in the picture
        assert 'href="/files?dir=2"' in page
        assert "two" in browser.get(f"/files/2%3Apaid-0/{FIRST}?records=1").text
        for path in ("/files/1%3Apaid-0", "/files/paid-0", "/files/3%3Apaid-0", "/file/meta.properties"):
            assert browser.get(path).status == 404
        assert browser.get("/files?dir=3").status == 400


def test_many_logs_are_shown_in_pages(tmp_path: Path) -> None:
    for number in range(250):
        (tmp_path / f"t-{number}").mkdir()
    with browsing(FakeSource(), beside=Beside((Directory(tmp_path),), False)) as browser:
        page = browser.get("/files?page=2").text
    assert "201–250 of 250 logs" in page
    assert cells(page)[6] == "t-200"


def test_a_log_and_what_retention_takes(tmp_path: Path) -> None:
    log = new_log(tmp_path, "orders", internal_segment_bytes="1000")
    for _ in range(12):
        append(log, 2, value=bytes(300), time_ms=1_000_000)
    log.close()
    write_meta(tmp_path)
    (tmp_path / RECOVERY_POINTS).write_bytes(encode_offsets({("orders", 0): 24}))
    for name in (f"{0:020d}", "a?b%"):
        (tmp_path / "orders-0" / f"{name}.log.deleted").write_bytes(b"x")
    browser = looking(tmp_path)
    page = browser.get("/files/orders-0").text
    assert "The next pass of retention takes 8 segments: retention.ms." in page  # those below the high watermark, 17
    assert page.count("<td>▲ retention takes it next</td>") == page.count(", retention takes it next</title>") == 8
    assert "● active" in page
    assert "<title>00000000000000000000.log.deleted, 1 B, deleted</title>" in page
    assert page.count('href="/files/orders-0/a%3Fb%25.log.deleted"') == 2  # in the picture, and in the table
    assert "removed from the log; its file goes" in page
    browser.close()


def test_settings_come_from_the_cluster_if_it_is_the_same(tmp_path: Path) -> None:
    write_orders(tmp_path)
    entries = [Entry("retention.ms", "12345", "topic", False, False)]
    for cluster, whence in (
        ("the-cluster", "as the cluster has them"),
        ("another", "not the one that this directory belongs to"),
    ):
        source = FakeSource([topic_summary("orders")], entries=entries, cluster_id=cluster)
        browser = looking(tmp_path, source)
        page = browser.get("/files/orders-0").text
        assert whence in page
        assert ("12345" in page) is (cluster == "the-cluster")
        browser.close()


def test_a_segment_with_every_codec(browser: Browser) -> None:
    page = browser.get(SEGMENT).text
    assert "Every batch and index of this segment is sound" in page
    rows = [cells(page)[at : at + 8] for at in range(8, 8 + 7 * 8, 8)]
    assert [row[1] for row in rows] == ["0–0", "1–2", "3–5", "6–9", "10–14", "15–15", "16–16"]
    assert [row[4] for row in rows[:5]] == list(CODECS)
    assert rows[5][7].startswith("▲ aborted")
    assert rows[6][7].startswith("ABORT marker")
    assert page.count('<a href="?batch=') == 2 * 7
    assert "offsets 10 to 14" in page
    for codec in CODECS[1:]:
        assert f'fill="url(#p-{codec})"' in page
    assert "Aborted transactions with records here" in page


def test_damage_with_its_remedy(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "orders-0" / FIRST
    positions = [int(one) for one in re.findall(r'<a href="\?batch=(\d+)" tab', browser.get(SEGMENT).text)]
    flip(path, positions[2] + 70)
    path.write_bytes(path.read_bytes()[:-9])
    page = browser.get(SEGMENT).text
    assert "2 findings in this segment" in page
    assert "ottla log repair --dry-run" in page
    assert "<strong>corruption</strong>" in page
    assert page.count('fill="url(#p-damage)"') == 2 + 1
    answer = browser.get(f"{SEGMENT}?batch={positions[2]}")
    assert answer.status == 200
    assert "Damaged: CRC 0x" in answer.text
    assert "but the bytes from 21 on give 0x" in answer.text
    assert "No whole batch begins here" in browser.get(f"{SEGMENT}?batch={positions[6]}").text
    assert "CRC 0x" in browser.get(f"{SEGMENT}?records=1").text


def test_a_torn_tail_that_was_not_synced_is_called_so(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "orders-0" / FIRST
    (tmp_path / RECOVERY_POINTS).write_bytes(encode_offsets({("orders", 0): 0}))
    (tmp_path / ".kafka_cleanshutdown").unlink()
    path.write_bytes(path.read_bytes()[:-9])
    page = browser.get(SEGMENT).text
    assert "<strong>torn tail</strong>" in page
    assert "repair cuts it off" in page


def test_a_batch_by_its_bytes(browser: Browser) -> None:
    positions = re.findall(r'<a href="\?batch=(\d+)" tab', browser.get(SEGMENT).text)
    page = browser.get(f"{SEGMENT}?batch={positions[1]}").text
    found = cells(page)
    assert found[4:8] == ["0–7", "base offset", "1", ""]
    assert found[found.index("CRC-32C") + 2] == "equal to what the bytes from 21 on give"
    assert found[found.index("attributes") + 1 : found.index("attributes") + 3] == ["0x0001", "gzip, CreateTime"]
    assert "times as much" in page
    assert found[-10:-5] == ["1", found[-9], "key-0", "<b>value</b>" * 8, ""]
    assert "ABORT" in browser.get(f"{SEGMENT}?batch={positions[6]}").text
    answer = browser.get(f"{SEGMENT}?batch=3")
    assert answer.status == 404
    assert f"the next one begins at {positions[1]}" in answer.text


def test_places_that_are_none(browser: Browser) -> None:
    for query in ("at=x", "at=-1", "offset=x", "batch=x", "batch=-3", "records=1&at=%00"):
        assert browser.get(f"{SEGMENT}?{query}").status == 400, query
    for path in ("/files/nothing-0", "/files/orders-0/nothing", "/file/nothing", "/files/orders-0/..", "/file/orders-0"):
        assert browser.get(path).status == 404, path
    assert "No batch here" in browser.get(f"{SEGMENT}?at=999999999").text
    assert cells(browser.get(f"{SEGMENT}?offset=12").text)[9] == "10–14"


def test_a_large_batch_is_shown_in_pages(tmp_path: Path) -> None:
    log = new_log(tmp_path, "orders")
    append(log, 250, codec=3)
    log.close()
    browser = looking(tmp_path)
    page = browser.get(f"{SEGMENT}?batch=0&page=3").text
    assert cells(page)[-5] == "249"
    assert "← Previous" in page
    assert "Next →" not in page
    assert len(browser.get(f"{SEGMENT}?batch=0").body) < 60_000
    browser.close()


def test_indexes_in_pages(tmp_path: Path) -> None:
    log = new_log(tmp_path, "orders", index_interval_bytes="0")
    for _ in range(250):
        append(log, 1, value=b"")
    log.close()
    browser = looking(tmp_path)
    name = f"/files/orders-0/{0:020d}.index"
    assert "from 201 on" in browser.get(f"{name}?page=2").text
    assert len(browser.get(SEGMENT).body) < 60_000
    (tmp_path / "orders-0" / f"{0:020d}.index").write_bytes(b"\0\0\0\5\0\0\0\7\0\0")
    page = browser.get(name).text
    assert "no batch with that offset begins there" in page
    assert "2 problems here" in page
    browser.close()


def test_hostile_records_and_names(tmp_path: Path) -> None:
    log = new_log(tmp_path, "orders")
    log.append_as_leader(
        build_batch([Record(0, 1, one.encode(), one.encode(), [(one, None)]) for one in HOSTILE]), leader_epoch=0
    )
    log.close()
    usable = [value for value in HOSTILE if 0 < len(value.encode()) < 200 and not set(value) & {"/", "\0"}]
    for value in usable:
        (tmp_path / f"{value}-1").mkdir()
        (tmp_path / f"x{value}").touch()
        (tmp_path / "orders-0" / f"{value}y").touch()
        (tmp_path / f"{value}-1" / f"{0:020d}.log").touch()
    (tmp_path / "meta.properties").write_text(f"version=1\nnode.id=1\ndirectory.id={HOSTILE[0]}\ncluster.id={HOSTILE[1]}\n")
    with browsing(FakeSource(), beside=Beside((Directory(tmp_path),), False)) as browser:
        texts = ""
        for page in range(1, 4):
            texts += "".join(check_page(browser.get(f"/files?page={page}").text).texts)
            texts += "".join(check_page(browser.get(f"{SEGMENT}?batch=0&page={page}").text).texts)
        assert [value for value in HOSTILE[:2] + usable if visible(f"{value}-1") not in texts] == HOSTILE[:2]
        assert [value for value in HOSTILE if visible(value[:300]) not in texts] == []
        assert browser.get("/files/orders-0").status == 200
        for value in usable[::8]:
            name = segment(f"{value}-1")
            assert {browser.get(f"/files/{name}{end}").status for end in ("", f"/{FIRST}")} <= {200, 404}, value
            assert browser.get(f"/files?q={segment(value)}").status == 200
            assert browser.get(f"{SEGMENT}?offset={segment(value)}").status in {200, 400}


def test_bytes_of_a_metadata_log_that_is_out_of_use_are_not_shown(tmp_path: Path) -> None:
    for name, shows in ((f"__cluster_metadata-0.{'a' * 32}-stray", False), ("orders-0", True)):
        (tmp_path / name).mkdir()
        (tmp_path / name / FIRST).write_bytes(b"\xff" * 20 + b"hunter2" + b"\xff" * 60)
        with browsing(FakeSource(), beside=Beside((Directory(tmp_path),), False)) as browser:
            page = browser.get(f"/files/{name}/{FIRST}?batch=0").text
        assert "No whole batch begins here" in page
        assert ("hunter2" in page) is shows


def test_an_end_that_takes_too_long_to_find_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_orders(tmp_path)
    for cut in (False, True):
        monkeypatch.setattr(batches, "WITHIN_S", -1.0 if cut else 4.0)
        with browsing(FakeSource(), beside=Beside((Directory(tmp_path),), False)) as browser:
            page = browser.get("/files/orders-0").text
        assert f"<dt>End</dt><dd>{'–' if cut else '17'}</dd>" in page, cut


def test_however_many_files_there_are_a_page_shows_some_and_counts_the_others(tmp_path: Path) -> None:
    segment = write_orders(tmp_path)
    for number in range(1, 251):
        (tmp_path / f"x{number}").write_bytes(b"x")
        (segment.parent / f"{number:020d}.log.deleted").write_bytes(b"x")
    browser = looking(tmp_path)
    assert "and 54 more" in browser.get("/files").text
    page = browser.get("/files/orders-0").text
    assert page.count(".log.deleted, 1 B, deleted</title>") == 200
    browser.close()
