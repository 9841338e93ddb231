"""The options of `ottla console`, and what it says without its extra."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from ottla.server.program.app import app


@pytest.mark.parametrize("token", ["short", "has a space in it!", "ünïcödé-ünïcödé", "x" * 15])
def test_a_token_that_is_none(token: str) -> None:
    ran = CliRunner().invoke(app, ["console", "--token", token], env={"COLUMNS": "300", "TERM": "dumb"})
    assert ran.exit_code == 2
    assert "16 letters or more" in ran.output


def test_without_its_extra_it_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    ran = CliRunner().invoke(app, ["console"])
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "starlette, uvicorn, jinja2, h11" in ran.stderr
    assert "'.[console]'" in ran.stderr


def test_other_hosts_cannot_be_let_in() -> None:
    ran = CliRunner().invoke(app, ["console", "--host", "0.0.0.0"])
    assert ran.exit_code == 1
    assert "ssh -L 8080:127.0.0.1:8080" in ran.stderr


def test_other_commands_load_nothing_of_it() -> None:
    script = "import sys, ottla.server.program.app as _; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "ottla.console.command" in loaded
    assert {"starlette", "uvicorn", "jinja2", "anyio", "ottla.console.app", "confluent_kafka"} & set(loaded) == set()
