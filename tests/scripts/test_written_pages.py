"""scripts/written_pages.py: what it writes, what it calls out of date, and which scripts end in it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from scripts import pipeline_picture
from scripts.written_pages import main, outdated

SCRIPT_FOLDER = Path(__file__).resolve().parents[2] / "scripts"
SCRIPTS = (
    "architecture_picture",
    "bench.stall_page",
    "cluster_picture",
    "limits_page",
    "pipeline_picture",
    "proofs",
    "rights_page",
    "settings_page",
)


def test_a_page_is_written_and_then_up_to_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, old = tmp_path / "page.md", tmp_path / "old.md"
    old.write_text("before")
    pages = {page: "text\n", old: "after"}
    assert main("Writes.", lambda: pages, ["--check"]) == 1
    assert capsys.readouterr().out.startswith("out of date: ")
    assert not page.exists(), "a check writes nothing"
    assert main("Writes.", lambda: pages, []) == 0
    assert (page.read_text(), old.read_text()) == ("text\n", "after")
    assert outdated(pages) == []
    assert main("Writes.", lambda: pages, ["--check"]) == 0
    assert capsys.readouterr().out.endswith("up to date\n")


@pytest.mark.parametrize("given", [["--chek"], ["page.md"]])
def test_an_unknown_argument_is_refused_and_nothing_written(tmp_path: Path, given: list[str]) -> None:
    page = tmp_path / "page.md"
    with pytest.raises(SystemExit) as ended:
        main("Writes.", lambda: {page: "text"}, given)
    assert ended.value.code == 2
    assert not page.exists()


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_script_refuses_what_it_does_not_know(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--unknown"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT_FOLDER / f"{name.replace('.', '/')}.py"), run_name="__main__")
    assert ended.value.code == 2
    assert "unrecognized arguments: --unknown" in capsys.readouterr().err


def test_every_script_that_ends_here_is_in_the_list() -> None:
    users = [path for path in SCRIPT_FOLDER.rglob("*.py") if "written_pages import main" in path.read_text()]
    assert {".".join(path.relative_to(SCRIPT_FOLDER).with_suffix("").parts) for path in users} == set(SCRIPTS)


def test_the_drawing_of_the_pipeline_is_up_to_date() -> None:
    drawn = {pipeline_picture.DOCS / "pipeline.svg": pipeline_picture.pipeline()}  # the flights beside it take some seconds
    assert outdated(drawn) == [], "run python -m scripts.pipeline_picture"
