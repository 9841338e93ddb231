"""Tests of who is let in, what is refused, and in which order; over the whole application, with a source that nobody asks."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.commands.output import Failure
from ottla.console.pages import ACTIONS, PAGES
from ottla.console.web.app import NOT_YOURS, Beside
from ottla.console.web.security import FORM, MAX_FORM_BYTES, MAX_LOGIN_BYTES, Place, hosts_of
from ottla.console.web.sessions import MAX_SESSIONS, Sessions
from tests.console.browser import COOKIE, HOST, TOKEN, Browser, browsing, check_headers, check_page
from tests.console.fakes import FakeSource

NOBODY: Any = SimpleNamespace(bootstrap="nobody:9092")
"""A source that has an AttributeError for whoever gets through to it."""
SAME = {"Host": HOST, "Sec-Fetch-Site": "same-origin", "Origin": f"http://{HOST}", "Content-Type": FORM}


@pytest.fixture
def browser() -> Iterator[Browser]:
    with browsing(NOBODY) as made:
        yield made


def cookie(browser: Browser) -> dict[str, str]:
    return {"Cookie": f"{COOKIE}={browser.session}"}


def form(browser: Browser, **fields: str) -> bytes:
    return urlencode({"form_token": browser.sessions.form_token(browser.session), **fields}).encode()


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1",
        "127.0.0.1:8081",
        "localhost",
        "127.0.0.1:8080.evil.example",
        "",
        "[::1]:80",
    ],
)
def test_a_foreign_host_is_refused_whoever_asks(browser: Browser, host: str) -> None:
    for path in ("/", "/static/console.css", "/login", f"/?token={TOKEN}"):
        answer = browser.ask("GET", path, {**cookie(browser), "Host": host})
        assert answer.status == 421
        check_headers(answer)
        check_page(answer.text)
        assert "set-cookie" not in answer.headers
    assert browser.ask("GET", "/", cookie(browser)).status == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "[::1]:8080"])
def test_this_machine_by_any_of_its_names(browser: Browser, host: str) -> None:
    assert browser.ask("GET", "/new-topic", {**cookie(browser), "Host": host}).status == 200


def test_the_names_of_an_address() -> None:
    assert hosts_of("127.0.0.2", 80) >= {"127.0.0.2", "127.0.0.2:80", "localhost"}
    assert hosts_of("::1", 8080) == {"127.0.0.1:8080", "localhost:8080", "[::1]:8080"}


@pytest.mark.parametrize("path", [*PAGES, "/nothing", "/login", "/docs"])
def test_without_a_cookie_there_is_no_page(browser: Browser, path: str) -> None:
    for headers in ({}, {"Cookie": f"{COOKIE}=0"}, {"Cookie": f"other={browser.session}"}, {"Cookie": COOKIE}):
        answer = browser.ask("GET", path, {"Host": HOST, **headers})
        assert answer.status == 401
        check_headers(answer)
        assert 'action="/login"' in answer.text
        assert "nobody:9092" not in answer.text


def test_the_token_of_the_address_becomes_a_cookie(browser: Browser) -> None:
    answer = browser.ask("GET", "/?" + urlencode({"token": TOKEN}), {"Host": HOST})
    assert (answer.status, answer.headers["location"], answer.body) == (303, "/", b"")
    name, _, rest = answer.headers["set-cookie"].partition("=")
    value, *attributes = rest.split("; ")
    assert name == COOKIE
    assert {"HttpOnly", "SameSite=strict", "Path=/"} == set(attributes)
    assert browser.sessions.is_open(value)
    check_headers(answer)


def test_a_wrong_token_is_no_way_in(browser: Browser) -> None:
    for path in ("/?token=wrong", "/?token=", f"/topics?token={TOKEN}"):
        answer = browser.ask("GET", path, {"Host": HOST})
        assert answer.status == 401
        assert "set-cookie" not in answer.headers
    for fields in ({"token": "wrong"}, {}):
        assert browser.ask("POST", "/login", SAME, urlencode(fields).encode()).status == 401
    answer = browser.ask("POST", "/login", SAME, urlencode({"token": TOKEN}).encode())
    assert (answer.status, answer.headers["location"]) == (303, "/")


def test_the_redirect_leads_to_no_other_site(browser: Browser) -> None:
    for path in ("//evil.example/?token=", "/%2fevil.example?token=", "/\\evil.example?token="):
        answer = browser.ask("GET", path + TOKEN.replace(" ", "+"), {"Host": HOST})
        assert answer.status == 401


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get"])
def test_other_methods_are_refused(browser: Browser, method: str) -> None:
    assert browser.ask(method, "/new-topic", {**cookie(browser), **SAME}).status == 405


OTHER_SITES: list[dict[str, str]] = [
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"},
    {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:9999"},
    {"Sec-Fetch-Site": "none"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "null"},
    {"Sec-Fetch-Site": "same-origin", "Origin": f"https://{HOST}"},
    {"Sec-Fetch-Site": ""},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:8080"},
    {},
]


@pytest.mark.parametrize("headers", OTHER_SITES, ids=str)
@pytest.mark.parametrize("path", [*ACTIONS, "/login"])
def test_a_form_of_another_site_changes_nothing(browser: Browser, path: str, headers: dict[str, str]) -> None:
    given = {"Host": HOST, "Content-Type": FORM, **cookie(browser), **headers}
    answer = browser.ask("POST", path, given, form(browser, token=TOKEN))
    assert answer.status == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ACTIONS)
def test_a_form_needs_the_token_of_its_session(browser: Browser, path: str) -> None:
    other = browser.sessions.open(TOKEN) or ""
    wrong = [b"", b"form_token=", b"form_token=0", f"form_token={browser.sessions.form_token(other)}".encode()]
    for body in wrong:
        assert browser.ask("POST", path, {**SAME, **cookie(browser)}, body).status == 403
    assert browser.ask("POST", path, SAME, form(browser)).status == 401


def test_a_browser_that_says_less_is_believed_by_its_origin(browser: Browser) -> None:
    given = {"Host": HOST, "Origin": f"http://{HOST}", "Content-Type": FORM, **cookie(browser)}
    assert browser.ask("POST", "/new-topic", given, form(browser)).status == 400  # an empty name: it came through


@pytest.mark.parametrize("path", ACTIONS)
def test_read_only_takes_no_form(path: str) -> None:
    with browsing(NOBODY, read_only=True) as browser:
        answer = browser.post(path, name="t")
        assert answer.status == 403
        assert "--read-only" in answer.text


def test_get_changes_nothing(browser: Browser) -> None:
    only_posted = [path for path in ACTIONS if path not in PAGES]
    for path in only_posted:
        assert browser.get(path).status == 405
    assert browser.post("/topics").status == 405


def test_what_is_no_form_or_too_large_is_refused(browser: Browser) -> None:
    for kind in ("application/json", "multipart/form-data; boundary=x", "text/plain", ""):
        assert browser.ask("POST", "/new-topic", {**SAME, **cookie(browser), "Content-Type": kind}, b"{}").status == 415
    large = form(browser) + b"&x=" + b"x" * MAX_FORM_BYTES
    assert browser.ask("POST", "/new-topic", {**SAME, **cookie(browser)}, large).status == 413
    many = form(browser) + b"&a=1" * 100
    assert browser.ask("POST", "/new-topic", {**SAME, **cookie(browser)}, many).status == 400
    assert browser.ask("POST", "/new-topic", {**SAME, **cookie(browser)}, b"\xff").status == 400
    assert browser.ask("GET", "/topics?" + "a=1&" * 100, {"Host": HOST, **cookie(browser)}).status == 400


def test_of_a_stranger_only_a_short_form_is_read(browser: Browser) -> None:
    fits = urlencode({"token": TOKEN}).encode() + b"&x="
    fits += b"x" * (MAX_LOGIN_BYTES - len(fits))
    assert browser.ask("POST", "/login", SAME, fits).status == 303
    assert browser.ask("POST", "/login", SAME, fits + b"x").status == 413


def test_another_site_gets_no_page_but_a_link_is_followed(browser: Browser) -> None:
    image = {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    frame = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    link = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    for site in ("cross-site", "same-site"):
        for how, status in ((image, 403), (frame, 403), (link, 200)):
            given = {"Host": HOST, "Sec-Fetch-Site": site, **how, **cookie(browser)}
            assert browser.ask("GET", "/new-topic", given).status == status


def test_style_and_script_hold_no_data_and_need_no_cookie(browser: Browser) -> None:
    for name, kind in (("console.css", "text/css"), ("console.js", "javascript")):
        answer = browser.ask("GET", f"/static/{name}", {"Host": HOST})
        assert answer.status == 200
        assert kind in answer.headers["content-type"]
        check_headers(answer)
    for path in ("/static/", "/static/none", "/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py"):
        assert browser.ask("GET", path, {"Host": HOST}).status == 404


def test_a_bug_in_a_page_is_in_the_log_and_not_on_the_page(browser: Browser, caplog: pytest.LogCaptureFixture) -> None:
    answer = browser.get("/topics")
    assert answer.status == 500
    assert "SimpleNamespace" not in answer.text
    assert "has no attribute 'summary'" in caplog.text


def test_who_came_in_and_what_went_wrong_is_audited(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ottla.console.audit"), browsing(NOBODY) as browser:
        browser.ask("GET", "/?token=wrong", {"Host": HOST})
        browser.ask("POST", "/login", SAME, urlencode({"token": TOKEN}).encode())
        browser.post("/new-topic", name="t")
        browser.get("/topics")
    wrong, opened, failed = (record.getMessage() for record in caplog.records if record.name == "ottla.console.audit")
    assert wrong == "wrong token (session -, from 127.0.0.1)"
    assert opened.startswith("session opened (session ")
    assert failed.startswith("not known: '/new-topic': The page failed")


def test_what_is_audited_stays_on_its_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ottla.console.audit"), browsing(NOBODY) as browser:
        browser.post("/new-topic", name="a\n2026 INFO forged\u202e", partitions="x")
    (line,) = caplog.messages
    assert line.startswith("create topic 'a\\n2026 INFO forged\\u202e': refused: partitions has to be a whole number from 1 to ")
    assert line.endswith(", from 127.0.0.1)")
    assert browser.session not in line


def test_a_form_that_breaks_off_is_refused(browser: Browser) -> None:
    async def receive() -> Any:
        return {"type": "http.disconnect"}

    assert browser.ask("POST", "/new-topic", {**SAME, **cookie(browser)}, receive=receive).status == 400


@pytest.mark.parametrize(
    ("error", "status", "why"),
    [
        (Failure("nobody there"), 502, "nobody there"),
        (KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), 502, "not allowed for this user (topic)"),
        (KeyError("a bug"), 500, "The page failed; the console&#39;s log says where."),
    ],
)
def test_what_goes_wrong_in_a_page(
    error: Exception, status: int, why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> Any:
        raise error

    source = FakeSource()
    monkeypatch.setattr(source, "topic", broken)
    with browsing(source) as browser, caplog.at_level(logging.ERROR, "ottla.console"):
        answer = browser.get("/topics/t")
    assert (answer.status, source.asked) == (status, ["lost"] if status == 502 else [])
    assert why in answer.text
    assert [record.exc_info is not None for record in caplog.records] == ([True] if status == 500 else [])


def test_without_a_token_all_share_a_session_and_forms_are_guarded_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.console.audit")
    with browsing(FakeSource(), needs_token=False) as browser:
        for _ in range(MAX_SESSIONS + 1):
            answer = browser.ask("GET", "/topics", {"Host": HOST})
            assert (answer.status, "set-cookie" in answer.headers) == (200, False)
        assert browser.ask("GET", "/?token=old", {"Host": HOST}).status == 200
        assert caplog.messages == []
        (token,) = set(re.findall(r'name="form_token" value="([^"]*)"', browser.get("/new-topic").text))
        own = {"Host": HOST, "Origin": f"http://{HOST}", "Content-Type": FORM}
        assert browser.ask("POST", "/new-topic", own, b"name=a").status == 403
        foreign = {**own, "Origin": "http://evil.test"}
        assert browser.ask("POST", "/new-topic", foreign, f"form_token={token}".encode()).status == 403
        assert browser.ask("POST", "/login", own, b"token=x").status == 403
        assert browser.ask("POST", "/new-topic", own, f"form_token={token}&name=a&partitions=x".encode()).status == 400
        (line,) = caplog.messages
        assert line.endswith("(session -, from 127.0.0.1)")
        assert browser.ask("GET", "/topics", {"Host": "evil.test"}).status == 421


ENCRYPTED = Place(
    hosts_of("0.0.0.0", 8443, ("kafka.test", "*.pods.test", "192.0.2.1", "2001:db8::1"), 443), "__Host-c", is_encrypted=True
)


def test_with_tls_it_answers_to_the_names_of_its_certificate() -> None:
    ours = ["kafka.test:8443", "a.pods.test:8443", "192.0.2.1:8443", "[2001:db8::1]:8443", "localhost:8443"]
    foreign = ["kafka.test", "b.kafka.test:8443", "a.b.pods.test:8443", ".pods.test:8443", "*.pods.test:8443", "pods.test:8443"]
    foreign += ["0.0.0.0:8443", "[::]:8443", "192.0.2.2:8443", "kafka.test:443"]
    assert [host for host in [*ours, *foreign] if ENCRYPTED.answers_to(host)] == ours
    assert Place(hosts_of("0.0.0.0", 443, ("kafka.test",), 443), "").answers_to("kafka.test")
    with browsing(NOBODY, place=ENCRYPTED) as browser:
        assert browser.ask("GET", "/", {"Host": "evil.test:8443"}).status == 421


def test_with_tls_the_cookie_is_for_tls_and_forms_come_from_there() -> None:
    with browsing(NOBODY, place=ENCRYPTED) as browser:
        answer = browser.ask("GET", "/?" + urlencode({"token": TOKEN}), {"Host": "kafka.test:8443"})
        name, *attributes = answer.headers["set-cookie"].split("; ")
        assert name.startswith("__Host-c=")
        assert {"HttpOnly", "SameSite=strict", "Path=/", "Secure"} == set(attributes)
        body = urlencode({"token": TOKEN}).encode()
        for origin, status in (
            ("https://kafka.test:8443", 303),
            ("http://kafka.test:8443", 403),
            ("https://a.pods.test:8443", 403),
        ):
            given = {"Host": "kafka.test:8443", "Origin": origin, "Content-Type": FORM}
            assert browser.ask("POST", "/login", given, body).status == status


class Doorkeeper:
    """Users whose password is their name backwards."""

    names = ("alice", "root")

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def mark(self, name: str) -> str | None:
        return "1" if name in self.names else None

    def fits(self, name: str, password: str) -> bool:
        return name in self.names and password == name[::-1]


def log_in(browser: Browser, name: str, password: str) -> int:
    """Logs in, and has the browser keep that session; returns the status."""
    answer = browser.ask("POST", "/login", SAME, urlencode({"name": name, "password": password}).encode())
    browser.session = answer.headers.get("set-cookie", "").partition("=")[2].partition(";")[0]
    return answer.status


def test_a_user_comes_in_is_named_in_the_log_and_leaves(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.console.audit")
    with browsing(FakeSource(), users=Doorkeeper(), needs_token=False, read_only=True) as browser:
        page = browser.ask("GET", "/", {"Host": HOST})
        assert 'name="password"' in page.text
        assert 'name="token"' not in page.text
        assert log_in(browser, "alice", "wrong") == 401
        assert log_in(browser, "alice", "ecila") == 303
        session = browser.session
        assert "Log out alice" in browser.get("/topics").text
        assert browser.ask("POST", "/logout", {**SAME, **cookie(browser)}, b"form_token=x").status == 403
        answer = browser.post("/logout")
        assert (answer.status, answer.headers["location"]) == (303, "/")
        assert "Max-Age=0" in answer.headers["set-cookie"]
        assert browser.ask("GET", "/topics", {"Host": HOST, "Cookie": f"{COOKIE}={session}"}).status == 401
    lines = [re.sub(r"session \w{8}", "session S", message) for message in caplog.messages]
    assert lines == [
        "wrong password of 'alice' (session -, from 127.0.0.1)",
        "session opened (session S of alice, from 127.0.0.1)",
        "session ended (session S of alice, from 127.0.0.1)",
    ]


def test_a_log_out_of_which_the_broker_is_not_told_is_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "ottla.console.audit")

    def fail(*_: str) -> None:
        raise Failure("the broker's inside is gone")

    monkeypatch.setattr(Sessions, "tell_end", fail)
    with browsing(FakeSource()) as browser:
        assert browser.post("/logout").status == 303
        assert browser.ask("GET", "/topics", {"Host": HOST, **cookie(browser)}).status == 401
    assert caplog.messages[-1].startswith(
        "session ended, but may go on in the broker's next console: the broker's inside is gone ("
    )


def test_after_too_many_wrong_passwords_the_page_says_when_to_come_back() -> None:
    with browsing(NOBODY, users=Doorkeeper()) as browser:
        assert [log_in(browser, "alice", "wrong") for _ in range(11)] == [401] * 10 + [429]
        answer = browser.ask("POST", "/login", SAME, urlencode({"name": "alice", "password": "ecila"}).encode())
        assert (answer.status, "Try again in 15 min." in answer.text) == (429, True)
        check_headers(answer)
        check_page(answer.text)
        assert browser.ask("POST", "/login", SAME, urlencode({"token": TOKEN}).encode()).status == 303  # which nobody guesses


def test_with_an_authorizer_its_super_users_see_what_no_rule_covers_and_other_users_do_not() -> None:
    beside = Beside(inside=NOBODY, is_under_test=True)
    for seen_by, sees in ((frozenset({"root"}), ("root", "")), (None, ("root", "alice", ""))):
        with browsing(FakeSource(), users=Doorkeeper(), beside=beside, seen_by=seen_by) as browser:
            for name in ("root", "alice", ""):
                if name:
                    assert log_in(browser, name, name[::-1]) == 303
                else:
                    browser.session = browser.sessions.open(TOKEN) or ""
                assert ('href="/inside"' in browser.get("/topics").text) == (name in sees)
                if name not in sees:
                    for path in ("/inside", "/requests", "/test"):
                        assert NOT_YOURS.replace("'", "&#39;") in browser.get(path).text
                    assert browser.get("/files").status == 404
                    assert NOT_YOURS.replace("'", "&#39;") in browser.post("/test", act="reset").text
