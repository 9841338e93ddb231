"""Files where Spark has them: a local directory, HDFS, an object store; through the Hadoop file systems of Spark's JVM."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE: Final = "_ottla"
"""The directory of an archive that says what it is; readers of tables pass over names with an underscore."""


class Files:
    """One directory's file system."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        self._root = jvm.org.apache.hadoop.fs.Path(directory)
        self._fs = self._root.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root

    @property
    def address(self) -> str:
        """The directory with its file system: file:/data/x, hdfs://host/x."""
        return str(self._fs.makeQualified(self._root).toString())

    def make(self) -> bool:
        """Makes the directory and those above it; whether it is there then."""
        return bool(self._fs.mkdirs(self._root))

    def names(self, name: str = "") -> list[str]:
        """Of what is in a directory; none where there is no such directory."""
        path = self._path(name)
        if not self._fs.exists(path) or not self._fs.getFileStatus(path).isDirectory():
            return []
        return [str(status.getPath().getName()) for status in self._fs.listStatus(path)]

    def exists(self, name: str = "") -> bool:
        return bool(self._fs.exists(self._path(name)))

    def read_json(self, name: str) -> dict[str, Any] | None:
        """None: there is no such file."""
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

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """The file is whole or not there: it is written beside and renamed. One of that name goes first. OSError if it cannot."""
        path, beside = self._path(name), self._path(f"{name}.partial")
        stream = self._fs.create(beside, True)
        stream.write(bytearray(json.dumps(content, indent=1).encode()))
        stream.close()
        self._fs.delete(path, False)  # Hadoop renames to no name that is there
        if not self._fs.rename(beside, path):
            raise OSError(f"{path.toString()} cannot be written")

    def data_files(self) -> list[str]:
        """Addresses of all files in directories whose names, and those above them, begin neither with `_` nor with `.`."""
        found: list[str] = []
        waiting = [self._root]
        while waiting:
            for status in self._fs.listStatus(waiting.pop()):
                path = status.getPath()
                if path.getName()[0] in "_.":
                    continue
                if status.isDirectory():
                    waiting.append(path)
                else:
                    found.append(str(path.toString()))
        return found

    def delete(self, address: str) -> None:
        self._fs.delete(self._jvm.org.apache.hadoop.fs.Path(address), False)
