"""The common behaviour of all commands towards the user: where its output goes, and how it ends.

Standard output carries data and nothing else; notes, progress and errors go to standard error. On a terminal there are tables and
progress bars; in a pipe there are tab-separated lines without a heading, or JSON if the user asks for it (`--json`).
| exit code | |
|---|---|
| 0 | done; also when the reader of our output went away (`ottla consume t \\| head -1`) |
| 1 | failed; one line on standard error says what and why |
| 2 | wrong usage (typer's own; a command raises `typer.BadParameter`) |
| 130 | Ctrl-C; but a job that runs until it is stopped (`ottla pipeline archive --continuous`, `run`) then ends with 0 |
| 143 | SIGTERM; with the same exception |
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final, NoReturn, get_type_hints

import typer

OK: Final = 0
FAILED: Final = 1
INTERRUPTED: Final = 130

NOTHING: Final = "-"
"""The text of a cell without a value for people; JSON has null."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
"""The type of the parameter `as_json` of commands."""

Cell = str | int | float | bool | None


class Failure(Exception):
    """Raised when a command cannot do what it was asked; its text is one line for the user. The exit code is 1."""


def guarded(function: Callable[..., None]) -> Callable[..., None]:
    """Returns the command such that it ends as the module's table says, whatever happens in it. A parameter whose type is a
    NamedTuple stands for the options that are its fields."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        for stream in (sys.stdout, sys.stderr):  # in any locale, data is UTF-8, and no text can stop a command
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        try:
            for name, kind in together.items():
                kwargs[name] = kind(*(kwargs.pop(field) for field in kind._fields))
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
    together = {name: hint for name, hint in run.__annotations__.items() if hasattr(hint, "_fields")}
    if together:
        _spread(run, together)
    return run


def _spread(run: Callable[..., None], together: Mapping[str, Any]) -> None:
    """Puts the options of each NamedTuple in the place of its parameter, for typer."""
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(run).parameters.items():
        if (kind := together.get(name)) is None:
            parameters.append(parameter)
        else:
            hints = get_type_hints(kind, include_extras=True)
            parameters += [
                parameter.replace(name=field, default=kind._field_defaults[field], annotation=hints[field])
                for field in kind._fields
            ]
    _set_signature(run, parameters)


def with_resolved_types(run: Callable[..., None], function: Callable[..., None], **replaced: Sequence[inspect.Parameter]) -> None:
    """Gives `run` the signature of `function` for typer, with each parameter named in `replaced` replaced by others."""
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in replaced:
            parameters.append(parameter.replace(annotation=hints[name]))
    for added in replaced.values():
        parameters += added
    _set_signature(run, parameters)


def _set_signature(run: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> None:
    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    run.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def fail(message: str) -> NoReturn:
    """Ends the command with one line on standard error and exit code 1."""
    note(f"ottla: {' '.join(message.split())}")
    raise typer.Exit(FAILED)


def counted(count: int, what: str, several: str = "") -> str:
    """Returns a number with its noun: 1 record, 2,000 records. `several` is the noun's plural if an s does not make it."""
    return f"{count:,} {what if count == 1 else several or f'{what}s'}"


def note(message: str) -> None:
    """Prints a line for the user that is not data. It is lost if standard error is closed."""
    try:
        print(message, file=sys.stderr, flush=True)
    except BrokenPipeError:
        _forget(sys.stderr)


class Interrupt:
    """Turns Ctrl-C into a flag, for work that must not stop between two steps; the second Ctrl-C ends it where it is.

    Calls into librdkafka need this as well: a KeyboardInterrupt that is raised within one may come out as SystemError. While
    `raises` is set, for a read that may take long, Ctrl-C raises KeyboardInterrupt at once, as usual.
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
    """Raises BrokenPipeError if nobody reads standard output any more: for commands that wait and have nothing to write."""
    mode = os.fstat(sys.stdout.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return  # for files and devices, poll answers differently from system to system
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
    """Discards what is still buffered, so that the interpreter does not fail to flush it at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


# Data


def write_json(value: Any) -> None:
    """Prints a JSON value on one line."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def write_lines(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")


def write_table(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, as_json: bool = False, title: str | None = None
) -> None:
    """Prints rows: as a table on a terminal, else as tab-separated lines; with `as_json` as an array of objects by column."""
    if as_json:
        write_json([dict(zip((key_of(column) for column in columns), row, strict=True)) for row in rows])
    elif sys.stdout.isatty():
        _write_rich_table(columns, rows, title)
    else:
        for row in rows:
            sys.stdout.write("\t".join(_plain(cell) for cell in row) + "\n")


def key_of(column: str) -> str:
    """Returns a column's name in JSON: `Log end offset` becomes `log_end_offset`."""
    return column.lower().replace(" ", "_").replace("-", "_")


def _plain(cell: Cell) -> str:
    """Returns a cell for a tab-separated line: tabs and line ends in it would be read as further cells."""
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
        longest_word = max(map(len, column.split()), default=0)  # a heading is not broken within a word
        table.add_column(column, justify="right" if numbers else "left", overflow="fold", min_width=longest_word)
    for row in rows:
        table.add_row(*(Text(as_text(cell)) for cell in row))  # Text, since a topic's name must not be read as markup
    Console(file=sys.stdout).print(table)


# Progress


@contextmanager
def progress(what: str, total: int | None, *, in_bytes: bool = False) -> Iterator[Callable[[int], None]]:
    """Shows a bar on standard error if that is a terminal; yields `advance(n)`. With `total` None it only shows activity."""
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
        redirect_stdout=False,  # otherwise rich would write our data to the bar's stream
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
