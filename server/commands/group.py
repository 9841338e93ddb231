"""`ottla group`: the consumer groups of any Kafka: list, describe with lag and members, reset offsets, delete.

Names, patterns, `--yes` and what an alteration says are admin.py's; group_rows.py has what is shown, group_reset.py the reset.

A cluster tells of a group it does not know that it is dead, with no members: here that is an error. Committed offsets come by one
request a group, for a coordinator answers no more at once through librdkafka; they are all under way before the first is waited
for.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ottla.server.commands import admin, client, group_reset, output
from ottla.server.commands.group_rows import (
    LIST_COLUMNS,
    MEMBER_COLUMNS,
    OFFSET_COLUMNS,
    STATES,
    GroupState,
    as_object,
    group_state,
    list_rows,
    member_rows,
    offset_rows,
    state_name,
    summary,
)
from ottla.server.commands.positions import Partition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, ConsumerGroupListing

app = typer.Typer(help="Consumer groups: list, describe, reset, delete.", no_args_is_help=True)

Names = Annotated[list[str], typer.Argument(metavar="GROUP", help="Names, or patterns such as 'etl-*'.", show_default=False)]
SomeNames = Annotated[
    list[str] | None, typer.Argument(metavar="GROUP", help="Names, or patterns such as 'etl-*'.", show_default=False)
]

_STATES: Final = {name.lower(): name for name in STATES.values()}


@app.command("list")
@client.command
def list_groups(
    cluster: client.Cluster,
    names: SomeNames = None,
    regex: admin.Regex = False,
    state: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help=f"Only these: {', '.join(STATES.values())}.")
    ] = None,
    quiet: admin.Quiet = False,
    as_json: output.Json = False,
) -> None:
    """Show which groups there are."""
    wanted_states = {known_state(word) for word in state or ()}
    groups, errors = listing(cluster, cluster.admin())
    found, missing = admin.select(groups, names or (), regex=regex)
    shown = [groups[name] for name in found if not wanted_states or state_name(groups[name].state) in wanted_states]
    if quiet and not as_json:
        output.write_lines(group.group_id for group in shown)
    else:
        output.write_table(LIST_COLUMNS, list_rows(shown), as_json=as_json)
    errors |= dict.fromkeys(missing, group_reset.NO_SUCH_GROUP)
    admin.note_failures("group", errors)
    admin.end_if(errors)


@app.command("describe")
@client.command
def describe(
    cluster: client.Cluster,
    names: SomeNames = None,
    regex: admin.Regex = False,
    members: Annotated[
        bool, typer.Option("--members", "-m", help="Members with all that is assigned to them, instead of offsets.")
    ] = False,
    as_json: output.Json = False,
) -> None:
    """Show state, members, committed offsets and lag. With no name: of all groups."""
    ours = cluster.admin()
    groups, errors = listing(cluster, ours)
    found, missing = admin.select(groups, names or (), regex=regex)
    errors |= dict.fromkeys(missing, group_reset.NO_SUCH_GROUP)
    states: list[GroupState] = []
    notes: dict[str, None] = {}  # each once, in order
    wrong: dict[str, str] = {}
    with admin.progress("describing", len(found)) as advance:
        for batch in admin.batches(found, admin.NAMES_AT_ONCE):
            more, failed = states_of(cluster, ours, batch, notes)
            states += more
            wrong |= failed
            advance(len(batch))
    show(states, members=members, as_json=as_json)
    for note in notes:
        output.note(note)
    if wrong:
        there, unheard = listing(cluster, ours)
        # A group may be missing in what a broker did not tell: then nobody knows whether it is gone.
        errors |= unheard | (wrong if unheard else admin.not_gone(wrong, names or (), there, regex=regex))
    admin.note_failures("group", errors)
    admin.end_if(errors)


@app.command("delete")
@client.command
def delete(
    cluster: client.Cluster,
    names: Names,
    regex: admin.Regex = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A group that is not there is no error.")] = False,
    yes: admin.Yes = False,
    as_json: output.Json = False,
) -> None:
    """Delete groups with their offsets: those that have no members. Asks first."""
    ours = cluster.admin()
    groups, errors = listing(cluster, ours)
    found, missing = admin.select(groups, names, regex=regex)
    admin.note_failures("group", errors)
    told = [admin.Outcome(name, "not there") if if_exists else admin.failed(name, group_reset.NO_SUCH_GROUP) for name in missing]
    if found:
        admin.confirm(f"Delete {admin.listed(found, 'group')}, with all offsets?", yes=yes)
    with admin.progress("deleting", len(found)) as advance:
        for batch in admin.batches(found, admin.NAMES_AT_ONCE):
            futures = ours.delete_consumer_groups(list(batch), request_timeout=cluster.timeout_s)
            told += admin.outcomes(cluster, futures, "deleted")
            advance(len(batch))
    admin.tell("group", told, as_json=as_json)
    admin.end_if(errors)


app.command("reset")(group_reset.reset)


def known_state(word: str) -> str:
    """A state as Kafka writes it. Wrong usage if there is none such."""
    found = _STATES.get(word.lower())
    if found is None:
        raise typer.BadParameter(f"{word!r} is no state; there are {', '.join(STATES.values())}", param_hint="--state")
    return found


def listing(cluster: client.Cluster, ours: AdminClient) -> tuple[dict[str, ConsumerGroupListing], dict[str, str]]:
    """The cluster's groups by name; and an error for each broker that did not answer, by the words "of a broker"."""
    cluster.reach(ours)
    answer: Any = cluster.result(ours.list_consumer_groups(request_timeout=cluster.timeout_s))
    errors = {f"list of broker {at}": client.explain(error.args[0]) for at, error in enumerate(answer.errors or ())}
    return {group.group_id: group for group in answer.valid or ()}, errors


# Describing


def states_of(
    cluster: client.Cluster, ours: AdminClient, names: Sequence[str], notes: dict[str, None]
) -> tuple[list[GroupState], dict[str, str]]:
    """What the cluster says of these groups, and the errors by group. What is missing without being an error goes to `notes`."""
    asked = ours.describe_consumer_groups(list(names), request_timeout=cluster.timeout_s)
    committed, errors = group_reset.committed_of(cluster, ours, names)
    described, wrong = admin.settle(cluster, asked)
    dead = [name for name, group in described.items() if state_name(group.state) == "Dead" and not committed.get(name)]
    errors |= dict.fromkeys(dead, group_reset.NO_SUCH_GROUP) | wrong
    wanted = {partition for offsets in committed.values() for partition in offsets}
    wanted |= {partition for group in described.values() for partition in assigned_to(group)}
    ends, end_errors = admin.list_offsets(cluster, ours, dict.fromkeys(sorted(wanted), admin.offset_specs().latest()))
    notes.update((f"the end of {partition} is not known: {error}", None) for partition, error in end_errors.items())
    told: Mapping[str, ConsumerGroupDescription] = described
    return [group_state(told[name], committed[name], ends) for name in names if name not in errors], errors


def assigned_to(group: ConsumerGroupDescription) -> list[Partition]:
    return [
        Partition(one.topic, one.partition)
        for member in group.members
        for one in (member.assignment.topic_partitions if member.assignment else ())
    ]


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
