"""Tests of where results come from: the commit, whether the tree was changed since, and the days of files that contain none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from compat_tests import provenance

ROOT = Path(__file__).resolve().parents[2]

DAY = "2020-02-03"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With source.py and a report, committed on DAY."""
    for name in ("source.py", "docs/compatibility.md", "compat_tests/results/breaks.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    who = {f"GIT_{role}_{what}": "x@y" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    when = {"GIT_AUTHOR_DATE": f"{DAY}T12:00:00Z", "GIT_COMMITTER_DATE": f"{DAY}T12:00:00Z"}
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run(["git", *command], cwd=tmp_path, env={**os.environ, **who, **when}, check=True)
    return tmp_path


def head(repository: Path) -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True).stdout.strip()


def test_the_commit_and_whether_the_source_is_the_commits(repository: Path) -> None:
    assert provenance.stamp(repository)["commit"] == head(repository)
    (repository / "docs" / "compatibility.md").write_text("2")
    (repository / "compat_tests" / "results" / "breaks.json").write_text("2")
    (repository / "new.txt").write_text("1")
    assert provenance.stamp(repository)["commit"] == head(repository), "what runs write is no change of the source"
    (repository / "source.py").write_text("2")
    assert provenance.stamp(repository)["commit"] == f"{head(repository)}-dirty"


def test_without_a_repository_or_git_the_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert provenance.stamp(tmp_path)["commit"] == "unknown"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.stamp(ROOT)["commit"] == "unknown"


def test_a_file_without_a_day_has_that_of_its_commit_or_of_its_change(repository: Path) -> None:
    file = repository / "source.py"
    assert provenance.day_of(file, repository) == DAY
    file.write_text("2")
    os.utime(file, (86_400.0, 86_400.0))
    assert provenance.day_of(file, repository) == "1970-01-02"
