"""Send the same to ottla and to Apache Kafka, compare what comes back, field by field.

A scenario is a function of one `Wire` that returns responses, lists of them, CLOSED or SILENT; `@same_answer("P6")` makes it a
test that runs it against both brokers and compares. A comparison goes by one of the rows of docs/kafka-behaviour.md that
edge_cases.py gives to its test, or by words if it has none (tests/test_citations.py); where we differ on purpose, differences.py
has an entry by that name, and the test fails when the difference is not seen.

What may differ between two brokers that behave the same is masked (MASKS), and only that. The cluster id and the node id are
equal by configuration.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from compat_tests.seen import LEDGER
from compat_tests.wire import Wire
from compat_tests.wire_diff.differences import DELIBERATE
from ottla.wire.primitives import WireStruct

Scenario = Callable[[Wire], Any]
WORDING = frozenset({"error_message", "batch_index_error_message", "acknowledge_error_message", "documentation", "status_detail"})
IN_ORDER: Final = frozenset(
    {
        "alter_partition_reassignments.partitions",
        "alter_partition_reassignments.responses",
        "api_versions.api_keys",
        "create_acls.results",
        "create_topics.configs",
        "delete_acls.filter_results",
        "describe_client_quotas.entity",
        "describe_configs.results",
        "describe_configs.synonyms",
        "describe_producers.partitions",
        "describe_quorum.partitions",
        "describe_quorum.topics",
        "describe_share_group_offsets.groups",
        "describe_topic_partitions.partitions",
        "describe_topic_partitions.topics",
        "elect_leaders.partition_result",
        "elect_leaders.replica_election_results",
        "fetch.aborted_transactions",
        "fetch.responses",
        "find_coordinator.coordinators",
        "internal.consumer_group_member_metadata_value.supported_protocols",
        "leave_group.members",
        "metadata.partitions",
        "offset_commit.partitions",
        "offset_commit.topics",
        "offset_delete.partitions",
        "offset_delete.topics",
        "offset_fetch.groups",
        "offset_for_leader_epoch.topics",
        "read_share_group_state.state_batches",
        "share_fetch.acquired_records",
        "txn_offset_commit.partitions",
        "txn_offset_commit.topics",
    }
)
"""The lists of structures whose order means something, by message and field: it is that of the request, or one comes before the
other, or offsets, keys, names and numbers ascend."""
_NOW_MS: Final = 120_000
"""The most by which a broker's clock may differ from ours, in ms, for a time to be that of the test."""


class Mask(NamedTuple):
    what: str
    why: str


MASKS: Final = (
    Mask(
        "ids of topics, members and producers become the label that the scenario gave them",
        "brokers draw them; that an id comes again is compared",
    ),
    Mask(
        "the id of a fetch session becomes `<session 1>`, `<session 2>` and so on, in the order in which they first come",
        "brokers draw them; that there is none, and that an id comes again, is compared",
    ),
    Mask("the port that was asked becomes `<port>`, another one `<another port>`", "each broker has ports of its own"),
    Mask("`log_append_time_ms` becomes `<now>` if it is within two minutes of the test's clock", "clocks"),
    Mask(
        "error messages, status details and documentation become `<text>`",
        "wording; that there is none, or an empty one, is compared",
    ),
    Mask(
        f"the order of the structures in a list, except in {', '.join(f'`{name}`' for name in sorted(IN_ORDER))}",
        "Kafka takes it from hash maps, and no client relies on it",
    ),
)
"""The fields that are masked and the reasons, for the report."""


def normalise(value: Any, labels: dict[Any, str], field: str = "") -> Any:
    """Plain dicts, lists and scalars, with the masks above. A scenario's own lists, which are in no message, keep their order."""
    LEDGER.taken(value)
    if isinstance(value, WireStruct):
        return {name: _normalise_field(getattr(value, name), labels, name) for name in value.__slots__}
    if isinstance(value, dict):
        return {key: normalise(entry, labels, str(key)) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [normalise(entry, labels, field) for entry in value]
    if isinstance(value, memoryview | bytearray):
        value = bytes(value)
    return masked(value, labels, field)


def _normalise_field(value: Any, labels: dict[Any, str], field: str) -> Any:
    """Returns the field of a message; a list of structures whose order means nothing is sorted."""
    plain = normalise(value, labels, field)
    if isinstance(value, list | tuple) and value and isinstance(value[0], WireStruct):
        return plain if _list_name(value[0], field) in IN_ORDER else sorted(plain, key=repr)
    return plain


def _list_name(entry: WireStruct, field: str) -> str:
    """Returns the name of a list in IN_ORDER by one of its entries: that of the message's module, and the field."""
    return f"{type(entry).__module__.removeprefix('ottla.wire.messages.')}.{field}"


def masked(value: Any, labels: dict[Any, str], field: str) -> Any:
    if field == "port" and isinstance(value, int):  # and not what a scenario has masked itself
        return labels.get(("port", value), "<another port>" if value > 0 else value)
    if field in WORDING and value:
        return "<text>"
    if field == "log_append_time_ms" and is_now(value):
        return "<now>"
    if field == "session_id" and value:
        sessions = sum(1 for key in labels if isinstance(key, tuple) and key[0] == "session")
        return labels.setdefault(("session", value), f"<session {sessions + 1}>")
    if field == "producer_id":
        return labels.get(("producer", value), value)
    if isinstance(value, str | bytes) and value:
        return labels.get(value, value)
    return value


def is_now(value: Any) -> bool:
    """Returns whether a value is a time in ms about now."""
    return isinstance(value, int) and abs(value - time.time() * 1000) < _NOW_MS


def differences(kafka: Any, ottla: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """(path, Kafka's value, ottla's value) wherever two normalised answers are unequal."""
    if isinstance(kafka, dict) and isinstance(ottla, dict) and kafka.keys() == ottla.keys():
        return [d for key in kafka for d in differences(kafka[key], ottla[key], f"{path}.{key}")]
    if isinstance(kafka, list) and isinstance(ottla, list) and len(kafka) == len(ottla):
        return [d for n, pair in enumerate(zip(kafka, ottla, strict=True)) for d in differences(*pair, f"{path}[{n}]")]
    return [] if kafka == ottla else [(path, kafka, ottla)]


def compare(row: str, kafka: Any, ottla: Any) -> None:
    found = differences(kafka, ottla)
    if row in DELIBERATE:
        wanted = DELIBERATE[row]
        seen = [(re.sub(r".*\.|\[\d+\]", "", path), theirs, ours) for path, theirs, ours in found]
        assert seen, f"{row}: no difference any more, though differences.py names one: {wanted.why}"
        assert set(map(repr, seen)) == {repr((wanted.field, wanted.kafka, wanted.ottla))}, f"{row}: {seen}"
        LEDGER.held()
        return
    lines = [f"  {path or 'answer'}: Kafka {theirs!r}, ottla {ours!r}" for path, theirs, ours in found]
    assert not found, f"{row}: {len(found)} differences\n" + "\n".join(lines[:30])
    LEDGER.held()


def check(wires: dict[str, Wire], row: str, scenario: Scenario) -> None:
    """Run a scenario against both brokers and compare what it returns."""
    answers = {kind: normalise(scenario(wire), wire.labels) for kind, wire in wires.items()}
    compare(row, answers["kafka"], answers["ottla"])


def same_answer(row: str) -> Callable[[Scenario], Callable[[dict[str, Wire]], None]]:
    """Make a scenario a test of both brokers. A test with parameters calls `check` itself."""

    def decorate(scenario: Scenario) -> Callable[[dict[str, Wire]], None]:
        def test(wires: dict[str, Wire]) -> None:
            check(wires, row, scenario)

        test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
        return test

    return decorate
