"""`ottla cluster` as a user meets it: what it prints, its exit codes, signals. Its nodes are pretended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from ottla.commands.cluster.command import Signals
from ottla.commands.cluster.cores import shared_out, usable
from ottla.commands.cluster.running import RunningCluster
from tests.commands.cluster.fake_nodes import environment, order, program

TIMEOUT_S = 60


class Command:
    """A command that runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def first_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self, how: signal.Signals | None = None) -> tuple[int, str]:
        """Returns the exit code and what it said on standard error."""
        if how is not None:
            self.process.send_signal(how)
        _, errors = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, errors


Run = Callable[..., Command]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """`run(words..., fault=..., path=...)` runs the command with pretended programs."""
    commands: list[Command] = []

    def begin(*words: str, fault: str = "", path: str | None = None) -> Command:
        (tmp_path / "kafka" / "libs").mkdir(parents=True, exist_ok=True)
        (tmp_path / "kafka" / "libs" / "kafka_2.13-4.4.0.jar").touch()
        surroundings = environment(tmp_path, fault)
        surroundings["PATH"] = surroundings["PATH"] if path is None else path
        surroundings["PYTHONPATH"] = os.environ.get("PYTHONPATH", str(Path(__file__).parents[3]))
        # Tests that run under nohup pass their ignored SIGHUP on, and the command would rightly leave it so.
        start = (
            "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
            "from ottla.commands.cluster import running; from ottla.server.program import cli; "
            f"running.Programs.__new__.__defaults__ = (({str(program(tmp_path / 'bin' / 'fake-ottla'))!r},),); cli.main()"
        )
        words_of = [
            sys.executable,
            "-c",
            start,
            "cluster",
            "--kafka",
            str(tmp_path / "kafka"),
            "--dir",
            str(tmp_path / "c"),
            *words,
        ]
        command = Command(
            subprocess.Popen(words_of, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=surroundings, cwd=tmp_path)
        )
        commands.append(command)
        return command

    yield begin
    for command in commands:
        for stream in (command.process.stdout, command.process.stderr):
            assert stream is not None
            stream.close()
        if command.process.poll() is None:
            command.process.terminate()
            command.process.wait(TIMEOUT_S)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_stays_until_a_signal(run: Run, tmp_path: Path, how: signal.Signals) -> None:
    command = run("--port", "0", "--nodes", "2")
    line = command.first_line()
    assert line.startswith("ottla cluster ready: bootstrap 127.0.0.1:")
    code, errors = command.end(how)
    assert code == 0
    assert errors == ""
    assert order(tmp_path)[-3:] == ["stop broker 2", "stop broker 1", "stop controller 3001"]


def test_the_end_of_the_terminal_is_ignored_where_it_was_before() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with Signals() as signals:
            assert signal.getsignal(signal.SIGHUP) == signals._on_signal
            signals.cluster = cast(RunningCluster, object())  # which cannot be killed
            for _ in range(2):
                signal.raise_signal(signal.SIGHUP)
            assert signals.came is signal.SIGHUP
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_json_says_where_everything_is(run: Run, tmp_path: Path) -> None:
    command = run("--port", "0", "--nodes", "1", "--json")
    said = json.loads(command.first_line())
    (broker,), (controller,) = said["brokers"], said["controllers"]
    assert said["bootstrap"] == broker["address"]
    assert said["directory"] == str(tmp_path / "c")
    assert (broker["id"], controller["id"]) == (1, 3001)
    assert broker["log"] == str(tmp_path / "c" / "broker-1" / "server.log")
    os.kill(broker["pid"], signal.SIGKILL)
    os.kill(controller["pid"], signal.SIGKILL)
    code, errors = command.end()
    assert code == 1
    assert f"broker 1 (pid {broker['pid']}) has ended by SIGKILL; it is not started again, unless by you: `ottla serve" in errors
    assert errors.endswith("ottla: no node of the cluster runs any more; start it again with the same command\n")


def test_with_cores_it_prints_the_core_of_each_broker(run: Run) -> None:
    command = run("--port", "0", "--nodes", "2", "--cores", "--json")
    said = json.loads(command.first_line())
    assert [broker["core"] for broker in said["brokers"]] == shared_out(usable(), 2)
    assert [os.sched_getaffinity(broker["pid"]) for broker in said["brokers"]] == [{broker["core"]} for broker in said["brokers"]]
    assert "core" not in said["controllers"][0]
    assert command.end(signal.SIGTERM) == (0, "")
    again = run("--port", "0", "--cores")
    assert again.first_line().startswith("ottla cluster ready")
    assert again.process.stdout is not None
    lines = [again.process.stdout.readline() for _ in range(3)]
    assert [" on core " in line for line in lines] == [False, True, True]
    assert again.end(signal.SIGTERM) == (0, "")


def test_a_node_that_had_ended_makes_the_exit_code_1(run: Run, tmp_path: Path) -> None:
    command = run("--port", "0", "--nodes", "2", "--json")
    os.kill(json.loads(command.first_line())["brokers"][0]["pid"], signal.SIGKILL)
    assert command.process.stderr is not None
    assert "has ended by SIGKILL" in command.process.stderr.readline()
    assert command.end(signal.SIGTERM) == (1, "")


def test_a_second_signal_ends_everything(run: Run, tmp_path: Path) -> None:
    command = run("--port", "0", "--nodes", "1", "--json", fault="broker 1 stays")
    said = json.loads(command.first_line())
    command.process.send_signal(signal.SIGTERM)
    handle = os.pidfd_open(said["brokers"][0]["pid"])
    try:
        while command.process.poll() is None:  # the second one may come before the first was taken, and count as the first
            command.process.send_signal(signal.SIGTERM)
            try:
                command.process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
    finally:
        os.close(handle)
    assert command.end()[0] == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(said["brokers"][0]["pid"], 0)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--override", "node.id=3"], 1, "ottla: --override: every node has a node.id of its own, which the cluster sets; leave"),
        (["--kafka", "/nowhere"], 1, "ottla: --kafka: /nowhere is no unpacked Apache Kafka"),
        (["--nodes", "0"], 2, ""),
    ],
)
def test_wrong_usage(run: Run, tmp_path: Path, words: list[str], code: int, said: str) -> None:
    found, errors = run(*words).end()
    assert found == code
    assert errors.startswith(said)
    assert not (tmp_path / "c").exists()


def test_a_missing_java_is_one_line_and_exit_code_2(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, errors = run(path=str(tmp_path / "empty")).end()
    assert code == 2
    assert errors.startswith(
        "ottla: the controllers of a cluster are Apache Kafka's and need Java 17 or newer: there is no `java`"
    )
    assert errors.count("\n") == 1
    assert not (tmp_path / "c").exists()


def test_a_broker_that_does_not_start_is_one_line(run: Run, tmp_path: Path) -> None:
    code, errors = run("--port", "0", "--nodes", "2", fault="broker 2 ends").end()
    assert code == 1
    assert errors.startswith("ottla: broker 2 did not start: it ended with exit code 1: listeners: no room (its log is ")
    assert errors.count("\n") == 1
