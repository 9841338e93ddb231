"""`ottla config`: the settings of topics, groups, brokers and loggers: list, describe, get, set, unset.

| option | whose settings |
|---|---|
| `--topic T`, `--group G` | those of a topic or a consumer group |
| `--broker N` | those of one broker: set at run time, for it or for all brokers, or given at its start |
| `--broker-defaults` | those set at run time for all brokers |
| `--broker-logger N` | the log levels of one broker, which it forgets when it stops |

A topic may be a pattern, as with `ottla topic`. Options may be repeated and combined: the command does the same for all of them,
and an error for one does not affect the others. `set` takes `key=value`, and for lists also `key+=value` and `key-=value`.

librdkafka supports neither broker defaults nor loggers; for these direct.py has a connection of our own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from ottla.commands import admin, output
from ottla.commands.admin import Change, Operation
from ottla.commands.clients import client, direct
from ottla.commands.config_rows import (
    DESCRIBE_COLUMNS,
    LIST_COLUMNS,
    Entry,
    Kind,
    Target,
    as_object,
    describe_rows,
    from_librdkafka,
    from_wire,
    list_rows,
    own,
)
from ottla.commands.output import Failure

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ConfigResource
    from confluent_kafka.admin._metadata import ClusterMetadata

app = typer.Typer(help="Settings of topics, brokers and groups: list, describe, get, set, unset.", no_args_is_help=True)

_CHANGE: Final = re.compile(r"([^=]+?)([+-]?)=(.*)", re.DOTALL)
_OPERATIONS: Final = {"": Operation.SET, "+": Operation.APPEND, "-": Operation.SUBTRACT}
_OF_BROKERS: Final = {Kind.BROKER, Kind.BROKER_LOGGER}
_TOGETHER: Final = {Kind.TOPIC, Kind.GROUP}
_DIRECT: Final = {Kind.BROKER_DEFAULTS: direct.BROKER, Kind.BROKER_LOGGER: direct.BROKER_LOGGER}


class TargetOptions(NamedTuple):
    """The options that say whose settings."""

    topics: Annotated[
        list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC", help="The settings of a topic. May be repeated.")
    ] = None
    groups: Annotated[
        list[str] | None, typer.Option("--group", "-g", metavar="GROUP", help="The settings of a consumer group.")
    ] = None
    brokers: Annotated[list[int] | None, typer.Option("--broker", min=0, metavar="N", help="The settings of a broker.")] = None
    broker_defaults: Annotated[bool, typer.Option("--broker-defaults", help="The settings for all brokers.")] = False
    broker_loggers: Annotated[
        list[int] | None, typer.Option("--broker-logger", min=0, metavar="N", help="The log levels of a broker.")
    ] = None


@app.command("list")
@client.command
def list_settings(cluster: client.Cluster, as_json: output.Json = False) -> None:
    """Show every setting in the cluster that is not a default: those of topics, groups, brokers and all brokers together."""
    ours = cluster.admin()
    metadata = cluster.reach(ours)
    groups: Any = cluster.result(ours.list_consumer_groups(request_timeout=cluster.timeout_s))
    targets = [Target(Kind.BROKER, str(number)) for number in sorted(metadata.brokers)]
    targets += [Target(Kind.BROKER_DEFAULTS)]
    targets += [Target(Kind.TOPIC, name) for name in sorted(metadata.topics)]
    targets += [Target(Kind.GROUP, name) for name in sorted(group.group_id for group in groups.valid or ())]
    reader = Settings(cluster, ours, metadata)
    rows = []
    errors: dict[str, str] = {}
    with admin.progress("reading settings", len(targets)) as advance:
        for target, entries in reader.read(targets, errors, advance):
            mine = own(target.kind, entries)
            if target.kind is Kind.BROKER:  # the broker defaults have lines of their own
                mine = [entry for entry in mine if entry.source != Kind.BROKER_DEFAULTS]
            rows += list_rows(target, mine)
    if errors:  # nobody named these topics, so one that has been deleted since is no error
        there = cluster.reach(ours).topics
        gone = {str(target) for target in targets if target.kind is Kind.TOPIC and target.name not in there}
        errors = {what: why for what, why in errors.items() if what not in gone}
    output.write_table(LIST_COLUMNS, rows, as_json=as_json)
    finish(errors)


@app.command("describe")
@client.command
def describe(
    cluster: client.Cluster,
    whose: TargetOptions,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also show settings that have their default value.")] = False,
    as_json: output.Json = False,
) -> None:
    """Show the settings that have been set, or all of them with --all."""
    targets = targets_of(whose)
    settings = Settings.connect(cluster)
    meant = settings.meant(targets)
    errors: dict[str, str] = {}
    with admin.progress("reading settings", len(meant)) as advance:
        found = [
            (target, entries if everything else own(target.kind, entries))
            for target, entries in settings.read(meant, errors, advance)
        ]
    if as_json:
        output.write_json([as_object(target, entries) for target, entries in found])
    else:
        output.write_table(DESCRIBE_COLUMNS, [row for target, entries in found for row in describe_rows(target, entries)])
    finish(errors)


@app.command("get")
@client.command
def get(
    cluster: client.Cluster,
    keys: Annotated[list[str], typer.Argument(metavar="KEY", help="Names of settings.", show_default=False)],
    whose: TargetOptions,
    as_json: output.Json = False,
) -> None:
    """Show the values in effect. A single setting of a single target is printed alone; if it has no value, as an empty line."""
    targets = targets_of(whose)
    errors: dict[str, str] = {}
    rows = []
    values: list[str | None] = []
    settings = Settings.connect(cluster)
    meant = settings.meant(targets)
    for target, entries in settings.read(meant, errors, int):
        by_name = {entry.name: entry for entry in entries}
        for key in dict.fromkeys(keys):
            entry = by_name.get(key)
            if entry is None:
                unset = target.kind is Kind.BROKER_DEFAULTS  # whose answer has only the settings that are set
                errors[f"{target}: {key}"] = "it is not set" if unset else "there is no such setting"
            elif entry.is_sensitive and entry.value is None:
                errors[f"{target}: {key}"] = "it is a secret, which the cluster does not reveal"
            else:
                rows += list_rows(target, [entry])
                values.append(entry.value)
    if meant == targets and len(targets) == 1 and len(set(keys)) == 1 and not as_json:
        output.write_lines(value or "" for value in values)
    else:
        output.write_table(LIST_COLUMNS, rows, as_json=as_json)
    finish(errors)


@app.command("set")
@client.command
def set_settings(
    cluster: client.Cluster,
    changes: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE", help="Also KEY+=VALUE and KEY-=VALUE, for lists.", show_default=False)
    ],
    whose: TargetOptions,
    dry_run: admin.DryRun = False,
    as_json: output.Json = False,
) -> None:
    """Change settings. Settings that are not named stay as they are."""
    targets = targets_of(whose)
    alter(cluster, targets, parse_changes(changes), "set", dry_run=dry_run, as_json=as_json)


@app.command("unset")
@client.command
def unset(
    cluster: client.Cluster,
    keys: Annotated[list[str], typer.Argument(metavar="KEY", help="Names of settings.", show_default=False)],
    whose: TargetOptions,
    dry_run: admin.DryRun = False,
    as_json: output.Json = False,
) -> None:
    """Remove settings, so that what they fall back to takes effect."""
    targets = targets_of(whose)
    changes = [Change(key, Operation.DELETE) for key in dict.fromkeys(keys)]
    alter(cluster, targets, changes, "unset", dry_run=dry_run, as_json=as_json)


# What is asked for


def targets_of(options: TargetOptions) -> list[Target]:
    """Returns the targets that the options name, without duplicates. Raises BadParameter if there are none."""
    targets = [Target(Kind.TOPIC, name) for name in admin.checked(options.topics or ())]
    targets += [Target(Kind.GROUP, name) for name in admin.checked(options.groups or ())]
    targets += [Target(Kind.BROKER, str(number)) for number in options.brokers or ()]
    targets += [Target(Kind.BROKER_DEFAULTS)] if options.broker_defaults else []
    targets += [Target(Kind.BROKER_LOGGER, str(number)) for number in options.broker_loggers or ()]
    if not targets:
        named = "--topic, --group, --broker, --broker-defaults or --broker-logger"
        raise typer.BadParameter(f"say whose settings, with {named}", param_hint="--topic")
    return list(dict.fromkeys(targets))


def parse_changes(words: Sequence[str]) -> list[Change]:
    """Parses `key=value`, `key+=value`, `key-=value`. Raises BadParameter for other words, and for a repeated setting."""
    changes: dict[str, Change] = {}
    for word in words:
        found = _CHANGE.fullmatch(word)
        if found is None:
            raise typer.BadParameter(f"{word!r} is not KEY=VALUE", param_hint="KEY=VALUE")
        if not client.is_text(word):
            raise typer.BadParameter(f"{word!r} is not UTF-8", param_hint="KEY=VALUE")
        key, sign, value = found.groups()
        if key in changes:
            raise typer.BadParameter(f"{key} is given twice", param_hint="KEY=VALUE")
        changes[key] = Change(key, _OPERATIONS[sign], value)
    return list(changes.values())


def alter(
    cluster: client.Cluster, targets: Sequence[Target], changes: Sequence[Change], done: str, *, dry_run: bool, as_json: bool
) -> None:
    """Makes the same changes to every target, and reports the outcomes one by one."""
    settings = Settings.connect(cluster)
    meant = settings.meant(targets)
    result = f"would be {done}" if dry_run else done
    with admin.progress("altering", len(meant)) as advance:
        wrong = settings.alter(meant, changes, advance, dry_run=dry_run)
    outcomes = [
        admin.failed(str(target), wrong[target]) if target in wrong else admin.Outcome(str(target), result) for target in meant
    ]
    names = [{"kind": target.kind.value, "name": target.name or None} for target in meant]
    admin.report("", outcomes, as_json=as_json, names=names)


def finish(errors: dict[str, str]) -> None:
    admin.note_failures("", errors)
    admin.end_if(errors)


# Asking the cluster


class Settings:
    """The settings of a cluster, read and altered by librdkafka or, where that cannot, by a connection of our own."""

    def __init__(self, cluster: client.Cluster, ours: AdminClient, metadata: ClusterMetadata) -> None:
        self.cluster = cluster
        self.ours = ours
        self.metadata = metadata

    @staticmethod
    def connect(cluster: client.Cluster) -> Settings:
        ours = cluster.admin()
        return Settings(cluster, ours, cluster.reach(ours))

    def meant(self, targets: Sequence[Target]) -> list[Target]:
        """Returns the targets with each topic pattern replaced by the topics that match it."""
        found: list[Target] = []
        for target in targets:
            names = [target.name]
            if target.kind is Kind.TOPIC:
                matching, missing = admin.select(self.metadata.topics, names, hidden=admin.INTERNAL_TOPICS)
                names = [*matching, *missing]  # the cluster has an error for the missing ones
            found += [Target(target.kind, name) for name in names]
        return list(dict.fromkeys(found))

    def read(
        self, targets: Sequence[Target], errors: dict[str, str], advance: Callable[[int], object]
    ) -> list[tuple[Target, list[Entry]]]:
        """Returns each target with all its settings, sorted by name. Errors are added to `errors`, by the target in words."""
        found: dict[Target, list[Entry]] = {}
        wrong = self._wrong(targets)
        for batch in _calls(targets, wrong):
            if batch[0].kind in _DIRECT:
                (target,) = batch
                try:
                    with self._connect(target) as connection:
                        results = direct.configs(connection, _DIRECT[target.kind], target.name)
                    found[target] = [from_wire(result) for result in results]
                except Failure as failure:
                    wrong[target] = str(failure)
            else:
                futures = self.ours.describe_configs(
                    [_resource(target, ()) for target in batch], request_timeout=self.cluster.timeout_s
                )
                done, failed = admin.settle(self.cluster, {_target(resource): future for resource, future in futures.items()})
                found |= {target: [from_librdkafka(entry) for entry in entries.values()] for target, entries in done.items()}
                wrong |= failed
            advance(len(batch))
        errors |= {str(target): why for target, why in wrong.items()}
        return [(target, sorted(found[target], key=lambda entry: entry.name)) for target in targets if target in found]

    def alter(
        self, targets: Sequence[Target], changes: Sequence[Change], advance: Callable[[int], object], *, dry_run: bool
    ) -> dict[Target, str]:
        """Makes the same changes to each target. Returns the errors in words."""
        wrong = self._wrong(targets)
        for batch in _calls(targets, wrong):
            if batch[0].kind in _DIRECT:
                (target,) = batch
                try:
                    with self._connect(target) as connection:
                        direct.alter_configs(connection, _DIRECT[target.kind], target.name, changes, dry_run=dry_run)
                except Failure as failure:
                    wrong[target] = str(failure)
            else:
                resources = [_resource(target, changes) for target in batch]
                errors = admin.alter_settings(self.cluster, self.ours, resources, changes, dry_run=dry_run)
                wrong |= {_target(resource): why for resource, why in errors.items()}
            advance(len(batch))
        return wrong

    def _wrong(self, targets: Iterable[Target]) -> dict[Target, str]:
        """Returns errors for brokers that do not exist: librdkafka would wait for them."""
        there = self.metadata.brokers
        why = f"there is no such broker; the cluster has {', '.join(map(str, sorted(there)))}"
        return {target: why for target in targets if target.kind in _OF_BROKERS and int(target.name) not in there}

    def _connect(self, target: Target) -> Any:
        number = int(target.name) if target.kind in _OF_BROKERS else min(self.metadata.brokers)
        broker = self.metadata.brokers[number]
        return direct.connect(self.cluster, str(broker.host), broker.port)


def _calls(targets: Iterable[Target], without: Container[Target]) -> list[Sequence[Target]]:
    """Divides the targets into calls: one broker, or many topics and groups."""
    asked = [target for target in targets if target not in without]
    together = [target for target in asked if target.kind in _TOGETHER]
    alone = [[target] for target in asked if target.kind not in _TOGETHER]
    return [*alone, *admin.batches(together, admin.NAMES_AT_ONCE)]


def _target(resource: ConfigResource) -> Target:
    return Target(Kind(resource.restype.name.lower()), resource.name)


def _resource(target: Target, changes: Iterable[Change]) -> ConfigResource:
    from confluent_kafka.admin import ConfigResource

    return ConfigResource(target.kind.value, target.name, incremental_configs=admin.incremental(changes))
