"""A group is moved to what was looked at, and only if nobody is in it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from re import findall
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

import ottla.testing
from ottla.commands.clients.partition import Partition
from ottla.commands.groups import reset
from ottla.commands.groups.rows import MemberState
from ottla.console.cluster.changes import why_not_to_reset
from ottla.console.errors import BadInput
from ottla.console.pages import group_reset as group_reset_page
from ottla.console.pages.group_reset import as_text, offsets_of
from tests.console.browser import Browser, cells
from tests.console.conftest import Records
from tests.console.fakes import group_state


@contextmanager
def consumer(broker: ottla.testing.Broker, group: str) -> Iterator[Consumer]:
    made = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def group(broker: ottla.testing.Broker, topic: Callable[..., str], produced: Records, request: pytest.FixtureRequest) -> str:
    """A group without members that has committed offset 4 of 10 in each of two partitions."""
    name = f"reset-{request.node.name}"
    topic(name, 2)
    for partition in range(2):
        produced(name, *[b"v"] * 10, partition=partition)
    with consumer(broker, name) as made:
        made.commit(offsets=[TopicPartition(name, partition, 4) for partition in range(2)], asynchronous=False)
    return name


def committed(broker: ottla.testing.Broker, group: str) -> list[int]:
    with consumer(broker, group) as made:
        found = made.committed([TopicPartition(group, partition) for partition in range(2)], timeout=30)
    return [one.offset for one in found]


def test_first_a_look_then_the_name_then_the_change(
    browser: Browser, broker: ottla.testing.Broker, group: str, produced: Records, caplog: pytest.LogCaptureFixture
) -> None:
    page = browser.get(f"/group/reset?name={group}&to=end").text
    assert cells(page)[6:] == [group, "0", "4", "10", "+6", "0", group, "1", "4", "10", "+6", "0"]
    (offsets,) = findall(r'name="offsets" value="([^"]*)"', page)
    assert committed(broker, group) == [4, 4]
    produced(group, b"later", partition=0)
    for typed in ("", "reset"):
        answer = browser.post(f"/group/reset?id={group}", offsets=unescape(offsets), typed=typed)
        assert answer.status == 400
        assert cells(answer.text)[6:12] == [group, "0", "4", "10", "+6", "1"]
    assert committed(broker, group) == [4, 4]
    with caplog.at_level(logging.INFO, "ottla.console.audit"):
        answer = browser.post(f"/group/reset?id={group}", offsets=unescape(offsets), typed=group)
    assert (answer.status, answer.headers["location"]) == (303, f"/group?id={group}")
    assert committed(broker, group) == [10, 10]
    assert caplog.messages[0].startswith(f"reset group '{group}' in 2 partitions: done")


def test_a_name_with_spaces_around_it_can_be_typed(browser: Browser, admin: AdminClient, group: str) -> None:
    name = f" {group} "  # a consumer of librdkafka would take the first space away
    made = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, [TopicPartition(group, 0, 4)])])
    made[name].result(30)
    offsets = as_text({Partition(group, 0): 5})
    for typed, status in ((group, 400), (name, 303)):
        assert browser.post(f"/group/reset?id={quote(name)}", offsets=offsets, typed=typed).status == status


def test_one_topic_and_other_places(browser: Browser, group: str) -> None:
    page = browser.get(f"/group/reset?id={group}&to=-3&topic={group}").text
    assert cells(page)[6:12] == [group, "0", "4", "7", "+3", "3"]
    assert browser.get(f"/group/reset?id={group}&to=1&topic=none").status == 502
    assert browser.get(f"/group/reset?id={group}&to=nowhere").status == 400


def test_more_partitions_than_a_form_moves_are_refused_before_the_cluster_is_asked(
    browser: Browser, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_reset_page, "MOST_PARTITIONS", 1)
    monkeypatch.delattr(reset, "spans_of")
    for topic in ("", group):
        answer = browser.get(f"/group/reset?id={group}&to=end&topic={topic}")
        assert answer.status == 400
        assert "that would move 2 partitions; `ottla group reset` moves more than 1" in answer.text


def test_a_group_with_a_member_is_left_alone(browser: Browser, broker: ottla.testing.Broker, group: str) -> None:
    with consumer(broker, group) as made:
        made.subscribe([group])
        while not made.assignment():
            made.poll(0.1)
        page = browser.get(f"/group/reset?id={group}&to=end").text
        assert "it has 1 member (state Stable)" in page
        assert 'method="post"' not in page
        offsets = as_text({Partition(group, 0): 10})
        answer = browser.post(f"/group/reset?id={group}", offsets=offsets, typed=group)
        assert answer.status == 400
        assert "stop them first" in answer.text
    assert committed(broker, group) == [4, 4]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "t",
        "t:0",
        "t:0:x",
        ":0:1",
        "t:-1:1",
        f"t:0:{2**63}",
        "t:٠:1",
        "t:0:1:2",
        "t:0:" + "9" * 5000,
        f"t:{2**31}:0",
        "t\0:0:1",
    ],
)
def test_offsets_that_no_page_wrote(text: str) -> None:
    with pytest.raises(BadInput, match=r"^offsets has to be as this page wrote it"):
        offsets_of(text)


def test_offsets_survive_the_form() -> None:
    after = {Partition("t", 0): 2**63 - 1, Partition("t.t", 10): 0}
    assert offsets_of(as_text(after)) == after


def test_a_group_is_not_moved_to_where_there_is_nothing(browser: Browser, broker: ottla.testing.Broker, group: str) -> None:
    for offsets, status, why in (
        ({Partition(group, 0): 11}, 400, "has offsets 0 to 10, not 11; look at it again"),
        ({Partition(group, 77): 0}, 502, f"there is no {group} [77]"),
        ({Partition("no-such-topic", 0): 0}, 502, "there is no no-such-topic [0]"),
    ):
        answer = browser.post(f"/group/reset?id={group}", offsets=as_text(offsets), typed=group)
        assert answer.status == status
        assert why in answer.text
    assert committed(broker, group) == [4, 4]


def test_an_offset_that_is_not_there_is_said_and_the_fields_stay(browser: Browser, group: str) -> None:
    assert "nearest" not in browser.get(f"/group/reset?id={group}&to=10").text
    page = browser.get(f"/group/reset?id={group}&to=99999&topic={group}").text
    assert "2 partitions of 2 would go to the nearest offset, not to 99999, which is outside" in page
    fields = dict(findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))
    answer = browser.post(f"/group/reset?id={group}", **{**fields, "typed": "no"})
    assert f'name="topic" value="{group}" placeholder' in answer.text
    assert 'name="to" value="99999" required' in answer.text


def test_why_a_group_cannot_be_moved() -> None:
    empty = group_state("g")
    assert why_not_to_reset(empty) is None
    assert why_not_to_reset(replace(empty, state="Stable")) is not None
    member = MemberState("m", None, "c", "h", ())
    assert why_not_to_reset(replace(empty, members=(member,))) is not None
