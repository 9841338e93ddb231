"""Tests of the page about what is inside the broker, with what a stranger can have written, and the sentence where there is no
inside."""

from __future__ import annotations

from typing import Any

from compat_tests.console.hostile import HOSTILE
from ottla.commands.output import Failure
from ottla.console.broker.inside import NO_BROKER
from ottla.console.errors import Missing
from ottla.console.rendering.text import visible
from ottla.console.web.app import Beside
from tests.console.browser import browsing, cells, check_page
from tests.console.fakes import FakeInside, FakeSource, group_state

CONNECTION = {"client_id": "app", "software": "kit", "software_version": "1", "host": "h", "port": 7, "principal": "User:a"}
OPEN = {
    "topic": "t",
    "partition": 1,
    "producer_id": 8,
    "producer_epoch": 0,
    "first_offset": 5,
    "last_timestamp_ms": 0,
    "behind": 3,
}


TRAFFIC = {"topic": "busy", "records_in": 1400, "bytes_in": 3072, "bytes_out": 0}


def answers(**more: Any) -> dict[str, Any]:
    return {
        "who": {"version": "1", "node": 1, "cluster": "c", "directories": ["/d"], "started_ms": 0},
        "health": {"reasons": [], "connections": 1, "refused": 0, "partitions": 51, "is_measured": True},
        "traffic": {"records_in": 1500, "bytes_in": 4096, "bytes_out": 0, "topics": [TRAFFIC], "left_off": 2},
        "requests": {"apis": None},
        "connections": {"connections": [], "left_off": 0},
        "open_transactions": {"transactions": [], "left_off": 0},
        "followers": {"followers": [], "left_off": 0},
        **more,
    }


def test_all_of_it() -> None:
    connection = {**CONNECTION, "listener": "PLAINTEXT", "waits": True, "muted_for_ms": None}
    told = answers(
        requests={
            "apis": [{"api": "Fetch", "requests": 1234, "p50_us": 500, "p99_us": 12_345}],
            "errors": [{"api": "Fetch", "error": "OFFSET_OUT_OF_RANGE", "times": 2}],
        },
        connections={"connections": [connection, {**connection, "muted_for_ms": 20}], "left_off": 3},
        open_transactions={"transactions": [OPEN], "left_off": 0},
        followers={
            "followers": [{"topic": "t", "partition": 0, "follower": 2, "behind": 9, "in_sync": False}],
            "left_off": 0,
        },
    )
    inside = FakeInside(told)
    with browsing(FakeSource(), beside=Beside(inside=inside, without_inside="")) as browser:
        page = browser.get("/inside").text
        found = cells(page)
    assert found[4:8] == ["busy", "1,400", "3.0 KiB", "0 B"]
    assert "Since the start: 1,500 records (4.0 KiB) in, 0 B out;" in page
    assert "and 2 topics more" in page
    found = found[8:]
    assert found[4:8] == ["Fetch", "1,234", "0.50", "12.35"]
    assert found[11:14] == ["Fetch", "OFFSET_OUT_OF_RANGE", "2"]
    assert found[20:26] == ["app", "h:7", "kit 1", "User:a", "PLAINTEXT", "○ waits for an answer"]
    assert found[31] == "▲ held back for 20 ms"
    assert found[38:42] == ["t", "1", "8 epoch 0", "5"]
    assert found[-5:] == ["t", "0", "2", "9", "▲ not in sync"]
    assert "and 3 connections more" in page
    assert ("connections", {"limit": 200}) in inside.asked


def test_without_metrics_and_with_reasons() -> None:
    health = {"reasons": ["this broker is fenced"], "connections": 0, "refused": 0, "partitions": 0, "is_measured": False}
    with browsing(FakeSource(), beside=Beside(inside=FakeInside(answers(health=health)), without_inside="")) as browser:
        page = browser.get("/inside").text
        assert "this broker is fenced" in browser.get("/").text
    assert "this broker is fenced" in page
    assert "They are not counted" in page


def test_without_an_inside_a_sentence_says_what_brings_it() -> None:
    with browsing(FakeSource(states_of=[group_state("g")])) as browser:
        for path in ("/inside", "/requests", "/", "/group?id=g"):
            page = browser.get(path)
            assert page.status == 200
            assert NO_BROKER in page.text
            assert 'href="/inside"' not in page.text


def test_the_overview_and_a_group_with_an_inside() -> None:
    timers = [
        {"timer": "session", "member_id": "m", "due_in_ms": 4500},
        {"timer": "rebalance", "member_id": None, "due_in_ms": 10},
    ]
    inside = FakeInside(answers(group={"timers": timers}))
    with browsing(FakeSource(states_of=[group_state("g")]), beside=Beside(inside=inside, without_inside="")) as browser:
        page = browser.get("/").text
        assert '<a href="/inside">This broker</a> serves clients' in page
        assert "start the broker with --metrics-port 0 to have them counted" in page
        assert NO_BROKER not in page
        assert cells(browser.get("/group?id=g").text)[-6:] == ["session", "m", "4.5", "rebalance", "", "0.0"]
        for error in (Missing("This broker coordinates no group g."), Failure("late")):
            inside.answers["group"] = error
            assert "Another broker coordinates this group" in browser.get("/group?id=g").text
        inside.answers["health"] = Failure("late")
        page = browser.get("/").text
        assert "what is inside the broker is not known: late" in page
        assert "This console started" in page


def test_the_overview_has_the_brokers_age_its_requests_and_its_traffic() -> None:
    inside = FakeInside()
    with browsing(FakeSource(), beside=Beside(inside=inside, without_inside="")) as browser:
        for look in range(3):
            apis = [{"api": f"Api{at}", "requests": 1000 * look, "p50_us": 500, "p99_us": 12_345} for at in range(8)]
            errors = [{"api": "Fetch", "error": f"E{at}", "times": 2} for at in range(8)]
            traffic = {"records_in": look, "bytes_in": look, "bytes_out": look, "topics": [], "left_off": 3}
            inside.answers = answers(traffic=traffic, requests={"apis": apis, "errors": errors})
            page = browser.get("/").text
        inside.answers = answers(requests={"apis": apis, "errors": []})
        assert "No error was answered." in browser.get("/").text
    assert ("traffic", {"limit": 0}) in inside.asked
    assert "<dt>This broker</dt><dd>1, ottla 1</dd>" in page
    assert '<dt>Up since</dt><dd><time title="1970-01-01 00:00:00.000+00:00 (0 ms)">' in page
    assert "days)</span>" in page
    found = cells(page)
    at = found.index("Api0")
    assert found[at : at + 4] == ["Api0", "2,000", "0.50", "12.35"]
    assert ("Api5" in found, "Api6" in found, "E5" in found, "E6" in found) == (True, False, True, False)
    assert page.count("<svg") == 3
    assert "Requests in requests/s" in page


def test_hostile_values_are_text() -> None:
    connections = [
        {
            "client_id": value,
            "software": value,
            "software_version": value,
            "host": value,
            "port": 1,
            "principal": value,
            "listener": value,
            "waits": False,
            "muted_for_ms": None,
        }
        for value in HOSTILE
    ]
    opened = [{**OPEN, "topic": value} for value in HOSTILE]
    told = answers(
        connections={"connections": connections, "left_off": 0}, open_transactions={"transactions": opened, "left_off": 0}
    )
    with browsing(FakeSource(), beside=Beside(inside=FakeInside(told), without_inside="")) as browser:
        texts = "".join(check_page(browser.get("/inside").text).texts)
    assert all(visible(value) in texts for value in HOSTILE)
