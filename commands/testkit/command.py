"""`ottla testkit`: a broker's test port (docs/testkit.md) from the shell: install faults, move the clock, reset.

`ottla testkit call` reaches every call that there is; the other commands are those that are typed most often. All print the
broker's answer as JSON, one line, except `faults`, which shows a table, and `replay` (replay.py). They know no names of
APIs, errors or fields: the broker checks them, and its words about a wrong one are shown.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote

import typer

from ottla.commands import output
from ottla.commands.testkit.port import Port
from ottla.commands.testkit.replay import replay

app = typer.Typer(help="A broker under test: faults, time, reset, recorded requests (docs/testkit.md).", no_args_is_help=True)

COLUMNS: Final = ("Fault", "Matches", "Hits", "Left", "Held", "On", "Do")
_FOR_EVER: Final = -1

Fault = Annotated[str, typer.Argument(metavar="FAULT", help="The id of a fault, such as f1.", show_default=False)]


class On(NamedTuple):
    """The options that say which requests. Their names are those of the fields of `on`."""

    api: Annotated[list[str] | None, typer.Option("--api", metavar="API", help="An API; may be repeated.")] = None
    topic: Annotated[list[str] | None, typer.Option("--topic", metavar="TOPIC", help="A topic, or a pattern.")] = None
    partition: Annotated[list[int] | None, typer.Option("--partition", metavar="N", help="A partition.")] = None
    group: Annotated[list[str] | None, typer.Option("--group", metavar="GROUP", help="A group, or a pattern.")] = None
    transactional_id: Annotated[list[str] | None, typer.Option("--transactional-id", metavar="ID")] = None
    resource: Annotated[
        list[str] | None, typer.Option("--resource", metavar="NAME", help="A resource of settings, access rules, quotas.")
    ] = None
    client_id: Annotated[list[str] | None, typer.Option("--client-id", metavar="ID", help="A client id, or a pattern.")] = None
    client_host: Annotated[list[str] | None, typer.Option("--client-host", metavar="ADDRESS")] = None
    node: Annotated[list[int] | None, typer.Option("--node", metavar="N", help="The node that is asked.")] = None
    version: Annotated[str | None, typer.Option("--version", metavar="RANGE", help='Of the request: 9, ">=12".')] = None
    where: Annotated[
        list[str] | None, typer.Option("--where", metavar="FIELD=VALUE", help="A field of the request, such as acks=-1.")
    ] = None


class Do(NamedTuple):
    """The options that say what happens. Their names are those of the fields of `do`."""

    error: Annotated[list[str] | None, typer.Option("--error", metavar="NAME", help="Several: one a hit, in turn.")] = None
    message: Annotated[str | None, typer.Option("--message", metavar="TEXT", help="The text beside the error.")] = None
    top_level: Annotated[bool | None, typer.Option("--top-level", help="Refuse the whole request.")] = None
    throttle_ms: Annotated[int | None, typer.Option("--throttle-ms", metavar="MS")] = None
    delay_ms: Annotated[int | None, typer.Option("--delay-ms", metavar="MS")] = None
    jitter_ms: Annotated[int | None, typer.Option("--jitter-ms", metavar="MS", help="At most so much more delay.")] = None
    hold: Annotated[bool | None, typer.Option("--hold", help="Until it is released or removed.")] = None
    disconnect: Annotated[str | None, typer.Option("--disconnect", metavar="HOW", help="close or reset.")] = None
    blackhole: Annotated[bool | None, typer.Option("--blackhole", help="Never answer.")] = None
    drip: Annotated[str | None, typer.Option("--drip", metavar="BYTES:MS", help="A slow answer, in such pieces.")] = None
    cut_after: Annotated[int | None, typer.Option("--cut-after", metavar="BYTES", help="Part of the answer, then a reset.")] = (
        None
    )
    corrupt: Annotated[str | None, typer.Option("--corrupt", metavar="WHAT", help="crc, length, correlation_id, ...")] = None
    observe: Annotated[bool | None, typer.Option("--observe", help="Only count.")] = None


class Rules(NamedTuple):
    """The options that say how often, and whether the broker acts."""

    times: Annotated[int | None, typer.Option("--times", metavar="N", help="-1 is for ever.")] = None
    on_call: Annotated[int | None, typer.Option("--on-call", metavar="N", help="The first match that counts.")] = None
    probability: Annotated[float | None, typer.Option("--probability", metavar="P", help="Which part of the matches.")] = None
    for_ms: Annotated[int | None, typer.Option("--for-ms", metavar="MS", help="How long it lasts.")] = None
    act: Annotated[str | None, typer.Option("--act", metavar="WHEN", help="before or after the broker acted.")] = None


@app.command("call")
@output.guarded
def call(
    port: Port,
    method: Annotated[str, typer.Argument(metavar="METHOD", help="GET, POST, PUT or DELETE.", show_default=False)],
    path: Annotated[str, typer.Argument(metavar="PATH", help="Such as /v1/reset.", show_default=False)],
    body: Annotated[str | None, typer.Argument(metavar="JSON", help="What is sent.", show_default=False)] = None,
) -> None:
    """Make any call of docs/testkit.md, and print the answer."""
    try:
        sent = None if body is None else json.loads(body)
    except ValueError as error:
        raise typer.BadParameter(f"{body!r:.100} is not JSON: {error}", param_hint="JSON") from None
    output.write_json(port.call(method.upper(), f"/{path.removeprefix('/')}", sent))


@app.command("state")
@output.guarded
def state(port: Port) -> None:
    """Show which broker this is."""
    output.write_json(port.call("GET", "/v1/state"))


@app.command("fault")
@output.guarded
def fault(port: Port, on: On, do: Do, rules: Rules) -> None:
    """Install a fault, and print it as the broker has it."""
    output.write_json(port.call("POST", "/v1/faults", fault_of(on, do, rules)))


@app.command("faults")
@output.guarded
def faults(port: Port, as_json: output.Json = False) -> None:
    """List the faults with their hits."""
    found = port.call("GET", "/v1/faults")
    if as_json:
        output.write_json(found)
    else:
        output.write_table(COLUMNS, [_row(each) for each in found])


@app.command("release")
@output.guarded
def release(port: Port, fault: Fault) -> None:
    """Let go of the requests that a fault holds."""
    output.write_json(port.call("POST", f"/v1/faults/{quote(fault, '')}/release"))


@app.command("remove")
@output.guarded
def remove(
    port: Port,
    fault: Annotated[str | None, typer.Argument(metavar="FAULT", help="All, unless one is named.", show_default=False)] = None,
) -> None:
    """Remove a fault, or all, and print them as they were."""
    output.write_json(port.call("DELETE", "/v1/faults" if fault is None else f"/v1/faults/{quote(fault, '')}"))


@app.command("advance")
@output.guarded
def advance(
    port: Port,
    days: Annotated[float, typer.Option("--days", min=0)] = 0,
    hours: Annotated[float, typer.Option("--hours", min=0)] = 0,
    minutes: Annotated[float, typer.Option("--minutes", min=0)] = 0,
    seconds: Annotated[float, typer.Option("--seconds", min=0)] = 0,
    keep_members: Annotated[
        bool, typer.Option("--keep-members", help="Members whose client is connected keep their sessions.")
    ] = False,
) -> None:
    """Move the broker's clock forward, and print what that did."""
    ms = round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
    if not ms:
        raise typer.BadParameter("say by how much: --days, --hours, --minutes, --seconds")
    output.write_json(port.call("POST", "/v1/clock/advance", {"ms": ms, "keep_members": keep_members}))


@app.command("reset")
@output.guarded
def reset(
    port: Port,
    keep: Annotated[list[str] | None, typer.Option("--keep", metavar="WHAT", help="What to keep: faults, versions.")] = None,
) -> None:
    """Empty the broker: no topics, no groups, no faults, the real time."""
    output.write_json(port.call("POST", "/v1/reset", {"keep": keep or []}))


@app.command("restart")
@output.guarded
def restart(
    port: Port,
    how: Annotated[str, typer.Option("--how", metavar="HOW", help="clean, kill or power_cut.")] = "clean",
    down_ms: Annotated[int, typer.Option("--down-ms", min=0, metavar="MS", help="How long connections are refused.")] = 0,
) -> None:
    """Stop the broker and start it again, at the same address."""
    output.write_json(port.call("POST", "/v1/restart", {"how": how, "down_ms": down_ms}))


app.command("replay")(replay)


def fault_of(on: On, do: Do, rules: Rules) -> dict[str, Any]:
    """Returns the body of a fault. Raises BadParameter if an option with a form of its own does not have it."""
    selected, done = _given(on), _given(do)
    if on.where:
        selected["where"] = dict(_condition(text) for text in on.where)
    if do.error:
        done["error"] = do.error[0] if len(do.error) == 1 else do.error
    if do.drip:
        done["drip"] = _drip(do.drip)
    return {"on": selected, "do": done, **_given(rules)}


def _given(options: NamedTuple) -> dict[str, Any]:
    return {name: value for name, value in options._asdict().items() if value is not None and value != []}


def _condition(text: str) -> tuple[str, Any]:
    """Returns a field and its value, which is JSON, or the text itself."""
    field, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not FIELD=VALUE", param_hint="--where")
    try:
        return field, json.loads(value)
    except ValueError:
        return field, value


def _drip(text: str) -> dict[str, int]:
    size, _, every_ms = text.partition(":")
    if not (size.isdecimal() and every_ms.isdecimal()):
        raise typer.BadParameter(f"{text!r} is not BYTES:MS, such as 10:20", param_hint="--drip")
    return {"bytes": int(size), "every_ms": int(every_ms)}


def _row(fault: dict[str, Any]) -> tuple[output.Cell, ...]:
    left = "for ever" if fault["left"] == _FOR_EVER else fault["left"]
    what = (json.dumps(fault.get(name, {}), ensure_ascii=False) for name in ("on", "do"))
    return fault["id"], fault["matches"], fault["hits"], left, fault["held"], *what
