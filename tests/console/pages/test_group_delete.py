"""A group is deleted by who types its name, and only without members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from confluent_kafka import Consumer, TopicPartition

import ottla.testing
from ottla.commands.groups.rows import MemberState
from tests.console.browser import Browser, browsing
from tests.console.fakes import FakeSource, group_state


def test_a_group_goes_with_its_offsets(
    browser: Browser, broker: ottla.testing.Broker, topic: Callable[..., str], audited: Callable[[], list[str]]
) -> None:
    name = topic("group-delete")
    with Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "gone<b>"}) as consumer:
        consumer.commit(offsets=[TopicPartition(name, 0, 0)], asynchronous=False)
    path = "/group/delete?id=gone%3Cb%3E"
    assert path in browser.get("/group?id=gone%3Cb%3E").text
    assert "with its offsets in 1 partition." in browser.get(path).text
    assert browser.post(path, typed="gone").status == 400
    answer = browser.post(path, typed="gone<b>")
    assert (answer.status, answer.headers["location"]) == (303, "/groups")
    assert browser.get("/group?id=gone%3Cb%3E").status == 404
    assert audited() == ["delete group 'gone<b>': done"]


def test_one_with_members_is_warned_about() -> None:
    with_member = replace(group_state("g"), members=(MemberState("m", "c", "h", "i", ()),))
    for state, there in ((group_state("g"), False), (with_member, True)):
        with browsing(FakeSource(states_of=[state])) as browser:
            assert ("The cluster will refuse it: the group has 1 member." in browser.get("/group/delete?id=g").text) is there
            assert browser.get("/group/delete?id=other").status == 404
