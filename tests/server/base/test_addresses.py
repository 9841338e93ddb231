"""Which addresses are one source."""

from __future__ import annotations

import pytest

from ottla.server.base.addresses import source_of


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("10.1.2.4", "10.1.2.4"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("unknown", "unknown"),
        ("a:b", "a:b"),
        ("", ""),
    ],
)
def test_sources(host: str, source: str) -> None:
    assert source_of(host) == source
