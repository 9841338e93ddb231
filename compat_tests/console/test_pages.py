"""The console without a browser, against ottla and Apache Kafka: what it shows is there, and what it changes is changed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.brokers import Address
from compat_tests.commands import committed, made
from compat_tests.console.running import Page, Visitor, console
from compat_tests.test_commands_groups import SHARER, Sharer, consumer
from compat_tests.times import TODAY_MS
from compat_tests.tools_diff.streams_member import StreamsMember
from compat_tests.waiting import wait_for

Unique = Callable[[str], str]


@pytest.fixture(scope="module")
def ten(bootstrap: str) -> str:
    """A topic of ten records, 0 to 9, a second apart from TODAY_MS on."""
    topic = made(bootstrap, 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        producer.produce(topic, str(number), partition=0, timestamp=TODAY_MS + 1000 * number)
    assert producer.flush(60) == 0
    return topic


def test_a_topic_from_its_form_to_its_end(visitor: Visitor, unique: Unique) -> None:
    name = unique("console")
    page = visitor.post("/new-topic", visitor.get("/new-topic"), name=name, partitions="2", settings="retention.ms=86400000")
    assert (page.status, page.location) == (303, f"/topics/{name}")
    wait_for(lambda: visitor.get(f"/topics/{name}").cells[9::9] == ["0", "1"], "the topic has its partitions")
    assert visitor.get(f"/topics/{name}/settings").cells[4:8] == ["retention.ms", "86400000", "topic", "while it runs"]
    form = {"partition": "1", "key": "<b>", "value": '{"a": "\u202e"}', "headers": "trace=1"}
    answers = []

    def is_sent() -> bool:
        answers.append(visitor.post(f"/topics/{name}/produce", visitor.get(f"/topics/{name}/produce"), **form))
        return answers[-1].status == 303

    wait_for(is_sent, lambda: f"a record is sent: {answers[-1]}")
    record = visitor.get(answers[-1].location or "")
    assert "&lt;b&gt;</pre>" in record.text
    assert "&#34;a&#34;: &#34;⟨U+202E⟩&#34;" in record.text
    (row,) = [visitor.get(f"/topics/{name}/messages").cells[6:]]
    assert [row[0], row[3], row[4], row[5]] == ["1", "<b>", '{"a": "⟨U+202E⟩"}', "trace: 1"]
    assert [name, "2", "1", "1"] == visitor.get(f"/topics?q={name}").cells[8:12]
    page = visitor.post(f"/topics/{name}/delete", visitor.get(f"/topics/{name}/delete"), typed=name)
    assert (page.status, page.location) == (303, "/topics")
    wait_for(lambda: visitor.get(f"/topics/{name}").status == 404, "the topic is gone")


def test_records_by_place_and_by_filter(visitor: Visitor, ten: str) -> None:

    def offsets(query: str) -> list[str]:
        page = visitor.get(f"/topics/{ten}/messages?{query}")
        assert page.status == 200, page
        return page.cells[7::6]

    assert offsets("") == [str(number) for number in range(9, -1, -1)]
    assert offsets("n=2") == ["9", "8"]
    assert offsets("from=beginning&n=2") == ["0", "1"]
    assert offsets("from=4&n=2") == ["4", "5"]
    assert offsets("from=-3") == ["9", "8", "7"]
    assert offsets(f"from=@{TODAY_MS + 7000}") == ["7", "8", "9"]
    assert offsets("value=3") == ["3"]
    assert offsets("key=3") == []
    assert visitor.get(f"/topics/{ten}/0/10").status == 404


def test_the_pages_of_the_cluster(visitor: Visitor, broker: Address) -> None:
    overview = visitor.get("/")
    for path in ("/", "/inside", "/requests"):
        assert "Only a broker that runs the console itself shows" in visitor.get(path).text
    assert "Every partition has a leader" in overview.text
    assert "This console started" in overview.text
    directory, number, state, *sizes = overview.cells[overview.cells.index("Size") + 1 :][:6]
    assert (directory[:1], number, state) == ("/", "1", "● online")
    assert all(size.endswith("iB") for size in sizes), sizes
    brokers = visitor.get("/brokers").cells
    assert brokers[5:8] == ["1", f"127.0.0.1:{broker.port}", "● yes"]
    settings = visitor.get("/brokers/1").cells
    assert settings[settings.index("log.dirs") + 2] == "file"
    assert visitor.get("/topics?internal=1&q=__consumer_offsets").status == 200


def test_what_is_produced_is_drawn_on_the_overview(visitor: Visitor, bootstrap: str) -> None:
    topic = made(bootstrap, 1)
    producer = Producer({"bootstrap.servers": bootstrap})

    def is_drawn() -> bool:
        producer.produce(topic, b"x")
        assert producer.flush(60) == 0
        page = visitor.get("/")
        at = page.cells.index("records") if "records" in page.cells else None
        return at is not None and page.cells[at + 2] != "0"  # below the heads: the newest time and its rate

    wait_for(is_drawn, "the rise of the end offset is on the chart")


def test_the_furthest_behind_in_the_list_of_topics(visitor: Visitor, bootstrap: str, unique: Unique) -> None:
    topic = made(bootstrap, 2)
    near, far = unique("0-near"), unique("0-far")  # the first by name are asked first, however little time there is
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(6):
        producer.produce(topic, b"x", partition=number % 2)
    assert producer.flush(60) == 0
    for group, offset in ((near, 2), (far, 1)):
        with Consumer({"bootstrap.servers": bootstrap, "group.id": group}) as consumer:
            consumer.commit(offsets=[TopicPartition(topic, number, offset) for number in (0, 1)], asynchronous=False)

    def is_there() -> bool:
        cells = visitor.get(f"/topics?q={topic}").cells
        return [*cells[8:9], *cells[11:12], *cells[13:15]] == [topic, "6", "4", f"{far} of 2 groups"]

    wait_for(is_there, lambda: str(visitor.get(f"/topics?q={topic}").cells))


def test_an_open_transaction_is_seen_between_the_offsets_of_its_partition(
    visitor: Visitor, bootstrap: str, unique: Unique
) -> None:
    topic = made(bootstrap, 1)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("open")})
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(topic, b"x")
    assert producer.flush(60) == 0

    def offsets() -> list[str]:
        return visitor.get(f"/topics/{topic}").cells[13:16]

    wait_for(lambda: offsets() == ["0", "0 ○ 3 held back", "3"], lambda: str(offsets()))
    producer.commit_transaction(60)
    wait_for(lambda: offsets() == ["0", "4", "4"], lambda: str(offsets()))


def test_json_of_a_record_can_be_folded(visitor: Visitor, bootstrap: str) -> None:
    topic = made(bootstrap, 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, '{"items": [1, 2, "</details>"]}')
    assert producer.flush(60) == 0
    page = visitor.get(f"/topics/{topic}/0/0")
    assert "<details open><summary>&#34;items&#34;: [" in page.text
    assert "&#34;&lt;/details&gt;&#34;" in page.text


def test_a_group_is_shown_and_moved(visitor: Visitor, bootstrap: str, ten: str, unique: Unique) -> None:
    name, topic = unique("group"), ten
    with consumer(bootstrap, name, topic):
        wait_for(lambda: visitor.get(f"/groups?q={name}").cells[6:11] == [name, "consumer", "● Stable", "1", "0"], "it is listed")
        page = visitor.get(f"/group?id={name}")
        assert (page.cells[6], page.cells[9]) == ("the-client", f"{topic}:0")
        assert page.cells[18:24] == [topic, "0", "10", "10", "0", "the-client"]
        assert "stop them first" in visitor.get(f"/group/reset?id={name}&to=beginning").text
    wait_for(lambda: "○ Empty" in visitor.get(f"/group?id={name}").text, "the member has left")
    preview = visitor.get(f"/group/reset?id={name}&to=4")
    assert preview.cells[6:] == [topic, "0", "10", "4", "-6", "6"]
    assert visitor.post(f"/group/reset?id={name}", preview, typed="no").status == 400
    page = visitor.post(f"/group/reset?id={name}", preview, typed=name)
    assert (page.status, page.location) == (303, f"/group?id={name}")
    assert committed(bootstrap, name, topic) == 4


def why(visitor: Visitor, group: str, text: str) -> Page:
    """The page about a group, once it says so. A watch that takes long goes on while the page shows what is known already."""
    seen: list[Page] = []

    def says_so() -> bool:
        seen.append(visitor.get(f"/group/why?id={group}&watch=1"))
        return text in seen[-1].text

    wait_for(says_so, lambda: f"{text!r} is not in {seen[-1]}")
    return seen[-1]


def test_why_a_group_is_behind(visitor: Visitor, bootstrap: str, ten: str, unique: Unique) -> None:
    """The reasons are staged in tests/commands/why; here, that any Kafka is asked rightly."""
    name, topic = unique("why"), ten
    with consumer(bootstrap, name, topic):
        page = why(visitor, name, "Not behind")
        assert page.cells[10:18] == [topic, "0", "10", "–", "10", "10", "0", "0"]
        assert "Only a broker that runs the console itself" in page.text
    wait_for(lambda: "○ Empty" in visitor.get(f"/group?id={name}").text, "the member has left")
    visitor.post(f"/group/reset?id={name}", visitor.get(f"/group/reset?id={name}&to=4"), typed=name)
    listed = visitor.get(f"/groups?q={name}")
    assert f'href="/group/why?id={name}"' in listed.text
    assert listed.cells[10:12] == ["6", "✕ no member Why?"]
    page = why(visitor, name, "the group has no member, and 6 records are left to read")
    assert page.cells[16:19] == ["6", "6", "5 s"]
    assert "There is no group" in visitor.get("/group/why?id=nobody").text


def test_why_somebody_is_denied_something(visitor: Visitor) -> None:
    """Neither kind of broker has an authorizer here, which is said."""
    assert "Who was denied what lately is not known" in visitor.get("/denied").text
    page = visitor.get("/denied?principal=User:alice&operation=read&resource=topic&name=orders")
    assert page.status == 200
    assert "What decides is not known" in page.text


def test_share_groups_and_streams_groups(visitor: Visitor, broker: Address, ten: str, unique: Unique) -> None:
    topic, share, streams = ten, unique("share"), unique("streams")
    sharer, task = Sharer(broker, share, topic), StreamsMember(broker, streams, SHARER, (topic,))
    try:
        for name, kind in ((share, "share"), (streams, "streams")):

            def is_listed(name: str = name, kind: str = kind) -> bool:
                return visitor.get(f"/groups?q={name}").cells[6:10] == [name, kind, "● Stable", "1"]

            wait_for(is_listed, f"the {kind} group is listed")
            page = visitor.get(f"/group?id={name}")
            assert page.status == 200
            assert f"{topic}:0" in page.cells
    finally:
        sharer.leave()
        task.leave()


def test_read_only(bootstrap: str, ten: str) -> None:
    name = ten
    with console(bootstrap, "--read-only") as address:
        visitor = Visitor(address)
        assert 'method="post"' not in "".join(visitor.get(path).text for path in ("/", "/topics", f"/topics/{name}", "/groups"))
        for path in ("/new-topic", f"/topics/{name}/delete", f"/topics/{name}/produce"):
            page = visitor.get(path)
            assert page.status == 403
            assert visitor.post(path, page, name="x", typed=name, value="v").status == 403
        assert visitor.get(f"/topics/{name}").status == 200


def test_records_by_field_by_regular_expression_and_by_header(visitor: Visitor, bootstrap: str) -> None:
    topic = made(bootstrap, 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(4705, 4715):
        producer.produce(topic, f'{{"order": {{"id": {number}}}}}', headers=[("trace", f"t{number}")])
    assert producer.flush(60) == 0

    def offsets(query: str) -> list[str]:
        page = visitor.get(f"/topics/{topic}/messages?{query}")
        assert page.status == 200, page
        return page.cells[7::6]

    assert offsets("where=$.order.id+%3D+4711") == ["6"]
    assert offsets("where=order.id+in+4706..4707") == ["2", "1"]
    assert offsets("value=471[13]&regex=1") == ["8", "6"]
    assert offsets("header=trace%3Dt4712") == ["7"]
    assert visitor.get(f"/topics/{topic}/messages?where=5").status == 400


def test_a_tail_and_rates(visitor: Visitor, bootstrap: str) -> None:
    topic = made(bootstrap, 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    page = visitor.get(f"/topics/{topic}/tail")
    (path,) = re.findall(r'data-tail="([^"]*)"', page.text)
    producer.produce(topic, "<b>", "k", timestamp=TODAY_MS)
    assert producer.flush(60) == 0
    with visitor.stream(path) as lines:
        data = next(line for line in lines if line.startswith("data: "))
    (row,) = json.loads(data.removeprefix("data: "))["rows"]
    assert (row[:2], row[3:]) == ([0, 0], ["k", "<b>", ""])
    wait_for(lambda: "<polyline" in visitor.get(f"/topics/{topic}/rates").text, "there is a chart after some looks")


def test_internal_topics_are_decoded(visitor: Visitor, bootstrap: str, ten: str, unique: Unique) -> None:
    group, name = unique("decoded"), unique("txn")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(ten, 0, 7)], asynchronous=False)
    consumer.close()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(60)

    def found(topic: str, key: str) -> list[str]:
        return visitor.get(f"/topics/{topic}/messages?key={key}").cells[6:]

    wait_for(lambda: len(found("__consumer_offsets", group)) >= 6, "the commit is found")
    row = found("__consumer_offsets", group)
    assert row[3] == f'{{"OffsetCommitKey": {{"group": "{group}", "topic": "{ten}", "partition": 0}}}}'
    assert '"offset": 7' in row[4]
    assert "decoded" in visitor.get(f"/topics/__consumer_offsets/{row[0]}/{row[1].replace(',', '')}").text
    wait_for(lambda: len(found("__transaction_state", name)) >= 6, "the transactional id is found")
    assert '"TransactionLogValue"' in found("__transaction_state", name)[4]
