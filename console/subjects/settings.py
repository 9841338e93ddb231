"""One setting of a topic, a group, a broker or all brokers: its value, where that comes from, what it means; and its change."""

from __future__ import annotations

import html
import re
from typing import Any, Final, NamedTuple

from ottla.commands import config
from ottla.commands.admin import Change, Operation
from ottla.commands.clients import direct
from ottla.commands.clients.brokers import Brokers, check
from ottla.commands.config_rows import SOURCES, Entry, Kind, Target, from_wire
from ottla.commands.output import Failure
from ottla.console.cluster.source import Source
from ottla.console.errors import Missing
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

_NUMBERS: Final = {Kind.TOPIC: 2, Kind.BROKER: direct.BROKER, Kind.BROKER_DEFAULTS: direct.BROKER, Kind.GROUP: 32}
_TYPES: Final = ("", "true or false", "text", "a number", "a number", "a number", "a number", "a list", "a class", "a secret")
_BLOCKS: Final = re.compile(r"</?(?:p|ul|ol|br|div)\b[^<>]*>|</li>", re.IGNORECASE)
_ITEMS: Final = re.compile(r"<li\b[^<>]*>", re.IGNORECASE)
_TAGS: Final = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)


NO_GROUP_SETTINGS: Final = "This cluster has no settings of groups, which came with Apache Kafka 4.0."
_NO_SUCH_KIND: Final = ErrorCode.INVALID_REQUEST
"""The answer of an older Kafka to a question for the settings of a group."""


class Step(NamedTuple):
    """One place where a value may come from; the first one counts."""

    source: str
    setting: str
    value: str | None


class Detail(NamedTuple):
    """A setting with all that the cluster tells of it."""

    entry: Entry
    type: str
    text: str
    steps: list[Step]


def detail(source: Source, target: Target, key: str) -> Detail:
    """Returns one setting. Raises Missing if there is no such setting or broker, Failure."""
    metadata = source.summary().metadata
    resource = DescribeConfigsResource(_NUMBERS[target.kind], target.name, [key])
    broker = int(target.name) if target.kind is Kind.BROKER else min(metadata.brokers)
    if broker not in metadata.brokers:
        raise Missing(f"There is no broker {broker}.")
    with Brokers(source.cluster, metadata) as brokers:
        answer = brokers.at(broker).call(DescribeConfigsRequest([resource], include_synonyms=True, include_documentation=True))
    (result,) = answer.results
    if target.kind is Kind.GROUP and result.error_code == _NO_SUCH_KIND:
        raise Missing(NO_GROUP_SETTINGS)
    check(result.error_code, result.error_message)
    found = [one for one in result.configs if one.name == key]
    if not found:
        raise Missing(f"The {target} has no setting {key}.")
    return _detail(found[0])


def _detail(one: Any) -> Detail:
    entry = from_wire(one)
    steps = [
        Step(SOURCES.get(each.source, SOURCES[0]), each.name, None if entry.is_sensitive else each.value) for each in one.synonyms
    ]
    kind = _TYPES[one.config_type] if 0 <= one.config_type < len(_TYPES) else ""
    return Detail(entry, kind, without_markup(one.documentation or ""), steps)


def of_group(source: Source, name: str) -> list[Entry] | None:
    """Returns the settings of a group, None if the cluster has no settings of groups. Raises Failure."""
    try:
        return source.settings(Kind.GROUP, name)
    except Failure as failure:
        if not str(failure).endswith(f"({_NO_SUCH_KIND.name})"):
            raise
        return None


def without_markup(text: str) -> str:
    """Returns a documentation text, which Kafka writes in HTML, as plain text with a line for each paragraph and list item."""
    plain = html.unescape(_TAGS.sub("", _ITEMS.sub("\n– ", _BLOCKS.sub("\n", text))))
    return "\n".join(line for each in plain.split("\n") if (line := each.strip()))


def change(source: Source, target: Target, key: str, value: str | None) -> None:
    """Sets a setting, or removes what was set if the value is None. Raises Failure."""
    step = Change(key, Operation.DELETE) if value is None else Change(key, Operation.SET, value)
    settings = config.Settings(source.cluster, source.admin, source.summary().metadata)
    for why in settings.alter([target], [step], int, dry_run=False).values():
        raise Failure(why)
