"""Turns a cluster's answers into what `ottla config` shows: plain values in, rows and JSON out. Nothing is requested here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from ottla.commands.output import Cell

LIST_COLUMNS: Final = ("Kind", "Name", "Setting", "Value", "Source")
DESCRIBE_COLUMNS: Final = ("Kind", "Name", "Setting", "Value", "Source", "Read only")

SOURCES: Final = {
    0: "unknown",
    1: "topic",
    2: "broker",
    3: "broker-defaults",
    4: "file",
    5: "default",
    6: "broker-logger",
    7: "client-metrics",
    8: "group",
}
"""The places that a value comes from, as the protocol numbers it. "file" is a broker's start: its properties file and command
line."""

DEFAULT: Final = "default"
SECRET: Final = "(secret)"


class Kind(StrEnum):
    """The kinds of targets that have settings."""

    TOPIC = "topic"
    BROKER = "broker"
    BROKER_DEFAULTS = "broker-defaults"
    BROKER_LOGGER = "broker-logger"
    GROUP = "group"


class Target(NamedTuple):
    """Something that has settings. The name of the broker defaults is empty, as in the protocol."""

    kind: Kind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind.replace('-', ' ')} {self.name}".rstrip()


@dataclass(frozen=True)
class Entry:
    """One setting of a target. `value` is None if there is none, or if it is a secret that the cluster does not reveal."""

    name: str
    value: str | None
    source: str
    is_read_only: bool
    is_sensitive: bool

    @property
    def shown(self) -> str | None:
        return SECRET if self.is_sensitive and self.value is None else self.value


def own(kind: Kind, entries: Iterable[Entry]) -> list[Entry]:
    """Returns the entries that have been set: for this target, and for a broker also at its start or for all brokers."""
    set_somewhere = {
        Kind.TOPIC: {"topic"},
        Kind.BROKER: {"broker", "broker-defaults", "file"},
        Kind.BROKER_DEFAULTS: {"broker-defaults"},
        Kind.BROKER_LOGGER: {"broker-logger"},
        Kind.GROUP: {"group"},
    }[kind]
    return [entry for entry in entries if entry.source in set_somewhere]


def from_librdkafka(entry: Any) -> Entry:
    """Makes an entry of a ConfigEntry."""
    return Entry(
        entry.name,
        entry.value,
        source_of(entry.source),
        bool(entry.is_read_only),
        bool(entry.is_sensitive),
    )


def source_of(number: Any) -> str:
    """Returns the name of a source, which librdkafka gives as the protocol's number or as an enum of it."""
    return SOURCES.get(int(getattr(number, "value", number)), SOURCES[0])


def from_wire(result: Any) -> Entry:
    """Makes an entry of a DescribeConfigsResourceResult of ottla.wire."""
    return Entry(
        result.name,
        result.value,
        SOURCES.get(result.config_source, SOURCES[0]),
        result.read_only,
        result.is_sensitive,
    )


def list_rows(target: Target, entries: Sequence[Entry]) -> list[tuple[Cell, ...]]:
    return [(target.kind.value, target.name or None, entry.name, entry.shown, entry.source) for entry in entries]


def describe_rows(target: Target, entries: Sequence[Entry]) -> list[tuple[Cell, ...]]:
    return [
        (target.kind.value, target.name or None, entry.name, entry.shown, entry.source, entry.is_read_only) for entry in entries
    ]


def as_object(target: Target, entries: Sequence[Entry]) -> dict[str, Any]:
    """Returns a target's settings as JSON; docs/commands.md describes it for users."""
    return {
        "kind": target.kind.value,
        "name": target.name or None,
        "settings": [
            {
                "setting": entry.name,
                "value": entry.value,
                "source": entry.source,
                "is_read_only": entry.is_read_only,
                "is_sensitive": entry.is_sensitive,
            }
            for entry in entries
        ],
    }
