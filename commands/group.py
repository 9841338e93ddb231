"""`ottla group`: the groups of any Kafka cluster, of every kind: list, describe with lag and members, reset offsets, delete.

admin.py handles names, patterns, `--yes` and the outcomes of alterations. The room `groups` has the rest: rows.py what is shown,
reset.py the reset, and kinds.py the requests that librdkafka cannot send.

A cluster describes a group that it does not know as dead and without members; here that is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from ottla.commands import admin, output
from ottla.commands.clients import client
from ottla.commands.clients.brokers import Brokers
from ottla.commands.groups import kinds as group_kinds
from ottla.commands.groups.kinds import listing
from ottla.commands.groups.reset import reset
from ottla.commands.groups.rows import (
    LIST_COLUMNS,
    MEMBER_COLUMNS,
    NEWER_STATES,
    NO_SUCH_GROUP,
    OFFSET_COLUMNS,
    STATES,
    GroupState,
    as_object,
    member_rows,
    offset_rows,
    summary,
)
from ottla.commands.groups.states import states_of
from ottla.commands.why.command import why

app = typer.Typer(help="Groups: list, describe, why, reset, delete.", no_args_is_help=True)

Names = Annotated[list[str], typer.Argument(metavar="GROUP", help="Names, or patterns such as 'etl-*'.", show_default=False)]
SomeNames = Annotated[
    list[str] | None, typer.Argument(metavar="GROUP", help="Names, or patterns such as 'etl-*'.", show_default=False)
]

_STATES: Final = {name.lower(): name for name in (*STATES.values(), *NEWER_STATES)}
_KINDS: Final = (group_kinds.CLASSIC, group_kinds.CONSUMER, group_kinds.SHARE, group_kinds.STREAMS)


@app.command("list")
@client.command
def list_groups(
    cluster: client.Cluster,
    names: SomeNames = None,
    regex: admin.Regex = False,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help=f"Only groups in this state: {', '.join(_STATES.values())}."),
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help=f"Only this type: {', '.join(_KINDS)}.")
    ] = None,
    quiet: admin.Quiet = False,
    as_json: output.Json = False,
) -> None:
    """List groups."""
    states, kinds = {known_state(word) for word in state or ()}, {known_kind(word) for word in kind or ()}
    ours, notes = cluster.admin(), dict[str, None]()
    with Brokers(cluster, cluster.reach(ours)) as brokers:
        groups, errors = listing(cluster, ours, brokers, notes)
    found, missing = admin.select(groups, names or (), regex=regex)
    fits = [groups[name] for name in found if not states or groups[name].state in states]
    shown = [(one.name, one.state, one.kind) for one in fits if not kinds or one.kind in kinds]
    if quiet and not as_json:
        output.write_lines(name for name, _, _ in shown)
    else:
        output.write_table(LIST_COLUMNS, shown, as_json=as_json)
    for note in notes:
        output.note(note)
    errors |= dict.fromkeys(missing, NO_SUCH_GROUP)
    admin.note_failures("group", errors)
    admin.end_if(errors)


@app.command("describe")
@client.command
def describe(
    cluster: client.Cluster,
    names: SomeNames = None,
    regex: admin.Regex = False,
    members: Annotated[
        bool, typer.Option("--members", "-m", help="Show members and their assignments instead of offsets.")
    ] = False,
    as_json: output.Json = False,
) -> None:
    """Show state, members, committed offsets and lag: of all groups, or of those named."""
    ours = cluster.admin()
    states: list[GroupState] = []
    notes: dict[str, None] = {}  # in order, without repetitions
    wrong: dict[str, str] = {}
    with Brokers(cluster, cluster.reach(ours)) as brokers:
        groups, errors = listing(cluster, ours, brokers, notes)
        found, missing = admin.select(groups, names or (), regex=regex)
        errors |= dict.fromkeys(missing, NO_SUCH_GROUP)
        with admin.progress("describing", len(found)) as advance:
            for batch in admin.batches(found, admin.NAMES_AT_ONCE):
                more, failed = states_of(cluster, ours, brokers, [groups[name] for name in batch], notes)
                states += more
                wrong |= failed
                advance(len(batch))
        there, unheard = listing(cluster, ours, brokers, notes) if wrong else ({}, {})
    show(states, members=members, as_json=as_json)
    for note in notes:
        output.note(note)
    if wrong:
        # A group may be missing because a broker did not answer the listing: then nobody knows whether it is gone.
        errors |= unheard | (wrong if unheard else admin.not_gone(wrong, names or (), there, regex=regex))
    admin.note_failures("group", errors)
    admin.end_if(errors)


@app.command("delete")
@client.command
def delete(
    cluster: client.Cluster,
    names: Names,
    regex: admin.Regex = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do not fail for a group that does not exist.")] = False,
    yes: admin.Yes = False,
    as_json: output.Json = False,
) -> None:
    """Delete groups that have no members, with their offsets. Asks first."""
    ours, notes = cluster.admin(), dict[str, None]()
    with Brokers(cluster, cluster.reach(ours)) as brokers:
        groups, errors = listing(cluster, ours, brokers, notes)
    for note in notes:
        output.note(note)
    found, missing = admin.select(groups, names, regex=regex)
    admin.note_failures("group", errors)
    outcomes = [admin.Outcome(name, "not there") if if_exists else admin.failed(name, NO_SUCH_GROUP) for name in missing]
    if found:
        admin.confirm(f"Delete {admin.listed(found, 'group')}, with all offsets?", yes=yes)
    with admin.progress("deleting", len(found)) as advance:
        for batch in admin.batches(found, admin.NAMES_AT_ONCE):
            futures = ours.delete_consumer_groups(list(batch), request_timeout=admin.GROUP_TIMEOUT_S)
            outcomes += admin.collect_outcomes(cluster, futures, "deleted", of_groups=True)
            advance(len(batch))
    admin.report("group", outcomes, as_json=as_json)
    admin.end_if(errors)


app.command("reset")(reset)
app.command("why")(why)


def known_state(word: str) -> str:
    """Returns a state as Kafka spells it. Raises BadParameter for an unknown one."""
    found = _STATES.get(word.lower())
    if found is None:
        raise typer.BadParameter(f"{word!r} is not a state; known are {', '.join(_STATES.values())}", param_hint="--state")
    return found


def known_kind(word: str) -> str:
    """Returns a type as Kafka spells it. Raises BadParameter for an unknown one."""
    if word.lower() not in _KINDS:
        raise typer.BadParameter(f"{word!r} is not a type; known are {', '.join(_KINDS)}", param_hint="--type")
    return word.lower()


# Describing


def show(states: Sequence[GroupState], *, members: bool, as_json: bool) -> None:
    columns, rows_of = (MEMBER_COLUMNS, member_rows) if members else (OFFSET_COLUMNS, offset_rows)
    if as_json:
        output.write_json([as_object(state) for state in states])
    elif not sys.stdout.isatty():
        output.write_table(columns, [row for state in states for row in rows_of(state)])
    else:
        for state in states:
            output.write_lines([summary(state), ""])
            if rows := rows_of(state):
                output.write_table(columns[1:], [row[1:] for row in rows])
                output.write_lines([""])
