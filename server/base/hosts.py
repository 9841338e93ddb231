"""Addresses of clients as Java writes them, and the networks that an access rule of Kafka 4.4 may name in place of one.

Kafka's rules name hosts by text, and compare it with what Java prints for the client's address: an IPv6 address has all of its
eight numbers there (`2001:db8:0:0:0:0:0:1`), where Python shortens it. A text with a slash in it is a network, `10.0.0.0/8` or
`2001:db8::/32`, and stands for each address in it. One that is no network stands for nobody.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final, NamedTuple

_IPV4: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
_IPV6: Final = re.compile(r"([^/]*)/([+-]?[0-9]{1,6})", re.ASCII)
_KEPT: Final = 10_000
"""So many texts are remembered with what they mean: about as many networks as an installation has rules."""


class Network(NamedTuple):
    """The addresses of a version (4 or 6) whose bits above the lowest `shift` are `number`."""

    version: int
    number: int
    shift: int


def java_form(host: str) -> str:
    """Returns an address as Java writes it; what is none as it is. The zone of an IPv6 address stays where it is."""
    address, percent, zone = host.partition("%")
    if ":" not in host:
        return host
    try:
        number = int(IPv6Address(address))
    except AddressValueError:
        return host
    return ":".join(f"{number >> shift & 0xFFFF:x}" for shift in range(112, -1, -16)) + percent + zone


@lru_cache(_KEPT)
def parse_network(text: str) -> Network | None:
    """Parses a network; returns None if the text is none."""
    if ":" in text:
        return _parse_ipv6(text)
    found = _IPV4.fullmatch(text)
    if found is None:
        return None
    *parts, bits = map(int, found.groups())
    if bits > 32 or any(part > 255 for part in parts):
        return None
    return Network(4, int.from_bytes(bytes(parts), "big") >> (32 - bits), 32 - bits)


def _parse_ipv6(text: str) -> Network | None:
    found = _IPV6.fullmatch(text)
    if found is None:
        return None
    bits = int(found[2])
    try:
        address = IPv6Address(found[1].partition("%")[0])
    except AddressValueError:
        return None
    if not 0 <= bits <= 128 or address.ipv4_mapped is not None:  # the latter is an IPv4 address to Java
        return None
    return Network(6, int(address) >> (128 - bits), 128 - bits)


def is_in_network(host: str, text: str) -> bool:
    """Returns whether a client's address is in the network that a text is. An address of one version is in no network of the
    other."""
    network = parse_network(text)
    if network is None:
        return False
    try:
        address = IPv6Address(host.partition("%")[0]) if ":" in host else IPv4Address(host)
    except AddressValueError:
        return False
    return address.version == network.version and int(address) >> network.shift == network.number
