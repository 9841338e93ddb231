"""Facts that the commands learn from the program that they are a part of.

They are clients, and import nothing of the broker (pyproject.toml). But `ottla log dump` has to know which of a broker's settings
are secrets, `ottla format` how a broker would read its configuration, and `ottla acl why` how brokers decide by access rules. The
program hands all of these over as functions, in typer's `context.obj`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Node(NamedTuple):
    """A node and its directories, as a configuration has them."""

    node_id: int
    log_dirs: tuple[str, ...]
    metadata_dir: str
    """The directory of the metadata log: one of `log_dirs`, or a directory of its own."""
    follows_controllers: bool
    """True if the controllers of its cluster are other nodes (process.roles=broker)."""


class AccessRule(NamedTuple):
    """An access rule, with the numbers of the protocol, in the order of CreateAcls."""

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class Decided(NamedTuple):
    """The decision of the brokers by access rules. `has_rules` says whether there is any rule for the resource."""

    allowed: bool
    rule: AccessRule | None
    has_rules: bool


Decide = Callable[[Sequence[AccessRule], str, str, int, int, str], Decided]
"""Takes all rules, a principal, a host, the numbers of an operation and of a resource type, and a resource's name."""


class Program(NamedTuple):
    """The functions. `read_node` takes the path of a properties file and raises Failure."""

    is_secret: Callable[[str], bool]
    read_node: Callable[[str], Node]
    decide: Decide
