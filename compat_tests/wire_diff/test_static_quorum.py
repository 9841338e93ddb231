"""A quorum that the configuration names (controller.quorum.voters, kraft.version 0): what of it can be changed, and that raising
kraft.version puts it into the log. A quorum that is there already: test_cluster_changes.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.brokers import Address, Ottla
from compat_tests.reference.kafka import NODE_ID, BrokerProcess, RealKafka
from compat_tests.wire import Wire
from compat_tests.wire_diff.conftest import warm
from compat_tests.wire_diff.same import check, same_answer
from compat_tests.wire_diff.test_cluster_changes import (
    DIRECTORY,
    LISTENERS,
    SAFE,
    UNSAFE,
    UPGRADE,
    VOTERS,
    levels,
    update,
)
from compat_tests.wire_diff.test_elections import quorum
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.wire.primitives import ZERO_UUID

KRAFT = "kraft.version"


def with_static_voters(broker: BrokerProcess) -> BrokerProcess:
    broker.settings["controller.quorum.voters"] = f"{NODE_ID}@{broker.settings.pop('controller.quorum.bootstrap.servers')}"
    return broker


class StaticKafka(RealKafka):
    format_options = ()


@pytest.fixture(scope="module")
def warm_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Address]]:
    """This file's own, in place of those that all tests share."""
    brokers = [with_static_voters(kind(directory(tmp_path_factory))) for kind in (Ottla, StaticKafka)]
    try:
        for broker in brokers:
            broker.start()
        yield warm([Address(broker.kind, broker.port, 0, str(broker.log_file)) for broker in brokers])
    finally:
        for broker in brokers:
            broker.stop()


def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("static") / "broker"


def voter_directories(wire: Wire) -> list[tuple[int, bool]]:
    """Returns the voters, each with whether its directory is known."""
    ((partition,),) = (topic.partitions for topic in quorum(wire, 2, ("__cluster_metadata", [0])).topics)
    return [(voter.replica_id, voter.replica_directory_id != ZERO_UUID) for voter in partition.current_voters]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("case", [*VOTERS, *LISTENERS])
def test_add_raft_voter(wires: dict[str, Wire], case: str, version: int) -> None:
    fields: dict[str, Any] = {"cluster_id": None, "timeout_ms": 1000, "voter_id": NODE_ID + 6, "voter_directory_id": DIRECTORY}
    fields |= VOTERS.get(case, {}) | {"listeners": LISTENERS.get(case, LISTENERS["twice"])}
    check(wires, "voters to add to a static quorum", lambda wire: wire.call(AddRaftVoterRequest(**fields), version))


@pytest.mark.parametrize("case", VOTERS)
def test_remove_raft_voter(wires: dict[str, Wire], case: str) -> None:
    fields: dict[str, Any] = {"cluster_id": None, "voter_id": NODE_ID + 6, "voter_directory_id": DIRECTORY} | VOTERS[case]
    check(wires, "voters to remove from a static quorum", lambda wire: wire.call(RemoveRaftVoterRequest(**fields), 0))


@same_answer("voters that move into the log")
def test_voters_move_into_the_log_for_good(wire: Wire) -> Any:
    """The last of this file. (Kafka raises kraft.version even where the request is refused for another feature, so that is not
    asked.)
    """
    steps = [(0, UPGRADE), (0, SAFE), (1, SAFE), (1, UNSAFE), (2, UPGRADE), (-1, UNSAFE)]
    seen: list[Any] = [voter_directories(wire), levels(wire, KRAFT)]
    seen += [update(wire, 1, (KRAFT, *step)) for step in steps]
    seen += [update(wire, 1, (KRAFT, 1, UPGRADE), validate_only=True), levels(wire, KRAFT), voter_directories(wire)]
    for version in range(3):
        seen += [update(wire, version, (KRAFT, 1, UPGRADE)), levels(wire, KRAFT), voter_directories(wire)]
    seen += [update(wire, 1, (KRAFT, 0, kind)) for kind in (UPGRADE, SAFE, UNSAFE)]
    seen.append(wire.call(RemoveRaftVoterRequest(None, NODE_ID, DIRECTORY), 0))
    return seen
