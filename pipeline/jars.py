"""The jars of Spark's connectors: which ones a version of Spark needs, and where this machine has them.

A connector has the version of the Spark that runs it, and needs a Kafka client and a pool of the versions with which it was
built; everything else that its POM names is in Spark already, so each jar is fetched without its dependencies. That also avoids
fetching what those POMs refer to.

`mvn` fetches the jars, if there is one, into ${OTTLA_CACHE:-~/.cache/ottla}/jars (as in the tests), with the mirrors and proxies
of the user's own Maven settings; otherwise Spark itself fetches them by `spark.jars.packages`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from ottla.pipeline.errors import PipelineError

SCALA: Final = "2.13"

KAFKA_CLIENT_OF: Final = {(4, 0): ("3.9.0", "2.12.0"), (4, 1): ("3.9.1", "2.12.1"), (4, 2): ("3.9.2", "2.13.1")}
"""By version of Spark, the Kafka client and the pool with which its connector was built. A later Spark uses the last ones."""

_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>ottla</groupId><artifactId>spark-jars</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
)


def coordinates(connectors: Iterable[str], spark_version: str) -> list[str]:
    """Returns the Maven coordinates, `group:artifact:version`, of everything that the connectors need besides Spark itself."""
    release = ".".join(spark_version.split(".")[:3])
    known = tuple(int(part) for part in release.split(".")[:2])
    client, pool = KAFKA_CLIENT_OF.get((known[0], known[1])) or KAFKA_CLIENT_OF[max(KAFKA_CLIENT_OF)]
    of = {
        "kafka": [
            f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{release}",
            f"org.apache.spark:spark-token-provider-kafka-0-10_{SCALA}:{release}",
            f"org.apache.kafka:kafka-clients:{client}",
            f"org.apache.commons:commons-pool2:{pool}",
        ],
        "avro": [f"org.apache.spark:spark-avro_{SCALA}:{release}"],
    }
    return [coordinate for name in connectors for coordinate in of[name]]


def by_maven(wanted: Sequence[str]) -> list[Path] | None:
    """Returns the jars, and fetches them if this machine does not have them; None if there is no Maven. Raises PipelineError if
    they cannot be fetched."""
    pom = _POM.format(dependencies="".join(_DEPENDENCY.format(*one.split(":")) for one in wanted))
    home = Path(os.environ.get("OTTLA_CACHE") or Path.home() / ".cache" / "ottla").expanduser() / "jars"
    target = home / f"spark-{hashlib.sha256(pom.encode()).hexdigest()[:12]}"
    if not target.is_dir():
        if shutil.which("mvn") is None:
            return None
        home.mkdir(parents=True, exist_ok=True)
        with open(home / f"{target.name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_dir():  # otherwise another process fetched them while this one waited
                _fetch(pom, target, wanted)
    return sorted(target.glob("*.jar"))


def _fetch(pom: str, target: Path, wanted: Sequence[str]) -> None:
    """Fetches the jars into another directory and renames that when it is complete, so that other processes see all or
    nothing."""
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    (partial / "pom.xml").write_text(pom)
    command = ["mvn", "-q", "-B", "-f", str(partial / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = next((line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line), "Maven gave no reason")
        raise PipelineError(f"Maven could not fetch {' '.join(wanted)} (--jars takes files instead): {said[:300]}")
    partial.rename(target)
