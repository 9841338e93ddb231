"""Tests of what a console asks of a kit: its calls, and the last one with its outcome."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from ottla.server.base.clock import LoopClock
from ottla.server.inspect.questions import answer_line
from ottla.server.inspect.subject import Subject
from ottla.server.testkit.console_questions import ConsoleQuestions
from ottla.wire.messages import list_groups, metadata
from tests.server.testkit.lives_rig import Client, Rig, living, run


def subject_of(rig: Rig, *, shows_inside: bool = True) -> Subject:
    return about(ConsoleQuestions(rig.kit), shows_inside=shows_inside)


def about(asked: ConsoleQuestions, *, shows_inside: bool = True) -> Subject:
    return Subject(asked.living, LoopClock(), shows_inside=shows_inside, more=asked.questions)


def ask(subject: Subject, question: str, **arguments: Any) -> Any:
    said = json.loads(answer_line(subject, json.dumps({"id": 7, "question": question, "arguments": arguments}).encode()))
    del said["id"]
    (kind,) = said
    return said[kind] if kind == "answer" else (kind, said[kind])


def call(subject: Subject, method: str, path: str, body: Any = None, **query: str) -> Any:
    return ask(subject, "kit", method=method, path=path, body=body, query=query)


def test_a_call_that_is_over_at_once() -> None:
    async def scenario() -> None:
        async with living() as rig:
            subject = subject_of(rig)
            assert ask(subject, "kit_done") is None
            done = call(subject, "POST", "/v1/faults", {"on": {"api": "Fetch"}, "do": {"observe": True}})
            assert (done["number"], done["is_over"], done["answer"]["id"]) == (1, True, "f1")
            assert ask(subject, "kit_done") == done
            assert [fault["id"] for fault in call(subject, "GET", "/v1/faults")] == ["f1"]
            assert call(subject, "GET", "/v1/state", limit="0")["faults"] == 1
            assert ask(subject, "kit_done") == done  # looking is nothing that was done
            assert call(subject, "DELETE", "/v1/faults/f1")["number"] == 2

    run(scenario)


def test_a_call_that_takes_a_while_goes_on() -> None:
    async def scenario() -> None:
        async with living() as rig:
            asked = ConsoleQuestions(rig.kit)
            subject = about(asked)
            told: list[tuple[str, int, bool]] = []
            subject.hearers.add(lambda news, number: told.append((news, number, ask(subject, "kit_done")["is_over"])))
            assert call(subject, "POST", "/v1/clock/advance", {"ms": 1000})["is_over"] is False
            assert ask(subject, "kit_done")["is_over"] is False
            await asyncio.wait(asked._going_on)
            assert "timers" in ask(subject, "kit_done")["answer"]
            for outcome in ("answer", "refused"):  # for the second, there is one of this name
                call(subject, "POST", "/v1/snapshots", {"name": "one"})
                await asyncio.wait(asked._going_on)
                done = ask(subject, "kit_done")
                assert done["is_over"]
                assert {"answer", "refused"} & done.keys() == {outcome}
            assert told == [("kit_over", number, True) for number in (1, 2, 3)]

    run(scenario)


def test_a_watch_of_requests_marks_what_a_fault_acts_on() -> None:
    async def scenario() -> None:
        async with living() as rig:
            asked = ConsoleQuestions(rig.kit)
            subject = about(asked)
            asked.mark_faults_for(subject)
            fault = {"on": {"api": "Metadata"}, "do": {"error": "UNKNOWN_SERVER_ERROR"}}
            client = await Client("app").connect(rig.lives.broker.listeners[0].port)
            call(subject, "POST", "/v1/faults", fault)
            ask(subject, "watch_requests", client_id="app", most=9, seconds=60)
            for _ in range(2):
                await client.ask(metadata, 12, metadata.MetadataRequest())
            await client.ask(list_groups, 2, list_groups.ListGroupsRequest())
            found = ask(subject, "watched_requests")["requests"]
            assert [(each["api"], each["fault"]) for each in found] == [
                ("Metadata", "f1"),
                ("Metadata", None),
                ("ListGroups", None),
            ]
            await client.close()

    run(scenario)


def test_what_the_kit_refuses_and_what_is_not_for_pages() -> None:
    async def scenario() -> None:
        async with living() as rig:
            subject = subject_of(rig)
            kind, why = call(subject, "POST", "/v1/faults", {"on": {"api": "Fetsh"}, "do": {"observe": True}})
            assert (kind, "did you mean Fetch?" in why) == ("refused", True)
            assert call(subject, "GET", "/v1/faults/f9")[0] == "missing"
            assert call(subject, "GET", "/v1/nothing")[0] == "missing"
            for method, path in (("POST", "/v1/wait"), ("GET", "/v1/snapshots/s/archive")):
                assert call(subject, method, path) == ("refused", f"The console does not call {path}.")
            assert ask(subject, "kit_done") is None
            hidden = subject_of(rig, shows_inside=False)
            assert call(hidden, "POST", "/v1/clock/freeze")[0] == "refused"
            assert call(subject, "GET", "/v1/clock")["frozen"] is False
            assert ask(Subject(lambda: rig.lives.broker, LoopClock()), "kit_done")[0] == "refused"  # a broker that has no kit

    run(scenario)


def test_while_the_broker_is_down_its_inside_says_so() -> None:
    async def scenario() -> None:
        async with living() as rig:
            subject = subject_of(rig)
            await rig.lives.stop()
            kind, why = ask(subject, "who")
            assert (kind, why.startswith("The broker is down: ")) == ("refused", True)
            kind, why = call(subject, "GET", "/v1/state")
            assert (kind, why.startswith("The broker is down: ")) == ("refused", True)

    run(scenario)
