"""The commands on the pages for users: every example of docs/commands.md, run in the order of the page against one broker;
README's everyday commands, which have to succeed in their order; and those of docs/pipeline.md, whose options have to exist.

In docs/commands.md, a ```console block is commands, each after `$ `, and what they write to either stream; `...` stands for
anything within a line, and on a line of its own for any lines. The commands run in bash in one directory, where `ottla-data` is
the broker's.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

import ottla.testing
from ottla.server.program.app import app
from ottla.server.settings.authorizer_settings import STANDARD_AUTHORIZER

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "commands.md"
TIMEOUT_S = 60
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "OTTLA_", "_OTTLA"))}


class Example(NamedTuple):
    line: int
    command: str
    expected: str


def examples(text: str) -> list[Example]:
    found: list[Example] = []
    inside = False
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if line.startswith("```"):
            inside = line.strip() == "```console"
        elif inside and line.startswith("$ "):
            found.append(Example(number, line.removeprefix("$ ").rstrip("\n"), ""))
        elif inside:
            found[-1] = found[-1]._replace(expected=found[-1].expected + line)
    return found


def pattern(expected: str) -> str:
    lines = [
        ".*" if line == "...\n" else re.escape(line).replace(r"\.\.\.", "[^\n]*") for line in expected.splitlines(keepends=True)
    ]
    return "".join(lines)


def ran(command: str, bootstrap: str, folder: Path, test_url: str = "") -> subprocess.CompletedProcess[bytes]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{ENVIRONMENT['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=ENVIRONMENT
        | {"OTTLA_BOOTSTRAP": bootstrap, "OTTLA_TEST_URL": test_url, "PATH": path, "COLUMNS": "200", "LC_ALL": "C.UTF-8"},
        timeout=TIMEOUT_S,
        check=False,
    )


def test_the_examples_do_what_they_say(tmp_path: Path) -> None:
    page = examples(PAGE.read_text())
    assert len(page) > 20
    wrong: list[str] = []
    with ottla.testing.Broker(
        data_dir=tmp_path / "ottla-data",
        test_port=0,  # for ottla testkit
        log_retention_ms=-1,
        authorizer_class_name=STANDARD_AUTHORIZER,  # for ottla acl
        super_users="User:ANONYMOUS",
    ) as broker:
        for example in page:
            done = ran(example.command, broker.bootstrap, tmp_path, broker.test_url or "")
            if not re.fullmatch(pattern(example.expected), done.stdout.decode(), re.DOTALL):
                wrong.append(f"line {example.line}: {example.command}\n{done.stdout.decode()}")
    assert not wrong, "\n".join(wrong)


def test_the_everyday_commands_of_readme_succeed(tmp_path: Path) -> None:
    _, _, after = (ROOT / "README.md").read_text().partition("### Everyday commands\n")
    commands = [line.strip() for line in after.partition("\n#")[0].splitlines() if line.startswith("    ")]
    assert len(commands) > 10
    *while_it_runs, verify = commands
    assert "once the broker is stopped" in verify
    with ottla.testing.Broker(data_dir=tmp_path / "ottla-data") as broker:
        bootstrap = broker.bootstrap
        failed = [line for line in while_it_runs if ran(line, bootstrap, tmp_path).returncode != 0]
        assert failed == []
    assert ran(verify, bootstrap, tmp_path).returncode == 0


def test_the_pipelines_commands_have_these_options() -> None:
    lines = re.findall(r"(?m)^ {4}ottla (pipeline .*)$", (ROOT / "docs" / "pipeline.md").read_text())
    assert len(lines) > 10
    for line in [*lines, "pipeline audit t --no-such-option"]:
        done = CliRunner().invoke(app, [*shlex.split(line, comments=True), "--help"])
        assert done.exit_code == (2 if "no-such" in line else 0), f"{line}\n{done.output}"


def test_an_example_that_lies_is_seen() -> None:
    assert re.fullmatch(pattern("a ... c\n...\nend\n"), "a b c\nx\ny\nend\n", re.DOTALL)
    assert re.fullmatch(pattern("a ... c\n"), "a \n c\n", re.DOTALL) is None
    assert re.fullmatch(pattern(""), "x\n", re.DOTALL) is None
