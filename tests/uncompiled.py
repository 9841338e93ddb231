"""Loads the source of a module that setup.py compiles, for tests that compare the two or try both."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ottla


def uncompiled(module: ModuleType) -> ModuleType:
    """Returns another module made of the same source, which the interpreter runs as it stands."""
    _, *rooms, plain = module.__name__.split(".")
    name = f"uncompiled_{plain}"
    # Not by the module's `__file__`, which mypyc makes up if another compiled module was the first to import it.
    source = Path(ottla.__path__[0], *rooms, f"{plain}.py")
    spec = importlib.util.spec_from_file_location(name, source)
    assert spec is not None
    assert spec.loader is not None
    loaded = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def both_ways(compiled: ModuleType) -> Any:
    """Returns a fixture by which a test runs with the module compiled, and again with the same source uncompiled. It fails where
    the extension is not there, for then the two would be the same."""

    @pytest.fixture(params=["compiled", "uncompiled"])
    def loaded(request: pytest.FixtureRequest) -> ModuleType:
        if request.param == "uncompiled":
            return uncompiled(compiled)
        assert str(compiled.__file__).endswith(".so"), "the extension was not built"
        return compiled

    return loaded
