"""commands/output.py: streams, exit codes, and tables outside a terminal."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import pytest
import typer
from typer.testing import CliRunner

from ottla.commands import output

TIMEOUT_S = 60


def code_of(function: Callable[[], None]) -> int:
    with pytest.raises(typer.Exit) as ended:
        output.guarded(function)()
    return ended.value.exit_code


def test_a_number_has_its_noun_in_singular_or_plural() -> None:
    assert [output.counted(number, "record") for number in (0, 1, 2000)] == ["0 records", "1 record", "2,000 records"]
    assert [output.counted(number, "batch", "batches") for number in (1, 2)] == ["1 batch", "2 batches"]


def test_failures_are_one_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        raise output.Failure("two\nlines")

    assert code_of(command) == 1
    assert capsys.readouterr() == ("", "ottla: two lines\n")


def test_an_error_of_the_system_names_its_file(capsys: pytest.CaptureFixture[str], tmp_path: os.PathLike[str]) -> None:
    def command() -> None:
        open(os.path.join(tmp_path, "none")).close()

    assert code_of(command) == 1
    assert capsys.readouterr().err == f"ottla: {tmp_path}/none: No such file or directory\n"


def test_ctrl_c() -> None:
    def command() -> None:
        raise KeyboardInterrupt

    assert code_of(command) == 130


def test_ctrl_c_as_a_flag() -> None:
    before = signal.getsignal(signal.SIGINT)
    with output.Interrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert interrupt.came
    assert signal.getsignal(signal.SIGINT) is before
    with output.Interrupt() as interrupt:
        interrupt.raises = True
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert interrupt.came


def test_a_bug_is_not_hidden() -> None:
    def command() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        output.guarded(command)()


def test_what_was_written_before_a_failure_is_kept() -> None:
    done = python("@app.command()\n@output.guarded\ndef main() -> None:\n    print('data')\n    open('/no/such')")
    assert (done.returncode, done.stdout, done.stderr) == (1, b"data\n", b"ottla: /no/such: No such file or directory\n")


def python(program: str, **streams: int) -> subprocess.CompletedProcess[bytes]:
    prepared = "import sys, typer\nfrom ottla.commands import output\napp = typer.Typer()\n" + program + "\napp()\n"
    arguments: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    done: subprocess.CompletedProcess[bytes] = subprocess.run(
        [sys.executable, "-c", prepared], check=False, timeout=TIMEOUT_S, **arguments
    )
    return done


def test_a_reader_that_went_away_is_no_failure() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = python("@app.command()\n@output.guarded\ndef main() -> None:\n    print('x' * 100_000)", stdout=write)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_text_that_is_no_unicode_can_be_shown() -> None:
    done = python("@app.command()\n@output.guarded\ndef main() -> None:\n    output.write_json({'a': 'z\\udcffö'})")
    assert done.returncode == 0, done.stderr
    assert done.stdout == '{"a": "z\\udcffö"}\n'.encode()
    assert json.loads(done.stdout) == {"a": "z\udcffö"}


ROWS: list[tuple[output.Cell, ...]] = [("a\tb", 1, None), ("c\\\n", 22, True)]
COLUMNS = ("Name", "Log end offset", "Is-it")


def test_a_piped_table_is_one_line_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_table(COLUMNS, ROWS)
    assert capsys.readouterr().out == "a\\tb\t1\t-\nc\\\\\\n\t22\ttrue\n"


def test_a_table_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_table(COLUMNS, ROWS, as_json=True)
    assert json.loads(capsys.readouterr().out) == [
        {"name": "a\tb", "log_end_offset": 1, "is_it": None},
        {"name": "c\\\n", "log_end_offset": 22, "is_it": True},
    ]


def test_a_table_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")  # no colours
    output.write_table(("Name", "Count"), [("[bold]x[/bold]", 1), ("y", 100)])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0].split() == ["Name", "Count"]
    assert "[bold]x[/bold]" in lines[2], "a name is no markup"
    assert lines[2].endswith("    1")
    assert lines[3].endswith("  100")


def test_a_heading_is_not_broken_within_a_word(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "40")
    output.write_table(("Partition", "Log end offset"), [(1, "x" * 80)])
    text = capsys.readouterr().out
    assert "Partition" in text
    assert "offset" in text
    assert text.count("x") == 80


def test_the_signature_that_typer_sees() -> None:
    @output.guarded
    def command(path: str, as_json: output.Json = False) -> None:
        """Help."""

    assert command.__doc__ == "Help."
    assert list(command.__annotations__) == ["path", "as_json"]


class Place(NamedTuple):
    """The place of something."""

    topic: Annotated[str | None, typer.Option("--topic")] = None
    partition: Annotated[int, typer.Option("--partition", min=0)] = 3


def test_options_that_belong_together_are_one_parameter() -> None:
    seen: list[tuple[str, Place, bool]] = []

    @output.guarded
    def command(path: str, place: Place, as_json: output.Json = False) -> None:
        seen.append((path, place, as_json))

    assert list(command.__annotations__) == ["path", "topic", "partition", "as_json"]
    assert inspect.signature(command).parameters["partition"].default == 3
    app = typer.Typer()
    app.command()(command)
    CliRunner().invoke(app, ["p", "--topic", "t", "--json"], catch_exceptions=False)
    assert seen == [("p", Place("t", 3), True)]
    assert CliRunner().invoke(app, ["p", "--partition", "-1"]).exit_code == 2
