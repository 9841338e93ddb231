"""A record from a form."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.console.cluster.changes import NewRecord
from ottla.console.errors import BadInput
from ottla.console.pages import produce
from ottla.console.records.reading import Record
from tests.console.browser import Browser, cells
from tests.console.fakes import topic_summary


def test_what_is_sent_is_there(browser: Browser, topic: Callable[..., str]) -> None:
    name = topic("produce", 3)
    form = {"partition": "2", "key": "kéy", "value": "line\r\nline", "headers": "a=1\r\n\r\nb = x=y"}
    answer = browser.post(f"/topics/{name}/produce", **form)
    assert (answer.status, answer.headers["location"]) == (303, f"/topics/{name}/2/0")
    page = browser.get(answer.headers["location"]).text
    assert ">kéy</pre>" in page
    assert ">line\nline</pre>" in page
    assert cells(page)[2:] == ["a", "1", "b", "x=y"]
    answer = browser.post(f"/topics/{name}/produce", partition="1", value="00 fF", as_hex="1")
    assert browser.get(f"{answer.headers['location']}/value").body == b"\x00\xff"


def test_the_key_decides_where_a_record_goes(browser: Browser, topic: Callable[..., str]) -> None:
    name = topic("produce-by-key", 50)
    places = {browser.post(f"/topics/{name}/produce", key="k", value="v").headers["location"].split("/")[3] for _ in range(3)}
    assert len(places) == 1


def test_what_the_broker_refuses_is_said_and_the_form_is_kept(browser: Browser, topic: Callable[..., str]) -> None:
    name = topic("produce-compacted", cleanup_policy="compact")
    answer = browser.post(f"/topics/{name}/produce", value="</textarea>\u00a0v", no_value="")
    assert answer.status == 400
    assert "the topic refused the record" in answer.text
    assert "\n&lt;/textarea&gt;\u00a0v</textarea>" in answer.text


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"partition": "3"}, "partition has to be a whole number from 0 to 2"),
        ({"value": "0", "as_hex": "1"}, "value has to be pairs of hexadecimal digits"),
        ({"value": "x" * 1_048_577}, "value is larger than 1,048,576 bytes"),
        ({"headers": "a"}, "headers: each line has to be name=value"),
        ({"headers": "a\0=1"}, "headers: each line has to be name=value"),
        ({"key": "\ud800"}, "key has to be text"),
    ],
)
def test_what_is_no_record_names_the_field(form: dict[str, str], why: str) -> None:
    with pytest.raises(BadInput, match=f"^{why}"):
        produce.record_of(topic_summary("t", 3), form)


def test_blank_is_no_key_and_an_empty_value() -> None:
    topic = topic_summary("t", 3)
    assert produce.record_of(topic, {}) == NewRecord("t", None, None, b"", [])
    assert produce.record_of(topic, {"value": "x", "no_value": "1"}) == NewRecord("t", None, None, None, [])


def test_a_record_again(browser: Browser, topic: Callable[..., str]) -> None:
    name = topic("produce-again")
    form = {"key": "k", "value": "a\n</textarea>", "headers": "h=1=2\nx="}
    for sent in (form, {"key": "00", "value": "ff0d", "as_hex": "1"}, {"key": "k", "no_value": "1"}):
        place = browser.post(f"/topics/{name}/produce", **sent).headers["location"].rpartition("/")[2]
        page = browser.get(f"/topics/{name}/produce?again=0.{place}")
        assert page.status == 200
        again = produce.fields_of(record_at(browser, name, int(place)))
        assert {field: text for field, text in again.items() if text and field != "partition"} == sent
        assert produce.record_of(topic_summary(name, 1), again).value == produce.record_of(topic_summary(name, 1), sent).value
    assert browser.get(f"/topics/{name}/produce?again=0.99").status == 404
    assert browser.get(f"/topics/{name}/produce?again=9.0").status == 404
    assert browser.get(f"/topics/{name}/produce?again=x").status == 400


def record_at(browser: Browser, name: str, offset: int) -> Record:
    parts = [browser.get(f"/topics/{name}/0/{offset}/{part}") for part in ("key", "value")]
    key, value = (one.body if one.status == 200 else None for one in parts)
    headers = [("h", b"1=2"), ("x", b"")] if offset == 0 else []
    return Record(0, offset, 0, False, key, value, headers)


@pytest.mark.parametrize(
    "record",
    [
        Record(0, 0, 0, False, b"", b"v", []),
        Record(0, 0, 0, False, None, b"v", None),
        Record(0, 0, 0, False, None, b"v", [("h", None)]),
        Record(0, 0, 0, False, None, b"v", [("h=", b"v")]),
        Record(0, 0, 0, False, None, b"v", [("h", b"a\x0bb")]),
        Record(0, 0, 0, False, None, b"v" * (produce.MAX_AGAIN_BYTES + 1), []),
    ],
)
def test_what_a_form_cannot_hold_is_not_filled_in(record: Record) -> None:
    with pytest.raises(BadInput, match="ottla produce"):
        produce.fields_of(record)
