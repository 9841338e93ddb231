"""A worker's next task must not read Spark's zip files again, and no other process is touched."""

from __future__ import annotations

import gc
import importlib
import sys
import zipfile
import zipimport
from functools import cache
from pathlib import Path

import pytest

from ottla.pipeline.data_source import worker


@pytest.fixture
def read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The zip files that are read again, with a module imported from one."""
    archive = tmp_path / "zipped.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped_module_of_ottla.py", "VALUE = 1\n")
    monkeypatch.syspath_prepend(str(archive))
    importlib.import_module("zipped_module_of_ottla")
    monkeypatch.delitem(sys.modules, "zipped_module_of_ottla")
    found: list[str] = []
    monkeypatch.setattr(zipimport.zipimporter, "invalidate_caches", lambda self: found.append(self.archive))
    return found


def test_a_worker_forgets_its_zip_finders_and_imports_all_the_same(
    read_again: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[bool] = []
    monkeypatch.setattr(worker, "is_worker", lambda: True)
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    monkeypatch.setattr(worker, "_freeze", cache(worker._freeze.__wrapped__))
    worker.lighten()
    worker.lighten()
    importlib.invalidate_caches()
    assert not read_again
    assert frozen == [True]
    assert importlib.import_module("zipped_module_of_ottla").VALUE == 1


def test_another_process_is_left_alone(read_again: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "freeze", lambda: pytest.fail("no worker"))
    assert not worker.is_worker()
    worker.lighten()
    importlib.invalidate_caches()
    assert len(read_again) == 1
