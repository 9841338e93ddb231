"""What every command owes the one who runs it: where its words go, and how it ends.

Standard output carries data and nothing else; notes, progress and errors go to standard error. A terminal gets tables and
progress bars; a pipe gets tab-separated lines without a heading, or JSON where the user asks for it (`--json`).

| exit code | |
|---|---|
| 0 | done; also when the reader of our output went away (`ottla consume t \\| head -1`) |
| 1 | it failed: one line on standard error says what and why |
| 2 | the command line was wrong (typer's own; a command raises `typer.BadParameter`) |
| 130 | Ctrl-C; a job that goes on until it is told (`ottla pipeline archive --continuous`, `run`) ends well by it: 0 |
| 143 | SIGTERM; the same |
"""

from __future__ import annotations

import functools
import inspect
import io
import json
import os
import select
import signal
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final, NoReturn, get_type_hints

import typer

OK: Final = 0
FAILED: Final = 1
INTERRUPTED: Final = 130

NOTHING: Final = "-"
"""A cell without a value, for people; JSON has null."""

Json = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]
"""The type of a command's parameter `as_json`."""

Cell = str | int | float | bool | None


class Failure(Exception):
    """What a command could not do, as one line for the user. Exit code 1."""


def guarded(function: Callable[..., None]) -> Callable[..., None]:
    """The command, ending as this file's table says whatever happens in it."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        for stream in (sys.stdout, sys.stderr):  # whatever the locale: data is UTF-8, and no text can stop a command
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        try:
            function(*args, **kwargs)
            sys.stdout.flush()
        except KeyboardInterrupt:
            _flush_or_forget()
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _forget(sys.stdout)
            raise typer.Exit(OK) from None
        except Failure as failure:
            fail(str(failure))
        except OSError as error:
            _flush_or_forget()
            fail(f"{error.filename or 'output'}: {error.strerror or error}")

    with_resolved_types(run, function)
    return run


def with_resolved_types(run: Callable[..., None], function: Callable[..., None], **replaced: Sequence[inspect.Parameter]) -> None:
    """Give `run` the signature of `function` for typer, with each parameter named in `replaced` exchanged for others."""
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in replaced:
            parameters.append(parameter.replace(annotation=hints[name]))
    for added in replaced.values():
        parameters += added
    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    run.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def fail(message: str) -> NoReturn:
    """End with one line on standard error and exit code 1."""
    note(f"ottla: {' '.join(message.split())}")
    raise typer.Exit(FAILED)


def note(message: str) -> None:
    """A line for the user that is no data. Lost where standard error is closed."""
    try:
        print(message, file=sys.stderr, flush=True)
    except BrokenPipeError:
        _forget(sys.stderr)


class Interrupt:
    """Ctrl-C as a flag, for work that must not be torn between two steps; the second one ends it where it is.

    librdkafka's calls need it as well: a KeyboardInterrupt that rises within one may come out as SystemError. While `raises` is
    set, for a read that may last, it rises at once as usual.
    """

    def __init__(self) -> None:
        self.came = False
        self.raises = False
        self._before: Any = None

    def __enter__(self) -> Interrupt:
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, *_: object) -> None:
        second, self.came = self.came, True
        if self.raises:
            raise KeyboardInterrupt
        if second:
            os._exit(INTERRUPTED)


def check_reader() -> None:
    """BrokenPipeError if nobody reads standard output any more: for a command that waits and has nothing to write."""
    mode = os.fstat(sys.stdout.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return  # of files and devices, poll says other things on other systems
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in poller.poll(0)):
        raise BrokenPipeError


def _flush_or_forget() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _forget(sys.stdout)


def _forget(stream: Any) -> None:
    """What is still buffered goes nowhere, so that the interpreter has nothing to complain of when it flushes at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


# Data


def write_json(value: Any) -> None:
    """One JSON value, one line."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def write_lines(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")


def write_table(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, as_json: bool = False, title: str | None = None
) -> None:
    """Rows for whoever reads: a table on a terminal; else tab-separated lines; with `as_json` an array of objects by column."""
    if as_json:
        write_json([dict(zip((key_of(column) for column in columns), row, strict=True)) for row in rows])
    elif sys.stdout.isatty():
        _write_rich_table(columns, rows, title)
    else:
        for row in rows:
            sys.stdout.write("\t".join(_plain(cell) for cell in row) + "\n")


def key_of(column: str) -> str:
    """A column's name in JSON: `Log end offset` is `log_end_offset`."""
    return column.lower().replace(" ", "_").replace("-", "_")


def _plain(cell: Cell) -> str:
    """A cell in a line of cells: tabs and line ends within it would be read as more cells."""
    return as_text(cell).replace("\\", "\\\\").replace("\t", "\\t").replace("\r", "\\r").replace("\n", "\\n")


def as_text(cell: Cell) -> str:
    if cell is None:
        return NOTHING
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def _write_rich_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], title: str | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", show_edge=False)
    for at, column in enumerate(columns):
        numbers = bool(rows) and all(row[at] is None or type(row[at]) in {int, float} for row in rows)
        table.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(as_text(cell)) for cell in row))  # Text: a topic's name is no markup
    Console(file=sys.stdout).print(table)


# Progress


@contextmanager
def progress(what: str, total: int | None, *, in_bytes: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar on standard error if that is a terminal; the value is `advance(n)`. With `total` None it only shows that it lives."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    console = Console(file=sys.stderr)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        amount,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,  # or rich would write our data to the bar's stream
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
