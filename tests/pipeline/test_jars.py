"""The jars of Spark's connectors: which they are, and that Maven fetches them once. Maven is played by a script."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.pipeline import jars
from ottla.pipeline.errors import PipelineError

FETCHES = 'for word; do case $word in -DoutputDirectory=*) touch "${word#*=}/b.jar" "${word#*=}/a.jar";; esac; done'
WANTED = ["group:one:1", "group:two:2"]


def test_a_connector_has_sparks_version_and_a_client_of_its_time() -> None:
    assert jars.coordinates(["kafka"], "4.0.0") == [
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.0",
        "org.apache.commons:commons-pool2:2.12.0",
    ]
    assert "org.apache.kafka:kafka-clients:3.9.1" in jars.coordinates(["kafka"], "4.1.3")
    assert "org.apache.kafka:kafka-clients:3.9.2" in jars.coordinates(["kafka"], "4.9.0")  # not known yet: the last that is
    assert jars.coordinates(["avro"], "4.0.0.dev1") == ["org.apache.spark:spark-avro_2.13:4.0.0"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provides the directory where the jars are kept; there is an mvn, which does nothing yet."""
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    play_maven(tmp_path / "cache", "")
    return tmp_path / "cache"


def play_maven(cache: Path, script: str) -> None:
    mvn = cache.parent / "mvn"
    mvn.write_text(f'#!/bin/sh\necho "$@" >> {cache.parent}/calls\n{script}\n')
    mvn.chmod(0o755)


def fetched(wanted: list[str]) -> list[Path]:
    found = jars.by_maven(wanted)
    assert found is not None, "there is an mvn"
    return found


def calls(cache: Path) -> int:
    file = cache.parent / "calls"
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_jars_are_fetched_once_and_whole(cache: Path) -> None:
    play_maven(cache, FETCHES)
    for _ in range(2):
        found = fetched(WANTED)
        assert [path.name for path in found] == ["a.jar", "b.jar"]
        assert found[0].parent.parent == cache / "jars"
    assert calls(cache) == 1
    pom = (found[0].parent / "pom.xml").read_text()
    assert "<groupId>group</groupId><artifactId>one</artifactId><version>1</version>" in pom
    assert pom.count("<exclusions>") == 2
    assert fetched(WANTED[:1])[0].parent != found[0].parent
    assert calls(cache) == 2


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("echo '[INFO] so far'; echo '[ERROR] no such artifact'; echo '[ERROR] more'", r"\[ERROR\] no such artifact$"),
        ("echo '[ERROR] on stderr' >&2", r"\[ERROR\] on stderr$"),
        ("echo 'well'", "Maven gave no reason$"),
        (f"echo 'ERROR {'x' * 400}'", f"ERROR {'x' * 294}$"),
    ],
)
def test_jars_that_cannot_be_fetched_are_an_error_of_one_line_and_are_tried_again(cache: Path, says: str, why: str) -> None:
    play_maven(cache, f"{FETCHES}\n{says}\nexit 1")
    with pytest.raises(
        PipelineError, match=rf"^Maven could not fetch group:one:1 group:two:2 \(--jars takes files instead\): {why}"
    ):
        jars.by_maven(WANTED)
    play_maven(cache, FETCHES)
    assert len(fetched(WANTED)) == 2


def test_without_maven_there_are_only_jars_that_were_fetched(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_maven(cache, FETCHES)
    found = fetched(WANTED)
    monkeypatch.setenv("PATH", "")
    assert jars.by_maven(WANTED) == found
    assert jars.by_maven(WANTED[:1]) is None
