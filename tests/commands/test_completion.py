"""Shell completion: typer's scripts are offered, and a shell that asks for completions gets them instead of a broker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TIMEOUT_S = 60
OTTLA = str(Path(sys.executable).with_name("ottla"))
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "OTTLA_", "_OTTLA"))}


def run(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        arguments, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env=ENVIRONMENT | environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("ottla con", {"consume", "config", "console"}),
        ("ottla lo", {"log"}),
        ("ottla log du", {"dump"}),
        ("ottla consume --isol", {"--isolation"}),
        ("ottla produce t --compression z", {"zstd"}),
    ],
)
def test_bash_gets_answers(words: str, completions: set[str]) -> None:
    out = run(OTTLA, _OTTLA_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))
    assert set(out.split()) == completions


def test_show_completion() -> None:
    """The option detects the shell that runs it; `true` keeps bash from replacing itself by the command."""
    assert "complete -o default -F" in run("bash", "--norc", "-c", f"{OTTLA} --show-completion; true")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_are_offered(shell: str) -> None:
    """The script is requested as `ottla --show-completion` does it once it has detected the shell."""
    script = run(OTTLA, _OTTLA_COMPLETE=f"source_{shell}")
    assert f"_OTTLA_COMPLETE=complete_{shell}" in script


def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    """A bash that has read the script, asked for the words that follow `ottla con`."""
    (tmp_path / "script").write_text(run(OTTLA, _OTTLA_COMPLETE="source_bash"))
    asking = (
        f"PATH={Path(OTTLA).parent}:$PATH; source {tmp_path / 'script'}; COMP_WORDS=(ottla con); COMP_CWORD=1; "
        "$(complete -p ottla | sed 's/.*-F \\([^ ]*\\).*/\\1/') ottla con ottla; echo ${COMPREPLY[@]}"
    )
    assert set(run("bash", "--norc", "-c", asking).split()) == {"consume", "config", "console"}
