"""The Java client of Apache Kafka 4.4.0, driven from Python: compiles compat_tests/java, and keeps one JVM for a file of tests.

`Java.call(command, **arguments)` sends a command and returns its result; what the client threw is raised as JavaError, named by
its class. The commands are described in the Java files. `java.at(bootstrap)` fills in the address.
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compat_tests.reference import jvm, maven

SOURCES = Path(__file__).parent / "java"
ANSWER_TIMEOUT_S = 45


class JavaError(Exception):
    """An exception that the Java client threw: `name` is the simple name of its class."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class Java:
    """The running program."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process, self.log = process, log
        self.answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put("")

    def call(self, command: str, **arguments: Any) -> Any:
        """The command's result. Raises JavaError; AssertionError with the JVM's log where no answer comes."""
        assert self.process.stdin is not None
        assert self.process.poll() is None, f"the JVM is gone:\n{self.log.read_text()[-5000:]}"
        self.process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
        self.process.stdin.flush()
        line = ""
        try:
            line = self.answers.get(timeout=ANSWER_TIMEOUT_S)
        except queue.Empty:
            pass  # the failure below
        finally:
            if not line:  # late or interrupted: its next answer would be taken for that of another command
                self.process.kill()
        assert line, f"no answer to {command} {str(arguments)[:500]}\n{self.log.read_text()[-5000:]}"
        answer = json.loads(line)
        if "error" in answer:
            raise JavaError(answer["error"], answer["message"])
        return answer["result"]

    def at(self, bootstrap: str) -> JavaAt:
        return JavaAt(self, bootstrap)


class JavaAt:
    """The program pointed at one broker."""

    def __init__(self, java: Java, bootstrap: str) -> None:
        self.java, self.bootstrap = java, bootstrap

    def call(self, command: str, **arguments: Any) -> Any:
        return self.java.call(command, bootstrap=self.bootstrap, **arguments)

    def topic(self, name: str, partitions: int = 3, **configs: str) -> str:
        """A new topic whose partitions answer: what acks=0 sends before that is lost. Underscores in settings stand for dots."""
        self.call("create_topic", topic=name, partitions=partitions, configs={k.replace("_", "."): v for k, v in configs.items()})
        self.call("positions", topic=name, partitions=list(range(partitions)), timestamp_ms=0)
        return name


def compiled(directory: Path, main: str, jars: str) -> Path:
    """`directory`, with a main class of compat_tests/java and what it needs of the others.

    Raises MavenFailed, CalledProcessError where javac refuses.
    """
    sources = ["-implicit:class", "-sourcepath", str(SOURCES), str(SOURCES / f"{main}.java")]
    subprocess.run(["javac", *jvm.COMPILER, "-d", str(directory), "-cp", maven.classpath(jars), *sources], check=True)
    return directory


@contextmanager
def running(
    directory: Path, main: str = "Program", jars: str = "kafka", log_level: str = "warn", options: tuple[str, ...] = ()
) -> Iterator[Java]:
    """A main class of compat_tests/java, compiled into `directory` and running with a set of jars (reference/poms); `options` are
    the JVM's.

    Raises MavenFailed, CalledProcessError where javac refuses.
    """
    compiled(directory, main, jars)
    log = directory / "java.log"
    level = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"
    command = [*jvm.java(jars, level, *options, classes=directory), main]
    with (
        open(log, "w") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        java = Java(process, log)
        try:
            yield java
        finally:
            assert process.stdin is not None
            process.stdin.close()  # the program's end
            try:
                process.wait(10)
            finally:
                process.kill()
