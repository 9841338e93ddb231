"""The six clients, and how the driver of each is started."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compat_tests import java_client
from compat_tests.behaviours.driver import Driver
from compat_tests.programs import GO, NODE, Language, command_of
from compat_tests.reference import jvm

ROOT: Final = Path(__file__).resolve().parents[2]
JAVA_MAIN: Final = "Behaviours"


@dataclass(frozen=True)
class Client:
    """A client: its name as the table has it, and the command of its driver, which may build something in a directory first."""

    name: str
    command: Callable[[Path], list[str]]

    def start(self, directory: Path) -> Driver:
        """Starts its driver. What it builds and what it writes to standard error are in the directory."""
        return Driver(self.command(directory), directory / f"{self.name}.log", ROOT)


def _python(module: str) -> Callable[[Path], list[str]]:
    return lambda _: [sys.executable, "-m", f"compat_tests.behaviours.{module}"]


def _java(directory: Path) -> list[str]:
    classes = directory / "java"
    if not classes.exists():
        classes.mkdir()
        java_client.compiled(classes, JAVA_MAIN, "kafka")
    return [*jvm.java("kafka", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", classes=classes), JAVA_MAIN]


def _program(language: Language, name: str) -> Callable[[Path], list[str]]:
    return lambda _: [*command_of(language), name, "behave", "unused"]


CONFLUENT: Final = "confluent-kafka"
JAVA: Final = "Java"
FRANZ: Final = "franz-go"
SARAMA: Final = "sarama"
KAFKAJS: Final = "kafkajs"
KAFKA_PYTHON: Final = "kafka-python"
CLIENTS: Final = (
    Client(CONFLUENT, _python("drive_confluent")),
    Client(JAVA, _java),
    Client(FRANZ, _program(GO, "franz")),
    Client(SARAMA, _program(GO, "sarama")),
    Client(KAFKAJS, _program(NODE, "kafkajs")),
    Client(KAFKA_PYTHON, _python("drive_kafka_python")),
)
