"""The differences in what the tools say with ottla and with Kafka: its refusals are worded by us.

A row has a pattern for either wording. What matches is replaced by the row's name and by the values that the named groups found,
which have the same names on both sides: so the values are compared, as are the place, the error's class and the exit code. A row
that one side never says is a failure of its own (test_tools.py).
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final, NamedTuple

_OF_THE_BROKER: Final = (
    r"(?<!topic command : )(?<!TopicCommand - org\.apache\.kafka\.common\.config\.ConfigException: )"
    r"(?<!TopicCommand - org\.apache\.kafka\.common\.errors\.InvalidConfigurationException: )"
)
"""kafka-topics checks the settings of a new topic itself, and says what Kafka's classes say, whatever the broker."""
_INVALID: Final = _OF_THE_BROKER + r"Invalid value (?P<value>\S+) for configuration (?P<setting>[\w.]+): "
_SETTING: Final = r"(?P<setting>[\w.]+): "


class Difference(NamedTuple):
    """Regular expressions with the same named groups."""

    name: str
    kafkas: str
    ours: str


DIFFERENCES: Final[tuple[Difference, ...]] = (
    # Topics
    Difference(
        "more replicas than brokers",
        r"Unable to replicate the partition (?P<wanted>\d+) time\(s\): The target replication factor of (?P=wanted) "
        r"cannot be reached because only (?P<brokers>\d+) broker\(s\) are registered or some brokers have all their "
        r"log directories cordoned\.",
        r"The replication factor (?P<wanted>\d+) is too large: the cluster has (?P<brokers>\d+) broker\(s\)\.",
    ),
    Difference(
        "a topic name with another character",
        r"Topic name is invalid: '(?P<name>.*)' contains one or more characters other than "
        r"ASCII alphanumerics, '\.', '_' and '-'",
        r"The topic name '(?P<name>.*)' may only have the letters a to z and A to Z, digits, '\.', '_' and '-'\.",
    ),
    Difference(
        "replicas on an unknown broker",
        r"The manual partition assignment includes broker (?P<broker>\d+), but no such broker is registered\.",
        r"The manual assignment \[(?P<broker>\d+)\] names broker (?P=broker), which does not exist\.",
    ),
    Difference(
        "as many partitions as before",
        r"Topic already has (?P<now>\d+) partition\(s\)\.",
        r"Topic 'plain-1' has (?P<now>\d+) partition\(s\); the new number, (?P=now), must be larger\.",
    ),
    Difference(
        "fewer partitions than before",
        r"The topic (?P<topic>\S+) currently has (?P<now>\d+) partition\(s\); (?P<wanted>\d+) would not be an increase\.",
        r"Topic '(?P<topic>\S+)' has (?P<now>\d+) partition\(s\); the new number, (?P<wanted>\d+), must be larger\.",
    ),
    Difference(
        "the settings of an unknown topic",
        r"The topic '(?P<topic>\S+)' does not exist\.",
        r"There is no topic '(?P<topic>\S+)'\.",
    ),
    Difference(
        "an election in an unknown topic",
        r"No such topic as (?P<topic>\S+)",
        r"There is no topic (?P<topic>\S+)\.",
    ),
    Difference(
        "an election in an unknown partition",
        r"No such partition as (?P<topic>\S+)-(?P<partition>\d+)",
        r"Topic (?P<topic>\S+) has no partition (?P<partition>\d+)\.",
    ),
    # Settings
    Difference(
        "an unknown setting of a topic",
        _OF_THE_BROKER + r"Unknown topic config name: (?P<setting>[\w.]+)",
        _SETTING + r"topics do not have this setting; check the spelling",
    ),
    Difference(
        "an unknown setting of a group",
        r"Unknown group config name: (?P<setting>[\w.]+)",
        _SETTING + r"groups do not have this setting; check the spelling",
    ),
    Difference(
        "not a long",
        _INVALID + r"Not a number of type LONG",
        _SETTING + r"'(?P<value>\S+)' is not a whole number of 64 bits; write it in digits",
    ),
    Difference(
        "not an int",
        _INVALID + r"Not a number of type INT",
        _SETTING + r"'(?P<value>\S+)' is not a whole number of 32 bits; write it in digits",
    ),
    Difference(
        "a number that is too small",
        _INVALID + r"Value must be at least (?P<least>-?\d+)",
        _SETTING + r"'(?P<value>\S+)' is too small; the least is (?P<least>-?\d+)",
    ),
    Difference(
        "none of the choices",
        _INVALID + r"String must be one of: (?P<choices>.*)",
        _SETTING + r"'(?P<value>\S+)' is not one of (?P<choices>.*)",
    ),
    Difference(
        "a setting that needs a restart",
        r"Cannot update these configs dynamically: \[(?P<setting>[\w.]+)\]",
        r"Cannot update these configs dynamically: \[(?P<setting>[\w.]+)\]; set it in server\.properties and restart the broker",
    ),
    Difference(
        "more than double the threads",
        r"Invalid value org\.apache\.kafka\.common\.config\.ConfigException: Dynamic thread count update validation failed for "
        r"(?P<setting>[\w.]+)=(?P<value>\d+), value should not be greater than double the current value (?P<now>\d+) for "
        r"configuration Invalid dynamic configuration",
        _SETTING + r"(?P<value>\d+) is too far from the present (?P<now>\d+); at most halve or double it",
    ),
    Difference(
        "a group's timeout below the broker's bound",
        r"(?P<setting>[\w.]+) must be in the range (?P<least>\d+) to 60000 inclusive\.",
        _SETTING + r"1 is below group\.consumer\.min\.session\.timeout\.ms, (?P<least>\d+); raise the first or lower the second",
    ),
    Difference(
        "an interval that is too short",
        r"Invalid value (?P<value>\d+) for (?P<setting>[\w.]+), interval must be between (?P<least>\d+) and 3600000 \(1 hour\)",
        _SETTING + r"(?P<value>\d+) is too small; the least is (?P<least>\d+)",
    ),
    Difference(
        "a match of clients by no known property",
        r"Illegal client matching pattern: (?P<pair>\S+)",
        r"match: it has the element '(?P<pair>\S+)', which is not key=pattern with one of client_id, .*",
    ),
    Difference(
        "a password that is not there",
        r"Attempt to delete a user credential that does not exist",
        r"User 'bob' has no credential of this mechanism\.",
    ),
    # The cluster
    Difference(
        "an unknown broker",
        r"Broker ID (?P<broker>\d+) is not currently registered",
        r"There is no broker (?P<broker>\d+) in the cluster\.",
    ),
    Difference(
        "a voter that is not one",
        r"Cannot remove voter ReplicaKey\(id=(?P<id>\d+), directoryId=(?P<directory>[\w-]+)\) from the set of voters "
        r"\[ReplicaKey\(id=(?P<voter>\d+), directoryId=DIRECTORY-ID\)\]",
        r"The only voter is node (?P<voter>\d+) with the directory [\w-]{22}, which cannot be removed; "
        r"the request names node (?P<id>\d+) with the directory (?P<directory>[\w-]+)\.",
    ),
    Difference(
        "a level that the node does not support",
        r"Local controller (?P<node>\d+) only supports versions (?P<lowest>\d+)-(?P<highest>\d+)",
        r"Local controller (?P<node>\d+) supports the levels (?P<lowest>\d+) to (?P<highest>\d+)\.",
    ),
    Difference(
        "a feature that the node does not know",
        r"Local controller (?P<node>\d+) does not support this feature\.",
        r"Local controller (?P<node>\d+) does not know the feature\.",
    ),
    Difference(
        "a feature that nobody knows",
        r"(?<=feature )(?P<feature>[\w.]+)\. Feature (?P=feature) not found\.",
        r"(?<=feature )(?P<feature>[\w.]+)\. This controller does not know the feature\.",
    ),
    Difference(
        "no authorizer",
        r"No Authorizer is configured( on the broker)?\.?",
        r"There are no access rules, because this broker has no authorizer\.",
    ),
    # Groups
    Difference(
        "a group of another kind",
        r"Group (?P<group>[\w-]+) is not a (?P<kind>\w+) group\.",
        r"Group (?P<group>[\w-]+) is a \w+ group; this request is for (?P<kind>\w+) groups\.",
    ),
    Difference(
        "a share group with members",
        r"(?<=Error: )The group is not empty\.",
        r"(?<=Error: )Group shared-g still has members\.",
    ),
    Difference(
        "a share group's offsets in an unknown topic",
        r"(?<=Error: )This server does not host this topic-partition\.",
        r"(?<=Error: )There is no such topic\.",
    ),
)


class Used:
    """The rows that either side has said, in a run of all scripts."""

    def __init__(self) -> None:
        self.rows: dict[str, set[Difference]] = {"kafka": set(), "ottla": set()}

    def missing(self) -> list[str]:
        """Returns the rows that a side never said."""
        return [f"{row.name}, {kind}" for kind, said in self.rows.items() for row in DIFFERENCES if row not in said]


USED: Final = Used()


def alike(kind: str, text: str) -> str:
    """Returns what a broker of this kind made a tool say, with the rows' names and values in place of what they match."""
    for row in DIFFERENCES:
        text, count = re.subn(row.kafkas if kind == "kafka" else row.ours, partial(_shown, row.name), text)
        if count:
            USED.rows[kind].add(row)
    return text


def _shown(name: str, match: re.Match[str]) -> str:
    return f"<{name}{''.join(f'; {group}={value}' for group, value in sorted(match.groupdict().items()))}>"
