"""The test kit's page: on a broker under test and on no other, with what it does seen by a client."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from compat_tests.console.running import Visitor, broker

UNDER_TEST = ("--test-port", "0")


def test_faults_time_snapshots_and_recorded_requests(tmp_path: Path) -> None:
    with broker(tmp_path / "data", *UNDER_TEST) as (_, bootstrap, url):
        visitor = Visitor(url)

        def act(what: str, **fields: str) -> None:
            done = visitor.post("/test", visitor.get("/test"), act=what, **fields)
            assert (done.status, done.location) == (303, "/test"), done.text

        assert 'href="/test"' in visitor.get("/").text
        act("record", max="50")
        fault = {"api": "Produce", "topic": "orders", "do": "answer with the error", "value": "NOT_LEADER_OR_FOLLOWER"}
        act("fault", times="2", **fault)
        producer = Producer({"bootstrap.servers": bootstrap, "client.id": "app", "retry.backoff.ms": 10, "log_level": 0})
        producer.produce("orders", "x")
        assert producer.flush(60) == 0
        page = visitor.get("/test?api=Produce")
        assert page.cells[9:18] == [
            *("f1", '{"api": "Produce", "topic": "orders"}', '{"error": "NOT_LEADER_OR_FOLLOWER"}'),
            *("2", "2", "0", "0", "○ over", "Remove"),
        ]
        assert page.cells.count("▲ f1") == 2
        assert sum(cell.endswith(" Produce v10") for cell in page.cells) == 3

        act("snapshot", name="one")
        act("advance", by="2", unit="days")
        page = visitor.get("/test")
        assert "POST /v1/clock/advance {&#34;ms&#34;: 172800000}" in page.text
        assert "2 days" in page.text
        for path, name in (("/test/reset", "reset"), ("/test/restore?name=one", "one")):
            assert "what was typed is not" in visitor.post(path, visitor.get(path), typed="no").text
            assert visitor.post(path, visitor.get(path), typed=name).status == 303
            there = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).topics
            assert ("orders" in there) == (name == "one")
        act("restart", how="kill", down_ms="0")
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        message = consumer.poll(60)
        assert message is not None
        assert message.value() == b"x"
        consumer.close()

        wrong = visitor.post("/test", visitor.get("/test"), act="fault", api="Prodce", do="never answer")
        assert wrong.status == 400
        assert "did you mean Produce?" in wrong.text


@pytest.mark.parametrize(("words", "get", "post"), [((), 404, 404), ((*UNDER_TEST, "--console-read-only"), 200, 403)])
def test_no_other_broker_has_it_and_read_only_only_shows_it(tmp_path: Path, words: tuple[str, ...], get: int, post: int) -> None:
    with broker(tmp_path / "data", *words) as (_, _, url):
        visitor = Visitor(url)
        page = visitor.get("/test")
        assert page.status == get
        assert 'method="post"' not in page.text
        token = visitor.get("/requests")
        assert visitor.post("/test", token, act="freeze").status == post
        assert visitor.get("/test/reset").status == (403 if get == 200 else 404)
        assert 'method="post"' not in visitor.get("/test/reset").text
