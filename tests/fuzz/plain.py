"""Imports ottla from its sources, also where extension modules lie beside them, so that every line of it can be followed.

The modules that setup.py compiles win the import (CONTRIBUTING.md), and a fuzzer sees nothing of what goes on inside them. Here a
finder at the front of `sys.meta_path` looks for sources only; every module's code goes through a function before it runs, which
is how atheris gets its counters into it. The same is done to the targets, so that the ways through their checks count as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

FOLLOWED: Final = ("ottla", "tests.fuzz.targets")
ROOT: Final = Path(__file__).resolve().parents[2]

Change = Callable[[CodeType], CodeType]


class SourceFinder(MetaPathFinder):
    """Finds the modules of FOLLOWED as sources. `change` is applied to the code of each."""

    def __init__(self, change: Change) -> None:
        class Loader(SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType | None:
                code = super().get_code(fullname)
                return None if code is None else change(code)

        self._loader = Loader

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /) -> ModuleSpec | None:
        if not is_followed(fullname):
            return None
        for folder in [str(ROOT)] if path is None else path:
            spec = FileFinder(folder, (self._loader, SOURCE_SUFFIXES)).find_spec(fullname)
            if spec is not None:
                return spec
        return None


def is_followed(name: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in FOLLOWED)


def import_sources(change: Change) -> None:
    """Lets the packages of FOLLOWED be imported from their sources from now on. None of them may be imported yet."""
    imported = [name for name in sys.modules if is_followed(name)]
    assert not imported, f"imported too early to be followed: {imported}"
    sys.meta_path.insert(0, SourceFinder(change))
