"""Delegation tokens: who may see them, how one is made, used, renewed and ended, and that only who makes one sees its secret."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

import ottla.testing
from compat_tests.reference.kafka import HOST, free_port
from ottla.commands import tokens as asked
from ottla.commands.clients.client import Cluster
from ottla.console.cluster.source import Source
from ottla.console.subjects import tokens as subject
from ottla.console.subjects.any_broker import any_broker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import describe_delegation_token as describing
from tests.console.browser import Browser, browsing, cells
from tests.console.fakes import FakeSource

MODULE = "org.apache.kafka.common.security"
ALICE = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "alice-secret"}
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def at() -> Iterator[str]:
    """The address at which a broker with delegation tokens wants a login; alice may log in there."""
    ports = free_port(), free_port()
    users = f'{MODULE}.plain.PlainLoginModule required user_alice="alice-secret";'
    settings: dict[str, Any] = {
        "listeners": f"PLAINTEXT://{HOST}:{ports[0]},LOGIN://{HOST}:{ports[1]}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.login.plain.sasl.jaas.config": users,
        "listener.name.login.scram-sha-512.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
        "delegation.token.secret.key": "the secret key",
        "delegation.token.expiry.time.ms": str(24 * HOUR_MS),
        "delegation.token.max.lifetime.ms": str(7 * 24 * HOUR_MS),
    }
    with ottla.testing.Broker(**settings):
        yield f"{HOST}:{ports[1]}"


@pytest.fixture
def as_alice(at: str) -> Source:
    return Source(Cluster({"bootstrap.servers": at, "security.protocol": "SASL_PLAINTEXT", **ALICE}))


@pytest.fixture
def alice(as_alice: Source) -> Iterator[Browser]:
    with browsing(as_alice) as made:
        yield made


def test_a_cluster_that_shows_none_says_why(browser: Browser) -> None:
    answer = browser.get("/access/tokens")
    assert (answer.status, "shows delegation tokens only to whoever has logged in" in answer.text) == (200, True)
    assert "/access/tokens/new" not in answer.text
    answer = browser.post("/access/tokens/new")
    assert (answer.status, "shows delegation tokens only to whoever has logged in" in answer.text) == (400, True)
    answer = browser.get("/access/tokens/renew?id=x")
    assert (answer.status, "shows delegation tokens only to whoever has logged in" in answer.text) == (404, True)


def test_a_cluster_without_a_secret_key_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = describing.DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    monkeypatch.setattr(subject, "any_broker", lambda _: nullcontext(SimpleNamespace(call=lambda _: answer)))
    with browsing(FakeSource()) as browser:
        assert "delegation.token.secret.key" in browser.get("/access/tokens").text


def test_a_token_from_the_form_to_its_end(alice: Browser, as_alice: Source, audited: Callable[[], list[str]]) -> None:
    assert cells(alice.get("/access/tokens").text)[8:] == ["No token."]
    page = alice.post("/access/tokens/new", renewers="User:bob\r\n\r\n User:c:d ", lifetime="48")
    assert page.status == 200
    secret, properties = re.findall(r"<pre[^>]*data-copy>([^<]*)</pre>", page.text)
    assert f'password="{secret}" tokenauth="true";' in properties

    listed = alice.get("/access/tokens")
    assert secret not in listed.text
    name, owner, requester, renewers, *_ = cells(listed.text)[8:]
    assert (owner, requester, renewers) == ("User:alice", "User:alice", "User:bob, User:c:d")
    with any_broker(as_alice) as broker:
        ((token, known),) = asked.described(broker)
    assert (token.name, base64.b64decode(secret, validate=True)) == (name, known)
    assert token.latest_ms - token.issued_ms == 48 * HOUR_MS
    assert cells(alice.get("/access/tokens?q=BOB").text)[8] == name
    assert cells(alice.get("/access/tokens?q=carol").text)[8:] == ["No token fits."]

    path = f"/access/tokens/renew?id={name}"
    assert path in listed.text
    assert "User:bob, User:c:d, until" in alice.get(path).text
    assert alice.post(path, period="2").status == 303
    (renewed,) = subject.tokens(as_alice)
    assert 0 <= renewed.expires_ms - renewed.issued_ms - 2 * HOUR_MS < HOUR_MS
    assert alice.post(path, period="").status == 303
    (renewed,) = subject.tokens(as_alice)
    assert renewed.expires_ms - renewed.issued_ms > 23 * HOUR_MS

    path = f"/access/tokens/expire?id={name}"
    assert alice.get(path).status == 200
    assert alice.post(path, typed="yes").status == 400
    assert alice.post(path, typed=name).status == 303
    assert cells(alice.get("/access/tokens").text)[8:] == ["No token."]
    assert alice.get(path).status == 404

    lines = audited()
    assert lines[0] == f"make delegation token for the principal of this console: done: '{name}'"
    assert lines[1].startswith(f"renew delegation token '{name}' of 'User:alice': done: until 20")
    assert lines[3:] == [f"end delegation token '{name}' of 'User:alice': done"]
    assert secret not in "".join(lines)


def test_a_token_for_another(alice: Browser) -> None:
    page = alice.post("/access/tokens/new", owner="User:carol")
    assert "<dd>User:carol</dd>" in page.text
    name, owner, requester, renewers, *_ = cells(alice.get("/access/tokens?q=carol").text)[8:]
    assert (owner, requester, renewers) == ("User:carol", "User:alice", "–")
    answer = alice.post(f"/access/tokens/expire?id={name}", typed=name)
    assert (answer.status, "neither the owner of the token nor one of its renewers" in answer.text) == (400, True)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"owner": "carol"}, "owner: &#39;carol&#39; is not a principal; write User:carol"),
        ({"renewers": "User:a\nbob"}, "renewers: &#39;bob&#39; is not a principal"),
        ({"renewers": "User:a\n" * 101}, "renewers: there may be 100"),
        ({"renewers": "Group:x"}, "takes only principals of the type User here"),
        ({"lifetime": "0"}, "hours has to be a whole number from 1 to 1000000"),
    ],
)
def test_a_form_that_is_wrong_makes_none(alice: Browser, wrong: dict[str, str], why: str) -> None:
    before = cells(alice.get("/access/tokens").text)
    answer = alice.post("/access/tokens/new", **wrong)
    assert (answer.status, why in answer.text) == (400, True), answer.text
    assert cells(alice.get("/access/tokens").text) == before


def test_read_only_shows_them_and_has_no_form(as_alice: Source) -> None:
    subject.create(as_alice, None, [], -1)
    with browsing(as_alice, read_only=True) as browser:
        page = browser.get("/access/tokens")
        assert "User:alice" in cells(page.text)
        assert "/access/tokens/" not in page.text
        for path in ("/access/tokens/new", "/access/tokens/renew?id=x", "/access/tokens/expire?id=x"):
            assert browser.get(path).status == 403
            assert browser.post(path, typed="x").status == 403
