"""The parts of scripts. In texts and lines {bootstrap} stands for the broker's address, {dir} for a directory of the script's
own, {data} for the broker's log directory, {properties} for its server.properties; other braces are themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compat_tests.tools_diff.masks import Mask


@dataclass(frozen=True)
class Run:
    """One call of a tool: its name in TOOLS and its arguments, as one types them.

    `code` is the exit code that Kafka's answer gives it. With `until`, a regular expression, it is called again until its
    standard output holds a match: what a tool asks for may take its time. `unordered` says why its lines may come in any order;
    they are sorted then. `hide` masks what only this call shows. `alone`: in a process of its own, at whose end it does the rest.
    `ends_at` is for a tool that goes on for ever, alone: it gets SIGTERM when it has printed a line that holds this text, with
    which its output ends.
    """

    line: str
    code: int = 0
    stdin: str = ""
    until: str = ""
    unordered: str = ""
    hide: tuple[Mask, ...] = ()
    alone: bool = False
    ends_at: str = ""


@dataclass(frozen=True)
class File:
    """A file in {dir}."""

    name: str
    text: str


IMPATIENT = File("impatient.properties", "default.api.timeout.ms=1500\nrequest.timeout.ms=1000\n")
"""Settings of a client that waits in vain: what is not there may yet come."""


@dataclass(frozen=True)
class Hold:
    """A client that joins a group and stays until the script ends or says `Release`: a Java consumer, a Java share consumer, or
    a streams member by hand (`kind` consumer, share, streams).
    """

    member: str
    kind: str
    topics: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Release:
    member: str


Step = Run | File | Hold | Release


@dataclass(frozen=True)
class Script:
    name: str
    steps: tuple[Step, ...]


def made(topic: str, partitions: int = 1, *lines: str) -> tuple[Step, ...]:
    """A topic whose partitions answer, with a record a line: KEY:VALUE."""
    steps: tuple[Step, ...] = (
        Run(f"topics --create --topic {topic} --partitions {partitions}"),
        Run(f"get-offsets --topic {topic}", until=rf"(?s)(?:{topic}:\d+:0.*){{{partitions}}}"),
    )
    if lines:
        text = "".join(f"{line}\n" for line in lines)
        options = "--reader-property parse.key=true --reader-property key.separator=:"
        steps += (Run(f"console-producer --topic {topic} {options}", stdin=text),)
    return steps
