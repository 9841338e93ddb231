"""Loads the source of a module that setup.py compiles, for tests that compare the two."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

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
