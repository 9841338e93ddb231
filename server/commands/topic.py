"""`ottla topic`: the topics of any Kafka: list, create, describe, alter, delete.

Names, patterns, `--dry-run`, `--yes` and what an alteration says are admin.py's; topic_rows.py has what is shown. Kafka's own
topics are listed and described with `--internal` or by their names; a pattern alone never deletes one of them.

`describe` asks for partitions, settings and offsets of many topics at once. Bytes on disk are of the leaders' log directories and
come by a request that librdkafka does not have (direct.py); where that way is closed they are unknown, and a note says why.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ottla.server.commands import admin, client, direct, output
from ottla.server.commands.output import Failure
from ottla.server.commands.positions import Partition
from ottla.server.commands.topic_rows import (
    LIST_COLUMNS,
    PARTITION_COLUMNS,
    SETTING_COLUMNS,
    PartitionState,
    Setting,
    TopicState,
    as_object,
    list_rows,
    partition_rows,
    summary,
)

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ConfigEntry, TopicDescription
    from confluent_kafka.admin._metadata import TopicMetadata

app = typer.Typer(help="Topics: list, create, describe, alter, delete.", no_args_is_help=True)

NO_SUCH_TOPIC: Final = "there is no such topic"
SETTINGS_OPTION: Final = "--config"
MAX_PARTITIONS: Final = 100_000
MAX_REPLICAS: Final = 10_000
"""Both librdkafka's."""

Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Names, or patterns such as 'logs-*'.", show_default=False)]
SomeNames = Annotated[
    list[str] | None, typer.Argument(metavar="TOPIC", help="Names, or patterns such as 'logs-*'.", show_default=False)
]
Settings = Annotated[
    list[str] | None, typer.Option(SETTINGS_OPTION, "-c", metavar="KEY=VALUE", help="A setting of the topic. May be repeated.")
]


@app.command("list")
@client.command
def list_topics(
    cluster: client.Cluster,
    names: SomeNames = None,
    regex: admin.Regex = False,
    internal: admin.Internal = False,
    quiet: admin.Quiet = False,
    as_json: output.Json = False,
) -> None:
    """Show which topics there are."""
    topics = cluster.reach(cluster.admin()).topics
    found, missing = select(topics, names or (), regex=regex, internal=internal)
    if quiet and not as_json:
        output.write_lines(found)
    else:
        output.write_table(LIST_COLUMNS, list_rows(topics, found), as_json=as_json)
    errors = dict.fromkeys(missing, NO_SUCH_TOPIC)
    admin.note_failures("topic", errors)
    admin.end_if(errors)


@app.command("create")
@client.command
def create(
    cluster: client.Cluster,
    names: Annotated[list[str], typer.Argument(metavar="TOPIC", help="The new topics.", show_default=False)],
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, max=MAX_PARTITIONS, help="Default: the cluster's num.partitions.", show_default=False
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            max=MAX_REPLICAS,
            help="Default: the cluster's default.replication.factor.",
            show_default=False,
        ),
    ] = None,
    settings: Settings = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="A topic that is there is no error.")] = False,
    dry_run: admin.DryRun = False,
    as_json: output.Json = False,
) -> None:
    """Create topics, all with the same partitions and settings."""
    from confluent_kafka.admin import NewTopic

    config = admin.pairs(settings or (), SETTINGS_OPTION)
    ours = cluster.admin()
    present = cluster.reach(ours).topics
    there = {name for name in admin.checked(names) if if_not_exists and name in present}
    told = {name: admin.Outcome(name, "exists already") for name in there}
    new = [
        NewTopic(name, -1 if partitions is None else partitions, replication_factor or -1, config=config)
        for name in dict.fromkeys(names)
        if name not in there
    ]
    result = "would be created" if dry_run else "created"
    with admin.progress("creating", len(new)) as advance:
        for batch in admin.batches(new, admin.NAMES_AT_ONCE):
            futures = ours.create_topics(list(batch), validate_only=dry_run, **times(cluster))
            told |= {outcome.name: outcome for outcome in admin.outcomes(cluster, futures, result)}
            advance(len(batch))
    admin.tell("topic", [told[name] for name in dict.fromkeys(names)], as_json=as_json)


@app.command("describe")
@client.command
def describe(
    cluster: client.Cluster,
    names: SomeNames = None,
    regex: admin.Regex = False,
    internal: admin.Internal = False,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions that have fewer replicas in sync than they should.")
    ] = False,
    as_json: output.Json = False,
) -> None:
    """Show partitions with leaders, replicas, offsets and bytes, and the settings a topic has of its own."""
    ours = cluster.admin()
    topics = cluster.reach(ours).topics
    found, missing = select(topics, names or (), regex=regex, internal=internal)
    errors = dict.fromkeys(missing, NO_SUCH_TOPIC)
    states: list[TopicState] = []
    notes: dict[str, None] = {}  # each once, in order
    with admin.progress("describing", len(found)) as advance:
        for batch in admin.batches(found, admin.NAMES_AT_ONCE):
            more, wrong = states_of(cluster, ours, batch, notes)
            states += more
            errors |= wrong
            advance(len(batch))
    if under_replicated:
        states = [kept for state in states if (kept := only_under_replicated(state)).partitions]
    show(states, as_json=as_json)
    for note in notes:
        output.note(note)
    admin.note_failures("topic", errors)
    admin.end_if(errors)


@app.command("alter")
@client.command
def alter(
    cluster: client.Cluster,
    names: Names,
    regex: admin.Regex = False,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            max=MAX_PARTITIONS,
            help="How many it shall have. Never fewer than now.",
            show_default=False,
        ),
    ] = None,
    settings: Settings = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", "-u", metavar="KEY", help="A setting to put back to its default."),
    ] = None,
    dry_run: admin.DryRun = False,
    as_json: output.Json = False,
) -> None:
    """Give topics more partitions, or other settings. Keys that hash to partitions go elsewhere then."""
    config = admin.pairs(settings or (), SETTINGS_OPTION)
    changes = [admin.Change(key, admin.Operation.SET, value) for key, value in config.items()]
    changes += [admin.Change(key, admin.Operation.DELETE) for key in dict.fromkeys(unset or ())]
    if twice := config.keys() & set(unset or ()):
        raise typer.BadParameter(f"{min(twice)} is set, too", param_hint="--unset")
    if partitions is None and not changes:
        raise typer.BadParameter("nothing to alter: give --partitions, --config or --unset", param_hint="TOPIC")
    ours = cluster.admin()
    found, missing = select(cluster.reach(ours).topics, names, regex=regex, internal=False)
    wrong = dict.fromkeys(missing, NO_SUCH_TOPIC)
    with admin.progress("altering", len(found)) as advance:
        for batch in admin.batches(found, admin.NAMES_AT_ONCE):
            wrong |= altered(cluster, ours, batch, partitions, changes, dry_run=dry_run)
            advance(len(batch))
    result = "would be altered" if dry_run else "altered"
    told = [admin.failed(name, wrong[name]) if name in wrong else admin.Outcome(name, result) for name in [*found, *missing]]
    admin.tell("topic", told, as_json=as_json)


@app.command("delete")
@client.command
def delete(
    cluster: client.Cluster,
    names: Names,
    regex: admin.Regex = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A topic that is not there is no error.")] = False,
    yes: admin.Yes = False,
    as_json: output.Json = False,
) -> None:
    """Delete topics with all their records. Asks first."""
    ours = cluster.admin()
    found, missing = select(cluster.reach(ours).topics, names, regex=regex, internal=False)
    told = [admin.Outcome(name, "not there") if if_exists else admin.failed(name, NO_SUCH_TOPIC) for name in missing]
    if found:
        admin.confirm(f"Delete {admin.listed(found, 'topic')}, with all records?", yes=yes)
    with admin.progress("deleting", len(found)) as advance:
        for batch in admin.batches(found, admin.NAMES_AT_ONCE):
            told += admin.outcomes(cluster, ours.delete_topics(list(batch), **times(cluster)), "deleted")
            advance(len(batch))
    admin.tell("topic", told, as_json=as_json)


def select(
    topics: dict[str, TopicMetadata], wanted: Sequence[str], *, regex: bool, internal: bool
) -> tuple[list[str], list[str]]:
    """The topics that are meant, and those that are missing."""
    return admin.select(topics, wanted, regex=regex, hidden=() if internal else admin.INTERNAL_TOPICS)


def times(cluster: client.Cluster) -> dict[str, float]:
    """How long an alteration may take: within the cluster a little less than for us, so that its reason reaches us."""
    return {"request_timeout": cluster.timeout_s, "operation_timeout": cluster.timeout_s * 0.9}


# Describing


def states_of(
    cluster: client.Cluster, ours: AdminClient, names: Sequence[str], notes: dict[str, None]
) -> tuple[list[TopicState], dict[str, str]]:
    """What the cluster says of these topics, and the errors by topic. What is missing without being an error goes to `notes`."""
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import ConfigResource, ResourceType

    asked = ours.describe_topics(TopicCollection(list(names)), request_timeout=cluster.timeout_s)
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    asked_settings = ours.describe_configs(resources, request_timeout=cluster.timeout_s)
    described, errors = admin.settle(cluster, asked)
    settings, setting_errors = admin.settle(cluster, {resource.name: future for resource, future in asked_settings.items()})
    for name in described.keys() & setting_errors.keys():
        notes[f"topic {name}: settings are not known: {setting_errors[name]}"] = None
    with_leader = [Partition(name, one.id) for name, topic in described.items() for one in topic.partitions if one.leader]
    specs = admin.offset_specs()
    first, _ = admin.list_offsets(cluster, ours, dict.fromkeys(with_leader, specs.earliest()))
    end, offset_errors = admin.list_offsets(cluster, ours, dict.fromkeys(with_leader, specs.latest()))
    notes.update((f"offsets of {partition} are not known: {error}", None) for partition, error in offset_errors.items())
    sizes = sizes_of(cluster, described, notes)
    states = [
        TopicState(
            name,
            url_safe(str(topic.topic_id)),
            topic.is_internal,
            tuple(
                PartitionState(
                    one.id,
                    one.leader.id if one.leader else None,
                    tuple(node.id for node in one.replicas),
                    tuple(node.id for node in one.isr),
                    first.get(Partition(name, one.id)),
                    end.get(Partition(name, one.id)),
                    sizes.get(Partition(name, one.id)),
                )
                for one in sorted(topic.partitions, key=lambda one: one.id)
            ),
            own_settings(settings.get(name, {})),
        )
        for name, topic in described.items()
    ]
    return states, errors


def url_safe(topic_id: str) -> str:
    """As Kafka writes ids. librdkafka takes the other alphabet of base64."""
    return topic_id.translate(str.maketrans("+/", "-_"))


def own_settings(entries: dict[str, ConfigEntry]) -> tuple[Setting, ...]:
    """Those that were set for the topic itself."""
    from confluent_kafka.admin import ConfigSource

    own = (entry for entry in entries.values() if ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG)
    return tuple(Setting(entry.name, entry.value, "topic") for entry in sorted(own, key=lambda entry: entry.name))


def sizes_of(cluster: client.Cluster, described: dict[str, TopicDescription], notes: dict[str, None]) -> dict[Partition, int]:
    """Bytes of each partition's log at its leader. Where they cannot be had, none, and the reason among the notes."""
    by_leader: dict[int, tuple[str, int, dict[str, list[int]]]] = {}
    for name, topic in described.items():
        for one in topic.partitions:
            if one.leader:
                wanted = by_leader.setdefault(one.leader.id, (one.leader.host, one.leader.port, {}))[2]
                wanted.setdefault(name, []).append(one.id)
    sizes: dict[Partition, int] = {}
    for host, port, wanted in by_leader.values():
        try:
            with direct.connect(cluster, host, port) as connection:
                sizes |= direct.log_sizes(connection, wanted)
        except Failure as failure:
            notes[f"bytes are not known: {failure}"] = None
    return sizes


def only_under_replicated(topic: TopicState) -> TopicState:
    kept = tuple(partition for partition in topic.partitions if partition.is_under_replicated)
    return TopicState(topic.name, topic.topic_id, topic.is_internal, kept, topic.settings)


def show(states: Sequence[TopicState], *, as_json: bool) -> None:
    if as_json:
        output.write_json([as_object(state) for state in states])
    elif not sys.stdout.isatty():
        output.write_table(PARTITION_COLUMNS, [row for state in states for row in partition_rows(state)])
    else:
        for state in states:
            output.write_lines([summary(state), ""])
            output.write_table(PARTITION_COLUMNS[1:], [row[1:] for row in partition_rows(state)])
            output.write_lines([""])
            if state.settings:
                rows = [(setting.name, setting.value, setting.source) for setting in state.settings]
                output.write_table(SETTING_COLUMNS, rows)
                output.write_lines([""])


# Altering


def altered(
    cluster: client.Cluster,
    ours: AdminClient,
    names: Sequence[str],
    partitions: int | None,
    changes: Sequence[admin.Change],
    *,
    dry_run: bool,
) -> dict[str, str]:
    """Alter these topics; the errors by topic. Settings of a topic are left alone where its partitions could not be altered."""
    from confluent_kafka.admin import ConfigResource, NewPartitions, ResourceType

    wrong: dict[str, str] = {}
    if partitions is not None:
        asked: dict[str, Any] = ours.create_partitions(
            [NewPartitions(name, partitions) for name in names], validate_only=dry_run, **times(cluster)
        )
        wrong |= admin.settle(cluster, asked)[1]
    going_on = [name for name in names if name not in wrong]
    if changes and going_on:
        entries = admin.incremental(changes)
        resources = [ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries) for name in going_on]
        errors = admin.alter_settings(cluster, ours, resources, changes, dry_run=dry_run)
        wrong |= {resource.name: error for resource, error in errors.items()}
    return wrong
