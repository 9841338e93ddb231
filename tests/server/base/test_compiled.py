"""server/base/compiled.py: what it says is what the import took."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import ottla.wire
from ottla.server.base.compiled import is_compiled
from ottla.wire import kernel
from tests.uncompiled import uncompiled


def test_it_asks_the_module_that_the_broker_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_compiled() == (not kernel.__file__.endswith(".py"))
    monkeypatch.setattr(ottla.wire, "kernel", SimpleNamespace(__file__="/somewhere/kernel.cpython-311-x86_64-linux-gnu.so"))
    assert is_compiled()
    monkeypatch.setattr(ottla.wire, "kernel", uncompiled(kernel))
    assert not is_compiled()
