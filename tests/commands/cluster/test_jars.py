"""Tests of where Kafka's jars come from: an unpacked Kafka, the cache, or Maven, which a script stands for here."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.commands.cluster import jars
from ottla.commands.cluster.errors import ClusterError

MVN = """#!/bin/sh
echo "$@" >>"$OTTLA_CACHE/asked"
grep -o '<version>4[^<]*' "$4" >>"$OTTLA_CACHE/asked"
for word in "$@"; do case $word in -DoutputDirectory=*) mkdir "${word#*=}" && touch "${word#*=}/kafka.jar" ;; esac; done
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    (tmp_path / "bin").mkdir()
    return tmp_path / "cache"


def maven(cache: Path, script: str) -> None:
    path = cache.parent / "bin" / "mvn"
    path.write_text(script)
    path.chmod(0o755)


def test_a_set_is_fetched_once(cache: Path) -> None:
    maven(cache, MVN)
    first = jars.fetched()
    assert [path.name for path in first.iterdir()] == ["kafka.jar"]
    assert first.parent == cache / "jars"
    assert jars.fetched() == first
    asked = (cache / "asked").read_text().split()
    assert asked.count("dependency:copy-dependencies") == 1
    assert f"<version>{jars.NEWEST}" in asked
    assert sorted(path.name for path in first.parent.iterdir()) == sorted([first.name, f"kafka-{jars.NEWEST}.lock"])


def test_each_version_is_a_set_of_its_own(cache: Path) -> None:
    maven(cache, MVN)
    assert jars.fetched("4.1.0") != jars.fetched("4.2.0")
    assert "<version>4.1.0\n<version>4.1.0\n" in (cache / "asked").read_text()


def test_without_maven_the_remedy_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cache.parent / "bin"))
    with pytest.raises(
        jars.MavenMissing, match=r"the jars of kafka-4\.4\.0 .* neither is Maven.* install it .* --kafka DIR"
    ) as found:
        jars.fetched("4.4.0")
    assert found.value.exit_code == 2


def test_what_maven_says_is_passed_on(cache: Path) -> None:
    maven(cache, "#!/bin/sh\necho '[INFO] x'; echo '[ERROR] no such version'; echo '[ERROR] more'; exit 1\n")
    with pytest.raises(jars.MavenFailed, match=r"could not fetch the jars of kafka-9: no such version$") as found:
        jars.fetched("9")
    assert "[ERROR] more" in found.value.output
    assert not list((cache / "jars").glob("*9-*"))


def test_an_unpacked_kafka_has_libs(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=f"--kafka: {tmp_path} is no unpacked Apache Kafka"):
        jars.unpacked(tmp_path)
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka_2.13-4.4.0.jar").touch()
    assert jars.unpacked(tmp_path) == tmp_path / "libs"
