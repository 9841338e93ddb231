"""Delegation tokens from the console's forms, in a cluster of either kind where one logs in: made, renewed, ended."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.console.running import Visitor, console
from compat_tests.logging_in import MODULE, PasswordBroker
from compat_tests.reference.kafka import HOST
from compat_tests.waiting import wait_for


@pytest.fixture(scope="module")
def alice(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """A visitor of a console that has logged in as alice."""
    place: Path = tmp_path_factory.mktemp(f"tokens-{kind}")
    login = f'{MODULE}.plain.PlainLoginModule required username="alice" password="alice-secret";'
    file = place / "client.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    broker = PasswordBroker(kind, place)
    try:
        broker.start()
        with console(f"{HOST}:{broker.login_port}", "--command-config", str(file)) as address:
            yield Visitor(address)
    finally:
        broker.stop()


def listed(visitor: Visitor) -> list[str]:
    return visitor.get("/access/tokens").cells[8:]


def test_a_token_from_its_form_to_its_end(alice: Visitor) -> None:
    assert listed(alice) == ["No token."]
    page = alice.post("/access/tokens/new", alice.get("/access/tokens/new"), renewers="User:bob", lifetime="2")
    assert page.status == 200, page.text
    secret, _ = re.findall(r"<pre[^>]*data-copy>([^<]*)</pre>", page.text)
    assert len(base64.b64decode(secret, validate=True)) == 64
    wait_for(lambda: len(listed(alice)) == 8, "the token is there")
    name, owner, requester, renewers, issued, expires, latest, change = listed(alice)
    assert (owner, requester, renewers, change) == ("User:alice", "User:alice", "User:bob", "Renew End")
    assert expires == latest != issued  # two hours are less than a token lasts without them
    path = f"/access/tokens/renew?id={name}"
    assert alice.post(path, alice.get(path), period="1").status == 303
    wait_for(lambda: listed(alice)[5] != latest, "it lasts for an hour")
    path = f"/access/tokens/expire?id={name}"
    assert alice.post(path, alice.get(path), typed="no").status == 400
    assert alice.post(path, alice.get(path), typed=name).status == 303
    wait_for(lambda: listed(alice) == ["No token."], "the token is gone")


def test_a_token_of_another_obeys_only_that(alice: Visitor) -> None:
    page = alice.post("/access/tokens/new", alice.get("/access/tokens/new"), owner="User:carol")
    assert page.status == 200, page.text
    wait_for(lambda: listed(alice)[1:3] == ["User:carol", "User:alice"], "the token is there")
    path = f"/access/tokens/expire?id={listed(alice)[0]}"
    answer = alice.post(path, alice.get(path), typed=listed(alice)[0])
    assert (answer.status, "neither the owner of the token nor one of its renewers" in answer.text) == (400, True)
