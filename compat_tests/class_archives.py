"""Makes the archives of classes from which the JVMs of the tests start (reference/jvm.py), each once:

    python -m compat_tests.class_archives              those of Kafka's jars, for brokers, clients and tools
    python -m compat_tests.class_archives --spark      PySpark's

A broker, a client and a tool live once and write down which classes they load; `java -Xshare:dump` archives what of those is in a
set of jars (JEP 310 and 350 describe the files). Spark's is written by a session at its end.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from compat_tests import java_client
from compat_tests.reference import jvm, maven
from compat_tests.reference.kafka import RealKafka

JAR_SETS: Final = ("kafka", "kafka-tools", "kafka-streams", "kafka-connect")


def loaded_classes(directory: Path) -> list[str]:
    """Returns the lines of class lists of a broker, a client and a tool, each line once. Raises BrokerFailed and MavenFailed."""
    into_list = f"-XX:DumpLoadedClassList={directory}/%p.classes"
    broker = RealKafka(directory / "broker")
    broker.jvm_options = (into_list,)
    broker.start()
    try:
        with java_client.running(_made(directory / "client"), options=(into_list,)) as program:
            client = program.at(broker.bootstrap)
            topic = client.topic("archive", partitions=1)
            client.call("produce", topic=topic, records=[{"partition": 0, "value": "v"}])
            client.call("consume", topic=topic, partitions=[0], count=1)
        with java_client.running(_made(directory / "tools"), "Tools", "kafka-tools", options=(into_list,)) as tools:
            for tool, *arguments in _TOOLS:
                words = ["--bootstrap-server", broker.bootstrap, *arguments]
                tools.call("tool", **{"class": f"org.apache.kafka.tools.{tool}"}, arguments=words, stdin="v\n")
    finally:
        broker.stop()
    return list(dict.fromkeys(line for path in directory.glob("*.classes") for line in path.read_text().splitlines()))


_TOOLS: Final = (
    ("TopicCommand", "--describe"),
    ("ConsoleProducer", "--topic", "archive"),
    ("consumer.ConsoleConsumer", "--topic", "archive", "--from-beginning", "--max-messages", "1"),
    ("consumer.group.ConsumerGroupCommand", "--list"),
)


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def archive(jars: str, classes: Path) -> None:
    """Archives what of a list of classes is in a set of jars. Raises MavenFailed, CalledProcessError where Java refuses."""
    target = jvm.archive_of(jars)
    partial = target.with_suffix(".partial")
    dump = ("-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={partial}")
    subprocess.run(["java", *jvm.SMALL, *dump, "-cp", jvm.class_path(jars)], check=True, capture_output=True)
    partial.rename(target)


def serves(jars: str) -> bool:
    """Returns whether there is an archive of this set that this machine's Java takes. Raises MavenFailed."""
    target = jvm.archive_of(jars)
    command = ["java", *jvm.SMALL, "-Xshare:on", f"-XX:SharedArchiveFile={target}", "-cp", jvm.class_path(jars), "-version"]
    return target.exists() and subprocess.run(command, capture_output=True, check=False).returncode == 0


def archive_jars() -> None:
    """Makes what is missing of the archives of Kafka's jars. Raises BrokerFailed, MavenFailed, CalledProcessError."""
    directory = maven.cache_dir() / "archives"
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w") as lock, tempfile.TemporaryDirectory(prefix="ottla-archives-") as work:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [jars for jars in JAR_SETS if not serves(jars)]
        if not missing:
            return
        for jars in missing:
            jvm.archive_of(jars).unlink(missing_ok=True)
        classes = Path(work) / "classes"
        classes.write_text("\n".join(loaded_classes(Path(work))))
        for jars in missing:
            archive(jars, classes)


_SPARK: Final = """
from pyspark.sql import SparkSession
import sys
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.range(100).selectExpr("id % 7 AS digit").groupBy("digit").count().write.parquet(sys.argv[1])
spark.readStream.format("rate").load().writeStream.format("noop").trigger(once=True).start().awaitTermination()
assert spark.read.parquet(sys.argv[1]).count() == 7
spark.stop()
"""


def archive_spark() -> None:
    """Makes the archive of PySpark's classes, if it is missing. Raises CalledProcessError where the session fails."""
    target = jvm.spark_archive()
    target.parent.mkdir(exist_ok=True)
    with open(target.with_suffix(".lock"), "w") as lock, tempfile.TemporaryDirectory(prefix="ottla-archive-") as work:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return
        partial = target.with_suffix(".partial")
        options = {
            "SPARK_SUBMIT_OPTS": f"{' '.join(jvm.SMALL)} -XX:ArchiveClassesAtExit={partial}",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        command = [sys.executable, "-c", _SPARK, f"{work}/table"]
        subprocess.run(command, env=os.environ | options, cwd=work, check=True, capture_output=True)
        partial.rename(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spark", action="store_true", help="PySpark's archive instead of those of Kafka's jars")
    (archive_spark if parser.parse_args().spark else archive_jars)()


if __name__ == "__main__":
    main()
