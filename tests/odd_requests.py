"""Odd requests of every API, made from the generated message classes: a usual one, and the same with one field at an edge after
the other. compat_tests/wire_diff/bad_requests.py does this more thoroughly, from Kafka's definitions, and needs a Kafka.

The fields' types are read from the sources, because compiled classes do not tell them.
"""

from __future__ import annotations

import ast
import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

import ottla.wire.messages
from ottla.wire.api import Api
from ottla.wire.primitives import ZERO_UUID
from tests.log.support import batch

NOBODY: Final = bytes(range(1, 17))
"""An id that nothing has."""
_FOLDER: Final = Path(next(iter(ottla.wire.messages.__path__)))
_NUMBERS: Final = (63, 31, 15, 7)
"""The bits of signed numbers; the source of a message does not say how many a field has."""

Way = tuple[str, ...]
Edge = tuple[str, Sequence[Any]]
"""What is done to a field, and the values for it, of which the first one that can be encoded is taken."""

USUAL: Final[dict[str, Any]] = {
    "acks": -1,
    "transactional_id": "tx",
    "transaction_timeout_ms": 60_000,
    "group_id": "g",
    "group": "g",
    "member_id": "m",
    "timeout_ms": 1000,
    "max_wait_ms": 1,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "max_records": 100,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 2,
    "replica_id": -1,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "protocol_type": "consumer",
    "iterations": 4096,
    "mechanism": 1,
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
    "principal": "User:x",
    "host": "*",
    "resource_name_filter": None,
    "principal_filter": None,
    "host_filter": "*",
    "entity_type": "user",
    "key": "producer_byte_rate",
    "voter_id": 7,
    "leader_epoch": -1,
    "current_leader_epoch": -1,
    "records": batch(3),
}
"""Values of fields that would otherwise get the request refused at once."""


class Field(NamedTuple):
    """A field of a message: its name and its type, as the source spells it."""

    name: str
    type: str

    @property
    def is_array(self) -> bool:
        return self.type.startswith("list[")

    @property
    def is_nullable(self) -> bool:
        return self.type.endswith("| None")

    @property
    def element(self) -> str:
        """Returns the type of a value, or of an array's elements."""
        plain = self.type.removesuffix("| None").strip()
        return plain[len("list[") : -1] if plain.startswith("list[") else plain


@functools.cache
def _fields(module: str) -> dict[str, list[Field]]:
    """Returns the fields of all classes of a module of messages."""
    found: dict[str, list[Field]] = {}
    for node in ast.parse((_FOLDER / f"{module}.py").read_text()).body:
        if isinstance(node, ast.ClassDef):
            makers = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
            arguments = makers[0].args.args[1:] if makers else []
            found[node.name] = [Field(each.arg, ast.unparse(each.annotation)) for each in arguments if each.annotation]
    return found


def requests(api: Api, topic: str, topic_id: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Yields what is odd, the version, and the encoded body of each request; usual ones name the topic."""
    makers = [Maker(api.module, topic, topic_id, copies) for copies in (1, 0, 2)]
    for version in range(api.min_version, api.max_version + 1):
        for maker, what in zip(makers, ("usual", "empty", "twice"), strict=True):
            yield from _encoded(api, version, what, [maker.request(api)])
    usual = makers[0]
    for version in sorted({api.min_version, api.max_version}):
        for path, field in usual.paths(f"{api.name}Request"):
            for what, values in usual.edges(field):
                changed = [usual.request(api, path, value) for value in values]
                yield from _encoded(api, version, f"{'.'.join(path)} {what}", changed)


def _encoded(api: Api, version: int, what: str, tried: Sequence[Any]) -> Iterator[tuple[str, int, bytes]]:
    encode = import_module(f"ottla.wire.messages.{api.module}").ENCODE_REQUEST[version]
    for request in tried:
        parts: list[Any] = []
        try:
            encode(request, parts)
        except (struct.error, TypeError, ValueError, AttributeError, OverflowError, IndexError, AssertionError):
            continue  # no client can say this in this version
        yield what, version, b"".join(parts)
        return


def _repeated(count: int) -> Callable[[list[Any]], list[Any]]:
    return lambda usual: usual * count


class Maker:
    """Makes requests of one API, with so many `copies` of each element in every array."""

    def __init__(self, module: str, topic: str, topic_id: bytes, copies: int) -> None:
        self._messages = import_module(f"ottla.wire.messages.{module}")
        self._topic = topic
        self._fields = _fields(module)
        self._topic_id = topic_id
        self._copies = copies

    def request(self, api: Api, path: Way = (), value: Any = None) -> Any:
        """Returns a request whose field at `path`, in the first element of each array on the way, has this value."""
        return self._struct(f"{api.name}Request", path, value)

    def _struct(self, name: str, path: Way, value: Any) -> Any:
        given: dict[str, Any] = {}
        for field in self._fields[name]:
            if not path or field.name != path[0]:
                given[field.name] = self._usual(field)
            elif len(path) == 1:
                given[field.name] = value(self._usual(field)) if callable(value) else value
            else:
                inner = self._struct(field.element, path[1:], value)
                given[field.name] = [inner] if field.is_array else inner
        return getattr(self._messages, name)(**given)

    def _usual(self, field: Field) -> Any:
        if field.is_array:
            return [self._element(field) for _ in range(self._copies)]
        return self._element(field)

    def _element(self, field: Field) -> Any:
        kind = field.element
        if kind in self._fields:
            return self._struct(kind, (), None)
        if field.name in USUAL and not field.is_array:
            return USUAL[field.name]
        if kind == "str":
            return self._topic if "topic" in field.name or field.name in ("name", "resource_name") else "x"
        if kind in ("bytes", "Buffer"):
            return self._topic_id if field.name.endswith(("_id", "_ids")) else b"x"
        return {"int": 0, "bool": False, "float": 1.0}.get(kind)

    def paths(self, name: str, before: Way = ()) -> Iterator[tuple[Way, Field]]:
        """Yields all fields, those of structs within it as well, with the way to them."""
        for field in self._fields[name]:
            path = (*before, field.name)
            yield path, field
            if field.element in self._fields:
                yield from self.paths(field.element, path)

    def edges(self, field: Field) -> Iterator[Edge]:
        """Yields everything that can be odd about a field by itself."""
        if field.is_nullable:
            yield "null", [None]
        if field.is_array:
            yield from ((what, [_repeated(count)]) for what, count in (("none", 0), ("twice", 2), ("100 times", 100)))
            return
        match field.element:
            case "int":
                yield from ((str(number), [number]) for number in (-2, -1, 0, 1, 2))
                yield "lowest", [-(1 << bits) for bits in _NUMBERS]
                yield "highest", [(1 << bits) - 1 for bits in _NUMBERS]
            case "str":
                yield from (("empty", [""]), ("unknown", ["unknown"]), ("odd", ["a /\0ä"]), ("long", ["l" * 300]))
                yield "longest", ["l" * 32_767]
            case "bytes" | "Buffer":
                yield from (("empty", [b""]), ("zero", [ZERO_UUID]), ("unknown", [NOBODY]), ("garbage", [b"garbage" * 20]))
            case "bool":
                yield "true", [True]
