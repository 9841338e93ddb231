"""`ottla topic`: the topics of any Kafka cluster: list, create, describe, alter, delete.

admin.py handles names, patterns, `--dry-run`, `--yes` and the outcomes of alterations; topic_rows.py has what is shown. Kafka's
own topics are listed and described only with `--internal` or by their full names, and a pattern never deletes one of them.

`describe` asks for partitions, settings and offsets of many topics at once. Sizes are those of the leaders' logs, and the lag of
a follower is how many offsets its log is behind its leader's. Both need requests that librdkafka does not have (direct.py);
where that does not work they are unknown, and a note says why.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ottla.commands import admin, output
from ottla.commands.clients import client, direct
from ottla.commands.clients.partition import Partition
from ottla.commands.output import Failure
from ottla.commands.topic_rows import (
    LAG_COLUMN,
    LIST_COLUMNS,
    PARTITION_COLUMNS,
    SETTING_COLUMNS,
    PartitionState,
    Setting,
    TopicState,
    as_object,
    has_followers,
    lag_cells,
    list_rows,
    partition_rows,
    summary,
)

if TYPE_CHECKING:
    from confluent_kafka import TopicPartitionInfo
    from confluent_kafka.admin import AdminClient, ConfigEntry, TopicDescription
    from confluent_kafka.admin._metadata import TopicMetadata

app = typer.Typer(help="Topics: list, create, describe, alter, delete.", no_args_is_help=True)

NO_SUCH_TOPIC: Final = "there is no such topic"
SETTINGS_OPTION: Final = "--config"
MAX_PARTITIONS: Final = 100_000
MAX_REPLICAS: Final = 10_000
"""Both limits are librdkafka's."""

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
    """List topics."""
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
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Do not fail for a topic that exists.")] = False,
    dry_run: admin.DryRun = False,
    as_json: output.Json = False,
) -> None:
    """Create topics, all with the same partitions and settings."""
    from confluent_kafka.admin import NewTopic

    config = admin.pairs(settings or (), SETTINGS_OPTION)
    ours = cluster.admin()
    present = cluster.reach(ours).topics
    there = {name for name in admin.checked(names) if if_not_exists and name in present}
    outcomes = {name: admin.Outcome(name, "exists already") for name in there}
    new = [
        NewTopic(name, -1 if partitions is None else partitions, replication_factor or -1, config=config)
        for name in dict.fromkeys(names)
        if name not in there
    ]
    result = "would be created" if dry_run else "created"
    with admin.progress("creating", len(new)) as advance:
        for batch in admin.batches(new, admin.NAMES_AT_ONCE):
            futures = ours.create_topics(list(batch), validate_only=dry_run, **times(cluster))
            outcomes |= {outcome.name: outcome for outcome in admin.collect_outcomes(cluster, futures, result)}
            advance(len(batch))
    admin.report("topic", [outcomes[name] for name in dict.fromkeys(names)], as_json=as_json)


@app.command("describe")
@client.command
def describe(
    cluster: client.Cluster,
    names: SomeNames = None,
    regex: admin.Regex = False,
    internal: admin.Internal = False,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with fewer replicas in sync than they should have.")
    ] = False,
    as_json: output.Json = False,
) -> None:
    """Show partitions with leaders, replicas, offsets and sizes, and the topics' own settings."""
    ours = cluster.admin()
    topics = cluster.reach(ours).topics
    found, missing = select(topics, names or (), regex=regex, internal=internal)
    errors = dict.fromkeys(missing, NO_SUCH_TOPIC)
    reader = Reader(cluster, ours)
    states: list[TopicState] = []
    with admin.progress("describing", len(found)) as advance:
        for batch in admin.batches(found, admin.NAMES_AT_ONCE):
            states += reader.states(batch)
            advance(len(batch))
    if under_replicated:
        states = [kept for state in states if (kept := only_under_replicated(state)).partitions]
    show(states, as_json=as_json)
    for note in reader.notes:
        output.note(note)
    if reader.errors:
        errors |= admin.not_gone(reader.errors, names or (), cluster.reach(ours).topics, regex=regex)
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
            help="The new number of partitions, which must be higher.",
            show_default=False,
        ),
    ] = None,
    settings: Settings = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", "-u", metavar="KEY", help="Put this setting back to its default. May be repeated."),
    ] = None,
    dry_run: admin.DryRun = False,
    as_json: output.Json = False,
) -> None:
    """Change settings, or add partitions, after which keys may hash to other partitions than before."""
    config = admin.pairs(settings or (), SETTINGS_OPTION)
    changes = [admin.Change(key, admin.Operation.SET, value) for key, value in config.items()]
    changes += [admin.Change(key, admin.Operation.DELETE) for key in dict.fromkeys(unset or ())]
    if twice := config.keys() & set(unset or ()):
        raise typer.BadParameter(f"{min(twice)} is both set and unset", param_hint="--unset")
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
    outcomes = [admin.failed(name, wrong[name]) if name in wrong else admin.Outcome(name, result) for name in [*found, *missing]]
    admin.report("topic", outcomes, as_json=as_json)


@app.command("delete")
@client.command
def delete(
    cluster: client.Cluster,
    names: Names,
    regex: admin.Regex = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do not fail for a topic that does not exist.")] = False,
    yes: admin.Yes = False,
    as_json: output.Json = False,
) -> None:
    """Delete topics with all their records. Asks first."""
    ours = cluster.admin()
    found, missing = select(cluster.reach(ours).topics, names, regex=regex, internal=False)
    outcomes = [admin.Outcome(name, "not there") if if_exists else admin.failed(name, NO_SUCH_TOPIC) for name in missing]
    if found:
        admin.confirm(f"Delete {admin.listed(found, 'topic')}, with all records?", yes=yes)
    with admin.progress("deleting", len(found)) as advance:
        for batch in admin.batches(found, admin.NAMES_AT_ONCE):
            outcomes += admin.collect_outcomes(cluster, ours.delete_topics(list(batch), **times(cluster)), "deleted")
            advance(len(batch))
    admin.report("topic", outcomes, as_json=as_json)


def select(
    topics: dict[str, TopicMetadata], wanted: Sequence[str], *, regex: bool, internal: bool
) -> tuple[list[str], list[str]]:
    """Returns the selected topics, and those that are missing."""
    return admin.select(topics, wanted, regex=regex, hidden=() if internal else admin.INTERNAL_TOPICS)


def times(cluster: client.Cluster) -> dict[str, float]:
    """Returns the timeouts of an alteration: a little less within the cluster than for us, so that its reason can reach us."""
    return {"request_timeout": cluster.timeout_s, "operation_timeout": cluster.timeout_s * 0.9}


# Describing


class Reader:
    """Reads what there is to know about many topics at a time. `errors` are by topic; `notes` say, once each, what is unknown."""

    def __init__(self, cluster: client.Cluster, ours: AdminClient) -> None:
        self.cluster = cluster
        self.ours = ours
        self.errors: dict[str, str] = {}
        self.notes: dict[str, None] = {}
        self._closed: set[tuple[str, int]] = set()  # brokers that cannot be asked for sizes

    def states(self, names: Sequence[str]) -> list[TopicState]:
        from confluent_kafka import TopicCollection
        from confluent_kafka.admin import ConfigResource, ResourceType

        timeout = {"request_timeout": self.cluster.timeout_s}
        asked = self.ours.describe_topics(TopicCollection(list(names)), **timeout)
        asked_settings = self.ours.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names], **timeout)
        topics, errors = admin.settle(self.cluster, asked)
        settings, wrong = admin.settle(self.cluster, {resource.name: future for resource, future in asked_settings.items()})
        self.errors |= errors
        self._note("settings of topic {} are not known: {}", {name: why for name, why in wrong.items() if name in topics})
        with_leader = [Partition(name, one.id) for name, topic in topics.items() for one in topic.partitions if one.leader]
        first, end = self._offsets(with_leader)
        sizes = self._sizes(topics)
        ends = self._ends(topics)

        def partition_state(name: str, one: TopicPartitionInfo) -> PartitionState:
            where = Partition(name, one.id)
            replicas, in_sync = tuple(node.id for node in one.replicas), tuple(node.id for node in one.isr)
            leader = one.leader.id if one.leader else None
            lags = self._lags(where, leader, replicas, ends)
            return PartitionState(one.id, leader, replicas, in_sync, first.get(where), end.get(where), sizes.get(where), lags)

        return [
            TopicState(
                name,
                url_safe(str(topic.topic_id)),
                topic.is_internal,
                tuple(partition_state(name, one) for one in sorted(topic.partitions, key=lambda one: one.id)),
                own_settings(settings.get(name, {})),
            )
            for name, topic in topics.items()
        ]

    def _offsets(self, partitions: Sequence[Partition]) -> tuple[dict[Partition, int], dict[Partition, int]]:
        """Returns the first and the end offset of each partition, as far as they are known."""
        first, end, wrong = admin.first_and_end(self.cluster, self.ours, partitions)
        self._note("offsets of {} are not known: {}", wrong)
        return first, end

    def _sizes(self, topics: Mapping[str, TopicDescription]) -> dict[Partition, int]:
        """Returns the bytes of each partition's log at its leader. A broker that fails to answer is not asked again."""
        by_leader: dict[tuple[str, int], dict[str, list[int]]] = {}
        for name, topic in topics.items():
            for one in topic.partitions:
                if one.leader:
                    wanted = by_leader.setdefault((one.leader.host, one.leader.port), {})
                    wanted.setdefault(name, []).append(one.id)
        sizes: dict[Partition, int] = {}
        for leader, wanted in by_leader.items():
            if leader in self._closed:
                continue
            try:
                with direct.connect(self.cluster, *leader) as connection:
                    sizes |= direct.log_sizes(connection, wanted)
            except Failure as failure:
                self._closed.add(leader)
                self.notes[f"sizes are not known: {failure}"] = None
        return sizes

    def _ends(self, topics: Mapping[str, TopicDescription]) -> dict[tuple[int, Partition], int]:
        """Returns where the logs of partitions with followers end, by broker id: each broker is asked about its own. Those that
        do not answer are left out. The leaders come last, so that nobody is ahead of them."""
        brokers: dict[int, tuple[str, int]] = {}
        wanted: dict[tuple[bool, int], dict[str, list[int]]] = {}
        for name, topic in topics.items():
            for one in topic.partitions:
                if len(one.replicas) > 1 and one.leader:
                    for node in one.replicas:
                        brokers[node.id] = node.host, node.port
                        wanted.setdefault((node.id == one.leader.id, node.id), {}).setdefault(name, []).append(one.id)
        ends: dict[tuple[int, Partition], int] = {}
        for (_, broker), partitions in sorted(wanted.items(), key=lambda item: item[0]):
            if brokers[broker] in self._closed:
                continue
            try:
                with direct.connect(self.cluster, *brokers[broker]) as connection:
                    ends |= {(broker, where): end for where, end in direct.log_ends(connection, partitions).items()}
            except Failure as failure:
                self._closed.add(brokers[broker])
                self.notes[f"lags are not known: {failure}"] = None
        return ends

    @staticmethod
    def _lags(
        where: Partition, leader: int | None, replicas: Sequence[int], ends: Mapping[tuple[int, Partition], int]
    ) -> dict[int, int | None]:
        """Returns how far each follower of a partition is behind its leader, None where that is not known."""
        leaders_end = ends.get((leader, where)) if leader is not None else None
        lags: dict[int, int | None] = {}
        for broker in replicas:
            if broker != leader:
                end = ends.get((broker, where))
                lags[broker] = None if leaders_end is None or end is None else max(0, leaders_end - end)
        return lags

    def _note(self, form: str, missing: Mapping[Any, str]) -> None:
        self.notes.update((form.format(what, why), None) for what, why in missing.items())


def url_safe(topic_id: str) -> str:
    """Returns an id as Kafka writes it; librdkafka uses the other alphabet of base64."""
    return topic_id.translate(str.maketrans("+/", "-_"))


def own_settings(entries: dict[str, ConfigEntry]) -> tuple[Setting, ...]:
    """Returns the settings that were set for the topic itself."""
    from confluent_kafka.admin import ConfigSource

    own = (entry for entry in entries.values() if ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG)
    return tuple(Setting(entry.name, entry.value, "topic") for entry in sorted(own, key=lambda entry: entry.name))


def only_under_replicated(topic: TopicState) -> TopicState:
    kept = tuple(partition for partition in topic.partitions if partition.is_under_replicated)
    return replace(topic, partitions=kept)


def show(states: Sequence[TopicState], *, as_json: bool) -> None:
    if as_json:
        output.write_json([as_object(state) for state in states])
        return
    columns: tuple[str, ...] = PARTITION_COLUMNS
    tables = [partition_rows(state) for state in states]
    if has_followers(states):
        columns = (*columns, LAG_COLUMN)
        tables = [
            [(*row, lag) for row, lag in zip(table, lag_cells(state), strict=True)]
            for state, table in zip(states, tables, strict=True)
        ]
    if not sys.stdout.isatty():
        output.write_table(columns, [row for table in tables for row in table])
    else:
        for state, table in zip(states, tables, strict=True):
            output.write_lines([summary(state), ""])
            output.write_table(columns[1:], [row[1:] for row in table])
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
    """Alters these topics; returns the errors by topic. A topic whose partitions could not be altered keeps its settings."""
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
