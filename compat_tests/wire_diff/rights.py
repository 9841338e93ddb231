"""The form of a case of the matrix of authorisation (rights_cases.py), and the names in its world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from ottla.server.security.rights import Operation, Resource
from ottla.wire.api import BY_MODULE
from ottla.wire.messages.create_acls import AclCreation

T, U, DOOMED, MISSING = "rights-t", "rights-u", "rights-doomed", "rights-missing"
"""Two topics, one to be deleted, and one that there is not."""
G, S, X = "rights-g", "rights-s", "rights-x"
"""A group with a committed offset in T and U, a share group, and a transactional id."""
PRODUCER: Final = 1_000_000
MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAA"
UNKNOWN_ID: Final = b"nobody's topicid"
NODE: Final = "1"

R, W, C, D, A, DESCRIBE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE
ACTION, DC, AC, IW = (
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION = 29, 30, 31, 53
AUTHORIZATION_CODES: Final = frozenset((29, 30, 31, 53, 65))


class Right(NamedTuple):
    """A right, and the code that stands in the answer without it; 0 where something is only left out."""

    operation: Operation
    resource: Resource
    name: str
    code: int


class Case(NamedTuple):
    """A request and the rights that are needed for all of it. `request` is told the id of a topic."""

    name: str
    version: int
    request: Callable[[Callable[[str], bytes]], Any]
    rights: tuple[Right, ...]

    @property
    def api(self) -> str:
        return self.name.partition(" ")[0]


def topic(operation: Operation, name: str = T, code: int = NO_TOPIC) -> Right:
    return Right(operation, Resource.TOPIC, name, code)


def group(operation: Operation, name: str = G, code: int = NO_GROUP) -> Right:
    return Right(operation, Resource.GROUP, name, code)


def cluster(operation: Operation, code: int = NO_CLUSTER) -> Right:
    return Right(operation, Resource.CLUSTER, "kafka-cluster", code)


def transaction(operation: Operation, name: str = X, code: int = NO_TRANSACTION) -> Right:
    return Right(operation, Resource.TRANSACTIONAL_ID, name, code)


def last(name: str) -> int:
    return BY_MODULE[name.partition(" ")[0]].max_version


def case(name: str, request: Any, *rights: Right, version: int | None = None) -> Case:
    """A case; `request` is one, or a function of what returns a topic's id."""
    make = request if callable(request) and not hasattr(request, "__slots__") else lambda topic_id: request
    return Case(name, last(name) if version is None else version, make, rights)


def combinations(rights: tuple[Right, ...]) -> Iterator[tuple[str, tuple[Right, ...], Right | None]]:
    """(what the client lacks, its rights, the one that is missing or None): none first, then all but one each, then all."""
    yield "every right", (), None
    if len(rights) > 1:
        for missing in rights:
            yield f"{missing.operation.name} {missing.name}", tuple(each for each in rights if each is not missing), missing
    yield "nothing", rights, None


def host_of(number: int) -> str:
    """The address of the client of one combination, by its number."""
    return f"127.1.{number >> 8}.{number & 255}"


def rules_for(rights: tuple[Right, ...], host: str) -> list[AclCreation]:
    return [AclCreation(each.resource, each.name, 3, "User:ANONYMOUS", host, each.operation, 3) for each in rights]
