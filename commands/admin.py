"""The parts that `ottla topic`, `group` and `config` share: selecting names, asking in batches, and reporting what an alteration
did.

**Names.** A command takes several. An argument with `*`, `?` or `[...]` is a shell pattern; with `--regex` each argument is a
regular expression that must match the whole name. A plain name that does not exist is an error; a pattern without a match is not.
An argument that equals an existing name selects it, even if it contains pattern characters. If a name that was only matched by a
pattern is deleted while the command runs, that is no error.

**Calls.** Requests to the cluster carry many names each, with a progress bar over the batches.

**Alterations** are reported as one outcome per name: a line on standard error, or with `--json` an array of objects `{"name",
"result", "error"}` on standard output. `error` is null, or the text of the line; then `result` is "failed". An error for one name
does not keep the others from being altered, but the exit code is 1. A command that destroys data asks for confirmation first.
Without a terminal there is nobody to ask, so it needs `--yes`; without that it does nothing and exits with code 2.
"""

from __future__ import annotations

import fnmatch
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, NoReturn, TypeVar

import typer

from ottla.commands import output
from ottla.commands.clients.client import Cluster, explain, is_text
from ottla.commands.clients.partition import Partition
from ottla.commands.output import Failure

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource

K = TypeVar("K")
T = TypeVar("T")

NAMES_AT_ONCE: Final = 200
"""The most topics or groups that one request asks about: few enough for the bar to move, and for an answer of a few MB at
most."""
PARTITIONS_AT_ONCE: Final = 2000
GROUP_TIMEOUT_S: Final = 3600.0
"""The timeout that librdkafka is given for a request to a group's coordinator; `settle_groups` waits for less. librdkafka (2.16)
ends the process if such a request times out and its coordinator is found after that (librdkafka's issue 4605), so none may."""

INTERNAL_TOPICS: Final = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
"""The topics that Kafka itself marks as internal. They are the same in every cluster."""

Regex = Annotated[bool, typer.Option("--regex", "-e", help="Treat the names given as regular expressions.")]
Internal = Annotated[bool, typer.Option("--internal", help="Let patterns match Kafka's own topics too, e.g. __consumer_offsets.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print names only, one per line.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only have the cluster check the request; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation. Required without a terminal.")]


# Names


def select(
    names: Iterable[str], wanted: Sequence[str], *, regex: bool = False, hidden: Iterable[str] = ()
) -> tuple[list[str], list[str]]:
    """Returns the names that `wanted` selects, sorted, and the plain names in `wanted` that do not exist, in the order given.

    An empty `wanted` selects every name. `hidden` names are selected only if they are written out. Raises BadParameter for an
    invalid expression.
    """
    present = set(names)
    offered = sorted(present - set(hidden))
    if not wanted:
        return offered, []
    found: set[str] = set()
    missing: list[str] = []
    for word in dict.fromkeys(checked(wanted)):
        if word in present and not regex:
            found.add(word)
        elif regex or any(mark in word for mark in "*?["):
            match = _expression(word if regex else fnmatch.translate(word))
            found.update(name for name in offered if match(name))
        else:
            missing.append(word)
    return sorted(found), missing


def not_gone(errors: Mapping[str, str], wanted: Sequence[str], there: Iterable[str], *, regex: bool) -> dict[str, str]:
    """Returns the errors without those of names that only a pattern selected and that somebody has deleted since.

    `there`: the names that exist now.
    """
    kept = {*there, *(() if regex else wanted)}
    return {name: why for name, why in errors.items() if name in kept}


def checked(names: Sequence[str]) -> Sequence[str]:
    """Returns the names if librdkafka can take them: none is empty, and all are valid text. Otherwise it is wrong usage."""
    for name in names:
        if not name:
            raise typer.BadParameter("a name is empty")
        if not is_text(name):
            raise typer.BadParameter(f"the name {name!r} is not UTF-8")
    return names


def _expression(text: str) -> Callable[[str], object]:
    try:
        return re.compile(text).fullmatch
    except re.error as error:
        raise typer.BadParameter(f"{text!r} is not a regular expression: {error}", param_hint="--regex") from None


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def progress(what: str, total: int, at_once: int = NAMES_AT_ONCE) -> AbstractContextManager[Callable[[int], None]]:
    """Shows a bar over `total` things, `at_once` to a call. A single call gets no bar, which would only flash."""
    return output.progress(what, total) if total > at_once else nullcontext(lambda _: None)


def pairs(words: Sequence[str], option: str) -> dict[str, str]:
    """Returns `key=value` words as a mapping. Raises BadParameter for a word without a key or `=`, and for a repeated key."""
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{word!r} is not key=value", param_hint=option)
        if not is_text(word):
            raise typer.BadParameter(f"{word!r} is not UTF-8", param_hint=option)
        if key in found:
            raise typer.BadParameter(f"{key} is given twice", param_hint=option)
        found[key] = value
    return found


# Answers


def settle(cluster: Cluster, futures: Mapping[K, Future[T]]) -> tuple[dict[K, T], dict[K, str]]:
    """Waits for every future; returns the answers, and for the others the error in words. Raises Failure if nothing answers."""
    from confluent_kafka import KafkaException

    done: dict[K, T] = {}
    failed: dict[K, str] = {}
    for key, future in futures.items():
        try:
            done[key] = cluster.result(future)
        except KafkaException as error:
            failed[key] = explain(error.args[0])
    return done, failed


def settle_groups(cluster: Cluster, futures: Mapping[str, Future[T]]) -> tuple[dict[str, T], dict[str, str]]:
    """Is `settle` for requests to groups' coordinators, which are made with GROUP_TIMEOUT_S: a group whose coordinator does not
    answer in time is one error, and its client must not be used again."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + cluster.timeout_s
    done: dict[str, T] = {}
    failed: dict[str, str] = {}
    for name, future in futures.items():
        try:
            done[name] = future.result(max(0.0, deadline - time.monotonic()))
        except FutureTimeoutError:
            failed[name] = f"no answer within {cluster.timeout_s:g} s"
        except KafkaException as error:
            failed[name] = explain(error.args[0])
    return done, failed


def list_offsets(
    cluster: Cluster, admin: AdminClient, wanted: Mapping[Partition, Any]
) -> tuple[dict[Partition, int], dict[Partition, str]]:
    """Returns the offset that each partition's OffsetSpec asks for, and the errors of the partitions that have none."""
    from confluent_kafka import TopicPartition

    found: dict[Partition, int] = {}
    failed: dict[Partition, str] = {}
    for batch in batches(list(wanted), PARTITIONS_AT_ONCE):
        specs = {TopicPartition(topic, number): wanted[Partition(topic, number)] for topic, number in batch}
        futures = admin.list_offsets(specs, request_timeout=cluster.timeout_s)
        done, wrong = settle(cluster, {Partition(asked.topic, asked.partition): future for asked, future in futures.items()})
        found |= {partition: answer.offset for partition, answer in done.items()}
        failed |= wrong
    return found, failed


def first_and_end(
    cluster: Cluster, admin: AdminClient, partitions: Sequence[Partition]
) -> tuple[dict[Partition, int], dict[Partition, int], dict[Partition, str]]:
    """Returns the first and the end offset of each partition as far as they are known, and the errors for the others."""
    specs = offset_specs()
    first, wrong = list_offsets(cluster, admin, dict.fromkeys(partitions, specs.earliest()))
    end, wrong_too = list_offsets(cluster, admin, dict.fromkeys(partitions, specs.latest()))
    return first, end, wrong | wrong_too


def offset_specs() -> Any:
    """Returns librdkafka's OffsetSpec, which its stub leaves untyped."""
    from confluent_kafka.admin import OffsetSpec

    return OffsetSpec


# Alterations


class Operation(IntEnum):
    """An operation on a setting, as the protocol numbers it. The last two are for settings that are lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    key: str
    operation: Operation
    value: str | None = None


def incremental(changes: Iterable[Change]) -> list[ConfigEntry]:
    """Returns the changes as librdkafka takes them."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

    return [ConfigEntry(key, value, incremental_operation=AlterConfigOpType(int(how))) for key, how, value in changes]


def alter_settings(
    cluster: Cluster, admin: AdminClient, resources: Sequence[ConfigResource], changes: Sequence[Change], *, dry_run: bool
) -> dict[ConfigResource, str]:
    """Sends the changes that these resources carry, which are the same for all, in one call. Returns the errors by resource.

    A cluster accepts the deletion of a setting it has never heard of, so a typo would look like success. Here an unknown setting
    is an error, and then nothing of that resource is changed. Brokers are exempt, since their plugins may have any settings.
    """
    from confluent_kafka.admin import ResourceType

    wrong: dict[ConfigResource, str] = {}
    keys = [change.key for change in changes if change.operation is Operation.DELETE]
    checked = [resource for resource in resources if resource.restype is not ResourceType.BROKER]
    if keys and checked:
        known, wrong = settle(cluster, admin.describe_configs(checked, request_timeout=cluster.timeout_s))
        for resource, entries in known.items():
            if missing := [key for key in keys if key not in entries]:
                wrong[resource] = f"there is no such setting: {', '.join(missing)}"
    going_on = [resource for resource in resources if resource not in wrong]
    if going_on:
        futures = admin.incremental_alter_configs(going_on, validate_only=dry_run, request_timeout=cluster.timeout_s)
        wrong |= settle(cluster, futures)[1]
    return wrong


class Outcome(NamedTuple):
    """The result of an alteration for one name. `error` is None unless `result` is FAILED."""

    name: str
    result: str
    error: str | None = None


FAILED: Final = "failed"


def failed(name: str, error: str) -> Outcome:
    return Outcome(name, FAILED, error)


def collect_outcomes(
    cluster: Cluster, futures: Mapping[str, Future[Any]], result: str, *, of_groups: bool = False
) -> list[Outcome]:
    """Returns one outcome per future: `result`, or what went wrong."""
    done, wrong = (settle_groups if of_groups else settle)(cluster, futures)
    return [Outcome(name, result) if name in done else failed(name, wrong[name]) for name in futures]


def report(what: str, outcomes: Sequence[Outcome], *, as_json: bool, names: Sequence[Mapping[str, Any]] = ()) -> None:
    """Reports the outcomes of altering `what`s ("topic"), as the module docstring describes, and ends the command if one failed.

    `names`: what the JSON object of each outcome has in place of "name".
    """
    if as_json:
        called = names or [{"name": outcome.name} for outcome in outcomes]
        pairs_of = zip(called, outcomes, strict=True)
        output.write_json([{**name, "result": outcome.result, "error": outcome.error} for name, outcome in pairs_of])
    for name, result, error in outcomes:
        if error is not None:
            output.note(f"ottla: {_called(what, name)}: {error}")
        elif not as_json:
            output.note(f"{_called(what, name)}: {result}")
    if any(outcome.error is not None for outcome in outcomes):
        raise typer.Exit(output.FAILED)


def note_failures(what: str, errors: Mapping[str, str]) -> None:
    for name, error in errors.items():
        output.note(f"ottla: {_called(what, name)}: {error}")


def _called(what: str, name: str) -> str:
    return f"{what} {name}".lstrip()


def end_if(errors: Mapping[Any, str]) -> None:
    """Exits with code 1 if there were errors, which have been reported by now."""
    if errors:
        raise typer.Exit(output.FAILED)


def confirm(question: str, *, yes: bool) -> None:
    """Returns if the user agrees. Raises Failure if not, and BadParameter where nobody can be asked."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise typer.BadParameter(f"there is no terminal to ask on ({question}); pass --yes to confirm", param_hint="--yes")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        refused()


def refused() -> NoReturn:
    raise Failure("not confirmed; nothing was changed")


def listed(names: Sequence[str], what: str) -> str:
    """Returns the names for a question: `topic a`, `topics a, b`, `12 topics: a, b, c, ...`."""
    if len(names) == 1:
        return f"{what} {names[0]}"
    if len(names) <= 5:
        return f"{what}s {', '.join(names)}"
    return f"{len(names)} {what}s: {', '.join(names[:5])}, ..."
