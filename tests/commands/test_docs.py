"""Every example of docs/commands.md, run in the order of the page against one broker.

A ```console block is commands, each after `$ `, and what they write to either stream; `...` stands for anything within a line,
and on a line of its own for any lines. The commands run in bash in one directory, where `ottla-data` is the broker's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import ottla.testing

PAGE = Path(__file__).resolve().parents[2] / "docs" / "commands.md"
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


def test_the_examples_do_what_they_say(tmp_path: Path) -> None:
    page = examples(PAGE.read_text())
    assert len(page) > 20
    wrong: list[str] = []
    with ottla.testing.Broker(data_dir=tmp_path / "ottla-data", log_retention_ms=-1) as broker:
        path = f"{Path(sys.executable).parent}{os.pathsep}{ENVIRONMENT['PATH']}"
        environment = ENVIRONMENT | {"OTTLA_BOOTSTRAP": broker.bootstrap, "PATH": path, "COLUMNS": "200", "LC_ALL": "C.UTF-8"}
        for example in page:
            done = subprocess.run(
                ["bash", "-c", example.command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=tmp_path,
                env=environment,
                timeout=TIMEOUT_S,
                check=False,
            )
            if not re.fullmatch(pattern(example.expected), done.stdout.decode(), re.DOTALL):
                wrong.append(f"line {example.line}: {example.command}\n{done.stdout.decode()}")
    assert not wrong, "\n".join(wrong)


def test_an_example_that_lies_is_seen() -> None:
    assert re.fullmatch(pattern("a ... c\n...\nend\n"), "a b c\nx\ny\nend\n", re.DOTALL)
    assert re.fullmatch(pattern("a ... c\n"), "a \n c\n", re.DOTALL) is None
    assert re.fullmatch(pattern(""), "x\n", re.DOTALL) is None
