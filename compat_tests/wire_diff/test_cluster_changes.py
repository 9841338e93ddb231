"""Tests of what an administrator changes of a cluster: SCRAM credentials, levels of features, who belongs to it, who votes.

Others would notice, so these tests have brokers of their own. Those have one voter each, which the log names.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.brokers import Address, one_of_each
from compat_tests.reference.kafka import CLUSTER_ID, NODE_ID
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.same import check, same_answer
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from ottla.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.messages.unregister_controller import UnregisterControllerRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.wire.primitives import ZERO_UUID

BROKER = 4
SHA_256, SHA_512 = 1, 2
UPGRADE, SAFE, UNSAFE = 1, 2, 3


@pytest.fixture(scope="module")
def warm_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Address]]:
    """This file's own, in place of those that all tests share."""
    with one_of_each(tmp_path_factory.mktemp("own")) as addresses:
        yield addresses


# SCRAM


def write(name: str, mechanism: int = SHA_256, iterations: int = 4096, **fields: bytes) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, iterations, **({"salt": b"salt", "salted_password": b"salted"} | fields))


def alter(wire: Wire, *wishes: ScramCredentialDeletion | ScramCredentialUpsertion) -> Any:
    """Alters credentials; when it comes back, what has been done is described."""
    deletions = [wish for wish in wishes if isinstance(wish, ScramCredentialDeletion)]
    upsertions = [wish for wish in wishes if isinstance(wish, ScramCredentialUpsertion)]
    answer = wire.call(AlterUserScramCredentialsRequest(deletions, upsertions), 0)
    done = {result.user for result in answer.results if result.error_code == 0}
    wait_for(lambda: all(is_seen(wire, wish) for wish in wishes if wish.name in done), "the credentials")
    return answer


def is_seen(wire: Wire, wish: ScramCredentialDeletion | ScramCredentialUpsertion) -> bool:
    (found,) = users(wire, wish.name).results
    iterations = {info.mechanism: info.iterations for info in found.credential_infos}
    return iterations.get(wish.mechanism) == (wish.iterations if isinstance(wish, ScramCredentialUpsertion) else None)


def users(wire: Wire, *names: str) -> Any:
    return wire.call(DescribeUserScramCredentialsRequest([UserName(name) for name in names]), 0)


@same_answer("credentials that come, change and go")
def test_credentials_come_change_and_go(wire: Wire) -> Any:
    delete = ScramCredentialDeletion
    seen = [alter(wire, write("u"), write("v", SHA_512, 16384)), users(wire), users(wire, "v", "u", "w", "u", "v", "v")]
    seen += [alter(wire, write("u", SHA_512, 5000), delete("v", SHA_512)), users(wire), users(wire, "u", "v")]
    seen += [alter(wire, write("u", SHA_256, 8192)), users(wire, "u")]
    seen += [alter(wire, delete("u", SHA_256)), alter(wire, delete("u", SHA_256)), users(wire, "u")]
    seen += [alter(wire, delete("u", SHA_512)), alter(wire), users(wire)]
    return seen


SCRAM: dict[str, list[ScramCredentialDeletion | ScramCredentialUpsertion]] = {
    "no name": [write(""), ScramCredentialDeletion("", SHA_256)],
    "no name to delete": [ScramCredentialDeletion("", SHA_256), write("x")],
    "no name and no mechanism": [write("", 0)],
    "mechanisms": [write("a", 0), write("b", 3), write("c", -1), ScramCredentialDeletion("d", 0)],
    "iterations": [write("a", 1, 4095), write("b", 1, 16385), write("c", 2, 0), write("d", 2, -1), write("e", 3, 1)],
    "nothing to delete": [ScramCredentialDeletion("a", SHA_256), ScramCredentialDeletion("b", SHA_512)],
    "twice": [write("a"), write("a", SHA_512)],
    "twice the same": [write("a"), write("a")],
    "three times": [write("a"), write("a"), write("a", 0)],
    "deleted twice": [ScramCredentialDeletion("a", SHA_256), ScramCredentialDeletion("a", SHA_256)],
    "a fault, then again": [write("a", 0), write("a")],
    "deleted and written": [ScramCredentialDeletion("there", SHA_256), write("there", SHA_512)],
    "no salt": [write("there", salt=b"")],
}


@pytest.mark.parametrize("case", SCRAM)
def test_credentials_that_are_refused(wires: dict[str, Wire], case: str) -> None:
    """Beside a user whose credentials stay, and one that is written with those that are not."""

    def scenario(wire: Wire) -> Any:
        alter(wire, write("there"))
        answers = alter(wire, *SCRAM[case], write("other"))
        found = users(wire)
        left = [
            ScramCredentialDeletion(result.user, info.mechanism) for result in found.results for info in result.credential_infos
        ]
        for each in left:
            alter(wire, each)
        return answers, found, users(wire)

    check(wires, "SC2", scenario)


@same_answer("SCempty")
def test_a_credential_without_a_password(wire: Wire) -> Any:
    return [result.error_code for result in alter(wire, write("a", salted_password=b"")).results]


# Features


def update(wire: Wire, version: int, *wishes: tuple[str, int, int], validate_only: bool = False) -> Any:
    """Updates features; when it comes back, ApiVersions shows it: Kafka's broker learns of it some time after its controller has
    answered."""
    keys = [FeatureUpdateKey(name, level, kind != UPGRADE, kind) for name, level, kind in wishes]
    answer = wire.call(UpdateFeaturesRequest(60_000, keys, validate_only), version)
    if answer.error_code == 0 and not validate_only:
        becomes = {name: level for name, level, _ in wishes}
        wait_for(lambda: all(levels(wire, name).get(name, 0) == level for name, level in becomes.items()), "the new levels")
    return answer


def levels(wire: Wire, *names: str) -> dict[str, int]:
    answer = wire.call(ApiVersionsRequest("compat", "1"), 4)
    return {each.name: each.max_version_level for each in answer.finalized_features if each.name in names}


FEATURES: dict[str, list[tuple[str, int, int]]] = {
    "none": [],
    "unknown": [("nope", 1, UPGRADE)],
    "unknown to 0": [("nope", 0, UNSAFE)],
    "no name": [("", 1, UPGRADE)],
    "wrong case": [("Metadata.version", 33, UPGRADE)],
    "as it is": [("metadata.version", 33, UPGRADE), ("transaction.version", 2, UPGRADE)],
    "beyond": [("metadata.version", 34, UPGRADE)],
    "far beyond": [("transaction.version", 32767, UPGRADE)],
    "below": [("metadata.version", 6, UNSAFE)],
    "negative": [("transaction.version", -1, UNSAFE)],
    "no such type": [("transaction.version", 2, 0)],
    "no such type either": [("transaction.version", 2, 4)],
    "down as an upgrade": [("transaction.version", 1, UPGRADE)],
    "down safely": [("transaction.version", 1, SAFE)],
    "down unsafely": [("transaction.version", 0, UNSAFE)],
    "down to where it is": [("transaction.version", 2, SAFE)],
    "metadata down safely": [("metadata.version", 32, SAFE)],
    "metadata down unsafely": [("metadata.version", 20, UNSAFE)],
    "kraft as it is": [("kraft.version", 1, UPGRADE)],
    "kraft beyond": [("kraft.version", 2, UPGRADE)],
    "kraft down": [("kraft.version", 0, SAFE)],
    "kraft down unsafely": [("kraft.version", 0, UNSAFE)],
    "kraft down as an upgrade": [("kraft.version", 0, UPGRADE)],
    "one of two": [("transaction.version", 1, SAFE), ("nope", 1, UPGRADE)],
    "twice": [("transaction.version", 1, SAFE), ("transaction.version", 2, UPGRADE)],
    "twice, the other way": [("transaction.version", 9, UPGRADE), ("transaction.version", 1, SAFE)],
}


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("case", FEATURES)
def test_features(wires: dict[str, Wire], case: str, version: int) -> None:
    """Checked only, then done, then done again; at last things are as they were."""

    def scenario(wire: Wire) -> Any:
        names = "transaction.version", "metadata.version", "kraft.version"
        seen: list[Any] = [levels(wire, *names)]
        for validate_only in (True, False, False) if version else (False, False):
            seen += [update(wire, version, *FEATURES[case], validate_only=validate_only), levels(wire, *names)]
        update(wire, 2, ("transaction.version", 2, UPGRADE))
        return seen, levels(wire, *names)

    check(wires, "UF1", scenario)


OTHERS = ("group.version", 1), ("share.version", 2), ("streams.version", 1), ("eligible.leader.replicas.version", 1)


@pytest.mark.parametrize(("name", "level"), OTHERS)
def test_other_features(wires: dict[str, Wire], name: str, level: int) -> None:
    """Off, and on again, step by step; and what the cluster's settings are then."""

    def scenario(wire: Wire) -> Any:
        steps = [(level, UPGRADE), (0, UPGRADE), (0, SAFE), (0, UNSAFE), (level, SAFE), (level + 1, UPGRADE)]
        steps += [(each, UPGRADE) for each in range(1, level + 1)]
        seen = [(update(wire, 1, (name, *step)), levels(wire, name)) for step in steps]
        return seen, cluster_settings(wire)

    check(wires, "features, one by one", scenario)


def cluster_settings(wire: Wire) -> list[tuple[str, str | None]]:
    resource = DescribeConfigsResource(BROKER, "", None)
    (found,) = wire.call(DescribeConfigsRequest([resource]), 4).results
    return [(config.name, config.value) for config in found.configs]


@pytest.mark.parametrize("version", range(6))
def test_features_as_clients_see_them(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        answer = wire.call(ApiVersionsRequest("compat", "1"), version)
        supported, finalized = sorted(answer.supported_features, key=repr), sorted(answer.finalized_features, key=repr)
        return supported, finalized, answer.finalized_features_epoch >= 0

    check(wires, "features in ApiVersions", scenario)


# Brokers, controllers and voters


@pytest.mark.parametrize("node_id", [NODE_ID + 6, 0, -1, 2**31 - 1])
def test_unregistering_who_is_not_there(wires: dict[str, Wire], node_id: int) -> None:
    def scenario(wire: Wire) -> Any:
        return [wire.call(request(node_id), 0) for request in (UnregisterBrokerRequest, UnregisterControllerRequest)]

    check(wires, "nodes that are not there", scenario)


@same_answer("the active controller")
def test_the_active_controller_stays(wire: Wire) -> Any:
    return wire.call(UnregisterControllerRequest(NODE_ID), 0)


DIRECTORY = b"d" * 16
VOTERS: dict[str, dict[str, Any]] = {
    "out of reach": {},
    "in no cluster": {"cluster_id": None},
    "in another cluster": {"cluster_id": "x"},
    "in a cluster without a name": {"cluster_id": ""},
    "without an id": {"voter_id": -1},
    "without a directory": {"voter_directory_id": ZERO_UUID},
    "that is one already": {"voter_id": NODE_ID},
    "first fault": {"cluster_id": "x", "voter_id": -1},
}
LISTENERS: dict[str, list[Listener]] = {
    "nowhere": [],
    "elsewhere": [Listener("PLAINTEXT", "127.0.0.1", 1)],
    "twice": [Listener("PLAINTEXT", "127.0.0.1", 1), Listener("CONTROLLER", "127.0.0.1", 1)],
    "in small letters": [Listener("controller", "127.0.0.1", 1)],
}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("case", [*VOTERS, *LISTENERS])
def test_add_raft_voter(wires: dict[str, Wire], case: str, version: int) -> None:
    fields: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "timeout_ms": 1000,
        "voter_id": NODE_ID + 6,
        "voter_directory_id": DIRECTORY,
    }
    fields |= VOTERS.get(case, {}) | {"listeners": LISTENERS.get(case, LISTENERS["twice"])}

    def scenario(wire: Wire) -> Any:
        return [wire.call(AddRaftVoterRequest(**fields, ack_when_committed=waits), version) for waits in {True, version == 0}]

    check(wires, "RC", scenario)


@pytest.mark.parametrize("case", VOTERS)
def test_remove_raft_voter(wires: dict[str, Wire], case: str) -> None:
    fields: dict[str, Any] = {"cluster_id": CLUSTER_ID, "voter_id": NODE_ID + 6, "voter_directory_id": DIRECTORY} | VOTERS[case]
    check(wires, "voters that cannot be removed", lambda wire: wire.call(RemoveRaftVoterRequest(**fields), 0))


@same_answer("the last voter")
def test_the_last_voter_stays(wire: Wire) -> Any:
    request = DescribeQuorumRequest([RequestTopicData("__cluster_metadata", [RequestPartitionData(0)])])

    def voters() -> list[Any]:
        ((partition,),) = (topic.partitions for topic in wire.call(request, 2).topics)
        return [(voter.replica_id, voter.replica_directory_id) for voter in partition.current_voters]

    ((node_id, directory_id),) = before = voters()
    assert directory_id != ZERO_UUID
    return wire.call(RemoveRaftVoterRequest(CLUSTER_ID, node_id, directory_id), 0), voters() == before


def test_a_broker_that_is_at_work(wires: dict[str, Wire]) -> None:
    """The last of this file, for Kafka's serves nobody any more, and waits in vain to be let go."""
    check(wires, "URown", lambda wire: wire.call(UnregisterBrokerRequest(NODE_ID), 0).error_code)
    os.kill(wires["kafka"].address.pid, signal.SIGKILL)
    assert [broker.node_id for broker in wires["ottla"].metadata().brokers] == [NODE_ID]
