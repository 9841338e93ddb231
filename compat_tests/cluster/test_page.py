"""Everything in docs/cluster.md that is a command is tried, in the order of the page: each section in a bash and a directory of
its own. Other ports take the place of the page's.

Where the page says that something is awaited, the test waits: for a broker that was started, and for replicas that are described.
A number in a comment behind a command is what that has to print.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.commands import ENVIRONMENT, OTTLA, read_until
from compat_tests.pages import steps
from compat_tests.reference import jvm, maven
from compat_tests.reference.kafka import HOST, free_port
from compat_tests.waiting import wait_for
from ottla.commands.cluster.layout import is_free

SECTIONS: Final = {"Three brokers by one command": 6, "From one broker to a cluster of both kinds, and back": 8}
"""The number of steps in each."""
PRINTS: Final = re.compile(r" +# (\d+)$", re.MULTILINE)
READY: Final = {
    "ottla cluster": "ottla cluster ready",
    "ottla": "ready: bootstrap",
    "kafka-server-start.sh": "Kafka Server started",
}
"""The text that is printed when what a command starts in the background serves."""
TOOLS: Final = {
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-cluster.sh": "org.apache.kafka.tools.ClusterTool",
}
START_S: Final = 120


def programs(folder: Path) -> Path:
    """Writes what the page calls, as an unpacked Kafka and an installed ottla have it; returns the directory."""
    commands = {"ottla": OTTLA, "kafka-server-start.sh": [*jvm.java("kafka"), "kafka.Kafka"]}
    for name, main in TOOLS.items():
        commands[name] = [*jvm.java("kafka-tools", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"), main]
    folder.mkdir()
    for name, command in commands.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


def units(section: str) -> Iterator[str]:
    """Yields the commands of a section's block, as much at once as can be done without waiting: a unit ends behind what starts in
    the background, and a description is one of its own."""
    for step in steps("cluster.md", section, SECTIONS[section]):
        unit = ""
        for line in step.strip().splitlines(keepends=True):
            if unit and line.startswith("ottla topic describe "):
                yield unit
                unit = ""
            unit += line
            if line.endswith(" &\n") or line.startswith("ottla topic describe "):
                yield unit
                unit = ""
        if unit:
            yield unit


def free_ports(count: int) -> int:
    """Returns the first of so many ports, one behind the other, where nobody listens."""
    first = free_port()
    return first if all(is_free(port) for port in range(first + 1, first + count)) else free_ports(count)


class Reader:
    """Somebody who types what the page says into one bash, with other ports."""

    def __init__(self, folder: Path, bash: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.bash = bash
        self.count = 0
        first = free_ports(3)
        self.words = {"--nodes 3": "--nodes 3 --port 0", "ottla &": f"ottla --port {first} &", "19092": str(free_port())}
        self.words |= {"9091": str(first - 1), "9092": str(first)}
        self.bootstrap(f"{HOST}:{first}")

    def bootstrap(self, address: str) -> None:
        """Lets the commands find the cluster elsewhere than at the default port."""
        self.type(f"export OTTLA_BOOTSTRAP={address}")

    def type(self, commands: str) -> str:
        """Returns what the commands print, when the last one has ended. All of them have to succeed."""
        assert self.bash.stdin is not None
        assert self.bash.stdout is not None
        self.count += 1
        mark = f"--- {self.count} is done"
        self.bash.stdin.write(f"failed=\n{commands.rstrip()}\nprintf '\\n%s\\n{mark}\\n' \"$failed\"\n".encode())
        self.bash.stdin.flush()
        text = read_until(self.bash.stdout.fileno(), f"\n{mark}\n".encode()).decode()
        said, _, later = text.partition(f"\n{mark}\n")  # what runs in the background may have said something since
        said, _, failed = said.rpartition("\n")
        assert not failed, f"{failed}\n{said}\n{self.logs()}"
        return f"{said}\n{later}"

    def do(self, unit: str) -> None:
        said = self.type(re.sub("|".join(map(re.escape, self.words)), lambda found: self.words[found[0]], unit))
        for number in PRINTS.findall(unit):
            assert number in said.split(), f"{unit}\n{said}"
        if unit.startswith("ottla topic describe "):
            topic = unit.split()[3]
            wait_for(lambda: self.is_settled(topic), lambda: f"{unit}\n{self.logs()}")
        elif unit.rstrip().endswith(" &"):
            self.wait_for_start(unit.splitlines()[-1], said)

    def wait_for_start(self, command: str, said: str) -> None:
        """Waits until what a command has started in the background serves, which is said in its file or, without one, here."""
        sign = next(text for words, text in READY.items() if command.startswith(words))
        into = re.search(r" > (\S+)", command)
        if into is not None:
            path = self.folder / into[1]
            wait_for(lambda: path.exists() and sign in path.read_text(errors="replace"), self.logs, START_S)
            if command.startswith("ottla cluster"):
                self.bootstrap(path.read_text().split()[4].rstrip(","))
        elif sign not in said:
            assert self.bash.stdout is not None
            read_until(self.bash.stdout.fileno(), sign.encode())

    def is_settled(self, topic: str) -> bool:
        """Returns whether each partition has the replicas that the plan says, or any, and all of them are in sync."""
        self.type(f"ottla topic describe {topic} --json > described.json")
        (described,) = json.loads((self.folder / "described.json").read_text())
        found = {each["partition"]: each for each in described["partitions"]}
        if any(sorted(each["in_sync"]) != sorted(each["replicas"]) for each in found.values()):
            return False
        plan: Any = self.folder / "plan.json"
        moves = json.loads(plan.read_text())["partitions"] if plan.exists() else ()
        return all(found[move["partition"]]["replicas"] == move["replicas"] for move in moves if move["topic"] == topic)

    def logs(self) -> str:
        """Returns the ends of what has been printed into files."""
        files = [path for path in sorted(self.folder.iterdir()) if path.suffix == ".log" or path.name == "nodes"]
        return "".join(f"--- {path.name}\n{path.read_text(errors='replace')[-4000:]}\n" for path in files)


@pytest.mark.parametrize("section", SECTIONS)
def test_the_commands(section: str, tmp_path: Path) -> None:
    path = f"{programs(tmp_path / 'bin')}:{os.environ['PATH']}"
    environment = ENVIRONMENT | {"PATH": path, "OTTLA_CACHE": str(maven.cache_dir())}
    folder = tmp_path / "here"
    folder.mkdir()
    command = ["bash", "--noprofile", "--norc"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=folder, env=environment, **pipes) as bash:
        reader = Reader(folder, bash)
        try:
            reader.type("set -o pipefail; trap 'failed=$BASH_COMMAND' ERR")
            for unit in units(section):
                reader.do(unit)
            assert (folder / "seen").read_text().count("\n") == 300
        finally:
            assert bash.stdin is not None
            bash.stdin.write(b"kill $(jobs -p); wait\n" if bash.poll() is None else b"")
            bash.stdin.close()
