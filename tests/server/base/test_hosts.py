"""Addresses in Java's form, and the networks that rules may name. What Kafka makes of odd ones is asked in
tests/server/security/test_authorizer_oracle.py."""

from __future__ import annotations

import pytest

from ottla.server.base.hosts import is_in_network, java_form, parse_network


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::a0:5", "2001:db8:0:0:0:0:a0:5"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("unknown", "unknown"),
        ("a:b", "a:b"),
        ("*", "*"),
    ],
)
def test_java_form(host: str, written: str) -> None:
    assert java_form(host) == written


@pytest.mark.parametrize(
    ("network", "inside", "outside"),
    [
        ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0", "::1"]),
        ("10.1.2.3/31", ["10.1.2.2", "10.1.2.3"], ["10.1.2.1", "10.1.2.4"]),
        ("10.1.2.3/32", ["10.1.2.3"], ["10.1.2.2"]),
        ("0.0.0.0/0", ["1.2.3.4"], ["::", "unknown", ""]),
        ("2001:db8::/32", ["2001:db8::1", "2001:db8:ffff:0:0:0:0:1"], ["2001:db7::1", "10.0.0.1"]),
        ("fe80::/10", ["fe80::1%eth0"], ["fec0::1"]),
        ("::/0", ["::1"], ["10.0.0.1", "a:b"]),
        ("::1/128", ["::1"], ["::2"]),
    ],
)
def test_networks(network: str, inside: list[str], outside: list[str]) -> None:
    assert parse_network(network) is not None
    assert [is_in_network(host, network) for host in inside] == [True] * len(inside)
    assert [is_in_network(host, network) for host in outside] == [False] * len(outside)


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.0", "10.0.0.0/33", "10.0.0.256/8", "10.0.0/8", "10.0.0.0/255.0.0.0", "10.0.0.0/8 ", "/8", "x/8", "10.0.0.0/-1",
        "::/129", "::/-1", "::", "::1/64/64", "::g/0", "::/", "::/x", "::ffff:10.0.0.0/104", "*/8",
    ],
)  # fmt: skip
def test_what_is_no_network_has_nobody_in_it(text: str) -> None:
    assert parse_network(text) is None
    assert not is_in_network("10.0.0.0", text)
    assert not is_in_network("::", text)
