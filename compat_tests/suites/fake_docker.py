"""A pytest plugin in front of aiokafka's own integration tests, which want their broker from Docker.

The module `docker` is made here: a "container" of an image `<kind>:<Scala>_<Kafka>` is a fresh broker of that kind at the port
that the test harness chose for it, and a command that is run in a container succeeds. The rest of the tests is as it was.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import types
from pathlib import Path
from typing import Any, Final

from compat_tests.brokers import CLASSES
from compat_tests.reference.kafka import BrokerProcess

SETTINGS: Final = {"node.id": "0", "num.partitions": "2", "group.min.session.timeout.ms": "1000"}
"""The settings that the tests expect of the image's broker."""


class Container:
    """A broker, or nothing: some containers are for one command only."""

    def __init__(self, broker: BrokerProcess | None) -> None:
        self._broker = broker

    def exec_run(self, *_: Any, **__: Any) -> tuple[int, bytes]:
        return 0, b""

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.stop()
            shutil.rmtree(self._broker.directory)


class Containers:
    def run(self, image: str, environment: dict[str, Any] | None = None, **_: Any) -> Container:
        if environment is None:
            return Container(None)
        kind = image.partition(":")[0]
        broker = CLASSES[kind](Path(tempfile.mkdtemp(prefix="ottla-aiokafka-")), SETTINGS, environment["ADVERTISED_PORT"])
        broker.start()
        return Container(broker)


class Client:
    containers = Containers()

    def close(self) -> None:
        """Nothing is open."""


_docker: Any = types.ModuleType("docker")
_docker.from_env = Client
_docker.models = types.SimpleNamespace(containers=types.SimpleNamespace(Container=Container))
sys.modules["docker"] = _docker
