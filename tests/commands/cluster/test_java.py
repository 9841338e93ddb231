"""Tests of the Java that a cluster's controllers run on, and what is said if there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.commands.cluster.errors import NotInstalled
from ottla.commands.cluster.java import find_java, version_of


def java(folder: Path, printed: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{printed}' >&2\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21-ea"', 21),
        ("no Java at all", None),
    ],
)
def test_the_version_is_read(printed: str, version: int | None) -> None:
    assert version_of(printed) == version


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    first, second = java(tmp_path / "home", 'version "17"'), java(tmp_path / "path", 'version "21"')
    path = f"{second.parent}:/bin:/usr/bin"
    assert find_java({"PATH": path}) == str(second)
    assert find_java({"PATH": path, "JAVA_HOME": str(tmp_path / "home")}) == str(first)


def test_without_java_the_remedy_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        NotInstalled, match=r"need Java 17 or newer: there is no `java` on the PATH; install it .* `ottla`"
    ) as found:
        find_java({"PATH": str(tmp_path)})
    assert found.value.exit_code == 2
    with pytest.raises(NotInstalled, match=f"JAVA_HOME, {tmp_path}, has no bin/java"):
        find_java({"PATH": str(java(tmp_path / "path", 'version "21"').parent), "JAVA_HOME": str(tmp_path)})


def test_an_old_java_is_refused(tmp_path: Path) -> None:
    path = java(tmp_path, 'openjdk version "16.0.2"')
    with pytest.raises(NotInstalled, match=f"{path} is Java 16; install it"):
        find_java({"PATH": f"{path.parent}:/bin:/usr/bin"})
    path.write_text("#!/bin/sh\n")
    with pytest.raises(NotInstalled, match="does not say which it is"):
        find_java({"PATH": f"{path.parent}:/bin:/usr/bin"})
