"""The jars of Apache Kafka: those of a directory that the user unpacked, or fetched by Maven once and kept in a cache.

The cache is `${OTTLA_CACHE:-~/.cache/ottla}/jars`. A set of jars lies in a directory that is named by the hash of its pom, so a
changed pom is fetched anew. It is filled beside and renamed when it is complete, under a lock: processes that want the same set
at the same time fetch it once, and see all of it or nothing.

The tests fetch their jars with `fetch`, too, before there is an environment: this module needs nothing but Python.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from ottla.commands.cluster.errors import ClusterError, NotInstalled

NEWEST: Final = "4.4.0"
"""The version of Kafka whose controllers a cluster gets by default."""

_TOOLS_API: Final = {"4.4.0": "4.3.1"}
"""The version of the tools' API in the place of one that was never published, by the version of kafka_2.13 that asks for that."""

_POM: Final = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <dependencyManagement>
    <dependencies>
      <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools-api</artifactId><version>{tools_api}</version></dependency>
    </dependencies>
  </dependencyManagement>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""


class MavenMissing(NotInstalled):
    """There is no `mvn`, and the jars are not in the cache."""


class MavenFailed(ClusterError):
    """Maven could not fetch a set of jars. `output` is what it printed, for who wants more than one line."""

    def __init__(self, text: str, output: str) -> None:
        super().__init__(text)
        self.output = output


def cache_dir() -> Path:
    """Returns the directory of what is fetched or built once on this machine."""
    return Path(os.environ.get("OTTLA_CACHE") or Path.home() / ".cache" / "ottla").expanduser()


def unpacked(directory: Path) -> Path:
    """Returns the directory with the jars of an unpacked Apache Kafka. Raises ClusterError if it is none."""
    libraries = directory / "libs"
    if not any(libraries.glob("kafka_2.1*.jar")):
        raise ClusterError(
            f"--kafka: {directory} is no unpacked Apache Kafka, since it has no libs/kafka_2.13-*.jar; name the directory that "
            "its .tgz unpacks to, or leave the option out to have the jars fetched by Maven"
        )
    return libraries


def fetched(version: str = NEWEST) -> Path:
    """Returns the directory with the jars of a version of Apache Kafka, fetched now if this machine does not have them.

    Raises MavenMissing and MavenFailed.
    """
    pom = _POM.format(version=version, tools_api=_TOOLS_API.get(version, version))
    return fetch(f"kafka-{version}", pom.encode())


def fetch(name: str, pom: bytes) -> Path:
    """Returns the directory with the jars that a pom asks for, fetched now if this machine does not have them.

    Raises MavenMissing and MavenFailed.
    """
    target = cache_dir() / "jars" / f"{name}-{hashlib.sha256(pom).hexdigest()[:12]}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():  # else another process fetched while this one waited
            _fetch(name, pom, target)
    return target


def _fetch(name: str, pom: bytes, target: Path) -> None:
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    file = target.with_name(f"{target.name}.pom.xml")
    file.write_bytes(pom)
    command = ["mvn", "-q", "-B", "-f", str(file), "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise MavenMissing(
            f"the jars of {name} are not on this machine, and neither is Maven, which fetches them: install it (on Debian: "
            "apt-get install maven), or name an unpacked Apache Kafka with --kafka DIR"
        ) from error
    finally:
        file.unlink()
    if done.returncode != 0:
        output = f"{done.stdout[-4000:]}{done.stderr[-4000:]}"
        errors = [line for line in output.splitlines() if line.startswith("[ERROR]")]
        why = errors[0].removeprefix("[ERROR]").strip()[:500] if errors else "it does not say why"
        raise MavenFailed(f"Maven could not fetch the jars of {name}: {why}", output)
    partial.rename(target)
