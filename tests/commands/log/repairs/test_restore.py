"""`ottla log repair --restore`: what a start took out goes back, once, whole, and only where nothing was written since."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.log.disk.files import OsDisk
from tests.commands.log.damaged import findings, flip, offsets, run, segments, starts
from tests.log.support import Rig, batch, settings

BATCHES = 20
BAD = 3


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """A log of several segments that a start has cut at its fourth batch."""
    rig = Rig(settings(segment_bytes=1000, index_interval_bytes=500), OsDisk(), directory=str(tmp_path))
    rig.manager.format("cluster", 1)
    rig.fill(BATCHES)
    rig.manager.close(clean=False)
    log = segments(tmp_path / "t-0")[0]
    flip(log, starts(log)[BAD] + 70)
    rig.start()
    assert rig.log.log_end_offset == BAD
    return rig


def damaged(rig: Rig) -> list[Path]:
    return sorted(Path(rig.path).glob("*.damaged*"))


@pytest.mark.parametrize("clean", [True, False])
def test_all_but_the_damage_comes_back(rig: Rig, *, clean: bool) -> None:
    rig.manager.close(clean)
    assert len(damaged(rig)) > 2
    code, out, errors = run("repair", "--restore", "--skip", "--yes", rig.directory)
    assert (code, errors) == (0, "")
    assert out.startswith(f"put {damaged(rig)[0].parent}/{0:020d}.log.")
    assert offsets(Path(rig.path)) == [at for at in range(BATCHES) if at != BAD]
    assert {item["meaning"] for item in findings(rig.directory)} == {"note"}
    assert [path.stat().st_size for path in damaged(rig)] == [len(batch())]
    rig.start()
    assert rig.read() == [at for at in range(BATCHES) if at != BAD]
    assert rig.append().base_offset == BATCHES


def test_without_skip_it_is_as_damaged_as_it_was(rig: Rig) -> None:
    rig.manager.close(clean=False)
    code, _, errors = run("repair", "--restore", "--yes", rig.directory)
    assert code == 1
    assert errors.endswith(" left\n")
    assert damaged(rig) == []
    assert run("repair", "--skip", "--yes", rig.directory)[0] == 0
    assert len(offsets(Path(rig.path))) == BATCHES - 1


def test_what_was_written_since_stays(rig: Rig) -> None:
    rig.fill(2)
    rig.manager.close(clean=False)
    before = damaged(rig)
    assert run("repair", "--restore", "--yes", rig.directory) == (0, "", "")
    assert damaged(rig) == before
    assert offsets(Path(rig.path)) == [*range(BAD), BAD, BAD + 1]


@pytest.mark.parametrize("done", [0, 1, 100, 500])
def test_a_step_that_was_interrupted_is_completed(rig: Rig, done: int) -> None:
    rig.manager.close(clean=False)
    log = segments(Path(rig.path))[0]
    with log.open("ab") as file:
        file.write(damaged(rig)[0].read_bytes()[:done])
    assert run("repair", "--restore", "--skip", "--yes", rig.directory)[0] == 0
    assert len(offsets(Path(rig.path))) == BATCHES - 1


def test_a_dry_run_changes_nothing(rig: Rig) -> None:
    rig.manager.close(clean=False)
    before = {path: path.read_bytes() for path in Path(rig.path).iterdir()}
    code, out, _ = run("repair", "--restore", "--dry-run", rig.directory)
    assert code == 0
    assert len(out.splitlines()) == len(damaged(rig))
    assert {path: path.read_bytes() for path in Path(rig.path).iterdir()} == before


def test_a_dump_shows_what_was_taken_out(rig: Rig) -> None:
    rig.manager.close(clean=False)
    code, out, _ = run("dump", "--records", damaged(rig)[1])
    assert code == 0
    assert "batch" in out
    assert run("dump", damaged(rig)[0])[0] == 1
    assert ".damaged" not in run("dump", rig.path)[1]
