"""A Java program of ours that asks Apache Kafka's own classes; Kafka's jars come by Maven (compat_tests/reference/maven.py)."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from compat_tests.reference import jvm

_COMPILING_S: Final = 120
_RUNNING_S: Final = 240
_QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"


class JavaOracle:
    """One source file, compiled once for all its runs; a context manager. Raises CalledProcessError where Java refuses."""

    def __init__(self, source: Path) -> None:
        self._main = source.stem
        self._work = tempfile.TemporaryDirectory(prefix="ottla-oracle-")
        command = ["javac", *jvm.COMPILER, "-cp", jvm.class_path("kafka"), "-d", self._work.name, str(source)]
        subprocess.run(command, check=True, timeout=_COMPILING_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._work.cleanup()

    def command(self, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        """Returns the command that starts it; `options` are the JVM's, on top of what all have."""
        return [*jvm.java("kafka", _QUIET, *options, classes=Path(self._work.name)), self._main, *arguments]

    def run(self, *arguments: str, questions: str = "") -> str:
        """Runs it and returns what it prints to these questions on its standard input."""
        command, asked = self.command(*arguments), questions.encode()
        return subprocess.run(command, input=asked, capture_output=True, check=True, timeout=_RUNNING_S).stdout.decode()


def asked(source: Path, questions: str) -> str:
    """The answer of a program that is asked once."""
    with JavaOracle(source) as oracle:
        return oracle.run(questions=questions)
