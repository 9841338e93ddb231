"""What the handlers declare about authorisation: which right each request needs, and where it is looked for.

The names and numbers are those of Kafka's ACLs (AclOperation, ResourceType). A handler's declaration (`TRAITS`, in
server/requests/traits.py) holds one of three:

- `Whole`: one right decides about the request as a whole.
- `Inside`: the request names resources, each of which is judged by itself. The needs stand in the order in which Kafka asks
  about them. Which of them a request has follows from its version and what is in it: a Produce without a transactional id needs
  no right to one.
- `Open`: no right is asked about, and why.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Operation(IntEnum):
    """What somebody may do with a resource."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Resource(IntEnum):
    """What a right can be about."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Need(NamedTuple):
    """One right."""

    operation: Operation
    resource: Resource


class Either(NamedTuple):
    """Two rights, one of which is enough. The first is asked about first."""

    first: Need
    second: Need


class Whole(NamedTuple):
    """Dispatch asks once, and whoever is refused gets the error in every place of the answer where an error code can stand."""

    need: Need | Either


class Inside:
    """The request is judged part by part; what is refused is answered with its error and the rest is served."""

    __slots__ = ("needs",)

    def __init__(self, *needs: Need | Either) -> None:
        self.needs = needs


class Open(NamedTuple):
    """Everybody who reached the handler may do this, or the handler's own rules decide."""

    why: str


Rights = Whole | Inside | Open
