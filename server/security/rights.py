"""The declarations of handlers about authorisation: which right each request needs, and on which resource.

The names and numbers are those of Kafka's ACLs (AclOperation, ResourceType). A handler's declaration (`TRAITS`, in
server/requests/traits.py) holds one of three:

- `Whole`: one right decides about the request as a whole.
- `Inside`: the request names resources, and each is authorised by itself. The needs are in the order in which Kafka checks them.
  Which of them a request has follows from its version and its content: a Produce without a transactional id needs no right to
  one.
- `Open`: no right is needed, for the reason that is given.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Operation(IntEnum):
    """An operation on a resource, which a right allows."""

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
    """A type of resource, on which there can be rights."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Need(NamedTuple):
    """One right that a request needs."""

    operation: Operation
    resource: Resource


class Either(NamedTuple):
    """Two rights, one of which is enough. The first is checked first."""

    first: Need
    second: Need


class Whole(NamedTuple):
    """Dispatch checks once for the whole request. If it is refused, every field of the answer that can have an error code has
    it."""

    need: Need | Either


class Inside:
    """The request is authorised part by part; a refused part is answered with its error and the others are served. A guard does
    that before the handler, or the handler itself if it says `in_handler`."""

    __slots__ = ("in_handler", "needs")

    def __init__(self, *needs: Need | Either, in_handler: bool = False) -> None:
        self.needs = needs
        self.in_handler = in_handler


class Open(NamedTuple):
    """Every client that can reach the handler may make the request, or the handler's own rules decide."""

    why: str


Rights = Whole | Inside | Open
