"""The console without a browser, against ottla and Apache Kafka: what it shows is there, and what it changes is changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from compat_tests.brokers import Address
from compat_tests.commands import committed, made
from compat_tests.console.running import Visitor, console
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
    wait_for(lambda: visitor.get(f"/topics/{name}").cells[8::8] == ["0", "1"], "the topic has its partitions")
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
    assert [name, "2", "1", "1"] == visitor.get(f"/topics?q={name}").cells[6:10]
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
    brokers = visitor.get("/brokers").cells
    assert brokers[5:8] == ["1", f"127.0.0.1:{broker.port}", "● yes"]
    settings = visitor.get("/brokers/1").cells
    assert settings[settings.index("log.dirs") + 2] == "file"
    assert visitor.get("/topics?internal=1&q=__consumer_offsets").status == 200


def test_a_group_is_shown_and_moved(visitor: Visitor, bootstrap: str, ten: str, unique: Unique) -> None:
    name, topic = unique("group"), ten
    with consumer(bootstrap, name, topic):
        wait_for(lambda: visitor.get(f"/groups?q={name}").cells[5:10] == [name, "consumer", "● Stable", "1", "0"], "it is listed")
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


def test_share_groups_and_streams_groups(visitor: Visitor, broker: Address, ten: str, unique: Unique) -> None:
    topic, share, streams = ten, unique("share"), unique("streams")
    sharer, task = Sharer(broker, share, topic), StreamsMember(broker, streams, SHARER, (topic,))
    try:
        for name, kind in ((share, "share"), (streams, "streams")):

            def is_listed(name: str = name, kind: str = kind) -> bool:
                return visitor.get(f"/groups?q={name}").cells[5:9] == [name, kind, "● Stable", "1"]

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
