"""One topic: partitions in pages, settings by who set them."""

from __future__ import annotations

from ottla.commands.config_rows import Entry, Kind
from tests.console.browser import browsing, cells
from tests.console.fakes import FakeSource, topic_summary


def test_partitions_with_what_is_wrong_with_them() -> None:
    with browsing(FakeSource([topic_summary("t", 2, under=2, offline=1)], stable_of={0: 12})) as browser:
        page = browser.get("/topics/t").text
    assert cells(page)[9:] == [
        *("0", "1", "1, 2", "▲ 1", "5", "12", "12", "7", "2.0 KiB"),
        *("1", "✕ none", "1, 2", "▲ 1", "5", "–", "12", "7", "2.0 KiB"),
    ]
    assert "held back" not in page


def test_what_an_open_transaction_holds_back_is_seen_and_what_came_meanwhile_is_not() -> None:
    with browsing(FakeSource([topic_summary("t", 3)], stable_of={0: 9, 1: 12, 2: 15})) as browser:
        page = browser.get("/topics/t").text
    assert cells(page)[14::9] == ["9 ○ 3 held back", "12", "12"]
    assert '<a href="/topics/t/producers" aria-label="Producers, partition 0">' in page


def test_many_partitions_are_shown_in_pages() -> None:
    source = FakeSource([topic_summary("t", 450)])
    with browsing(source) as browser:
        page = browser.get("/topics/t?page=3").text
    assert source.asked == [list(range(400, 450))]
    assert "401–450 of 450 partitions" in page
    assert "Size, here" in page


def test_settings_that_somebody_set_come_first_and_secrets_stay_hidden() -> None:
    entries = [
        Entry("a.default", "1", "default", False, False),
        Entry("b.mine", "2", "topic", False, False),
        Entry("c.secret", "hunter2", "topic", True, True),
        Entry("d.none", None, "file", False, False),
    ]
    source = FakeSource([topic_summary("t")], entries=entries)
    with browsing(source) as browser:
        page = browser.get("/topics/t/settings").text
    assert source.asked == [(Kind.TOPIC, "t")]
    assert cells(page) == [
        *("Setting", "Value", "Source", "Changes", "b.mine", "2", "topic", "while it runs"),
        *("c.secret", "secret", "topic", "only at start"),
        *("Setting", "Value", "Source", "Changes", "a.default", "1", "default", "while it runs"),
        *("d.none", "none", "file", "while it runs"),
    ]
    assert "hunter2" not in page


def test_read_only_shows_no_way_to_change_anything() -> None:
    for read_only, there in ((False, True), (True, False)):
        with browsing(FakeSource([topic_summary("t")]), read_only=read_only) as browser:
            pages = [browser.get(path).text for path in ("/topics/t", "/topics", "/topics/t/settings")]
        assert any('/produce"' in page or "/delete" in page or "/new-topic" in page for page in pages) is there


def test_a_topic_that_is_not_there() -> None:
    with browsing(FakeSource()) as browser:
        for path in (
            "/topics/t",
            "/topics/t/settings",
            "/topics/t/messages",
            "/topics/t/0/0",
            "/topics/t/produce",
            "/topics/t/delete",
        ):
            answer = browser.get(path)
            assert answer.status == 404
            assert "There is no topic t." in answer.text
