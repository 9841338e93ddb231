"""Runs classes of Kafka's tests in a JVM against one kind of broker, and reports the result of each case.

`run(kind, classes, directory, cases=...)` -> list of `Case`. The JVM is JUnit's console launcher with our extension (java/) in
place of Kafka's; it writes a JSON line as each case ends (Results.java), so a JVM that had to be killed has told the rest, and
who is impatient is `told` of each within a second or so.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compat_tests.kafka_tests.keeper import Keeper
from compat_tests.reference import jvm, maven

JARS: Final = "kafka-tests"
JAVA: Final = Path(__file__).parent / "java"
_JVM: Final = ("-Xmx1g", "-XX:+EnableDynamicAgentLoading")
_LOGGING: Final = f"-Dlog4j2.configurationFile={JAVA / 'log4j2.xml'}"
_JUNIT: Final = {
    "junit.jupiter.extensions.autodetection.enabled": "true",
    "junit.jupiter.extensions.autodetection.exclude": "org.apache.kafka.*",  # Kafka's cluster within the JVM
}

_LOOK_S: Final = 1.0
"""The time between two looks of a run for cases that ended."""


@dataclass(frozen=True)
class Case:
    """The outcome of a case. `result`: passed, failed or excluded, then for `reason`; `brokers`: how many the test asked for.

    `case` is METHOD, with [N] for the Nth invocation of one that has several; "" where the class failed before its cases.
    """

    owner: str
    case: str
    result: str
    reason: str
    brokers: int
    seconds: float
    trace: str = ""

    @property
    def name(self) -> str:
        return f"{self.owner}#{self.case}"


def compiled(directory: Path) -> Path:
    """The directory of our classes, compiled now if they are not there yet. Raises MavenFailed, CalledProcessError."""
    sources = sorted(JAVA.rglob("*.java"))
    classes = directory / f"classes-{hashlib.sha256(b''.join(source.read_bytes() for source in sources)).hexdigest()[:12]}"
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "classes.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not classes.is_dir():
            partial = directory / "classes.partial"
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(JAVA / "META-INF", partial / "META-INF")
            subprocess.run(
                ["javac", *jvm.COMPILER, "-nowarn", "-d", str(partial), "-cp", maven.classpath(JARS), *map(str, sources)],
                check=True,
            )
            partial.rename(classes)
    return classes


def run(
    kind: str,
    classes: Iterable[str],
    directory: Path,
    *,
    cases: Iterable[str] | None = None,
    several: bool = False,
    timeout_s: float = 3600,
    keep_logs: bool = False,
    told: Callable[[Case], None] = lambda case: None,
) -> list[Case]:
    """The cases of these classes, all or those named in `cases` (CLASS#CASE), against fresh brokers of this kind: one for each
    case, or with `several` as many as it asks for.

    `directory` takes the JVM's output (tests.log), the results (results.jsonl) and, on request, the brokers' logs. Cases that
    had not ended by the timeout are missing from what is returned. Raises MavenFailed, CalledProcessError.
    """
    directory = directory.resolve()  # the JVM works in it
    directory.mkdir(parents=True, exist_ok=True)
    results = directory / "results.jsonl"
    results.unlink(missing_ok=True)
    chosen = directory / "cases.txt"
    if cases is not None:
        chosen.write_text("".join(f"{name}\n" for name in cases))
    ours = compiled(directory.parent)
    with Keeper(kind, directory if keep_logs else None) as keeper, open(directory / "tests.log", "wb") as log:
        command = [
            *("java", *_JVM, *jvm.SMALL, _LOGGING, f"-Dottla.keeper.port={keeper.port}", f"-Dottla.results={results}"),
            *([] if cases is None else [f"-Dottla.cases={chosen}"]),
            *(["-Dottla.several=true"] if several else []),
            *("-cp", f"{ours}:{maven.classpath(JARS)}", "org.junit.platform.console.ConsoleLauncher", "execute"),
            *("--details=none", "--disable-banner"),
            *(f"--config={key}={value}" for key, value in _JUNIT.items()),
            *(f"--select-class={name}" for name in classes),
        ]
        with subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process:
            try:
                _watch(process, results, time.monotonic() + timeout_s, told)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGQUIT)  # its threads' stacks, into the log
                process.kill()
            finally:
                process.kill()
    return read(results)


def _watch(process: subprocess.Popen[bytes], results: Path, deadline: float, told: Callable[[Case], None]) -> None:
    """Until the JVM ends; hands on what it writes. Raises TimeoutExpired at the deadline, in seconds of the monotonic clock."""
    count = 0
    while True:
        ended = process.poll() is not None
        cases = read(results)
        for case in cases[count:]:
            told(case)
        count = len(cases)
        if ended:
            return
        left_s = deadline - time.monotonic()
        try:
            process.wait(min(_LOOK_S, max(left_s, 0)))
        except subprocess.TimeoutExpired:
            if left_s <= 0:
                raise


def read(results: Path) -> list[Case]:
    """Returns what a run wrote, but for a line that is not whole."""
    if not results.exists():
        return []
    found = [json.loads(line) for line in results.read_text().split("\n")[:-1]]
    return [Case(row.pop("class"), **row) for row in found]
