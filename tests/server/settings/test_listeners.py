"""Listeners: addresses, protocols, and what cannot be listened on or advertised to clients."""

from __future__ import annotations

import pytest

from ottla.log.config_def import ConfigError
from ottla.server.settings.listeners import (
    ListenerAddress,
    check_advertised,
    check_open,
    parse_addresses,
    parse_protocol_map,
    reachable_host,
)
from tests.fakes import MACHINE, NotingNetwork

PLAIN = {"PLAINTEXT": "PLAINTEXT", "OUT": "PLAINTEXT", "SECURE": "SSL"}


def addresses(*texts: str) -> tuple[ListenerAddress, ...]:
    return parse_addresses("listeners", texts, PLAIN)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("PLAINTEXT://:9092", "", 9092),
        ("plaintext://localhost:0", "localhost", 0),
        (" PLAINTEXT://10.0.0.1:65535 ", "10.0.0.1", 65535),
        ("PLAINTEXT://[::1]:9092", "::1", 9092),
        ("PLAINTEXT://my-host_1.example:9092", "my-host_1.example", 9092),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert addresses(text) == (ListenerAddress("PLAINTEXT", host, port, "PLAINTEXT"),)


def test_addresses_are_written_as_they_are_read() -> None:
    for text in ("PLAINTEXT://:9092", "PLAINTEXT://[::1]:9092"):
        assert str(addresses(text)[0]) == text


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["localhost:9092"], "'localhost:9092' is not an address such as"),
        (["PLAINTEXT://host"], "is not an address"),
        (["PLAINTEXT://::1:9092"], "is not an address"),
        (["PLAINTEXT://host:65536"], "65536 of PLAINTEXT is not a port; use 0 to 65535"),
        (["PLAINTEXT://host:-1"], "-1 of PLAINTEXT is not a port"),
        (["NEW://host:1"], "add NEW:PLAINTEXT to listener.security.protocol.map"),
        (["OUT://a:1", "out://b:2"], "two listeners are named OUT"),
    ],
)
def test_what_is_no_address(texts: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        addresses(*texts)
    assert str(refused.value).startswith("listeners: ")


def test_a_port_is_for_one_listener() -> None:
    for other in ("OUT://:1", "OUT://host:1"):
        with pytest.raises(ConfigError, match="PLAINTEXT and OUT both want port 1"):
            check_open(addresses("PLAINTEXT://:1", other))
    check_open(addresses("PLAINTEXT://127.0.0.1:1", "OUT://127.0.0.2:1"))
    check_open(addresses("PLAINTEXT://:0", "OUT://:0"))


@pytest.mark.parametrize(
    ("advertised", "message"),
    [("PLAINTEXT://0.0.0.0:1", "0.0.0.0 is not an address that a client can"), ("OUT://a:1", "OUT is not in listeners")],
)
def test_what_cannot_be_advertised(advertised: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_advertised(addresses(advertised), addresses("PLAINTEXT://:1"))


def test_protocol_maps() -> None:
    assert parse_protocol_map(" a:plaintext, B:SSL ,") == {"A": "PLAINTEXT", "B": "SSL"}
    for wrong in ("A", "A:", ":SSL", "A:TLS"):
        with pytest.raises(ConfigError, match="is not NAME:PROTOCOL"):
            parse_protocol_map(wrong)
    with pytest.raises(ConfigError, match="A has two protocols"):
        parse_protocol_map("A:SSL,A:PLAINTEXT")


def test_all_interfaces_are_advertised_by_the_machine_s_name() -> None:
    network = NotingNetwork()
    assert [reachable_host(host, network) for host in ("0.0.0.0", "", "elsewhere")] == [MACHINE, MACHINE, "elsewhere"]
