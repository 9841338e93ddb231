"""wire/crc.py: the checksum, and how its extension module is loaded."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import PathFinder
from typing import Any

import pytest

from ottla.wire import crc

KNOWN = {b"": 0, b"123456789": 0xE3069283, bytes(32): 0x8A9136AA, b"\xff" * 32: 0x62A8AB43}
"""From RFC 3720, appendix B.4, and the catalogues of checksums."""


@pytest.mark.parametrize("data", KNOWN)
def test_the_checksum_is_crc_32c(data: bytes) -> None:
    assert crc.crc32c(data) == KNOWN[data]
    assert crc.crc32c(memoryview(data)) == KNOWN[data]
    assert crc.crc32c(data[5:], crc.crc32c(data[:5])) == KNOWN[data]


def test_the_package_finds_the_module_that_is_there_already() -> None:
    script = "from ottla.wire.crc import crc32c as ours; from crc32c import crc32c; assert ours is crc32c"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_where_the_package_looks_otherwise_the_package_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    import crc32c

    monkeypatch.delitem(sys.modules, "crc32c._crc32c")
    nothing: Any = lambda *_: None  # noqa: E731
    monkeypatch.setattr(PathFinder, "find_spec", nothing)
    assert crc._extension() is crc32c
