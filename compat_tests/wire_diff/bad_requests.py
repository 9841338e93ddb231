"""Requests that are odd on purpose, made of Kafka's own message definitions, for every API alike.

`Plausible` is a request that a client could have sent: one element in every array, the test's topic wherever a topic is named, a
number that makes sense. `Wrong` is the same with one field gone bad. The other shapes are odd in all fields at once.

A field is named by its path: `topics.partitions.fetch_offset`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple

from compat_tests.reference import messages
from compat_tests.reference.definitions import Field, Struct, make_names_unique, snake
from compat_tests.wire import batch
from ottla.wire.primitives import ZERO_UUID

RANGES: Final = {f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)} | {
    "uint16": (0, 65_535),
    "float64": (-sys.float_info.max, sys.float_info.max),
}
NOBODY: Final = bytes(range(1, 17))  # an id that nothing has
LONG: Final = 300  # longer than a topic's name may be


class Names(NamedTuple):
    """The names that a request may refer to. `fresh` is a name of the request's own; only a group may have it, and then with
    `member`."""

    topic: str
    topic_id: bytes
    fresh: str
    member: str | None = None


@cache
def layouts() -> dict[str, Struct]:
    """The root struct of every request, by the module of its API."""
    by_name = {message.name: message for message in messages.definitions() if message.kind in ("request", "response")}
    found = {}
    for name, message in by_name.items():
        if message.kind == "request":
            make_names_unique(message, by_name[name.removesuffix("Request") + "Response"])
            found[snake(name).removesuffix("_request")] = message.root
    return found


PLAUSIBLE: Final[dict[str, dict[str, Any]]] = {
    "alter_client_quotas": {"entries.entity.entity_type": "user", "entries.ops.key": "producer_byte_rate"}
    | {"entries.ops.remove": True, "validate_only": True},  # other tests see that there are none
    "alter_configs": {"resources.resource_type": 2, "resources.configs.name": "retention.ms", "resources.configs.value": "9000"},
    "alter_partition_reassignments": {"topics.partitions.replicas": [1], "timeout_ms": 5000},
    "create_acls": {"creations.principal": "User:u", "creations.host": "*"}
    | {f"creations.{name}": 3 for name in ("resource_type", "resource_pattern_type", "operation", "permission_type")},
    "create_partitions": {"topics.count": 1, "topics.assignments": None, "timeout_ms": 5000},
    "create_topics": {"topics.configs.name": "retention.ms", "topics.configs.value": "9000", "topics.assignments": []}
    | {"topics.num_partitions": 1, "topics.replication_factor": 1, "validate_only": True},
    "delete_acls": {"filters.principal_filter": "User:u", "filters.host_filter": "*"}
    | {f"filters.{name}": 3 for name in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")},
    "delete_topics": {"topics.topic_id": ZERO_UUID, "timeout_ms": 5000},
    "describe_acls": {"principal_filter": "User:u", "host_filter": "*"}
    | dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), 3),
    "describe_client_quotas": {"components.entity_type": "user"},
    "describe_configs": {"resources.resource_type": 2, "resources.configuration_keys": ["retention.ms"]},
    "describe_topic_partitions": {"response_partition_limit": 10},
    "elect_leaders": {"timeout_ms": 5000},
    "fetch": {"max_bytes": 1 << 20, "topics.partitions.partition_max_bytes": 1 << 20},
    "incremental_alter_configs": {"resources.resource_type": 2, "resources.configs.name": "retention.ms"}
    | {"resources.configs.value": "9000"},
    "init_producer_id": {"transactional_id": None, "transaction_timeout_ms": 60_000},
    "join_group": {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000, "protocol_type": "consumer", "member_id": ""},
    "list_config_resources": {"resource_types": [16]},
    "list_groups": {"states_filter": ["Stable"], "types_filter": ["classic"]},
    "list_offsets": {"replica_id": -1},
    "metadata": {"topics.topic_id": ZERO_UUID, "allow_auto_topic_creation": False},
    "offset_for_leader_epoch": {"replica_id": -1},
    "offset_commit": {"member_id": ""},
    "sync_group": {"protocol_type": "consumer", "protocol_name": "range"},
    "add_raft_voter": {"cluster_id": None, "timeout_ms": 1000, "voter_id": 7, "listeners.name": "CONTROLLER", "listeners.port": 1}
    | {"voter_directory_id": NOBODY, "listeners.host": "127.0.0.1"},
    "alter_user_scram_credentials": {"deletions.mechanism": 1, "upsertions.mechanism": 2, "upsertions.iterations": 4096}
    | {"upsertions.salt": b"salt", "upsertions.salted_password": b"salted"},
    "remove_raft_voter": {"cluster_id": None, "voter_id": 7, "voter_directory_id": NOBODY},
    "unregister_broker": {"broker_id": 7},
    "unregister_controller": {"controller_id": 7},
    "update_features": {"feature_updates.feature": "metadata.version", "feature_updates.max_version_level": 33},
    "produce": {"acks": -1, "timeout_ms": 5000, "topic_data.partition_data.records": batch(b"value")},
}
"""The values that the generic rules of Plausible do not guess."""

OF_TOPICS: Final = frozenset({"topic", "topic_name", "topic_names", "resource_name", "name"})


OF_MEMBERS: Final = frozenset({"member_id", "generation_id", "generation_id_or_member_epoch"})
GENERATION: Final = 1


class Shape:
    """Makes requests of one API at one version. This one: one element of defaults in every array."""

    copies: ClassVar[int] = 1

    def __init__(self, module: str, version: int, names: Names) -> None:
        self.module, self.version, self.names = module, version, names
        self._classes = importlib.import_module(f"ottla.wire.messages.{module}")

    def request(self) -> Any:
        return self.struct(layouts()[self.module], "")

    def struct(self, struct: Struct, path: str) -> Any:
        live = [f for f in struct.fields if self.version in f.versions]
        return getattr(self._classes, struct.name)(**{f.name: self.field(f, path + f.name) for f in live})

    def field(self, f: Field, path: str) -> Any:
        return [self.element(f, path) for _ in range(self.copies)] if f.array else self.element(f, path)

    def element(self, f: Field, path: str) -> Any:
        if f.struct is None:
            return self.scalar(f, path)
        return self.struct(f.struct, path + ".") if f.array or not f.none_is_default else None

    def scalar(self, f: Field, path: str) -> Any:
        if f.none_is_default and not f.array:
            return None
        if f.type == "string":
            return "" if f.array else f.default or ""
        if f.type in ("bytes", "records"):
            return b""
        if f.type == "uuid":
            return ZERO_UUID
        if f.type == "bool":
            return f.default in (True, "true")
        return 0 if f.array or f.default in (None, "") else int(str(f.default), 0)


class Empty(Shape):
    """Arrays, strings and bytes of nothing, but no nulls."""

    copies = 0

    def scalar(self, f: Field, path: str) -> Any:
        return "" if f.type == "string" else b"" if f.type in ("bytes", "records") else super().scalar(f, path)


class Null(Empty):
    """Null wherever that can be said."""

    def field(self, f: Field, path: str) -> Any:
        return None if self.version in f.nullable else super().field(f, path)


class Lowest(Shape):
    """Every number at an end of its range, with names of nothing."""

    end: ClassVar[int] = 0

    def scalar(self, f: Field, path: str) -> Any:
        if f.type in RANGES:
            return RANGES[f.type][self.end]
        others = {"string": self.names.fresh, "uuid": NOBODY, "bool": bool(self.end)}
        return others.get(f.type, b"garbage")


class Highest(Lowest):
    end = 1


class Plausible(Shape):
    """Values of a request as a client could have sent it."""

    def field(self, f: Field, path: str) -> Any:
        overrides = PLAUSIBLE.get(self.module, {})
        return overrides[path] if path in overrides else super().field(f, path)

    def scalar(self, f: Field, path: str) -> Any:
        if f.name in OF_MEMBERS and self.names.member:
            return self.names.member if f.type == "string" else GENERATION
        if f.none_is_default and not f.array and f.name not in OF_TOPICS:
            return None
        if f.type == "string":
            return self.names.topic if f.name in OF_TOPICS else f.default or self.names.fresh
        return self.names.topic_id if f.type == "uuid" else super().scalar(f, path)


class Twice(Plausible):
    """Every element of every array twice."""

    copies = 2


class Wrong(Plausible):
    """Plausible but for the field at `path`, to which `change` happened."""

    def __init__(self, module: str, version: int, names: Names, path: str, change: str) -> None:
        super().__init__(module, version, names)
        self.path, self.change = path, change

    def field(self, f: Field, path: str) -> Any:
        if path != self.path:
            return super().field(f, path)
        if self.change == "null":
            return None
        if f.array:
            made = super().field(f, path) or [Plausible.element(self, f, path)]
            return made * {"none": 0, "twice": 2, "100 times": 100}[self.change]
        if f.struct is not None:
            return self.struct(f.struct, path + ".")
        return scalar_changes(f, self.names.fresh)[self.change]


def scalar_changes(f: Field, fresh: str) -> dict[str, Any]:
    """Returns the changes that can be made to a scalar, by name."""
    fresh += "-other"
    if f.type in RANGES:
        low, high = RANGES[f.type]
        small = {} if f.name.endswith("timeout_ms") else {"1": 1, "2": 2}  # as a time it could just suffice, or not
        return {"lowest": low, "-1": max(-1, low), "0": 0, **small, "highest": high}
    changes: dict[str, dict[str, Any]] = {
        "bool": {"false": False, "true": True},
        "string": {"empty": "", "unknown": fresh, "odd": f"{fresh} /\0\u00e4\U0001f600", "long": fresh.ljust(LONG, "l")},
        "uuid": {"zero": ZERO_UUID, "unknown": NOBODY},
    }
    return changes.get(f.type, {"empty": b"", "garbage": b"garbage"})


def changes(struct: Struct, version: int, path: str = "") -> Iterator[tuple[str, str]]:
    """The paths of all fields that the version has, each with all that can happen to it."""
    for f in struct.fields:
        if version not in f.versions:
            continue
        where = path + f.name
        if version in f.nullable:
            yield where, "null"
        of_field = ("none", "twice", "100 times") if f.array else ("present",) if f.struct else scalar_changes(f, "")
        yield from ((where, change) for change in of_field)
        if f.struct:
            yield from changes(f.struct, version, where + ".")
