"""docs/testcontainers.md without Docker.

What the file of the page writes to an image, it writes to a directory here. The start scripts of the modules of Testcontainers
call it, with their environment. Each has to say what its module waits for, and to be reached at the address that its module gave.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient

from compat_tests.reference.kafka import free_port
from compat_tests.waiting import wait_for

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "testcontainers.md"
TIMEOUT_S: Final = 30
STORAGE: Final = "echo 'kafka-storage format --ignore-formatted -t id -c kafka.properties' >>/etc/confluent/docker/configure\n"
ZOOKEEPER: Final = "echo clientPort=2181 >zookeeper.properties\nzookeeper-server-start zookeeper.properties &\n"
WITHOUT_CHECKS: Final = "echo '' >/etc/confluent/docker/ensure\n"
IN_TWO: Final = ". /etc/confluent/docker/bash-config\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch\n"
OF_KRAFT: Final = {
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
}
PORT_IS_OPEN: Final = r"ottla \S+ ready"
OF_ZOOKEEPER: Final = {"KAFKA_BROKER_ID": "1", "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"}


class Module(NamedTuple):
    """One way in which a module starts Kafka."""

    waits_for: str
    script: str
    environment: dict[str, str]


MODULES: Final = {
    "java": Module("Transitioning from RECOVERY to RUNNING", "/etc/kafka/docker/run\n", OF_KRAFT),
    "java, confluent": Module("Transitioning from RECOVERY to RUNNING", "/etc/confluent/docker/run\n", OF_KRAFT),
    "go": Module(
        "Transitioning from RECOVERY to RUNNING",
        "sed -i /KAFKA_ZOOKEEPER_CONNECT/d /etc/confluent/docker/configure\n" + STORAGE + WITHOUT_CHECKS + IN_TWO,
        OF_KRAFT | {"KAFKA_REST_BOOTSTRAP_SERVERS": "PLAINTEXT://0.0.0.0:9093"},
    ),
    "python": Module(r"\[KafkaServer id=\d+\] started", ZOOKEEPER + IN_TWO, OF_ZOOKEEPER),
    "python, kraft": Module("Kafka Server started", STORAGE + IN_TWO, OF_KRAFT),
    "rust": Module("Kafka Server started", "/etc/kafka/docker/run\n", OF_KRAFT),
    "node": Module(PORT_IS_OPEN, "/etc/confluent/docker/run\n", OF_KRAFT),
}


def listeners(port: int, other: int, module: Module) -> dict[str, str]:
    names, voters = {"PLAINTEXT": port, "BROKER": other}, {}
    if "KAFKA_PROCESS_ROLES" in module.environment:
        names["CONTROLLER"] = controller = free_port()
        voters["KAFKA_CONTROLLER_QUORUM_VOTERS"] = f"1@localhost:{controller}"
    return voters | {
        "KAFKA_LISTENERS": ",".join(f"{name}://0.0.0.0:{number}" for name, number in names.items()),
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": ",".join(f"{name}:PLAINTEXT" for name in names),
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    }


class Image:
    """A directory that stands for the root of the image, with what the page's file writes below it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "usr/local/bin").mkdir(parents=True)
        found = re.search(r"^RUN <<'EOF'\n(.*?)^EOF\n", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        assert found is not None
        subprocess.run(["bash", "-c", self.inside(found[1])], check=True, timeout=TIMEOUT_S)
        command = directory / "usr/local/bin/ottla"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla "$@"\n')
        command.chmod(0o755)

    def inside(self, script: str) -> str:
        """The script with its absolute paths below the directory."""
        return re.sub(r"(?<![\w.])/(?=etc/|var/|usr/)", f"{self.directory}/", script)

    def start(self, script: str, environment: dict[str, str]) -> subprocess.Popen[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "CLUSTER_ID"))}
        path = f"{self.directory}/usr/local/bin{os.pathsep}{os.environ['PATH']}"
        with open(self.directory / "log", "w") as log:
            return subprocess.Popen(
                ["bash", "-c", self.inside(script)],
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=self.directory,
                env=clean | environment | {"PATH": path, "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )


@pytest.mark.parametrize("name", MODULES)
def test_a_module_finds_what_it_starts_and_waits_for(name: str, tmp_path: Path) -> None:
    module, port, other = MODULES[name], free_port(), free_port()
    advertised = f"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:{port},BROKER://127.0.0.1:{other}\n"
    image = Image(tmp_path / "image")
    process = image.start(f"{advertised}{module.script}", module.environment | listeners(port, other, module))
    log = tmp_path / "image" / "log"

    def has_said_so() -> bool:
        assert process.poll() is None, log.read_text()
        return re.search(module.waits_for, log.read_text()) is not None

    try:
        wait_for(has_said_so, log.read_text, TIMEOUT_S)
        brokers = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=TIMEOUT_S).brokers
        assert [f"{broker.host}:{broker.port}" for broker in brokers.values()] == [f"127.0.0.1:{port}"]
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(TIMEOUT_S)


def test_the_page_names_what_is_waited_for() -> None:
    named = re.findall(r"`([^`]*(?:started|RUNNING))`", PAGE.read_text())
    for module in MODULES.values():
        assert module.waits_for == PORT_IS_OPEN or any(re.fullmatch(module.waits_for, name) for name in named)
