"""One setting: what it is, its change for a topic, a group, a broker and all of them, and its way back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.commands.config_rows import Entry, Kind, Target
from ottla.commands.output import Failure
from ottla.console.cluster.source import Source
from ottla.console.subjects import settings as subject
from tests.console.browser import Browser, browsing, cells
from tests.console.fakes import FakeSource, topic_summary

Audited = Callable[[], list[str]]


def test_a_topics_setting_is_set_and_put_back(browser: Browser, topic: Callable[..., str], audited: Audited) -> None:
    name = topic("setting-topic")
    where = f"of=topic&name={name}&key=retention.ms"
    assert f"/setting?{where}".replace("&", "&amp;") in browser.get(f"/topics/{name}/settings").text
    page = browser.get(f"/setting?{where}").text
    assert "gives no documentation" not in page
    assert "<code>604800000</code>" in page
    assert "/setting/unset" not in page
    assert 'value="604800000"' in browser.get(f"/setting/set?{where}").text
    assert browser.post(f"/setting/set?{where}", value="many").status == 400
    answer = browser.post(f"/setting/set?{where}", value="1000")
    assert (answer.status, answer.headers["location"]) == (303, f"/topics/{name}/settings")
    page = browser.get(f"/setting?{where}").text
    assert cells(page)[3:6] == ["topic", "retention.ms", "1000"]
    assert "/setting/unset" in page
    assert "What counts then is " in browser.get(f"/setting/unset?{where}").text
    assert browser.post(f"/setting/unset?{where}", typed="retention").status == 400
    assert browser.post(f"/setting/unset?{where}", typed="retention.ms").status == 303
    assert "<code>604800000</code>" in browser.get(f"/setting?{where}").text
    lines = audited()
    assert lines[0].startswith(f"set topic '{name}' 'retention.ms' to 'many': failed: ")
    assert lines[1:] == [
        f"set topic '{name}' 'retention.ms' to '1000': done",
        f"unset topic '{name}' 'retention.ms': done",
    ]


def test_a_brokers_setting_is_set_for_one_and_for_all(browser: Browser, source: Source, audited: Audited) -> None:
    where = "of=broker&name=1&key=log.cleaner.backoff.ms"
    for everybody in ("1", ""):
        assert browser.post(f"/setting/set?{where}", value=f"1600{everybody}", everybody=everybody).status == 303
    key = "log.cleaner.backoff.ms"
    steps = [(step.source, step.value) for step in subject.detail(source, Target(Kind.BROKER, "1"), key).steps]
    assert steps[:2] == [("broker", "1600"), ("broker-defaults", "16001")]
    assert browser.post(f"/setting/unset?{where}", typed=key).status == 303
    page = browser.get(f"/setting?{where}").text
    after = f"/setting/unset?of=brokers&name=&key={key}"
    assert after.replace("&", "&amp;") in page
    assert browser.post(after, typed=key).status == 303
    assert subject.detail(source, Target(Kind.BROKER, "1"), key).entry.source == "default"
    assert audited() == [
        f"set broker defaults '{key}' to '16001': done",
        f"set broker '1' '{key}' to '1600': done",
        f"unset broker '1' '{key}': done",
        f"unset broker defaults '{key}': done",
    ]


def test_a_groups_settings(browser: Browser) -> None:
    where = "of=group&name=setting-group&key=consumer.session.timeout.ms"
    found = cells(browser.get("/group/settings?id=setting-group").text)
    assert found[4] == "None."
    answer = browser.post(f"/setting/set?{where}", value="50000")
    assert (answer.status, answer.headers["location"]) == (303, "/group/settings?id=setting-group")
    found = cells(browser.get("/group/settings?id=setting-group").text)
    assert found[4:7] == ["consumer.session.timeout.ms", "50000", "group"]


def test_a_secret_stays_one(monkeypatch: pytest.MonkeyPatch, audited: Audited) -> None:
    entry = Entry("ssl.key.password", "hunter2", "broker", False, True)
    changed: list[object] = []
    found = subject.Detail(entry, "a secret", "", [subject.Step("broker", "ssl.key.password", "hunter2")])
    monkeypatch.setattr(subject, "detail", lambda *_: found)
    monkeypatch.setattr(subject, "change", lambda _, *what: changed.append(what))
    where = "of=broker&name=1&key=ssl.key.password"
    with browsing(FakeSource()) as browser:
        pages = [browser.get(f"/setting{end}?{where}").text for end in ("", "/set")]
        pages.append(browser.post(f"/setting/set?{where}", value="hunter3\0").text)
        assert browser.post(f"/setting/set?{where}", value="hunter3").status == 303
    assert "hunter" not in "".join((*pages, *audited()))
    assert changed == [(Target(Kind.BROKER, "1"), "ssl.key.password", "hunter3")]
    assert audited()[-1] == "set broker '1' 'ssl.key.password' to a secret: done"


def test_a_secret_that_is_refused_stays_one(monkeypatch: pytest.MonkeyPatch, audited: Audited) -> None:
    def refuse(*_: object) -> None:
        raise Failure("Invalid value hunter3 for configuration ssl.key.password")

    found = subject.Detail(Entry("ssl.key.password", None, "broker", False, True), "a secret", "", [])
    monkeypatch.setattr(subject, "detail", lambda *_: found)
    monkeypatch.setattr(subject, "change", refuse)
    with browsing(FakeSource()) as browser:
        page = browser.post("/setting/set?of=broker&name=1&key=ssl.key.password", value="hunter3").text
    assert "Invalid value (secret) for configuration" in page
    assert "hunter3" not in page + "".join(audited())


def test_settings_that_there_are_not(browser: Browser) -> None:
    for query, status in (
        ("", 400),
        ("?of=moon&key=a", 400),
        ("?of=broker&name=x&key=a", 400),
        ("?of=broker&name=9&key=log.dirs", 404),
        ("?of=broker&name=1&key=no.such", 404),
        ("?of=broker&name=1", 404),
        ("?of=topic&name=setting-none&key=retention.ms", 404),
    ):
        assert browser.get(f"/setting{query}").status == status, query


def test_read_only_shows_settings_without_the_ways() -> None:
    with browsing(FakeSource([topic_summary("t")]), read_only=True) as browser:
        for path in (
            "/setting/set",
            "/setting/unset",
            "/access/new",
            "/transaction/abort",
            "/topics/t/partitions",
            "/group/delete",
        ):
            assert browser.get(path).status == 403


def test_a_group_without_a_name_has_no_settings(browser: Browser) -> None:
    for path in ("/group/settings?id=", "/setting?of=group&name=&key=k", "/setting/set?of=group&name=&key=k"):
        answer = browser.get(path)
        assert (answer.status, "A group without a name has no settings" in answer.text) == (404, True), path


@pytest.mark.parametrize(
    ("why", "status"), [("group g: malformed (INVALID_REQUEST)", 200), ("group INVALID_REQUEST: timed out", 502)]
)
def test_a_cluster_without_settings_of_groups_says_so(monkeypatch: pytest.MonkeyPatch, why: str, status: int) -> None:
    """Apache Kafka 3.9 answers so."""
    older = FakeSource()

    def refused(*_: object) -> list[Entry]:
        raise Failure(why)

    monkeypatch.setattr(older, "settings", refused)
    with browsing(older) as browser:
        answer = browser.get("/group/settings?id=g")
    assert (answer.status, subject.NO_GROUP_SETTINGS in answer.text) == (status, status == 200)
