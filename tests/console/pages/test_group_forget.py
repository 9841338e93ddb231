"""The offsets of a group in one topic go, by who types its name, and those in others stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from confluent_kafka import Consumer, TopicPartition

import ottla.testing
from ottla.commands.clients.partition import Partition
from ottla.commands.groups.rows import MemberState, OffsetState
from tests.console.browser import Browser, browsing, cells
from tests.console.fakes import FakeSource, group_state


def test_offsets_in_one_topic_go(
    browser: Browser, broker: ottla.testing.Broker, topic: Callable[..., str], audited: Callable[[], list[str]]
) -> None:
    first, second = topic("forget-a", 2), topic("forget-b", 4)
    with Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "forgets<b>"}) as consumer:
        places = [TopicPartition(first, 0, 0), TopicPartition(first, 1, 0), TopicPartition(second, 3, 0)]
        consumer.commit(offsets=places, asynchronous=False)
    path = "/group/forget?id=forgets%3Cb%3E"
    assert path in browser.get("/group?id=forgets%3Cb%3E").text
    assert "<option selected>forget-b</option>" in browser.get(f"{path}&topic={second}").text
    assert browser.post(path, topic=first, typed="forgets").status == 400
    assert browser.post(path, topic="forget-c", typed="forgets<b>").status == 400
    answer = browser.post(path, topic=first, typed="forgets<b>")
    assert (answer.status, answer.headers["location"]) == (303, "/group?id=forgets%3Cb%3E")
    assert cells(browser.get("/group?id=forgets%3Cb%3E").text)[-6:-4] == ["forget-b", "3"]
    assert first not in browser.get("/group?id=forgets%3Cb%3E").text
    assert audited()[-1] == "delete offsets of group 'forgets<b>' in topic 'forget-a': done"


def test_one_with_members_is_warned_about_and_one_without_offsets_has_no_form() -> None:
    offsets = (OffsetState(Partition("t", 0), 1, 2),)
    there = replace(group_state("g"), offsets=offsets, members=(MemberState("m", "c", "h", "i", ()),))
    with browsing(FakeSource(states_of=[there, group_state("none")])) as browser:
        assert "The group has 1 member: the cluster refuses this" in browser.get("/group/forget?id=g").text
        answer = browser.get("/group/forget?id=none")
        assert (answer.status, "has committed no offset" in answer.text) == (404, True)
        assert browser.get("/group/forget?id=other").status == 404
