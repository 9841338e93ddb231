"""The command as a user meets it, in processes of its own: lines, exit codes, signals. And the two readings of a command line."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from ottla import __version__
from ottla.server.base.compiled import NOT_COMPILED, is_compiled
from ottla.server.program import app as cli_app
from ottla.server.program import cli
from ottla.server.program.serve import ServeOptions

TIMEOUT_S = 60
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_") and name != "CLUSTER_ID"}
OTTLA = [sys.executable, "-m", "ottla"]


def ottla(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(
        [*OTTLA, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=TIMEOUT_S,
        env=ENVIRONMENT | environment,
    )


class Serving:
    """A broker that says it is ready. `lines` is what it said on standard output so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines = self._two_lines()
        host, _, port = self.lines[0].split("bootstrap ")[1].split(",")[0].rpartition(":")
        self.address = host, int(port)

    def _two_lines(self) -> list[str]:
        assert self.process.stdout is not None
        output = self.process.stdout.fileno()
        text = b""
        while text.count(b"\n") < 2:
            assert select.select([output], [], [], TIMEOUT_S)[0], f"no more than {text!r}"
            more = os.read(output, 4096)
            assert more, f"it ended after {text!r}: {self.process.communicate()[1]!r}"
            text += more
        return text.decode().splitlines()

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Exit code and standard error."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, errors.decode()


@contextmanager
def serving(*arguments: str, cwd: Path, **environment: str) -> Iterator[Serving]:
    pipe = subprocess.PIPE
    process = subprocess.Popen([*OTTLA, *arguments], stdout=pipe, stderr=pipe, cwd=cwd, env=ENVIRONMENT | environment)
    try:
        yield Serving(process)
    finally:
        process.kill()
        process.communicate()


# The broker


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_from_ready_to_a_clean_stop(tmp_path: Path, number: signal.Signals) -> None:
    with serving("--port", "0", "--cluster-id", "b3R0bGFDb21wYXRUZXN0cw", "--node-id", "7", cwd=tmp_path) as broker:
        host, port = broker.address
        assert broker.lines == [
            f"ottla {__version__} ready: bootstrap {host}:{port}, data {tmp_path}/ottla-data, cluster b3R0bGFDb21wYXRUZXN0cw",
            "[KafkaServer id=7] started",
        ]
        assert host == "127.0.0.1"
        socket.create_connection(broker.address, timeout=TIMEOUT_S).close()
        code, errors = broker.end(number)
    assert code == 0
    assert f"stopping because of {number.name}" in errors
    assert "Traceback" not in errors
    assert (tmp_path / "ottla-data" / ".kafka_cleanshutdown").exists()
    assert "node.id=7" in (tmp_path / "ottla-data" / "meta.properties").read_text()


def test_started_by_variables_it_says_what_starters_of_containers_wait_for(tmp_path: Path) -> None:
    with serving("--port", "0", cwd=tmp_path, KAFKA_NODE_ID="7") as broker:
        broker.process.send_signal(signal.SIGTERM)
        rest, _ = broker.process.communicate(timeout=TIMEOUT_S)
        lines = [*broker.lines, *rest.decode().splitlines()]
    for pattern in (r"\[KafkaServer id=7\] started", "Transitioning from RECOVERY to RUNNING", "Kafka Server started"):
        assert len([line for line in lines if re.search(pattern, line)]) == 1


def test_the_ready_line_says_where_the_metrics_are(tmp_path: Path) -> None:
    with serving("--port", "0", "--metrics-port", "0", cwd=tmp_path) as broker:
        found = re.search(r", metrics http://127\.0\.0\.1:(\d+)/metrics$", broker.lines[0])
        assert found is not None
        with socket.create_connection(("127.0.0.1", int(found[1])), timeout=TIMEOUT_S) as client:
            client.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200 OK")
        assert broker.end(signal.SIGTERM)[0] == 0


def test_a_metrics_port_that_is_taken_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = [*OTTLA, "--port", "0", "--metrics-port", str(port)]
        ran = subprocess.run(
            arguments, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    assert ran.returncode == 1
    line = ran.stderr.splitlines()[-1]
    assert line.startswith(
        f"ottla: ottla.metrics.port: 127.0.0.1:{port}: Address already in use; choose another (--metrics-port N"
    )


def run_to_its_end(cwd: Path, *arguments: str, **more: Any) -> tuple[int, str]:
    """Exit code and the last line on standard error of a command that ends by itself."""
    ran = subprocess.run(
        [*OTTLA, *arguments], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, **more
    )
    return ran.returncode, ran.stderr.splitlines()[-1]


def test_a_program_starts_a_broker_to_test_with_and_takes_it_down_with_itself(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    arguments = [*OTTLA, "--port", "0", "--test-port", "0", "--ready-file", str(ready), "--until-stdin-closes"]
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe, cwd=tmp_path, env=ENVIRONMENT) as process:
        broker = Serving(process)
        told = json.loads(ready.read_text())
        assert broker.lines[0].endswith(f", UNDER TEST at {told['test']}")
        assert told == {"bootstrap": "{}:{}".format(*broker.address), "test": told["test"], "pid": process.pid}
        with urlopen(f"{told['test']}/v1/state", timeout=TIMEOUT_S) as answer:
            assert json.load(answer)["bootstrap"] == told["bootstrap"]
        _, errors = process.communicate(timeout=TIMEOUT_S)  # which closes its standard input
    assert process.returncode == 0
    assert "stopping because the standard input was closed" in errors.decode()
    assert "this broker is under test" in errors.decode()
    assert not ready.exists()

    ready.write_text("of an earlier start, which was killed")
    code, line = run_to_its_end(tmp_path, "--port", "0", "--ready-file", str(ready))
    assert not ready.exists()
    assert (code, line.startswith(f"ottla: log.dirs: {tmp_path}/ottla-data is a test's (.ottla-test)")) == (1, True)
    with serving("--port", "0", "--adopt-test-data", cwd=tmp_path) as adopted:
        assert adopted.end(signal.SIGTERM)[0] == 0
    code, line = run_to_its_end(tmp_path, "--port", "0", "--test-port", "0")
    assert (code, "has data that are no test's" in line) == (1, True)


def test_a_broker_in_memory_loses_its_power_and_leaves_no_directory(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    arguments = ("--port", "0", "--test-port", "0", "--test-disk", "memory", "--ready-file", str(ready))
    with serving(*arguments, cwd=tmp_path) as broker:
        assert ", data in memory, " in broker.lines[0]
        url = json.loads(ready.read_text())["test"]
        for path, body in (("/v1/restart", b'{"how": "power_cut"}'), ("/v1/reset", b"{}")):
            request = Request(url + path, body, {"Content-Type": "application/json"})
            with urlopen(request, timeout=TIMEOUT_S) as answer:
                assert json.load(answer)["bootstrap"] == json.loads(ready.read_text())["bootstrap"]
        assert broker.end(signal.SIGTERM)[0] == 0
    assert list(tmp_path.iterdir()) == []

    code, line = run_to_its_end(tmp_path, "--port", "0", "--test-disk", "memory")
    assert (code, line) == (
        1,
        "ottla: ottla.test.disk: a disk in memory is for tests only; give the broker a test port (--test-port 0)",
    )
    code, line = run_to_its_end(tmp_path, "--port", "0", "--test-seed", "7")
    assert (code, line) == (
        1,
        "ottla: ottla.test.seed: a seed is for tests only; give the broker a test port (--test-port 0)",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--test-disk", "ram"], "ottla: ottla.test.disk: "),
        (["--override", "ottla.test.host=0.0.0.0"], "ottla: ottla.test.host: others reach the test port at 0.0.0.0; set"),
        (
            ["--test-port", "{taken}"],
            "ottla: ottla.test.port: 127.0.0.1:{taken}: Address already in use; choose another (--test-",
        ),
        (["--until-stdin-closes"], "ottla: --until-stdin-closes: the standard input is no pipe"),
    ],
)
def test_what_keeps_a_broker_from_being_tested_is_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        given = [each.format(taken=port) for each in arguments]
        code, line = run_to_its_end(tmp_path, "--port", "0", "--test-port", "0", *given, stdin=subprocess.DEVNULL)
    assert code == 1
    assert line.startswith(said.format(taken=port))


def test_kafka_s_file_and_the_image_s_variables(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://:0\ninter.broker.listener.name=PLAINTEXT\n"
        "controller.listener.names=CONTROLLER\nlistener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
        "num.io.threads=8\nlog.dirs=not-here\nzookeeper.connect=old:2181\n"
    )
    variables = {"KAFKA_LOG_DIRS": str(tmp_path / "logs"), "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw"}
    with serving("server.properties", cwd=tmp_path, **variables) as broker:
        assert broker.lines[0].endswith(f"data {tmp_path}/logs, cluster 5L6g3nShT-eMCtK--X86sw")
        _, errors = broker.end(signal.SIGTERM)
    assert "zookeeper.connect has no effect: Kafka 4.0 removed ZooKeeper; remove it [server.properties, line 10]" in errors
    assert "these settings are accepted but have no effect in ottla: num.io.threads" in errors


def test_neither_typer_nor_rich_is_loaded_to_serve(tmp_path: Path) -> None:
    program = (
        "import sys; sys.argv = ['ottla', '--port', '0', '--data-dir', 'd', '--host', 'nowhere.invalid']\n"
        "from ottla.server.program.cli import main\n"
        "try: main()\n"
        "finally: print(sorted({name.partition('.')[0] for name in sys.modules} & {'typer', 'click', 'rich', 'difflib'}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=TIMEOUT_S, check=False
    )
    assert done.stdout == "[]\n", done.stderr


# What keeps it from starting


def failure(*arguments: str, cwd: Path, **environment: str) -> str:
    """The one line that says so."""
    done = ottla(*arguments, cwd=cwd, **environment)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("ottla: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_an_address_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = failure("--port", str(port), cwd=tmp_path)
    assert line.startswith(f"ottla: listeners: PLAINTEXT://127.0.0.1:{port}: Address already in use; stop what listens there")


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    line = failure("--port", "0", "--data-dir", "file", cwd=tmp_path)
    assert line == f"ottla: log.dirs: {tmp_path}/file: not a directory; choose another (--data-dir DIR)"


def test_a_directory_in_use(tmp_path: Path) -> None:
    with serving("--port", "0", cwd=tmp_path):
        line = failure("--port", "0", cwd=tmp_path)
    assert line.startswith(f"ottla: log.dirs: {tmp_path}/ottla-data is in use by another broker")


def test_a_directory_of_another_cluster(tmp_path: Path) -> None:
    with serving("--port", "0", "--cluster-id", "one", cwd=tmp_path) as broker:
        assert broker.end(signal.SIGTERM)[0] == 0
    line = failure("--port", "0", cwd=tmp_path, CLUSTER_ID="two")
    assert line.startswith(f"ottla: log.dirs: {tmp_path}/ottla-data belongs to cluster one, not to two; give --cluster-id")
    with serving("--port", "0", cwd=tmp_path) as broker:
        assert broker.lines[0].endswith("cluster one")


def test_a_bad_value_and_a_missing_file(tmp_path: Path) -> None:
    line = failure("--override", "log.retention.ms=soon", cwd=tmp_path)
    assert line == "ottla: log.retention.ms: 'soon' is not a whole number of 64 bits; write it in digits [--override]"
    assert "nowhere.properties: No such file or directory" in failure("nowhere.properties", cwd=tmp_path)
    assert not list(tmp_path.iterdir())


def test_wrong_usage_is_exit_code_2_without_colour(tmp_path: Path) -> None:
    for arguments in (["--porx", "1"], ["--port", "x"], ["--port"], ["a", "b"]):
        done = ottla(*arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert "\x1b" not in done.stderr


def test_a_mistyped_command(tmp_path: Path) -> None:
    done = ottla("consum", "topic", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such command 'consum'. Did you mean 'consume'" in done.stderr
    (tmp_path / "settings").write_text("log.retention.ms=soon\n")
    assert "[settings, line 1]" in failure("settings", cwd=tmp_path)


def test_version_and_help(tmp_path: Path) -> None:
    for arguments in (["--version"], ["serve", "--version"]):
        shown = ottla(*arguments, cwd=tmp_path).stdout.removesuffix("\n")
        assert shown == f"ottla {__version__} (Kafka 4.4.0)" + ("" if is_compiled() else f", {NOT_COMPILED}")
    shown = ottla("serve", "--help", cwd=tmp_path, COLUMNS="200").stdout
    assert "\x1b" not in shown
    for option in cli.OPTIONS:
        assert option in shown


# Two readings of one command line


def by_typer(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> ServeOptions | None:
    """Returns what typer makes of it; None where it refuses or shows something."""
    seen: list[ServeOptions] = []

    def run(options: ServeOptions) -> int:
        seen.append(options)
        return 0

    monkeypatch.setattr(cli_app, "run", run)
    with pytest.raises(SystemExit):
        cli_app.app(arguments, prog_name="ottla")
    return seen[0] if seen else None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "serve",
        "server.properties",
        "serve server.properties --port 0",
        "--port=9 --host h --data-dir d --cluster-id c --node-id 3 file",
        "--override a=b --override=c=d=e file --override f=",
        "--data-dir -x",
        "--data-dir= file",
        "--port 65535",
        "--metrics-port 0 --node-id 65536",
        "--test-port 0 --test-disk memory --until-stdin-closes --ready-file f server.properties --adopt-test-data",
        "--test-port 0 --test-nodes 100 --test-seed 9223372036854775807",
    ],
)
def test_both_readings_are_the_same(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = cli.with_command(line.split())
    plain = cli.plain_options(arguments)
    assert plain is not None
    assert plain == by_typer(arguments, monkeypatch)


@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "serve -h",
        "--version",
        "serve --version",
        "--port x",
        "--port 65536",
        "--port -1",
        "--metrics-port 65536",
        "--test-port 65536",
        "--test-seed 9223372036854775808",
        "--until-stdin-closes=yes",
        "--port",
        "--node-id ٣",
        "a b",
        "--x",
        "-- -x",
    ],
)
def test_what_only_typer_reads(line: str) -> None:
    assert cli.plain_options(cli.with_command(line.split())) is None


def test_typer_knows_no_other_options() -> None:
    import typer.main

    command: Any = typer.main.get_command(cli_app.app)
    serve = command.commands["serve"]
    options = {option for parameter in serve.params if parameter.param_type_name == "option" for option in parameter.opts}
    assert options == {*cli.OPTIONS, "--version"}
    assert set(command.commands) == set(cli.COMMANDS)
