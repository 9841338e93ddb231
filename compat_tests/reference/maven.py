"""Jars that the tests and the code generator need, fetched by Maven once and kept in a cache (ottla/commands/cluster/jars.py).

    python -m compat_tests.reference.maven kafka        prints the directory with the jars of Apache Kafka 4.4.0

A set is `kafka`, the jars that `ottla cluster` runs its controllers from, or what a pom in poms/ asks for, by its name.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ottla.commands.cluster import jars
from ottla.commands.cluster.errors import ClusterError
from ottla.commands.cluster.jars import cache_dir

__all__ = ["MavenFailed", "cache_dir", "classpath", "jar_dir"]

POMS = Path(__file__).resolve().parent / "poms"


class MavenFailed(RuntimeError):
    """Maven is missing or could not fetch a set of jars; the text says which and why."""


def jar_dir(name: str) -> Path:
    """The directory holding a set of jars, fetched now if this machine has not seen it. Raises MavenFailed."""
    try:
        if name == "kafka":
            return jars.fetched()
        return jars.fetch(name, (POMS / f"{name}.pom.xml").read_bytes())
    except jars.MavenFailed as error:
        raise MavenFailed(f"{error}:\n{error.output}") from error
    except ClusterError as error:
        raise MavenFailed(str(error)) from error


def classpath(name: str) -> str:
    """For `java -cp`: all jars of the set."""
    return f"{jar_dir(name)}/*"


if __name__ == "__main__":
    print(jar_dir(sys.argv[1]))
