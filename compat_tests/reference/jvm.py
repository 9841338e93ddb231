"""JVMs for the tests: small, without the optimising compiler, and with an archive of the classes that it will load.

Most of these JVMs live for seconds, and half of what they cost is the loading of classes. compat_tests/class_archives.py makes
the archives; a JVM that finds none, or that of another Java, loads its classes as ever.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from compat_tests.reference import maven

SMALL: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""No optimising compiler and no collector's threads: a JVM of a test ends before either pays. And no file for jstat, whose lock
another process with the same pid may hold, in a guest or a container: the warning goes to standard output, where tests read."""

COMPILER: Final = tuple(f"-J{option}" for option in SMALL)
"""The same for javac."""


def java(jars: str, *options: str, classes: Path | None = None) -> list[str]:
    """Returns `java` with all that comes before the main class: for a set of jars (poms/) and, behind them, `classes`, a
    directory of compiled ones. `options` are further ones of the JVM. Raises MavenFailed.
    """
    archive = archive_of(jars)
    shared = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
    return ["java", "-Xmx512m", *SMALL, *shared, *options, "-cp", class_path(jars, classes)]


def class_path(jars: str, classes: Path | None = None) -> str:
    """Returns the class path. The jars come first: an archive serves class paths that begin with its own. Raises MavenFailed."""
    return maven.classpath(jars) if classes is None else f"{maven.classpath(jars)}:{classes}"


def archive_of(jars: str) -> Path:
    """Returns where the archive of a set of jars lies once it is made. Raises MavenFailed."""
    return maven.cache_dir() / "archives" / f"{maven.jar_dir(jars).name}.jsa"


def spark_archive() -> Path:
    """Returns where the archive for PySpark's JVMs lies once it is made: with the project, whose environment has Spark's jars."""
    return Path(__file__).parents[2] / "build" / "spark.jsa"


def spark_options() -> str:
    """Returns the options for every JVM that spark-submit starts, as SPARK_SUBMIT_OPTS takes them."""
    archive = spark_archive()
    return " ".join((*SMALL, f"-XX:SharedArchiveFile={archive}") if archive.exists() else SMALL)
