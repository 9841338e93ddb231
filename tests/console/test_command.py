"""The options of `ottla console`, and what it says without its extra."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ottla.commands import output
from ottla.console.command import NO_BROWSER, open_in_browser
from ottla.security.password_file import ITERATIONS, parse
from ottla.server.program.app import app


@pytest.mark.parametrize("token", ["short", "has a space in it!", "ünïcödé-ünïcödé", "x" * 15])
def test_a_token_that_is_none(token: str) -> None:
    ran = CliRunner().invoke(app, ["console", "--token", token], env={"COLUMNS": "300", "TERM": "dumb"})
    assert ran.exit_code == 2
    assert "16 characters or more" in ran.output


def test_without_its_extra_it_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    ran = CliRunner().invoke(app, ["console"])
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "starlette, uvicorn, jinja2, h11" in ran.stderr
    assert "'.[console]'" in ran.stderr


def test_other_machines_need_more_than_a_host() -> None:
    ran = CliRunner().invoke(app, ["console", "--host", "0.0.0.0"])
    assert ran.exit_code == 1
    assert "--keystore and --users" in ran.stderr
    assert "ssh -L 8080:127.0.0.1:8080" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_line_for_a_user() -> None:
    ran = CliRunner().invoke(app, ["console", "--new-user", "alice"], input="correct horse battery\n")
    assert ran.exit_code == 0
    users = parse(ran.stdout)
    assert users["alice"].fits("correct horse battery")
    assert users["alice"].iterations == ITERATIONS
    again = CliRunner().invoke(app, ["console", "--new-user", "alice"], input="correct horse battery\n")
    assert parse(again.stdout)["alice"].salt != users["alice"].salt


@pytest.mark.parametrize(
    ("name", "password", "says"),
    [("alice", "short", "a password has 12 to 1024 characters"), ("a:b", "", "no colon"), ("alice", "", "a password is needed")],
)
def test_users_that_cannot_be(name: str, password: str, says: str) -> None:
    looks = {"COLUMNS": "300", "TERM": "dumb"}
    ran = CliRunner().invoke(app, ["console", "--new-user", name], input=f"{password}\n", env=looks)
    assert ran.exit_code != 0
    assert ran.stdout == ""
    assert says in ran.stderr


@pytest.mark.parametrize(
    ("option", "text", "says"),
    [
        ("--users", "nonsense", "--users {}: line 1 is no user; "),
        ("--users", None, "--users {}: No such file or directory; "),
        ("--keystore", "nonsense", "--keystore: "),
        ("--keystore", None, "--keystore: {}: No such file or directory; "),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(tmp_path: Path, option: str, text: str | None, says: str) -> None:
    path = tmp_path / "given"
    if text is not None:
        path.write_text(text)
    ran = CliRunner().invoke(app, ["console", option, str(path)])
    assert (ran.exit_code, ran.stderr.count("\n")) == (1, 1)
    assert says.format(path) in ran.stderr


@pytest.mark.parametrize(
    ("environment", "opens", "asked"),
    [({"DISPLAY": ":0"}, True, True), ({"BROWSER": "x"}, True, True), ({"DISPLAY": ":0"}, False, True), ({}, True, False)],
)
def test_a_browser_is_opened_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], opens: bool, asked: bool
) -> None:
    opened: list[str] = []
    said: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opens and not opened.append(url))  # type: ignore[func-returns-value]  # None is no answer
    monkeypatch.setattr(output, "note", said.append)
    monkeypatch.setattr(sys, "platform", "linux")
    open_in_browser("http://127.0.0.1:8080/?token=once", environment).join(30)
    assert opened == (["http://127.0.0.1:8080/?token=once"] if asked and opens else [])
    assert said == ([] if asked and opens else [NO_BROWSER])


def test_other_commands_load_nothing_of_it() -> None:
    script = "import sys, ottla.server.program.app as _; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "ottla.console.command" in loaded
    assert {"starlette", "uvicorn", "jinja2", "anyio", "ottla.console.web.app", "confluent_kafka"} & set(loaded) == set()
