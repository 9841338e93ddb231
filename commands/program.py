"""What the commands learn from the program that they are a part of.

They are clients, and import nothing of the broker (pyproject.toml). But `ottla log dump` has to know which of a broker's settings
are secrets, and `ottla format` how a broker would read its configuration. The program hands both over as functions, in typer's
`context.obj`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Node(NamedTuple):
    """What a configuration says of a node and its directories."""

    node_id: int
    log_dirs: tuple[str, ...]
    metadata_dir: str
    """Where the metadata log lies: one of `log_dirs`, or a directory of its own."""
    follows_controllers: bool
    """Whether the controllers of its cluster are other nodes (process.roles=broker)."""


class Program(NamedTuple):
    """The functions. `read_node` takes the path of a properties file and raises Failure."""

    is_secret: Callable[[str], bool]
    read_node: Callable[[str], Node]
