"""Topics are created and deleted, and only by who means it."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from ottla.console.cluster.source import Held
from tests.console.browser import Browser, browsing
from tests.console.fakes import FakeSource, topic_summary


def names(admin: AdminClient) -> set[str]:
    return set(admin.list_topics(timeout=30).topics)


def test_a_topic_is_created_as_the_form_says(browser: Browser, admin: AdminClient, caplog: pytest.LogCaptureFixture) -> None:
    settings = "retention.ms = 86400000\r\n\r\ncleanup.policy=compact,delete\r\n"
    with caplog.at_level(logging.INFO, "ottla.console.audit"):
        answer = browser.post("/new-topic", name=" changes-new ", partitions="3", replicas="1", settings=settings)
    assert (answer.status, answer.headers["location"]) == (303, "/topics/changes-new")
    assert browser.get("/topics/changes-new").status == 200  # the list of topics is asked for anew
    assert len(admin.list_topics(timeout=30).topics["changes-new"].partitions) == 3
    (found,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "changes-new")]).values()
    entries = found.result(30)
    assert (entries["retention.ms"].value, entries["cleanup.policy"].value) == ("86400000", "compact,delete")
    (line,) = caplog.messages
    assert line.startswith("create topic 'changes-new' partitions=3 replicas=1: done (session ")


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"name": ""}, "name is empty"),
        ({"name": "a\0b"}, "name has to be text"),
        ({"name": "a/b"}, "the topic&#39;s name is not allowed"),
        ({"name": "changes-x", "partitions": "0"}, "partitions has to be a whole number from 1 to 100000"),
        ({"name": "changes-x", "replicas": "9"}, "that replication factor is not possible"),
        ({"name": "changes-x", "settings": "no.such=1"}, "the setting is not allowed"),
        ({"name": "changes-x", "settings": "nothing"}, "is not key=value"),
    ],
)
def test_what_cannot_be_is_said_above_the_form(browser: Browser, admin: AdminClient, form: dict[str, str], why: str) -> None:
    answer = browser.post("/new-topic", **form)
    assert answer.status == 400
    assert why in answer.text
    assert f'value="{form["name"]}"' in answer.text
    assert not {"changes-x", "a/b"} & names(admin)


def test_a_topic_may_be_called_new(browser: Browser, topic: Callable[..., str]) -> None:
    assert "<h1>new</h1>" in browser.get(f"/topics/{topic('new')}").text


def test_who_deletes_a_topic_types_its_name(
    browser: Browser, topic: Callable[..., str], admin: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    name = topic("changes-delete", 2)
    browser.get("/topics")
    page = browser.get(f"/topics/{name}/delete").text
    assert f"the topic {name} with 2 partitions, at most 0 records" in page
    for typed in ("", "changes", "CHANGES-DELETE"):
        assert browser.post(f"/topics/{name}/delete", typed=typed).status == 400
    assert name in names(admin)
    with caplog.at_level(logging.INFO, "ottla.console.audit"):
        answer = browser.post(f"/topics/{name}/delete", typed=f" {name} ")
    assert (answer.status, answer.headers["location"]) == (303, "/topics")
    assert name not in names(admin)
    assert f'href="/topics/{name}"' not in browser.get("/topics").text
    assert caplog.messages[0].startswith("delete topic 'changes-delete': done")


@pytest.mark.parametrize("typed", [None, "no"])
def test_what_is_not_known_of_a_topic_to_delete_is_said(typed: str | None) -> None:
    source = FakeSource([topic_summary("t")], held_of={"t": Held(None, None)}, notes=("sizes are not known: closed",))
    with browsing(source) as browser:
        path = "/topics/t/delete"
        answer = browser.get(path) if typed is None else browser.post(path, typed=typed)
        assert "<li>sizes are not known: closed</li>" in answer.text
        assert ("what was typed is not t" in answer.text) is (typed is not None)


def test_read_only_has_the_pages_without_the_ways() -> None:
    with browsing(FakeSource([topic_summary("t")]), read_only=True) as browser:
        for path in ("/new-topic", "/topics/t/delete", "/topics/t/produce"):
            assert browser.get(path).status == 403
