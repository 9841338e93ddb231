"""What `ottla topic`, `group` and `config` share: which names are meant, how many calls, and how an alteration is told.

**Names.** A command takes several, and an argument with `*`, `?` or `[...]` is a shell pattern; with `--regex` each argument is a
regular expression that must match the whole name. A plain name that is not there is an error, a pattern without a match is not.
A name that exists is meant as it is, whatever is in it. One that only a pattern means and that goes meanwhile is no error.

**Calls.** Questions go to the cluster in batches, never one a name, with a progress bar over the batches.

**Alterations** are told as outcomes, one a name: a line on standard error, or with `--json` an array of objects
`{"name", "result", "error"}` on standard output; `error` is null or the line's text and then `result` is "failed". One name's
error does not keep the others from being done; if there was one, the exit code is 1. What destroys data asks first on a terminal
and wants `--yes` anywhere else, for nobody can answer there: without it, exit code 2 and nothing has been done.
"""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, NoReturn, TypeVar

import typer

from ottla.commands import output
from ottla.commands.client import Cluster, explain, is_text
from ottla.commands.output import Failure
from ottla.commands.positions import Partition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource

K = TypeVar("K")
T = TypeVar("T")

NAMES_AT_ONCE: Final = 200
"""Topics or groups in one question. A bar moves, and an answer of the cluster stays within a few MB."""
PARTITIONS_AT_ONCE: Final = 2000

INTERNAL_TOPICS: Final = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
"""What Kafka itself marks internal, the same in every cluster."""

Regex = Annotated[bool, typer.Option("--regex", "-e", help="The names given are regular expressions.")]
Internal = Annotated[bool, typer.Option("--internal", help="Patterns also mean Kafka's own topics, such as __consumer_offsets.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Names only, one a line.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only check: the cluster is asked, and nothing is changed.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Needed where there is no terminal.")]


# Names


def select(
    names: Iterable[str], wanted: Sequence[str], *, regex: bool = False, hidden: Iterable[str] = ()
) -> tuple[list[str], list[str]]:
    """The names that are meant, sorted, and the plain ones asked for that are not there, as asked.

    Nothing wanted is every name. `hidden` ones are meant only where they are written out. BadParameter for a wrong expression.
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
    """The errors, without those of names that nobody wrote out and that another has deleted meanwhile.

    `there`: the names that there are now.
    """
    kept = {*there, *(() if regex else wanted)}
    return {name: why for name, why in errors.items() if name in kept}


def checked(names: Sequence[str]) -> Sequence[str]:
    """The names, which librdkafka can take: they are not empty, and text. Wrong usage if not."""
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
        raise typer.BadParameter(f"{text!r} is no regular expression: {error}", param_hint="--regex") from None


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def progress(what: str, total: int, at_once: int = NAMES_AT_ONCE) -> AbstractContextManager[Callable[[int], None]]:
    """A bar over `total` things that are asked for `at_once` a call; none where one call does it, for it would only flash."""
    return output.progress(what, total) if total > at_once else nullcontext(lambda _: None)


def pairs(words: Sequence[str], option: str) -> dict[str, str]:
    """`key=value` words as a mapping. BadParameter for one without a key or `=`, and for a key given twice."""
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
    """What became of each: the answers, and in words what went wrong with the others. Failure if the cluster is silent."""
    from confluent_kafka import KafkaException

    done: dict[K, T] = {}
    failed: dict[K, str] = {}
    for key, future in futures.items():
        try:
            done[key] = cluster.result(future)
        except KafkaException as error:
            failed[key] = explain(error.args[0])
    return done, failed


def list_offsets(
    cluster: Cluster, admin: AdminClient, wanted: Mapping[Partition, Any]
) -> tuple[dict[Partition, int], dict[Partition, str]]:
    """The offset for each partition's OffsetSpec; and the errors of those that have none."""
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


def offset_specs() -> Any:
    """librdkafka's OffsetSpec, which its stub leaves untyped."""
    from confluent_kafka.admin import OffsetSpec

    return OffsetSpec


# Alterations


class Operation(IntEnum):
    """What is done to a setting; the protocol's numbers. The last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    key: str
    operation: Operation
    value: str | None = None


def incremental(changes: Iterable[Change]) -> list[ConfigEntry]:
    """The changes as librdkafka takes them."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

    return [ConfigEntry(key, value, incremental_operation=AlterConfigOpType(int(how))) for key, how, value in changes]


def alter_settings(
    cluster: Cluster, admin: AdminClient, resources: Sequence[ConfigResource], changes: Sequence[Change], *, dry_run: bool
) -> dict[ConfigResource, str]:
    """Send the changes that these resources carry, which are the same for all, in one call. The errors by resource.

    A cluster puts back what it never heard of and says nothing; so a slip of the pen would look like success. Such a setting is
    an error here, and then its resource keeps the others, too. A broker may be told anything: there are plugins.
    """
    from confluent_kafka.admin import ResourceType

    wrong: dict[ConfigResource, str] = {}
    keys = [change.key for change in changes if change.operation is Operation.DELETE]
    checked = [resource for resource in resources if resource.restype is not ResourceType.BROKER]
    if keys and checked:
        known, wrong = settle(cluster, admin.describe_configs(checked, request_timeout=cluster.timeout_s))
        for resource, entries in known.items():
            if missing := [key for key in keys if key not in entries]:
                wrong[resource] = f"there is no setting {', '.join(missing)}"
    going_on = [resource for resource in resources if resource not in wrong]
    if going_on:
        futures = admin.incremental_alter_configs(going_on, validate_only=dry_run, request_timeout=cluster.timeout_s)
        wrong |= settle(cluster, futures)[1]
    return wrong


class Outcome(NamedTuple):
    """What an alteration came to, for one name. `error` is None unless `result` is FAILED."""

    name: str
    result: str
    error: str | None = None


FAILED: Final = "failed"


def failed(name: str, error: str) -> Outcome:
    return Outcome(name, FAILED, error)


def outcomes(cluster: Cluster, futures: Mapping[str, Future[Any]], result: str) -> list[Outcome]:
    """One for each future: `result`, or what went wrong."""
    done, wrong = settle(cluster, futures)
    return [Outcome(name, result) if name in done else failed(name, wrong[name]) for name in futures]


def tell(what: str, told: Sequence[Outcome], *, as_json: bool, names: Sequence[Mapping[str, Any]] = ()) -> None:
    """Say what came of an alteration of `what`s ("topic"), as the module's head describes, and end the command if one failed.

    `names`: for each outcome, what its JSON object has for "name".
    """
    if as_json:
        called = names or [{"name": outcome.name} for outcome in told]
        pairs_of = zip(called, told, strict=True)
        output.write_json([{**name, "result": outcome.result, "error": outcome.error} for name, outcome in pairs_of])
    for name, result, error in told:
        if error is not None:
            output.note(f"ottla: {_called(what, name)}: {error}")
        elif not as_json:
            output.note(f"{_called(what, name)}: {result}")
    if any(outcome.error is not None for outcome in told):
        raise typer.Exit(output.FAILED)


def note_failures(what: str, errors: Mapping[str, str]) -> None:
    for name, error in errors.items():
        output.note(f"ottla: {_called(what, name)}: {error}")


def _called(what: str, name: str) -> str:
    return f"{what} {name}".lstrip()


def end_if(errors: Mapping[Any, str]) -> None:
    """Exit code 1 if there were errors, which have been told."""
    if errors:
        raise typer.Exit(output.FAILED)


def confirm(question: str, *, yes: bool) -> None:
    """Go on if the user says so. Failure if not; wrong usage where nobody can be asked."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise typer.BadParameter(f"there is no terminal to ask on ({question}); say --yes if it is meant", param_hint="--yes")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        refused()


def refused() -> NoReturn:
    raise Failure("not confirmed; nothing was changed")


def listed(names: Sequence[str], what: str) -> str:
    """For a question: `topic a`, `topics a, b`, `12 topics: a, b, c, ...`."""
    if len(names) == 1:
        return f"{what} {names[0]}"
    if len(names) <= 5:
        return f"{what}s {', '.join(names)}"
    return f"{len(names)} {what}s: {', '.join(names[:5])}, ..."
