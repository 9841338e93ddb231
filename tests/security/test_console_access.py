"""Tests of what both kinds of console have in common: packages, tokens, the address that is printed."""

from __future__ import annotations

import importlib.util

import pytest

from ottla.security.console_access import MIN_TOKEN, PACKAGES, address_of, missing_packages, token_problem


@pytest.mark.parametrize(
    ("host", "names", "address"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:80/"),
        ("::1", None, "http://[::1]:80/"),
        ("0.0.0.0", ("*.test", "a.test", "192.0.2.1"), "https://a.test:80/"),
        ("192.0.2.7", ("2001:db8::1",), "https://[2001:db8::1]:80/"),
        ("192.0.2.7", ("*.test",), "https://192.0.2.7:80/"),
        ("192.0.2.7", (), "https://192.0.2.7:80/"),
        ("127.0.0.1", ("a.test", "127.0.0.1", "localhost"), "https://127.0.0.1:80/"),
        ("127.0.0.1", ("a.test", "localhost"), "https://localhost:80/"),
        ("127.0.0.1", ("a.test",), "https://127.0.0.1:80/"),
    ],
)
def test_the_address_is_one_that_a_browser_takes_if_there_is_one(host: str, names: tuple[str, ...] | None, address: str) -> None:
    assert address_of(host, 80, names) == address


@pytest.mark.parametrize("token", ["x" * (MIN_TOKEN - 1), "with a space in it", "ä" * MIN_TOKEN, "a" * MIN_TOKEN + "\n"])
def test_a_token_that_is_short_or_odd_is_refused(token: str) -> None:
    assert token_problem(token) == "has to be 16 characters or more, in ASCII, without spaces"
    assert token_problem("x" * MIN_TOKEN) is None


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_packages() == []
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == PACKAGES[1] else find_spec(name))
    assert missing_packages() == [PACKAGES[1]]
