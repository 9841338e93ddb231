"""The test kit's page: what is shown, and which call each form makes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compat_tests.console.hostile import HOSTILE
from ottla.commands.output import Failure
from ottla.console.broker.kit import WITHIN_S
from ottla.console.errors import Missing
from ottla.console.pages.kit import LONGEST, as_json
from ottla.console.rendering.text import visible
from ottla.console.web.app import Beside
from tests.console.browser import browsing, cells, check_page
from tests.console.fakes import FakeInside, FakeSource

STATE = {"node_id": 1, "bootstrap": "127.0.0.1:1", "cluster_id": "c", "simulated": True, "nodes": [1, 2]}
FAULT = {
    "id": "f1",
    "on": {"api": "Produce"},
    "do": {"hold": True},
    "matches": 3,
    "hits": 2,
    "left": -1,
    "held": 1,
    "active": True,
}
REQUEST = {
    "seq": 7,
    "api": "Produce",
    "version": 9,
    "client_id": "app",
    "connection": 2,
    "at_ms": 0,
    "took_us": 1500,
    "outcome": "answered",
    "fault": "f1",
    "request": {"acks": -1},
    "response": None,
}
RECORDING = {"max": 10, "records": True, "requests": 1, "bytes": 2048, "last_seq": 7}


class Kit(FakeInside):
    """A kit that answers GET by path, and everything else with `done`."""

    def __init__(self, **by_name: Any) -> None:
        self.by_path: dict[str, Any] = {
            "/v1/state": STATE,
            "/v1/clock": {"now_ms": 0, "offset_ms": 7_200_000, "frozen": True},
            "/v1/faults": [],
            "/v1/snapshots": [],
            "/v1/recording": {**RECORDING, "max": 0, "last_seq": 0},
            "/v1/requests": [],
            **{f"/v1/{name}": answer for name, answer in by_name.items()},
        }
        self.done: Any = None
        self.calls: list[tuple[str, str, Any]] = []
        super().__init__({"kit": self._kit, "kit_done": lambda: self.done})

    def _kit(self, method: str, path: str, body: Any = None, query: Any = None) -> Any:
        if method == "GET":
            return self.by_path[path]
        self.calls.append((method, path, body))
        if isinstance(self.done, Exception):
            return self.done
        self.done = self.done or {"number": 1, "method": method, "path": path, "body": body, "is_over": True, "answer": {}}
        return self.done


def under_test(kit: Kit) -> Beside:
    return Beside(inside=kit, without_inside="", is_under_test=True)


def test_what_it_shows() -> None:
    kit = Kit(faults=[FAULT], snapshots=[{"name": "one two", "files": 12}], recording=RECORDING, requests=[REQUEST])
    with browsing(FakeSource(), beside=under_test(kit)) as browser:
        page = browser.get("/test?api=Produce&client=app").text
    found = cells(page)
    assert found[9:18] == [
        *("f1", '{"api": "Produce"}', '{"hold": true}', "3", "2", "no limit", "1", "▲ in force"),
        "Release\nRemove",
    ]
    assert found[21:24] == ["one two", "12", "Restore Delete"]
    assert found[-8:-5] == ["7 Produce v9", "app", "2"]
    assert found[-4:] == ["1.500", "answered", "▲ f1", 'Fields{"acks": -1} null']
    assert "/test/restore?name=one%20two" in page
    assert "with their records" in page
    assert "(frozen)" in page
    assert "2 h" in page
    assert ("kit", {"method": "GET", "path": "/v1/requests", "query": {"limit": "25", "api": "Produce", "client_id": "app"}}) in (
        kit.asked
    )


def test_a_page_that_is_not_there_leads_to_the_kit_like_every_other() -> None:
    with browsing(FakeSource(), beside=under_test(Kit())) as browser:
        missing = browser.get("/nothing")
        assert missing.status == 404
        for page in (missing.text, browser.get("/topics").text):
            assert '<li><a href="/test"' in page
        refused = browser.post("/topics")
    assert refused.status == 405
    assert "<h1>Not possible</h1>" in refused.text


@pytest.mark.parametrize(
    ("form", "call"),
    [
        (
            {"act": "fault", "api": " Fetch ", "topic": "t", "do": "wait, in ms", "value": "200", "times": "-1"},
            ("POST", "/v1/faults", {"on": {"api": "Fetch", "topic": "t"}, "do": {"delay_ms": 200}, "times": -1}),
        ),
        (
            {"act": "fault", "group": "g", "client_id": "a*", "do": "never answer", "value": "", "times": ""},
            ("POST", "/v1/faults", {"on": {"group": "g", "client_id": "a*"}, "do": {"blackhole": True}}),
        ),
        ({"act": "fault", "json": '{"do": {"observe": true}}'}, ("POST", "/v1/faults", {"do": {"observe": True}})),
        ({"act": "release", "id": "f1"}, ("POST", "/v1/faults/f1/release", None)),
        ({"act": "remove", "id": "a/b"}, ("DELETE", "/v1/faults/a%2Fb", None)),
        ({"act": "remove all"}, ("DELETE", "/v1/faults", None)),
        ({"act": "advance", "by": "2", "unit": "days"}, ("POST", "/v1/clock/advance", {"ms": 172_800_000})),
        (
            {"act": "advance", "by": "", "unit": "seconds", "keep_members": "1"},
            ("POST", "/v1/clock/advance", {"ms": 1000, "keep_members": True}),
        ),
        ({"act": "set", "at": "2040-03-01T00:00:00Z"}, ("POST", "/v1/clock/set", {"at": "2040-03-01T00:00:00Z"})),
        ({"act": "freeze"}, ("POST", "/v1/clock/freeze", None)),
        ({"act": "resume"}, ("POST", "/v1/clock/resume", None)),
        ({"act": "run", "what": "expiry"}, ("POST", "/v1/run", {"what": "expiry"})),
        ({"act": "snapshot", "name": ""}, ("POST", "/v1/snapshots", {})),
        ({"act": "snapshot", "name": "s"}, ("POST", "/v1/snapshots", {"name": "s"})),
        ({"act": "restart", "how": "kill", "down_ms": "5"}, ("POST", "/v1/restart", {"how": "kill", "down_ms": 5})),
        ({"act": "record", "max": "9", "records": "1"}, ("POST", "/v1/recording", {"max": 9, "records": True})),
        ({"act": "forget"}, ("DELETE", "/v1/requests", None)),
    ],
)
def test_each_form_is_a_call(form: dict[str, str], call: tuple[str, str, Any]) -> None:
    kit, source = Kit(), FakeSource()
    with browsing(source, beside=under_test(kit)) as browser:
        answer = browser.post("/test", **form)
    assert (answer.status, answer.headers["location"]) == (303, "/test")
    assert kit.calls == [call]
    assert "changed" in source.asked


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"act": "no"}, "act: there is no"),
        ({"act": "fault", "do": "x"}, "do: has to be one of"),
        ({"act": "fault", "do": "wait, in ms"}, "value: say how many ms"),
        ({"act": "fault", "do": "hold until released", "times": "x"}, "times has to be"),
        ({"act": "fault", "json": "{"}, "JSON: "),
        ({"act": "advance", "unit": "years"}, "unit: has to be one of"),
        ({"act": "record", "max": "-1"}, "max has to be"),
    ],
)
def test_a_form_that_cannot_be_meant_makes_no_call(form: dict[str, str], says: str) -> None:
    kit = Kit()
    with browsing(FakeSource(), beside=under_test(kit)) as browser:
        answer = browser.post("/test", **form)
    assert answer.status == 400
    assert says in answer.text
    assert kit.calls == []


@pytest.mark.parametrize(
    ("path", "name", "call"),
    [
        ("/test/reset", "reset", ("POST", "/v1/reset", None)),
        ("/test/restore?name=a%2Fb", "a/b", ("POST", "/v1/snapshots/a%2Fb/restore", None)),
        ("/test/delete?name=s", "s", ("DELETE", "/v1/snapshots/s", None)),
    ],
)
def test_what_throws_data_away_asks_for_a_name(path: str, name: str, call: tuple[str, str, Any]) -> None:
    kit = Kit()
    with browsing(FakeSource(), beside=under_test(kit)) as browser:
        assert browser.get(path).status == 200
        assert browser.post(path, typed="x").status == 400
        assert kit.calls == []
        assert browser.post(path, typed=name).status == 303
        assert kit.calls == [call]


def test_the_outcome_of_the_last_call() -> None:
    kit = Kit()
    with browsing(FakeSource(), beside=under_test(kit)) as browser:
        kit.done = {"number": 3, "method": "POST", "path": "/v1/restart", "body": {"down_ms": 9}, "is_over": False}
        assert "Still going on." in browser.get("/test").text
        kit.done |= {"is_over": True, "answer": {"timers": 4}}
        page = browser.get("/test").text
        assert "POST /v1/restart {&#34;down_ms&#34;: 9}" in page
        assert "{&#34;timers&#34;: 4}" in page
        kit.done = {**kit.done, "refused": "The broker is down."}
        assert "The broker is down." in browser.get("/test").text
        answer = browser.post("/test", act="freeze")
        assert (answer.status, "The broker is down." in answer.text) == (400, True)
    long = as_json(["x" * 9000])
    assert len(long) < LONGEST + 40
    assert long.endswith("(9,004 characters)")


def test_a_call_that_takes_a_while_is_waited_for_and_may_be_refused_then() -> None:
    kit, begun = Kit(), {"number": 7, "method": "POST", "path": "/v1/clock/advance", "body": {"ms": 1000}, "is_over": False}
    with browsing(FakeSource(), beside=under_test(kit)) as browser:
        kit.done = begun
        assert browser.post("/test", act="advance").status == 303  # it goes on
        kit.when_waited = lambda: setattr(kit, "done", {**begun, "is_over": True, "refused": "Not so far."})
        kit.done = begun
        answer = browser.post("/test", act="advance")
    assert (answer.status, "Not so far." in answer.text) == (400, True)
    assert kit.waited == [("kit_over", 7, WITHIN_S)] * 2


def test_a_broker_that_is_down_and_a_fault_that_is_gone() -> None:
    kit = Kit(state=Failure("The broker is down: it was stopped."), requests=Failure("api: there is no X."), recording=RECORDING)
    with browsing(FakeSource(), beside=under_test(kit)) as browser:
        page = browser.get("/test").text
        assert "The broker is down: it was stopped." in page
        assert "api: there is no X." in page
        kit.done = Missing("There is no fault f9.")
        kit.answers["kit_done"] = None
        answer = browser.post("/test", act="remove", id="f9")
        assert (answer.status, "There is no fault f9." in answer.text) == (400, True)


def test_only_under_test_and_read_only_has_no_forms() -> None:
    with browsing(FakeSource(), beside=Beside(inside=Kit())) as browser:
        assert browser.get("/test").status == 404
        assert browser.post("/test", act="freeze").status == 404
        assert 'href="/test"' not in browser.get("/test").text
    kit = Kit(faults=[FAULT], snapshots=[{"name": "s", "files": 1}], recording=RECORDING, requests=[REQUEST])
    with browsing(FakeSource(), beside=under_test(kit), read_only=True) as browser:
        page = browser.get("/test").text
        assert 'method="post"' not in page
        assert "/test/" not in page
        assert browser.post("/test", act="freeze").status == 403
        assert browser.get("/test/reset").status == 403
        assert kit.calls == []


def test_hostile_values_are_text_and_the_page_is_within_its_budget() -> None:
    faults = [{**FAULT, "id": value, "on": {"topic": value}} for value in HOSTILE]
    kit = Kit(faults=faults, snapshots=[{"name": value, "files": 1} for value in HOSTILE])
    with browsing(FakeSource(), beside=under_test(kit)) as browser:
        texts = "".join(check_page(browser.get("/test").text).texts)
    assert all(visible(value) in texts for value in HOSTILE)
    requests = [{**REQUEST, "client_id": value[:100], "request": {"a": value[:300]}, "response": "x" * 800} for value in HOSTILE]
    kit = Kit(recording=RECORDING, requests=requests[:25])
    with browsing(FakeSource(), beside=under_test(kit)) as browser:
        assert len(browser.get("/test").text.encode()) < 60_000
    assert json.loads(as_json({"a": None})) == {"a": None}
