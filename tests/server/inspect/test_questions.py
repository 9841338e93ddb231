"""Questions of a console: what is answered, what is refused, and what there is to see."""

from __future__ import annotations

import gc
import json
import weakref
from typing import Any

import pytest

from ottla.log.partition import PartitionLog
from ottla.server.base.clock import LoopClock
from ottla.server.inspect import group_watch, questions
from ottla.server.inspect.questions import answer_line
from ottla.server.inspect.subject import Subject
from ottla.wire.messages import fetch, produce
from tests.log.support import batch
from tests.server.testkit.calls.test_look_calls import begin, end
from tests.server.testkit.lives_rig import Client, Rig, fetch_of_orders, living, run
from tests.server.testkit.members import commit, connect


def subject_of(rig: Rig) -> Subject:
    return Subject(lambda: rig.lives.broker, LoopClock())


def ask(subject: Subject, question: str, **arguments: Any) -> Any:
    said = json.loads(answer_line(subject, json.dumps({"id": 7, "question": question, "arguments": arguments}).encode()))
    assert said.pop("id") == 7
    (kind,) = said
    return said[kind] if kind == "answer" else (kind, said[kind])


def test_what_is_asked_wrongly_is_refused_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with living() as rig:
            subject = subject_of(rig)
            assert ask(subject, "wow") == ("refused", "The broker knows no question 'wow'.")
            assert ask(subject, "group", name="g") == ("missing", "This broker coordinates no group g.")
            assert ask(subject, "group", nonsense=1) == ("refused", "The broker failed to answer; its log says why.")
            said = ask(subject, "who")
            assert (said["node"], said["started_ms"]) == (1, subject.context.started_ms)
            monkeypatch.setitem(questions.QUESTIONS, "bug", lambda subject: {"is no JSON": b""})
            assert ask(subject, "bug") == ("refused", "The broker failed to answer; its log says why.")
            monkeypatch.setattr(questions, "MAX_ANSWER_BYTES", 10)
            assert ask(subject, "who") == ("refused", "That is too much to be shown at once.")
            for line in (b"[1]", b"{}", b"nothing"):
                with pytest.raises(ValueError):
                    answer_line(subject, line)

    run(scenario)


def test_a_broker_that_starts_is_said() -> None:
    class Starting:
        context = None

    async def scenario() -> None:
        starting: Any = Starting()
        assert ask(Subject(lambda: starting, LoopClock()), "groups", limit=1) == ("refused", "The broker is starting.")

    run(scenario)


def test_where_the_inside_is_not_shown_every_question_is_refused() -> None:
    def fail() -> Any:
        raise AssertionError("the broker was asked")

    async def scenario() -> None:
        subject = Subject(fail, LoopClock(), shows_inside=False)
        for question in questions.QUESTIONS.keys() - questions.SHOWS_NOTHING:
            kind, why = ask(subject, question)
            assert (kind, why.endswith("only to whoever has the token.")) == ("refused", True)

    run(scenario)


def test_who_is_connected_and_who_waits() -> None:
    async def scenario() -> None:
        async with living() as rig:
            subject = subject_of(rig)
            await rig.call("PUT", "/v1/topics/orders")
            idle, waiting = await Client("idle").connect(rig.port), await Client("waiting").connect(rig.port)
            await idle.ask(fetch, 4, fetch.FetchRequest(max_wait_ms=0))
            parked = await rig.park_fetch(waiting, fetch_of_orders())
            found = ask(subject, "connections", limit=1)
            assert found["left_off"] == 1
            assert [(each["client_id"], each["waits"]) for each in found["connections"]] == [("waiting", True)]
            health = ask(subject, "health")
            assert (health["reasons"], health["connections"], health["is_measured"]) == ([], 2, False)
            assert ask(subject, "requests") == {"apis": None}
            assert ask(subject, "groups", limit=5) == {"groups": [], "left_off": 0}
            assert ask(subject, "followers", limit=5) == {"followers": [], "left_off": 0}
            parked.cancel()
            await idle.close()
            await waiting.close()

    run(scenario)


def test_traffic_is_that_of_all_topics_and_of_the_busiest() -> None:
    async def scenario() -> None:
        async with living() as rig:
            subject = subject_of(rig)
            for topic, count in (("quiet", 1), ("busy", 50), ("gone", 7)):
                await rig.call("PUT", f"/v1/topics/{topic}")
                await rig.produce(topic, count=count)
            await rig.call("DELETE", "/v1/topics/gone")
            found = ask(subject, "traffic", limit=1)
            assert [(each["topic"], each["records_in"]) for each in found["topics"]] == [("busy", 50)]
            assert (found["records_in"], found["left_off"]) == (58, 1)
            assert found["bytes_in"] > found["topics"][0]["bytes_in"] > 50
            assert found["bytes_out"] == 0

    run(scenario)


def test_questions_about_a_group_read_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(log: PartitionLog, offset: int) -> Any:
        raise AssertionError("a read within the turn")

    async def scenario() -> None:
        async with living() as rig:
            subject = subject_of(rig)
            await rig.call("PUT", "/v1/topics/orders", {"partitions": 2})
            await rig.produce("orders", count=5)
            client = await connect(rig, "admin", "billing")
            await commit(client, "billing", 3)
            monkeypatch.setattr(PartitionLog, "iterate_batches", fail)
            assert ask(subject, "group", name="billing")["lag"] == 2
            watch = ask(subject, "watch_group", name="billing", seconds=1)["watch"]
            assert [each["lag"] for each in ask(subject, "watched_group", watch=watch)["offsets"]] == [2]
            ask(subject, "unwatch_group", watch=watch)
            await client.close()

    run(scenario)


def test_a_watch_of_a_group_that_fails_leaves_no_trace_and_fails_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise KeyError("a bug")

    async def scenario() -> None:
        async with living() as rig:
            subject = subject_of(rig)
            await rig.call("PUT", "/v1/topics/orders")
            client = await connect(rig, "admin", "billing")
            chain = rig.lives.broker.chain
            links = dict(chain._links)
            monkeypatch.setitem(group_watch._NOTES, "offset_commit", fail)
            watch = ask(subject, "watch_group", name="billing", seconds=1)["watch"]
            await commit(client, "billing", 3)
            assert ask(subject, "watched_group", watch=watch) == ("refused", "There is no such watch any more.")
            while chain._links != links:
                await client.ask(fetch, 4, fetch.FetchRequest(max_wait_ms=0))  # a turn of the loop
            await client.close()

    run(scenario)


def test_open_transactions_are_those_of_the_partitions_the_oldest_first() -> None:
    async def scenario() -> None:
        async with living() as rig:
            subject = subject_of(rig)
            await rig.call("PUT", "/v1/topics/orders")
            await rig.produce("orders", count=2)
            assert ask(subject, "open_transactions", limit=5)["transactions"] == []
            client = await connect(rig, "app", "t-1", 1)
            producer = await begin(client, "t-1")
            writer = producer.producer_id, producer.producer_epoch, 0
            data = produce.PartitionProduceData(0, batch(3, transactional=True, producer=writer))
            body = produce.ProduceRequest("t-1", -1, 1000, [produce.TopicProduceData("orders", partition_data=[data])])
            assert (await client.ask(produce, 9, body)).responses[0].partition_responses[0].base_offset == 2
            (found,) = ask(subject, "open_transactions", limit=5)["transactions"]
            assert (found["topic"], found["partition"], found["first_offset"], found["behind"]) == ("orders", 0, 2, 3)
            assert found["producer_id"] == producer.producer_id
            assert ask(subject, "transactions", limit=5)["transactions"][0]["transactional_id"] == "t-1"
            await end(client, "t-1", producer)
            assert ask(subject, "open_transactions", limit=5)["transactions"] == []
            await client.close()

    run(scenario)


def test_a_watch_sees_requests_and_leaves_no_trace() -> None:
    async def scenario() -> None:
        async with living() as rig:
            subject = subject_of(rig)
            assert ask(subject, "watched_requests") == {"watch": None}
            chain = rig.lives.broker.chain
            links = dict(chain._links)
            assert ask(subject, "watch_requests", client_id="a", most=2, seconds=61)[0] == "refused"
            assert ask(subject, "watch_requests", client_id="a", most=2, seconds=60) == {"watch": 1}
            kind, why = ask(subject, "watch_requests", client_id=None, most=2, seconds=60)
            assert (kind, why.startswith("Requests are being watched already, for 60 s")) == ("refused", True)
            await rig.call("PUT", "/v1/topics/orders")
            await rig.produce("orders", count=1)
            client, other = await Client("a").connect(rig.port), await Client("b").connect(rig.port)
            body = fetch_of_orders()
            for who in (other, client, client):
                assert (await who.ask(fetch, 4, body)).responses[0].partitions[0].high_watermark == 1
            found = ask(subject, "watched_requests", request=1)
            while found["is_running"]:
                await client.ask(fetch, 4, fetch.FetchRequest(max_wait_ms=0))  # a turn of the loop
                found = ask(subject, "watched_requests", request=1)
            assert [(each["api"], each["client_id"], each["outcome"]) for each in found["requests"]] == [
                ("Fetch", "a", "answered")
            ] * 2
            assert all(each["encoded_us"] is not None and each["sent_bytes"] > 0 for each in found["requests"])
            shown = json.loads(found["fields"]["request"])
            assert shown["topics"][0]["partitions"][0]["fetch_offset"] == 0
            assert json.loads(found["fields"]["response"])["responses"][0]["partitions"][0]["records"]["bytes"] > 0
            assert chain._links == links
            assert subject.watching is not None
            before = weakref.ref(subject.watching)
            assert ask(subject, "watch_requests", client_id=None, most=1, seconds=60) == {"watch": 2}
            gc.collect()
            assert before() is None, "only the last one is kept"
            ask(subject, "unwatch_requests")
            assert chain._links == links
            await client.close()
            await other.close()

    run(scenario)
