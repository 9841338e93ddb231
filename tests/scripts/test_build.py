"""Tests that what scripts/build makes is installed where there is no compiler: the wheel runs compiled, the source says that it
does not.

One environment serves both, first with the wheel and then with the source distribution, because what ottla needs is the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.server.base.compiled import NOT_COMPILED

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass
class Installed:
    """An environment without the checkout, and without a compiler."""

    bin: Path
    home: Path

    @property
    def variables(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTP", "http", "LANG"))}
        return {**kept, "PATH": str(self.bin), "HOME": str(self.home), "CC": "/nonexistent"}

    def run(self, program: str, *arguments: str, text: str = "") -> str:
        command = [str(self.bin / program), *arguments]
        done = subprocess.run(
            command, cwd=self.home, env=self.variables, input=text, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def install(self, *arguments: str) -> None:
        self.run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)

    @contextmanager
    def broker(self, name: str) -> Iterator[str]:
        """Runs a broker, whose log goes to the file `<name>.log`; yields its address."""
        command = [str(self.bin / "ottla"), "--port", "0", "--data-dir", name]
        with (
            (self.home / f"{name}.log").open("w") as log,
            subprocess.Popen(command, cwd=self.home, env=self.variables, stdout=subprocess.PIPE, stderr=log, text=True) as broker,
        ):
            assert broker.stdout is not None
            try:
                yield broker.stdout.readline().partition("bootstrap ")[2].partition(",")[0]
            finally:
                broker.terminate()

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text()

    def round_trip(self, address: str) -> None:
        """Produces and consumes, each by a process of its own."""
        self.run("ottla", "topic", "create", "greetings", "-b", address)
        self.run("ottla", "produce", "greetings", "-b", address, text="hello\n")
        assert self.run("ottla", "consume", "greetings", "--from", "beginning", "--exit", "-b", address) == "hello\n"


@pytest.fixture(scope="module")
def built() -> tuple[Path, Path]:
    done = subprocess.run([ROOT / "scripts" / "build"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wheel, source = sorted((Path(line) for line in done.stdout.splitlines()), key=lambda path: path.suffix != ".whl")
    return wheel, source


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    home = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", home / "venv"], check=True)
    there = Installed(home / "venv" / "bin", home)
    there.install(str(built[0]))
    return there


def test_the_wheel_runs_compiled_where_there_is_no_compiler(installed: Installed) -> None:
    where = "from ottla.wire import kernel; from ottla.server.handlers import produce; print(kernel.__file__, produce.__file__)"
    files = installed.run("python", "-c", where).split()
    assert [Path(file).suffix for file in files] == [".so", ".so"]
    assert not any(Path(file).is_relative_to(ROOT) for file in files)
    assert installed.run("ottla", "--version").startswith("ottla ")
    with installed.broker("compiled") as address:
        installed.round_trip(address)
    said = installed.run("ottla", "--version") + installed.log("compiled")
    assert "not compiled" not in said


def test_the_source_says_that_it_is_not_compiled_where_there_is_no_compiler(
    installed: Installed, built: tuple[Path, Path]
) -> None:
    installed.install("--force-reinstall", "--no-deps", str(built[1]))
    assert installed.run("python", "-c", "from ottla.wire import kernel; print(kernel.__file__)").endswith(".py\n")
    assert installed.run("ottla", "--version").endswith(f", {NOT_COMPILED}\n")
    with installed.broker("uncompiled") as address:
        installed.round_trip(address)
    (said,) = [line for line in installed.log("uncompiled").splitlines() if "not compiled" in line]
    assert said.endswith(f" INFO ottla.server.serve: {NOT_COMPILED}")


def test_neither_has_tests_or_what_only_a_checkout_needs(built: tuple[Path, Path]) -> None:
    wheel, source = built
    in_wheel = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert in_wheel == {"ottla", "ottla-0.1.0.dist-info"}
    with tarfile.open(source) as archive:
        names = [name.split("/")[1:] for name in archive.getnames()]
    folders = {parts[0] for parts in names if len(parts) > 1}
    assert folders == {"ottla", "ottla.egg-info"}
    assert {"setup.py", "pyproject.toml", "LICENSE", "README.md"} <= {parts[0] for parts in names if len(parts) == 1}
