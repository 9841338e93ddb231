"""server/base/compiled.py: what it says is what the import took."""

from __future__ import annotations

from pathlib import Path

import pytest

import ottla
from ottla.server.base.compiled import is_compiled
from ottla.wire import integers
from tests.uncompiled import uncompiled


def test_it_says_what_the_import_took(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_compiled() == any(Path(ottla.__path__[0], "wire").glob("integers.*.so"))
    monkeypatch.setattr(integers, "COMPILED", True)
    assert is_compiled()
    monkeypatch.setattr(integers, "COMPILED", uncompiled(integers).COMPILED)
    assert not is_compiled()
