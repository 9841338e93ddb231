"""Kafka's messages: the definitions in its jars, and its own classes to ask (KafkaCodec.java).

The jars are pinned twice: by version in compat_tests/reference/poms/kafka.pom.xml, and by checksum here, so that the
generated text cannot change unseen.
"""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from compat_tests.reference import maven
from compat_tests.reference.definitions import Message, parse

VERSION = "4.4.0"
CHECKSUMS = {
    "kafka-clients": "1ab07317eb6633241392449d329dbdc5d9251e6ffc4926860f42dd966e88bdf9",
    "kafka-metadata": "6c52de74ecd670332e1e1324f5d40311275ac49b22699b6722e5fb07dd266fcb",
    "kafka-group-coordinator": "3fc830ace54f6a13f9f536bc0564bf39a68797365a4c4b194bd7db4fb893b2bc",
    "kafka-transaction-coordinator": "1d5324d59776d6b7f324cfdc87647b1e88f9823332201c0324e7ae9f210d915d",
    "kafka-share-coordinator": "6969a7961ca98d37a039bbe0af0fe761d6b0dd07ca9666802f47821167afbb6e",
}
_PACKAGES = {
    "kafka-clients": "org.apache.kafka.common.message",
    "kafka-metadata": "org.apache.kafka.common.metadata",
    "kafka-group-coordinator": "org.apache.kafka.coordinator.group.generated",
    "kafka-transaction-coordinator": "org.apache.kafka.coordinator.transaction.generated",
    "kafka-share-coordinator": "org.apache.kafka.coordinator.share.generated",
}
_CODEC = Path(__file__).with_name("KafkaCodec.java")


class WrongJar(RuntimeError):
    """A jar's bytes are not those that this generator was written for."""


@cache
def definitions() -> list[Message]:
    """Returns every definition with at least one version, except the headers. Raises MavenFailed or WrongJar."""
    directory = maven.jar_dir("kafka")
    found = []
    for artifact, checksum in CHECKSUMS.items():
        path = directory / f"{artifact}-{VERSION}.jar"
        if hashlib.sha256(path.read_bytes()).hexdigest() != checksum:
            raise WrongJar(f"{path} is not the published one: delete {directory}, or change its checksum in {__file__}")
        with zipfile.ZipFile(path) as jar:
            names = [name for name in sorted(jar.namelist()) if name.startswith("common/") and name.endswith(".json")]
            found += [parse(jar.read(name).decode(), f"{artifact} {VERSION}") for name in names]
    return [m for m in found if m.valid and m.kind != "header"]


def error_codes() -> list[tuple[int, str]]:
    """Returns (code, name) of every error of the protocol."""
    rows = [line.split() for line in ask_kafka(["errors"]).splitlines()]
    return [(int(code), name) for code, name in rows]


def java_class(message: Message) -> str:
    """Returns the full name of Kafka's class for a definition."""
    suffix = "Data" if message.kind in ("request", "response") else ""
    return f"{_PACKAGES[message.source.partition(' ')[0]]}.{message.name}{suffix}"


def ask_kafka(arguments: Sequence[str] = (), lines: Sequence[str] = ()) -> str:
    """Runs KafkaCodec.java once, with these lines as its input; returns its output. Raises CalledProcessError if Java fails."""
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    command += ["-cp", maven.classpath("kafka"), str(_CODEC), *arguments]
    done = subprocess.run(command, input="".join(f"{line}\n" for line in lines), stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout
