"""Loads the source of a module that setup.py compiles, for tests that compare the two."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def uncompiled(module: ModuleType) -> ModuleType:
    """Returns another module made of the same source, which the interpreter runs as it stands."""
    assert module.__file__ is not None
    plain = module.__name__.rpartition(".")[2]
    name = f"uncompiled_{plain}"
    spec = importlib.util.spec_from_file_location(name, Path(module.__file__).resolve().with_name(f"{plain}.py"))
    assert spec is not None
    assert spec.loader is not None
    loaded = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
