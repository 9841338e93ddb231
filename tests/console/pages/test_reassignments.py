"""Partitions that move: how far they are, what a form would move, that it moves what was looked at, and how it is cancelled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.commands import reassignments
from ottla.commands.clients import direct
from ottla.commands.clients.brokers import Brokers
from ottla.commands.clients.direct import Refused
from ottla.commands.clients.partition import Partition
from ottla.commands.output import Failure
from ottla.commands.reassignments import Moving
from ottla.console.errors import BadInput
from ottla.console.pages import reassignments as page
from ottla.console.subjects import reassignments as subject
from ottla.wire.errors import ErrorCode
from tests.console.browser import Browser, browsing, cells
from tests.console.fakes import FakeSource, topic_summary

AT = "/broker/reassignments"
MOVING = Moving(Partition("t", 3), (1, 2, 3, 4), (3, 4), (1,))


class Cluster:
    """A cluster of five brokers: `now` are the replicas of the topic's partitions, `moved` and `cancelled` what was asked for."""

    def __init__(self) -> None:
        self.now: dict[int, tuple[int, ...]] = {0: (1, 2), 1: (2, 3), 2: (3, 1)}
        self.moving: list[Moving] = []
        self.moved: list[subject.Plan] = []
        self.cancelled: list[list[Moving]] = []
        self.refusal: Failure | None = None

    def move(self, _: object, topic: str, plan: subject.Plan) -> None:
        assert topic == "t"
        if self.refusal is not None:
            raise self.refusal
        self.moved.append(plan)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    for name, answer in {
        "replicas": lambda _, topic: dict(made.now),
        "sizes": lambda _, topic, numbers: (dict.fromkeys(numbers, 2048), []),
        "under_way": lambda _: made.moving,
        "copies": lambda _, moving: ({}, []),
        "move": made.move,
        "cancel": lambda _, moving: made.cancelled.append(list(moving)),
    }.items():
        monkeypatch.setattr(subject, name, answer)
    return made


@pytest.fixture
def five() -> Iterator[Browser]:
    with browsing(FakeSource([topic_summary("t", 3), topic_summary("u")], brokers=(1, 2, 3, 4, 5))) as made:
        yield made


def hidden(text: str) -> dict[str, str]:
    """Returns the hidden fields of the form that moves."""
    form = text.rpartition("<form")[2]
    return dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form))


def test_a_single_broker_has_a_sentence(browser: Browser) -> None:
    for path in (AT, f"{AT}/new", f"{AT}/new?topic=none"):
        shown = browser.get(path)
        assert (shown.status, cells(shown.text)) == (200, [])
        assert page.ALONE in shown.text
    assert f"{AT}/new" not in browser.get(AT).text
    assert browser.get(f"{AT}/cancel?topic=none").status == 404


def test_those_under_way_and_how_far_they_are(five: Browser, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cells(five.get(AT).text)[7:] == ["None."]
    assert "data-live" not in five.get(AT).text
    copies = [subject.Copy(3, True, 5, 5), subject.Copy(4, False, 512, 2048)]
    cluster.moving = [MOVING]
    monkeypatch.setattr(subject, "copies", lambda _, moving: ({MOVING.partition: copies}, ["a note"]))
    shown = five.get(AT).text
    *row, progress, change = cells(shown)[7:]
    assert row == ["t", "3", "1, 2, 3, 4", "3, 4", "1"]
    assert progress.split("\n") == ["3: ● in sync", "4: ▲ 25 % of 2.0 KiB"]
    assert change == "Cancel"
    assert "<li>a note</li>" in shown
    assert '<main id="main" tabindex="-1" data-live>' in shown


def test_the_way_to_the_form(five: Browser, cluster: Cluster) -> None:
    assert f'href="{AT}/new"' in five.get(AT).text
    assert f'href="{AT}/new?topic=t"' in five.get("/topics/t").text
    assert 'name="topic" required' in five.get(f"{AT}/new").text
    shown = five.get(f"{AT}/new?topic=t").text
    assert "there are 1, 2, 3, 4, 5" in shown
    assert 'method="post"' not in shown
    assert five.get(f"{AT}/new?topic=none").status == 404


def test_what_was_looked_at_is_moved(five: Browser, cluster: Cluster, audited: Callable[[], list[str]]) -> None:
    shown = five.get(f"{AT}/new?topic=t&partitions=0-1&to=4,+2").text
    assert "4.0 KiB would be copied" in shown  # one replica of each comes
    assert cells(shown)[6:] == [
        *("0", "1, 2", "4, 2", "4", "1", "2.0 KiB"),
        *("1", "2, 3", "4, 2", "4", "3", "2.0 KiB"),
    ]
    form = hidden(shown)
    assert (form["plan"], form["partitions"], form["to"]) == ("0:1,2:4,2 1:2,3:4,2", "0-1", "4, 2")
    path = f"{AT}/new?topic=t"
    answer = five.post(path, **form, typed="T")
    assert (answer.status, "what was typed is not t." in answer.text) == (400, True)
    assert hidden(answer.text)["plan"] == form["plan"]
    assert cluster.moved == []
    answer = five.post(path, **form, typed="t")
    assert (answer.status, answer.headers["location"]) == (303, AT)
    assert cluster.moved == [{0: (4, 2), 1: (4, 2)}]
    assert audited() == ["move 2 partitions of topic 't' (0:1,2:4,2 1:2,3:4,2): done"]


def test_how_much_would_be_copied(five: Browser, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "8.0 KiB would be copied" in five.get(f"{AT}/new?topic=t&partitions=0-1&to=4,5").text
    monkeypatch.setattr(subject, "sizes", lambda *_: ({0: 1}, ["not known"]))
    shown = five.get(f"{AT}/new?topic=t&partitions=0-1&to=4,5").text
    assert ("would be copied" in shown, "<li>not known</li>" in shown) == (False, True)


def test_partitions_that_are_there_already_or_move_already_are_noted(five: Browser, cluster: Cluster) -> None:
    cluster.moving = [Moving(Partition("t", 1), (2, 3, 5), (5,), ())]
    shown = five.get(f"{AT}/new?topic=t&to=1,2").text
    assert cells(shown)[6::6] == ["1", "2"]
    assert "1 partition that were chosen" not in shown
    assert "1 partition has these replicas already" in shown
    assert "t [1] moves already, to 2, 3, 5; this would take the place of that" in shown
    assert "Nothing would move." in five.get(f"{AT}/new?topic=t&partitions=0&to=1,2").text


def test_a_partition_that_was_moved_meanwhile_is_not(five: Browser, cluster: Cluster, audited: Callable[[], list[str]]) -> None:
    form = hidden(five.get(f"{AT}/new?topic=t&partitions=0&to=4").text)
    cluster.now[0] = (5, 2)
    answer = five.post(f"{AT}/new?topic=t", **form, typed="t")
    assert (answer.status, "partition 0 has the replicas 5, 2 by now; look at it again" in answer.text) == (400, True)
    del cluster.now[0]
    assert "a partition has gone" in five.post(f"{AT}/new?topic=t", **form, typed="t").text
    assert cluster.moved == []
    assert audited()[0] == "move 1 partition of topic 't' (0:1,2:4): refused: partition 0 has the replicas 5, 2 by now"


def test_a_refusal_is_shown_and_audited(five: Browser, cluster: Cluster, audited: Callable[[], list[str]]) -> None:
    cluster.refusal = Failure("the controller is busy")
    answer = five.post(f"{AT}/new?topic=t", plan="0:1,2:4", typed="t")
    assert (answer.status, "the controller is busy" in answer.text) == (400, True)
    assert audited() == ["move 1 partition of topic 't' (0:1,2:4): failed: the controller is busy"]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("to=1,9", "brokers: there is no broker 9; there are 1, 2, 3, 4, 5"),
        ("to=1,1", "brokers: name each once"),
        ("to=,", "brokers: name each once"),
        ("to=x", "brokers has to be a whole number"),
        ("to=1&partitions=3", "partitions has to be a whole number from 0 to 2"),
        ("to=1&partitions=2-1", "partitions has to be a whole number from 2 to 2"),
        ("to=1&partitions=-1", "partitions has to be"),
        ("to=1,2&count=3", "count has to be a whole number from 1 to 2"),
    ],
)
def test_what_cannot_be_meant(five: Browser, cluster: Cluster, query: str, why: str) -> None:
    answer = five.get(f"{AT}/new?topic=t&{query}")
    assert (answer.status, why in answer.text) == (400, True), answer.text


@pytest.mark.parametrize("plan", ["", "0:1", "0:1:", "x:1:2", "0:1:2:3", "0:1:-2", "0:1:99999999999", "0::" + "1," * 3 + "x"])
def test_a_plan_that_this_page_did_not_write_moves_nothing(five: Browser, cluster: Cluster, plan: str) -> None:
    assert five.post(f"{AT}/new?topic=t", plan=plan, typed="t").status == 400
    assert cluster.moved == []


def test_plans() -> None:
    assert page.planned([4, 7], [1, 2, 3], 2, rotate=False) == {4: (1, 2), 7: (1, 2)}
    assert page.planned([4, 7, 8], [1, 2, 3], 2, rotate=True) == {4: (1, 2), 7: (2, 3), 8: (3, 1)}
    assert list(page.chosen_of("", 3)) == [0, 1, 2]
    assert list(page.chosen_of("5, 0-2 1", 6)) == [0, 1, 2, 5]
    changes = {3: page.Change((1, 2), (2, 4)), 5: page.Change((), (1,))}
    assert page.plan_of(page.as_text(changes)) == changes
    assert (changes[3].adding, changes[3].removing) == ((4,), (1,))
    with pytest.raises(BadInput):
        page.plan_of(" ".join(f"{number}:1:2" for number in range(page.MOST_PARTITIONS + 1)))


def test_one_is_cancelled_or_all_of_a_topic(five: Browser, cluster: Cluster, audited: Callable[[], list[str]]) -> None:
    others = [Moving(Partition("t", number), (1, 2), (2,), ()) for number in range(30, 55)]
    cluster.moving = [MOVING, *others, Moving(Partition("u", 0), (1, 2), (2,), ())]
    one = f"{AT}/cancel?topic=t&partition=3"
    assert "t [3]: from 1, 2, 3, 4 back to 1, 2" in five.get(one).text
    assert five.post(one, typed="no").status == 400
    assert cluster.cancelled == []
    assert five.post(one, typed="t").status == 303
    assert cluster.cancelled == [[MOVING]]
    assert "and 6 more" in five.get(f"{AT}/cancel?topic=t").text
    assert five.post(f"{AT}/cancel?topic=t", typed="t").status == 303
    assert cluster.cancelled[1:] == [[MOVING, *others]]
    assert five.get(f"{AT}/cancel?topic=t&partition=4").status == 404
    assert audited()[0] == "cancel reassignment of topic 't', partitions 3: done"
    assert audited()[1].endswith(", 48 and more: done")


def test_read_only_shows_and_changes_nothing(cluster: Cluster) -> None:
    cluster.moving = [MOVING]
    with browsing(FakeSource([topic_summary("t", 3)], brokers=(1, 2)), read_only=True) as browser:
        shown = browser.get(AT).text
        assert cells(shown)[7:9] == ["t", "3"]
        assert f"{AT}/" not in shown + browser.get("/topics/t").text
        for path in (f"{AT}/new?topic=t&to=1", f"{AT}/cancel?topic=t&partition=3"):
            assert browser.get(path).status == 403
            assert browser.post(path, plan="0:1,2:4", typed="t").status == 403
    assert (cluster.moved, cluster.cancelled) == ([], [])


# What is asked of a cluster


def metadata(**topics: dict[int, tuple[int, tuple[int, ...], tuple[int, ...]]]) -> Any:
    """Returns librdkafka's metadata of topics, whose partitions are given by leader, replicas and those in sync."""

    def partition(number: int, leader: int, replicas: tuple[int, ...], in_sync: tuple[int, ...]) -> Any:
        return SimpleNamespace(id=number, leader=leader, replicas=list(replicas), isrs=list(in_sync))

    found = {
        name: SimpleNamespace(partitions={number: partition(number, *of) for number, of in partitions.items()})
        for name, partitions in topics.items()
    }
    return SimpleNamespace(topics=found)


def test_progress_is_by_the_bytes_of_both_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, Any]] = []

    def log_sizes(broker: Any, wanted: Any) -> dict[Partition, int]:
        asked.append((broker, wanted))
        if broker == 5:
            raise Failure("closed")
        return {Partition("t", 0): {1: 1000, 3: 250, 4: 2000}[broker]} if "t" in wanted else {}

    monkeypatch.setattr(direct, "log_sizes", log_sizes)
    monkeypatch.setattr(Brokers, "at", lambda _, number: number)
    source: Any = FakeSource(metadata=metadata(t={0: (1, (1, 2, 3, 4, 5), (1, 2, 4))}, u={0: (-1, (1,), ())}))
    source.cluster = None
    moving = [
        Moving(Partition("t", 0), (1, 2, 3, 4, 5), (3, 4, 5), ()),
        Moving(Partition("u", 0), (1, 3), (3,), ()),
        Moving(Partition("gone", 0), (1, 3), (3,), ()),
    ]
    found, notes = subject.copies(source, moving)
    assert asked[0] == (1, {"t": [0]})
    assert asked[1] == (3, {"t": [0], "u": [0], "gone": [0]})
    assert found[Partition("t", 0)] == [
        subject.Copy(3, False, 250, 1000),
        subject.Copy(4, True, 2000, 1000),
        subject.Copy(5, False, None, 1000),
    ]
    assert [one.percent for one in found[Partition("t", 0)]] == [25, 99, None]
    assert found[Partition("u", 0)] == [subject.Copy(3, False, None, None)]
    assert notes == ["how far the copies of broker 5 are is not known: closed"]


def test_refusals_of_a_part_say_how_much_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: dict[Partition, str] = {}
    monkeypatch.setattr(subject, "controller", lambda _: nullcontext(None))
    monkeypatch.setattr(reassignments, "reassign", lambda *_: refused)
    source: Any = SimpleNamespace(cluster=SimpleNamespace(timeout_s=5))
    subject.move(source, "t", {0: (1,)})
    refused[Partition("t", 0)] = "no"
    with pytest.raises(Failure, match=r"^t \[0\]: no$"):
        subject.move(source, "t", {0: (1,)})
    refused |= {Partition("t", number): "no" for number in range(5)}
    with pytest.raises(Failure, match=r"^the cluster took 2 of 7 partitions; not t \[0\]: no; .*; and 2 more$"):
        subject.move(source, "t", dict.fromkeys(range(7), (1,)))


def test_what_an_older_cluster_or_one_that_denies_it_says(five: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: object) -> list[Moving]:
        raise Refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")

    monkeypatch.setattr(subject, "under_way", denied)
    assert "does not show this to the principal" in five.get(AT).text
    assert five.get(f"{AT}/cancel?topic=t").status == 404


def test_replicas_and_sizes_by_the_metadata() -> None:
    source: Any = FakeSource(metadata=metadata(t={1: (1, (1, 2), (1,)), 0: (2, (2, 1), (1,))}))
    source.sizes = lambda wanted: ({Partition("t", one.id): 7 for one in wanted["t"]}, ["note"])
    assert subject.replicas(source, "t") == {0: (2, 1), 1: (1, 2)}
    assert subject.sizes(source, "t", [1, 5]) == ({1: 7}, ["note"])
    with pytest.raises(Failure, match="topic x has gone"):
        subject.replicas(source, "x")
