"""The common beginning of the tests of `ottla log verify` and `repair`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.commands.log.damaged import write_log


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clean")
    write_log(path)
    return path


@pytest.fixture
def data(clean: Path, tmp_path: Path) -> Path:
    """A log directory after a clean stop, to be damaged."""
    return Path(shutil.copytree(clean, tmp_path / "data"))
