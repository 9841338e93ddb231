"""A worker of Kafka Connect 4.3.1 in distributed mode, and its REST interface; compat_tests/test_connect.py drives it, and
compat_tests/cluster/work_of_connect.py drives two of them.

The worker is a process on a port of its own; its properties stay the same over its lives, so one that is started after a kill is
the same worker again.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from compat_tests.java_process import JavaProcess
from compat_tests.reference.kafka import HOST, free_port
from compat_tests.waiting import wait_for

JARS: Final = "kafka-connect"
GROUP: Final = "connect"
TOPICS: Final = {"connect-configs": 1, "connect-offsets": 3, "connect-status": 2}
"""Internal topic -> its partitions, as the worker is told to make them; Connect makes the first one's always 1."""
LINES_TOPIC: Final = "lines"
CHUNK: Final = 2_000
"""Lines that are written at a time."""
EXACTLY_ONCE: Final = {"exactly_once_support": "required", "transaction_boundary": "poll"}
"""Settings of a source whose worker has exactly.once.source.support."""
_REST_TIMEOUT_S: Final = 30


class Files:
    """The source's file, which grows, and the sink's."""

    def __init__(self, directory: Path, topic: str = LINES_TOPIC) -> None:
        self.source, self.sink, self.topic = directory / "source.txt", directory / "sink.txt", topic
        self.written: list[str] = []
        self.source.touch()

    def write(self, count: int = CHUNK) -> None:
        """So many lines more. A source reads whole lines only, so where a write is cut in two does not matter."""
        lines = [f"line {len(self.written) + number}" for number in range(count)]
        self.written += lines
        with open(self.source, "a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def sunk(self) -> list[str]:
        return self.sink.read_text().splitlines() if self.sink.exists() else []

    def connectors(self, **source: str) -> dict[str, dict[str, str]]:
        """Returns the settings of the connectors `source` and `sink`; more of those of the source may be given."""
        files = {"tasks.max": "1"}
        return {
            "source": files
            | {"connector.class": "FileStreamSource", "file": str(self.source), "topic": self.topic, "batch.size": "100"}
            | {name.replace("_", "."): value for name, value in source.items()},
            "sink": files
            | {"connector.class": "FileStreamSink", "file": str(self.sink), "topics": self.topic}
            | {"consumer.override.isolation.level": "read_committed"},
        }


class Refused(Exception):
    """A refusal by REST: `status` and the text of the error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Worker:
    """The worker; `start` and `kill` as often as one likes."""

    def __init__(self, bootstrap: str, directory: Path, **settings: str) -> None:
        self.port = free_port()
        self.log = directory / "connect.log"
        self._properties = directory / "connect.properties"
        self._process: JavaProcess | None = None
        own = {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "listeners": f"http://{HOST}:{self.port}",
            "plugin.path": str(directory / "no-plugins"),  # they are on the class path
            "plugin.discovery": "service_load",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "config.storage.topic": "connect-configs",
            "offset.storage.topic": "connect-offsets",
            "status.storage.topic": "connect-status",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.storage.partitions": str(TOPICS["connect-offsets"]),
            "status.storage.partitions": str(TOPICS["connect-status"]),
            "offset.flush.interval.ms": "500",
            "session.timeout.ms": "6000",  # a worker that was killed is missed after this,
            "heartbeat.interval.ms": "500",
            "consumer.session.timeout.ms": "6000",  # and so are its sinks' members in their groups
            "consumer.heartbeat.interval.ms": "500",
            "scheduled.rebalance.max.delay.ms": "0",
            "reconnect.backoff.max.ms": "200",
        }
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        (directory / "no-plugins").mkdir()
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in (own | dotted).items()))

    def start(self) -> None:
        """Until it answers as a member of its group."""
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self._process = JavaProcess(JARS, main, str(self._properties), log=self.log)
        wait_for(self._answers, "the worker answers")

    def _answers(self) -> bool:
        assert self._process is not None
        assert not self._process.over, f"the worker ended\n{self._process.tail()}"
        try:
            self.ask("GET", "/connectors")
        except (Refused, OSError):  # not yet listening; or listening, and not yet in the group
            return False
        return True

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            with self._process as process:
                process.kill()
            self._process = None

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The answer's JSON, None where there is none. Raises Refused, OSError."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{HOST}:{self.port}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_REST_TIMEOUT_S) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.code, error.read().decode()) from None
        return json.loads(text) if text else None

    def settled(self, method: str, path: str, body: object = None) -> Any:
        """As `ask`, again while the workers are still agreeing (409)."""
        answers: list[Any] = []

        def asked() -> bool:
            try:
                answers.append(self.ask(method, path, body))
            except Refused as refused:
                if refused.status != 409:
                    raise
                return False
            return True

        wait_for(asked, f"{method} {path} is not refused for a rebalance")
        return answers[0]

    def create(self, name: str, settings: Mapping[str, str]) -> None:
        """A connector, until its one task runs."""
        self.settled("POST", "/connectors", {"name": name, "config": settings})
        self.wait_until_running(name)

    def wait_until_running(self, name: str) -> None:
        wait_for(lambda: self.states(name) == ["RUNNING", "RUNNING"], f"{name} runs")

    def states(self, name: str) -> list[str]:
        """Of the connector and its tasks; none while nobody knows it."""
        status = self.status(name)
        return [] if status is None else [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def status(self, name: str) -> Any:
        """A connector's status and its tasks', None while nobody knows it."""
        try:
            return self.ask("GET", f"/connectors/{name}/status")
        except Refused as refused:
            if refused.status not in (404, 409):
                raise
            return None

    def restart_failed(self, name: str) -> None:
        """As an operator does where a task of an exactly-once source failed with INVALID_TXN_STATE; any other failure stays one.

        That was seen once, with ottla. A supposition, not proven: the Java producer 4.3.1 sends EndTxn before the
        transaction's first batch, since its sender asks whether there are batches before it looks for requests, and the
        application may write and commit in between; the coordinator knows of no transaction then.
        """
        status = self.status(name) or {"tasks": []}
        failed = [task for task in status["tasks"] if task["state"] == "FAILED"]
        if failed:
            assert all("InvalidTxnState" in task["trace"] for task in failed), failed
            self.restart(name, only_failed=True)

    def restart(self, name: str, *, only_failed: bool = False) -> None:
        """A connector and its tasks, or those of them that have failed."""
        self.settled("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed={str(only_failed).lower()}")

    def offsets(self, name: str) -> list[Any]:
        """Returns the offsets that the connector has committed: a source's positions, or a sink's offsets."""
        return list(self.settled("GET", f"/connectors/{name}/offsets")["offsets"])
