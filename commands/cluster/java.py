"""Finds the Java that the controllers of a cluster run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

from ottla.commands.cluster.errors import NotInstalled

OLDEST: Final = 17
"""The oldest Java that Apache Kafka's server runs on since 4.0."""

_NEED: Final = f"the controllers of a cluster are Apache Kafka's and need Java {OLDEST} or newer"
_REMEDY: Final = "install it (on Debian: apt-get install default-jre-headless), or start one broker with `ottla`"
_VERSION: Final = re.compile(r'version "(?P<major>\d+)(?:\.(?P<minor>\d+))?')


def find_java(environment: Mapping[str, str]) -> str:
    """Returns the path of a `java` that is new enough: that of JAVA_HOME, or else the first on the PATH. Raises NotInstalled."""
    home = environment.get("JAVA_HOME")
    where = os.path.join(home, "bin") if home else environment.get("PATH")
    path = shutil.which("java", path=where)
    if path is None:
        place = f"JAVA_HOME, {home}, has no bin/java" if home else "there is no `java` on the PATH"
        raise NotInstalled(f"{_NEED}: {place}; {_REMEDY}")
    done = subprocess.run([path, "-version"], capture_output=True, text=True, check=False, env=dict(environment))
    found = version_of(done.stderr + done.stdout)
    if found is None:
        raise NotInstalled(f"{_NEED}: `{path} -version` does not say which it is; {_REMEDY}")
    if found < OLDEST:
        raise NotInstalled(f"{_NEED}: {path} is Java {found}; {_REMEDY}")
    return path


def version_of(text: str) -> int | None:
    """Returns the major version in what `java -version` prints; before Java 9 it was the second number, as in 1.8.0."""
    match = _VERSION.search(text)
    if match is None:
        return None
    major = int(match["major"])
    return int(match["minor"]) if major == 1 and match["minor"] else major
