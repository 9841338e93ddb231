"""Says which client addresses are one source, for what is counted or shared out by source.

An IPv4 address is one. Of IPv6 it is a network of 64 bits: that is what a single line or machine is given, so whoever goes by
whole addresses counts one client as many as it likes.
"""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Final

_PREFIX_BITS: Final = 64
_OTHER_BITS: Final = 128 - _PREFIX_BITS


def source_of(host: str) -> str:
    """Returns the source of an address as connections have it: an IPv4 address as it is, an IPv6 address as its network, such as
    `2001:db8::/64`. A text that is no address is its own source."""
    if ":" not in host:
        return host
    try:
        number = int(IPv6Address(host.partition("%")[0]))
    except ValueError:
        return host
    return f"{IPv6Address(number >> _OTHER_BITS << _OTHER_BITS)}/{_PREFIX_BITS}"
