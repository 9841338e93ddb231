"""Says which client addresses are one source, for what is counted or shared out by source, and which are of this machine.

An IPv4 address is one. Of IPv6 it is a network of 64 bits: that is what a single line or machine is given, so whoever goes by
whole addresses counts one client as many as it likes.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Final

_PREFIX_BITS: Final = 64
_OTHER_BITS: Final = 128 - _PREFIX_BITS
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
"""The addresses that a translator makes of IPv4 addresses (RFC 6052): all of them are in one network of 64 bits."""


def source_of(host: str) -> str:
    """Returns the source of an address as connections have it: an IPv4 address as it is, also where a socket of IPv6 writes it
    as `::ffff:192.0.2.1`, or a translator as `64:ff9b::192.0.2.1`; an IPv6 address as its network, such as `2001:db8::/64`. A
    text that is no address is its own."""
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    if address in _TRANSLATED:
        return str(IPv4Address(address.packed[-4:]))
    return f"{IPv6Address(int(address) >> _OTHER_BITS << _OTHER_BITS)}/{_PREFIX_BITS}"


def is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches a listener at this host."""
    return host in ("localhost", "::1") or (host.startswith("127.") and host.replace(".", "").isdecimal())
