"""The examples of docs/testkit.md, run as they stand: each is a program that starts a broker of its own, breaks it, and fails if
its client does not behave.

They are compiled with what the programs of the client tests are compiled with (programs.py), so that nothing is built twice:
franz-go, kafkajs, rdkafka, and the jars of Apache Kafka.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from compat_tests import programs
from compat_tests.reference import jvm

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "testkit.md"
TIMEOUT_S: Final = 90

Prepare = Callable[[str, Path, ExitStack], tuple[list[str], Path]]
"""Writes an example to a directory; returns the command that runs it, and where. What has to be undone goes on the stack."""


def examples(language: str) -> list[str]:
    """The blocks of a language on the page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def prepare_python(example: str, directory: Path, _: ExitStack) -> tuple[list[str], Path]:
    (directory / "example.py").write_text(example)
    return [sys.executable, "example.py"], directory


def prepare_sh(example: str, directory: Path, _: ExitStack) -> tuple[list[str], Path]:
    (directory / "example").write_text(example)
    return ["sh", "-eu", "example"], directory


def prepare_java(example: str, directory: Path, _: ExitStack) -> tuple[list[str], Path]:
    (directory / "Example.java").write_text(example)
    return [*jvm.java("kafka", f"-Djava.io.tmpdir={directory}"), "Example.java"], directory


def prepare_go(example: str, directory: Path, _: ExitStack) -> tuple[list[str], Path]:
    for name in ("go.mod", "go.sum"):
        shutil.copy(programs.SOURCES / "go" / name, directory)
    (directory / "example_test.go").write_text(example)
    return ["go", "test", "-vet=off", "-count=1", "-timeout=80s", "."], directory


def prepare_node(example: str, directory: Path, _: ExitStack) -> tuple[list[str], Path]:
    (directory / "node_modules").symlink_to(programs.built(programs.NODE) / "node_modules")
    (directory / "example.mjs").write_text(example)
    return ["node", "example.mjs"], directory


def prepare_rust(example: str, _: Path, stack: ExitStack) -> tuple[list[str], Path]:
    """Always in the same directory, as cargo would keep the program of each, under a lock."""
    client = programs.built(programs.RUST)
    directory = client.with_name("rust-example")
    (directory / "src").mkdir(parents=True, exist_ok=True)
    fcntl.flock(stack.enter_context((directory / "lock").open("w")), fcntl.LOCK_EX)
    (directory / "Cargo.toml").write_text((client / "Cargo.toml").read_text().replace('"client"', '"example"'))
    shutil.copy(client / "Cargo.lock", directory)  # the versions that are built
    (directory / "src" / "main.rs").write_text(example)
    return ["cargo", "run", "--quiet", "--locked"], directory


LANGUAGES: Final[dict[str, tuple[Prepare, programs.Language | None]]] = {
    "python": (prepare_python, None),
    "sh": (prepare_sh, None),
    "java": (prepare_java, None),
    "go": (prepare_go, programs.GO),
    "js": (prepare_node, programs.NODE),
    "rust": (prepare_rust, programs.RUST),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_examples_of_the_page_run_as_they_stand(language: str, tmp_path: Path) -> None:
    prepare, builder = LANGUAGES[language]
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "ottla").write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla "$@"\n')
    (commands / "ottla").chmod(0o755)
    path = os.pathsep.join((str(commands), str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    if builder is not None:
        environment |= programs.build_settings(builder)
    found = examples(language)
    assert found
    for number, example in enumerate(found):
        directory = tmp_path / str(number)
        directory.mkdir()
        with ExitStack() as stack:
            command, place = prepare(example, directory, stack)
            ran = subprocess.run(
                command, cwd=place, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        assert ran.returncode == 0, f"example {number}:\n{ran.stdout[-4000:]}\n{ran.stderr[-4000:]}"


def test_every_block_is_run() -> None:
    assert set(re.findall(r"^```(\w+)$", PAGE.read_text(), re.MULTILINE)) == set(LANGUAGES)
