"""An archive's own files, with as much of Hadoop's file system as they ask for; compat tests have the real one."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.pipeline import archive
from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import PipelineError
from ottla.pipeline.files import Files


class HadoopPath:
    def __init__(self, parent: str | HadoopPath, name: str = "") -> None:
        self.path: Path = Path(parent.path if isinstance(parent, HadoopPath) else parent) / name

    def getFileSystem(self, conf: Any) -> Any:
        return conf

    def getName(self) -> str:
        return self.path.name

    def getPath(self) -> str:
        return str(self.path)

    def toUri(self) -> HadoopPath:
        return self

    def toString(self) -> str:
        return str(self.path)


class Stream:
    """A file whose reading breaks off at a chosen place."""

    def __init__(self, path: Path, breaks: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = open(path, "wb")  # noqa: SIM115 - closed by who made the stream
        self.breaks = breaks

    def write(self, content: bytearray) -> None:
        if self.breaks:
            raise ValueError("no room")
        self.file.write(content)

    def close(self) -> None:
        self.file.close()


class HadoopFileSystem:
    """Of the local disk, under another scheme if that is wanted."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        self.breaks = self.refuses = False
        self.streams: list[Stream] = []

    def getScheme(self) -> str:
        return self.scheme

    def makeQualified(self, path: HadoopPath) -> HadoopPath:
        return path

    def create(self, path: HadoopPath, overwrite: bool) -> Stream:
        if path.path.exists() and not overwrite:
            raise FileExistsError(str(path.path))
        self.streams.append(Stream(path.path, self.breaks))
        return self.streams[-1]

    def rename(self, old: HadoopPath, new: HadoopPath) -> bool:
        if self.refuses or new.path.exists():
            return False
        old.path.rename(new.path)
        return True

    def open(self, path: HadoopPath) -> Any:
        return open(path.path, "rb")

    def delete(self, path: HadoopPath, recursive: bool) -> bool:
        if not path.path.is_dir():
            path.path.unlink(missing_ok=True)
        elif recursive:
            shutil.rmtree(path.path)
        else:
            raise OSError(errno.ENOTEMPTY, "not empty", str(path.path))
        return True

    def exists(self, path: HadoopPath) -> bool:
        return path.path.exists()

    def getFileStatus(self, path: HadoopPath) -> Any:
        return SimpleNamespace(
            getPath=lambda: path,
            isDirectory=path.path.is_dir,
            getModificationTime=lambda: path.path.stat().st_mtime_ns // 1_000_000,
        )

    def listStatus(self, path: HadoopPath) -> list[Any]:
        return [self.getFileStatus(HadoopPath(path, name)) for name in os.listdir(path.path)]


def spark_with(fs: HadoopFileSystem) -> Any:
    """As much of a session as Files ask for."""
    hadoop = SimpleNamespace(fs=SimpleNamespace(Path=HadoopPath))
    utils = SimpleNamespace(toString=lambda stream, _encoding: stream.read().decode())
    apache = SimpleNamespace(hadoop=hadoop, commons=SimpleNamespace(io=SimpleNamespace(IOUtils=utils)))
    jvm = SimpleNamespace(org=SimpleNamespace(apache=apache))
    return SimpleNamespace(sparkContext=SimpleNamespace(_jvm=jvm, _jsc=SimpleNamespace(hadoopConfiguration=lambda: fs)))


def files(directory: Path, scheme: str = "file") -> tuple[Files, HadoopFileSystem]:
    fs = HadoopFileSystem(scheme)
    return Files(spark_with(fs), str(directory)), fs


def test_a_file_that_cannot_get_its_name_is_an_error(tmp_path: Path) -> None:
    made, fs = files(tmp_path)
    made.write_json("_ottla/archive.json", {"topic": "t"}, replace=False)
    with pytest.raises(OSError, match=r"/_ottla/archive\.json cannot be written$"):
        made.write_json("_ottla/archive.json", {"topic": "other"}, replace=False)
    assert json.loads((tmp_path / "_ottla" / "archive.json").read_text()) == {"topic": "t"}
    made.write_json("_ottla/archive.json", {"topic": "other"})
    assert json.loads((tmp_path / "_ottla" / "archive.json").read_text()) == {"topic": "other"}
    fs.refuses = True
    with pytest.raises(OSError, match="cannot be written"):
        made.write_json("_ottla/archive.json", {"topic": "t"})


def test_a_directory_in_a_files_place_is_not_deleted(tmp_path: Path) -> None:
    made, _ = files(tmp_path)
    (tmp_path / "_ottla" / "archive.json" / "mine").mkdir(parents=True)
    with pytest.raises(OSError, match="not empty"):
        made.write_json("_ottla/archive.json", {})
    assert (tmp_path / "_ottla" / "archive.json" / "mine").is_dir()


def test_what_a_killed_run_left_beside_a_files_place_is_overwritten(tmp_path: Path) -> None:
    made, _ = files(tmp_path)
    (tmp_path / "a.json.partial").write_text("half")
    made.write_json("a.json", {"whole": True})
    assert made.read_json("a.json") == {"whole": True}
    assert made.names() == ["a.json"]
    assert made.read_json("b.json") is None


def test_names_are_those_in_a_directory_if_there_is_one(tmp_path: Path) -> None:
    made, _ = files(tmp_path)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").touch()
    assert [made.names(name) for name in ("offsets", "commits", "offsets/0")] == [["0"], [], []]
    assert [made.exists(name) for name in ("offsets", "commits")] == [True, False]


def test_data_files_are_those_that_no_name_above_them_hides(tmp_path: Path) -> None:
    for name in ("date=2026-11-21/part-0", "date=2026-11-21/.part-0.crc", "_checkpoint/offsets/0", ".tmp/part-1", "part_2.x"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
        os.utime(tmp_path / name, ns=(0, 7_000_000))
    made, _ = files(tmp_path)
    assert sorted(made.data_files()) == [(f"{tmp_path}/date=2026-11-21/part-0", 7), (f"{tmp_path}/part_2.x", 7)]


def test_an_archive_that_cannot_be_described_is_an_error_of_one_line(tmp_path: Path) -> None:
    made, fs = files(tmp_path)
    fs.refuses = True
    spark: Any = None
    with pytest.raises(PipelineError, match=r"archive\.json cannot be written: is there another run\?$"):
        archive.settle_values(spark, archive.Archive(KafkaCluster({}), "t", str(tmp_path)), made)


def test_a_stream_is_closed_though_its_file_breaks_off(tmp_path: Path) -> None:
    made, fs = files(tmp_path)
    fs.breaks = True
    with pytest.raises(ValueError, match="no room"):
        made.write_json("_ottla/archive.json", {})
    assert [stream.file.closed for stream in fs.streams] == [True]
    assert not (tmp_path / "_ottla" / "archive.json").exists()


def test_there_is_one_run_in_a_directory(tmp_path: Path) -> None:
    first, second = (files(tmp_path / "new" / "archive")[0] for _ in range(2))
    with first.alone(), pytest.raises(PipelineError, match=f"^another run is at work in {tmp_path}/new/archive$"), second.alone():
        pass
    with second.alone():
        pass
    with pytest.raises(KeyError), first.alone():
        raise KeyError
    with second.alone(), files(tmp_path / "other")[0].alone():
        pass
    far = [files(tmp_path / "new" / "archive", "s3a")[0] for _ in range(2)]
    with far[0].alone(), far[1].alone():  # nothing there dies with its holder
        pass


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EIO])
def test_only_a_file_system_without_locks_goes_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(code, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    entered: list[int] = []
    if code == errno.EIO:
        with (
            pytest.raises(PipelineError, match=rf"^{tmp_path}/_ottla/lock cannot be locked: no locks$"),
            files(tmp_path)[0].alone(),
        ):
            entered.append(code)
        assert entered == []
    else:
        with files(tmp_path)[0].alone():
            entered.append(code)
        assert entered == [code]


def test_the_lock_of_a_run_dies_with_its_process(tmp_path: Path) -> None:
    script = "from pathlib import Path; import sys; from tests.pipeline.test_files import files\n"
    script += "with files(Path(sys.argv[1]))[0].alone(): print('here', flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        with pytest.raises(PipelineError, match="another run is at work"), files(tmp_path)[0].alone():
            pass
        process.send_signal(signal.SIGKILL)
    with files(tmp_path)[0].alone():
        pass


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "_ottla").touch()
    with pytest.raises(PipelineError, match=f"^{tmp_path}/_ottla cannot be written: File exists$"), files(tmp_path)[0].alone():
        pass


def test_only_files_from_before_the_run_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that began while this one was at work has written files that it has not listed yet."""
    day = tmp_path / "date=2026-11-21"
    day.mkdir()
    made, _ = files(tmp_path)
    for name in ("listed", "left"):
        (day / name).touch()
        os.utime(day / name, (1000, 1000))
    began_ms = made.mark("_ottla/began")
    began_ns = (tmp_path / "_ottla" / "began").stat().st_mtime_ns
    assert began_ms == began_ns // 1_000_000
    (day / "unlisted").touch()
    os.utime(day / "unlisted", ns=(began_ns, began_ns))  # the clock of files may stand still for some ms
    monkeypatch.setattr(archive, "listed_files", lambda _spark, _directory: [f"file://{day}/listed"])
    spark: Any = None
    assert archive.remove_orphans(spark, str(tmp_path), made, began_ms) == 1
    assert {path.name for path in day.iterdir()} == {"listed", "unlisted"}
