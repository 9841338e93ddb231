"""Bad input to every handler: whatever can be wrong with a request, in one field after the other and in all at once.

bad_requests.py makes them of Kafka's message definitions, so that no handler and no field is left out; what is particular to an
API (broken batches, sessions, generations, names that collide) is in that API's own file. Bytes that are no request at all are in
test_framing.py, test_admin_bytes.py and test_bad_input_bytes.py.

A difference that is meant has its row in differences.py, under "<api> <path> <change>".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from compat_tests.brokers import Address
from compat_tests.wire import SILENT, Wire
from compat_tests.wire_diff.bad_requests import (
    GENERATION,
    Empty,
    Highest,
    Lowest,
    Names,
    Null,
    Shape,
    Twice,
    Wrong,
    changes,
    layouts,
)
from compat_tests.wire_diff.differences import KAFKA_FAILS
from compat_tests.wire_diff.same import compare, normalise, same_answer
from ottla.server.handlers import served
from ottla.wire.api import BY_MODULE
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.wire.primitives import ZERO_UUID

APIS: Final = [api.module for api in served().values() if api.module not in ("get_telemetry_subscriptions", "push_telemetry")]
"""Telemetry is not advertised, and answers a client by what it did before; test_telemetry.py has its fields."""
OF_GROUPS: Final = [
    *("heartbeat", "leave_group", "sync_group", "describe_groups", "delete_groups"),
    *("offset_commit", "offset_fetch", "offset_delete"),
]
WHOLE: Final[dict[str, type[Shape]]] = {
    "defaults": Shape,
    "empty": Empty,
    "null": Null,
    "lowest": Lowest,
    "highest": Highest,
    "twice": Twice,
}
NOT_SENT: Final = {
    "produce all defaults": "acks 0, which is not answered",
    "produce all empty": "acks 0",
    "produce all null": "acks 0",
    "produce acks 0": "acks 0: test_produce.py",
    "produce topic_data.partition_data.records null": "Kafka never answers: P9",
    "offset_commit group_id empty": "founds a group that the other tests' requests without a name would meet",
    "join_group all twice": "Kafka never answers: J-twice",
    "join_group protocols twice": "J-twice",
    "join_group protocols 100 times": "J-twice",
    **{
        f"add_partitions_to_txn {row}": "Kafka never answers: row TC-none"
        for row in ("all empty", "all null", "transactions none")
    },
    "write_txn_markers all twice": "Kafka never answers: T-twice",
    "write_txn_markers markers.topics twice": "T-twice",
    "write_txn_markers markers.topics 100 times": "T-twice",
    "write_txn_markers markers.topics.partition_indexes twice": "T-twice",
    "write_txn_markers markers.topics.partition_indexes 100 times": "T-twice",
    "add_raft_voter listeners.host empty": "Kafka ends: a voter at no host stops a thread of its controller, and so the process",
    "add_raft_voter listeners.name empty": "likewise",
    "unregister_broker broker_id 1": "Kafka's own broker, which would serve nobody any more: URown",
    "alter_configs all twice": "Kafka never answers: AC6",
    "alter_configs resources twice": "Kafka never answers: AC6",
    "alter_configs resources 100 times": "Kafka never answers: AC6",
    "incremental_alter_configs all lowest": "an unknown operation makes Kafka's controller resign: row IAC8",
    "incremental_alter_configs all highest": "row IAC8",
    "incremental_alter_configs resources.configs.config_operation lowest": "row IAC8",
    "incremental_alter_configs resources.configs.config_operation -1": "row IAC8",
    "incremental_alter_configs resources.configs.config_operation highest": "row IAC8",
}
UNKNOWN_SERVER_ERROR: Final = -1
MEMBER: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


@pytest.fixture(scope="session")
def warm_brokers(brokers_apart: list[Address]) -> list[Address]:
    return brokers_apart


def requests(module: str, names: Callable[[str], Names]) -> Iterator[tuple[str, int, Any]]:
    """(row, version, request) of everything that can be wrong. `names` is given a name that no other request has."""
    api = BY_MODULE[module]
    for version in range(api.min_version, api.max_version + 1):
        for change, shape in WHOLE.items():
            yield f"{module} all {change}", version, shape(module, version, names(f"{version}-{change}")).request()
        for number, (path, change) in enumerate(changes(layouts()[module], version)):
            made = Wrong(module, version, names(f"{version}-{number}"), path, change)
            yield f"{module} {path} {change}", version, made.request()


def answers(wire: Wire, module: str, with_group: bool) -> dict[str, dict[int, Any]]:
    """Returns the answers that came, by row and version. Each request that names a group has one of its own, with a member if
    `with_group`."""
    topic = wire.create("t")

    def names(stem: str) -> Names:
        fresh = wire.name(stem)
        return Names(topic, wire.topic_ids[topic], fresh, founded(wire, fresh) if with_group else None)

    found: dict[str, dict[int, Any]] = {}
    for row, version, request in requests(module, names):
        if row in NOT_SENT:
            continue
        answer = wire.call(request, version)
        if not isinstance(answer, str):
            answer = comparable(answer, module, wire)
        found.setdefault(row, {})[version] = normalise(answer, dict(wire.labels))  # each answer by itself, also its session id
    return found


def founded(wire: Wire, group: str) -> str:
    """The only member of a new group, which has its assignment."""
    joining = JoinGroupRequest(group, 30_000, 30_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    member = wire.call(joining, 3).member_id
    assignment = SyncGroupRequestAssignment(member, b"assigned")
    assert wire.call(SyncGroupRequest(group, GENERATION, member, None, None, None, [assignment]), 3).error_code == 0
    wire.label(member, "member")
    return str(member)


def comparable(answer: Any, module: str, wire: Wire) -> Any:
    """Without what each broker chooses or has for itself, and without the other tests' topics and groups."""
    match module:
        case "api_versions":
            return answer.error_code, bool(answer.api_keys)
        case "create_topics":
            for topic in answer.topics:
                topic.topic_id = topic.topic_id != ZERO_UUID
        case "describe_log_dirs":
            for result in answer.results:
                wire.label(result.log_dir, "directory")
                result.total_bytes = result.usable_bytes = 0
                result.topics = own(result.topics, "name", wire)
        case "describe_topic_partitions":
            answer.topics, answer.next_cursor = own(answer.topics, "name", wire), None
        case "elect_leaders":
            answer.replica_election_results = own(answer.replica_election_results, "topic", wire)
        case "init_producer_id":
            answer.producer_id = min(answer.producer_id, 0)
        case "join_group":
            for member in filter(MEMBER.search, (answer.member_id, answer.leader)):
                wire.label(member, MEMBER.sub("uuid", member))
        case "list_config_resources":
            answer.config_resources = own(answer.config_resources, "resource_name", wire)
        case "list_groups":
            answer.groups = own(answer.groups, "group_id", wire)
        case "metadata":
            if len(answer.topics) > 1:  # all topics; some of this test's are still being made
                answer.topics = [topic for topic in answer.topics if topic.name == wire.name("t")]
    return answer


def own(entries: list[Any], name: str, wire: Wire) -> list[Any]:
    return [entry for entry in entries if not getattr(entry, name) or getattr(entry, name).startswith(wire.prefix)]


def codes(answer: Any) -> set[int]:
    """All error codes of a normalised answer."""
    if isinstance(answer, list):
        return {code for entry in answer for code in codes(entry)}
    if not isinstance(answer, dict):
        return set()
    return {code for name, value in answer.items() for code in ({value} if name == "error_code" else codes(value))}


def check_failure(row: str, kafka: dict[int, Any], ottla: dict[int, Any]) -> None:
    """Kafka fails at this row: wherever the answers differ, its own says UNKNOWN_SERVER_ERROR, and ours what the row names."""
    wanted, why = KAFKA_FAILS[row]
    differing = [version for version in kafka if kafka[version] != ottla[version]]
    assert differing, f"{row}: no difference any more, though differences.py names one: {why}"
    for version in differing:
        assert UNKNOWN_SERVER_ERROR in codes(kafka[version]), f"{row}: Kafka's v{version} has no -1: {kafka[version]}"
        assert codes(ottla[version]) == wanted, f"{row}: v{version} of ottla has {codes(ottla[version])}: {ottla[version]}"


def check_all(wires: dict[str, Wire], module: str, with_group: bool = False) -> None:
    kafka, ottla = (answers(wires[kind], module, with_group) for kind in ("kafka", "ottla"))
    failures = []
    for row in kafka:
        try:
            (check_failure if row in KAFKA_FAILS else compare)(row, kafka[row], ottla[row])
        except AssertionError as difference:
            failures.append(str(difference))
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("module", APIS)
def test_every_field(wires: dict[str, Wire], module: str) -> None:
    check_all(wires, module)


@pytest.mark.parametrize("module", OF_GROUPS)
def test_every_field_with_a_member(wires: dict[str, Wire], module: str) -> None:
    """The group of each request is there, and stable, and the member it names is in it."""
    check_all(wires, module, with_group=True)


def test_no_row_is_for_nothing() -> None:
    rows = {row for module in APIS for row, _, _ in requests(module, lambda name: Names("t", ZERO_UUID, name))}
    assert {*NOT_SENT, *KAFKA_FAILS} <= rows


@same_answer("J-twice")
def test_a_protocol_twice(wire: Wire) -> Any:
    protocols = [JoinGroupRequestProtocol("range", b""), JoinGroupRequestProtocol("range", b"")]
    answer = wire.call(
        JoinGroupRequest(wire.name("g"), 30_000, 30_000, "", None, "consumer", protocols), 3, wire.patience_s("kafka")
    )
    return answer if answer == SILENT else answer.error_code
