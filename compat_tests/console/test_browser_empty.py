"""The console of a broker that has nothing yet, in Chromium: axe finds nothing on its empty pages, for a user who has logged in
by TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.console.axe import check
from compat_tests.console.chromium import chromium
from compat_tests.console.running import broker
from compat_tests.password_files import PASSWORD, line, write
from compat_tests.security.tls_files import BROKER

EMPTY: Final = (
    *("/", "/topics", "/topics?q=none", "/groups", "/groups?q=none", "/group?id=none", "/brokers", "/inside", "/requests"),
    *("/denied", "/transactions", "/transaction/hanging", "/access", "/access/users", "/access/tokens", "/access/quotas"),
    *("/broker/directories", "/broker/reassignments", "/broker/quorum", "/files", "/files?q=none", "/test"),
    *(f"/topics/empty{end}" for end in ("", "/messages", "/tail", "/groups", "/rates", "/producers", "/0/0")),
)


def test_axe_finds_nothing_on_empty_pages_which_a_user_sees_who_has_logged_in(tmp_path: Path) -> None:
    keystore, users = tmp_path / "console.pem", tmp_path / "users"
    keystore.write_text(BROKER.pem())
    write(users, line("alice"))
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice",
        "ottla.console.host": "0.0.0.0",
        "ottla.console.users": str(users),
        "listener.name.console.ssl.keystore.type": "PEM",
        "listener.name.console.ssl.keystore.location": str(keystore),
    }
    words = [word for name, value in settings.items() for word in ("--override", f"{name}={value}")]
    with broker(tmp_path / "data", "--test-port", "0", *words) as (_, bootstrap, url), chromium() as browser:
        assert url.startswith("https://localhost:")
        context = browser.new_context(viewport={"width": 1200, "height": 800}, ignore_https_errors=True)
        context.set_default_timeout(30_000)
        page = context.new_page()
        said: list[str] = []
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(url)
        check(page, "the login")
        page.get_by_label("Name").fill("alice")
        page.get_by_label("Password").fill("wrong")
        page.keyboard.press("Enter")
        page.get_by_role("alert").wait_for()
        check(page, "a wrong password")
        page.get_by_label("Name").fill("alice")
        page.get_by_label("Password").fill(PASSWORD)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Log out alice").wait_for()
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("empty", 1, 1)])["empty"].result(60)
        for path in EMPTY:
            page.goto(f"{url.rstrip('/')}{path}")
            check(page, path)
        page.get_by_role("button", name="Log out alice").click()
        page.get_by_label("Password").wait_for()
        assert said == []
