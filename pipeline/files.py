"""Accesses files where Spark has them (a local directory, HDFS, an object store) through the Hadoop file systems of Spark's
JVM."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE: Final = "_ottla"
"""The directory in an archive that describes it; readers of tables ignore names that begin with an underscore."""

_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class Files:
    """A directory in its file system."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        self._root = jvm.org.apache.hadoop.fs.Path(directory)
        self._fs = self._root.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root

    @property
    def address(self) -> str:
        """The directory's address with its file system: file:/data/x, hdfs://host/x."""
        return str(self._fs.makeQualified(self._root).toString())

    def make(self) -> bool:
        """Makes the directory and those above it; returns whether it exists then."""
        return bool(self._fs.mkdirs(self._root))

    def names(self, name: str = "") -> list[str]:
        """Returns the names in a directory; an empty list if there is no such directory."""
        path = self._path(name)
        if not self._fs.exists(path) or not self._fs.getFileStatus(path).isDirectory():
            return []
        return [str(status.getPath().getName()) for status in self._fs.listStatus(path)]

    def exists(self, name: str = "") -> bool:
        return bool(self._fs.exists(self._path(name)))

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Returns what a JSON file holds, or None if there is no such file."""
        path = self._path(name)
        if not self._fs.exists(path):
            return None
        stream = self._fs.open(path)
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        found: dict[str, Any] = json.loads(text)
        return found

    def write_json(self, name: str, content: dict[str, Any], *, replace: bool = True) -> None:
        """Writes a JSON file, which is then complete or not there at all: it is written beside its place and renamed.

        A file of that name is deleted first or, without `replace`, stays. Raises OSError if the new file cannot get its name.
        """
        path, beside = self._path(name), self._path(f"{name}.partial")
        self._create(beside, json.dumps(content, indent=1).encode())
        if replace:
            self._fs.delete(path, False)  # Hadoop does not rename to an existing name
        if not self._fs.rename(beside, path):  # it returns False and raises nothing
            raise OSError(f"{path.toString()} cannot be written")

    def mark(self, name: str) -> int:
        """Makes the file again and returns when that was: ms since 1970 by the store's own clock, as for its other files."""
        path = self._path(name)
        self._create(path, b"\n")
        return int(self._fs.getFileStatus(path).getModificationTime())

    def _create(self, path: Any, content: bytes) -> None:
        stream = self._fs.create(path, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Prevents a second block like this in the directory, in any process; raises PipelineError if there is one. This works
        only if the directory is local, by a lock that ends with the process; elsewhere, and on a file system without locks,
        nothing is locked."""
        if self._fs.getScheme() != "file":
            yield
            return
        state = Path(str(self._fs.makeQualified(self._root).toUri().getPath())) / STATE
        try:
            state.mkdir(parents=True, exist_ok=True)
            lock = os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise PipelineError(f"{state} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(lock)
                taken = f"another run is at work in {state.parent}"
                why = taken if isinstance(error, BlockingIOError) else f"{state}/lock cannot be locked: {error.strerror}"
                raise PipelineError(why) from None
        try:
            yield
        finally:
            os.close(lock)

    def data_files(self) -> list[tuple[str, int]]:
        """Returns the address of each file, and when it was modified, in ms. Directories whose names begin with `_` or `.` are
        left out with all that is in them."""
        found: list[tuple[str, int]] = []
        waiting = [self._root]
        while waiting:
            for status in self._fs.listStatus(waiting.pop()):
                path = status.getPath()
                if path.getName()[0] in "_.":
                    continue
                if status.isDirectory():
                    waiting.append(path)
                else:
                    found.append((str(path.toString()), int(status.getModificationTime())))
        return found

    def delete(self, address: str) -> None:
        self._fs.delete(self._jvm.org.apache.hadoop.fs.Path(address), False)
