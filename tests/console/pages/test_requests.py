"""Requests as lanes: a watch is begun by a form, and shown by GET."""

from __future__ import annotations

from typing import Any

from compat_tests.console.hostile import HOSTILE
from ottla.commands.output import Failure
from ottla.console.pages.requests import HEIGHT, WIDTH, lanes_of
from ottla.console.rendering.text import visible
from ottla.console.web.app import Beside
from tests.console.browser import browsing, cells, check_page
from tests.console.fakes import FakeInside, FakeSource


def seen(after_us: float = 0, api: str = "Fetch", **more: Any) -> dict[str, Any]:
    return {
        "api": api,
        "version": 4,
        "client_id": "app",
        "host": "h",
        "port": 7,
        "correlation_id": 3,
        "at_ms": 0,
        "after_us": after_us,
        "decoded_us": 10.0,
        "handled_us": 90.0,
        "waited_us": None,
        "encoded_us": 100.0,
        "waits_for": None,
        "outcome": "answered",
        "fault": None,
        "sent_bytes": 64,
        **more,
    }


def watched(*requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    found = {"watch": 1, "client_id": None, "most": 9, "is_running": False, "left_s": 0.0, "fields": None}
    return {**found, "requests": list(requests), **more}


def test_a_lane_has_its_stages_in_one_scale() -> None:
    one, two = lanes_of([seen(), seen(800, waited_us=0.0)], 5)
    assert (one.number, one.y, two.number, two.y) == (6, 0, 7, HEIGHT)
    assert [(bar.stage, bar.x, bar.width) for bar in one.bars] == [
        ("decoded", 0, WIDTH / 100),
        ("handled", WIDTH / 100, WIDTH * 0.09),
        ("encoded", WIDTH / 10, WIDTH / 10),
    ]
    assert [bar.width for bar in two.bars][2] == 1.0  # what is short is seen
    assert lanes_of([], 0) == []


def test_a_watch_from_its_form_to_its_lanes() -> None:
    inside = FakeInside({"watched_requests": {"watch": None}, "watch_requests": {"watch": 1}})
    with browsing(FakeSource(), beside=Beside(inside=inside, without_inside="")) as browser:
        assert "Nothing has been watched lately" in browser.get("/requests").text
        answer = browser.post("/requests", client="app", n="20", seconds="5")
        assert (answer.status, answer.headers["location"]) == (303, "/requests")
        assert inside.asked[-1] == ("watch_requests", {"client_id": "app", "most": 20, "seconds": 5})
        browser.post("/requests", client="", n="", seconds="")
        assert inside.asked[-1] == ("watch_requests", {"client_id": None, "most": 100, "seconds": 10})
        inside.answers["watched_requests"] = watched(
            seen(), seen(2000, "Produce", waited_us=500.0, waits_for="records", outcome="waiting"), is_running=True, left_s=3.2
        )
        page = browser.get("/requests").text
        assert "2 requests of all clients; the watch goes on for 3 s at most" in page
        assert page.count("<rect") == 2 + 3 + 4
        assert cells(page)[9:18] == ["1 Fetch", "app", "0.000", "0.010", "0.090", "–", "", "0.100", "answered"]
        assert cells(page)[18:27] == ["2 Produce", "app", "2.000", "0.010", "0.090", "0.500", "records", "0.100", "waiting"]


def test_a_fault_that_acted_is_marked() -> None:
    inside = FakeInside({"watched_requests": watched(seen(), seen(500, fault="f1"))})
    with browsing(FakeSource(), beside=Beside(inside=inside, without_inside="", is_under_test=True)) as browser:
        page = browser.get("/requests").text
    assert cells(page)[17] == "answered"
    assert cells(page)[26] == "answered ▲ by fault f1"
    assert page.count("<text ") == 1


def test_a_click_shows_the_fields() -> None:
    fields = {"request": '{\n "topics": []\n}', "response": None}
    inside = FakeInside({"watched_requests": watched(seen(), fields=fields)})
    with browsing(FakeSource(), beside=Beside(inside=inside, without_inside="")) as browser:
        page = browser.get("/requests?request=1").text
        assert inside.asked[-1] == ("watched_requests", {"request": 0})
        assert "&#34;topics&#34;: []" in page
        assert "Its fields are not shown" in page
        assert "<svg" not in page
        inside.answers["watched_requests"] = watched(seen())
        assert "<svg" in browser.get("/requests?request=9").text
        assert browser.get("/requests?request=x").status == 400


def test_what_cannot_be_watched_is_said_beside_the_form() -> None:
    inside = FakeInside({"watched_requests": {"watch": None}, "watch_requests": Failure("Requests are being watched already.")})
    with browsing(FakeSource(), beside=Beside(inside=inside, without_inside="")) as browser:
        answer = browser.post("/requests", client="<b>", n="5", seconds="5")
        assert answer.status == 400
        assert "being watched already" in answer.text
        assert 'value="&lt;b&gt;"' in answer.text
        assert browser.post("/requests", n="501").status == 400
        assert browser.post("/requests", seconds="61").status == 400
    inside.answers["watched_requests"] = watched(seen())
    with browsing(FakeSource(), beside=Beside(inside=inside, without_inside=""), read_only=True) as browser:
        answer = browser.get("/requests")
        assert (answer.status, "The watch is over" in answer.text, "<form" in answer.text) == (200, True, False)
        assert browser.post("/requests").status == 403
    with browsing(FakeSource()) as browser:
        assert "ottla --console-port" in browser.post("/requests").text


def test_many_requests_are_paged_and_within_the_budget_and_hostile_ones_are_text() -> None:
    requests = [seen(at * 100, client_id=HOSTILE[at % len(HOSTILE)][:100]) for at in range(500)]
    fields = {"request": "".join(HOSTILE)[:8192], "response": None}
    inside = FakeInside({"watched_requests": watched(*requests)})
    with browsing(FakeSource(), beside=Beside(inside=inside, without_inside="")) as browser:
        pages = [browser.get(f"/requests?page={page}").text for page in range(1, 8)]
        inside.answers["watched_requests"] = watched(*requests, fields=fields)
        chosen = browser.get("/requests?request=400").text
    assert max(len(page.encode()) for page in [*pages, chosen]) < 80_000  # with names far longer than is usual
    texts = "".join(text for page in pages for text in check_page(page).texts)
    assert all(visible(value[:100]) in texts for value in HOSTILE)
