"""The levels of features that a cluster has with each release of Apache Kafka, raised while it runs (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from compat_tests.cluster.mixed import Mixed
from compat_tests.waiting import wait_for
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

OLDEST: Final = "3.9-IV0"
"""The oldest metadata.version that a quorum with its voters in the log can begin with."""
RELEASES: Final = {
    "3.9": {"metadata.version": 21},
    "4.0": {"metadata.version": 25, "group.version": 1, "transaction.version": 2},
    "4.1": {"metadata.version": 27, "eligible.leader.replicas.version": 1},
    "4.2": {"metadata.version": 29, "share.version": 1, "streams.version": 1},
    "4.3": {"metadata.version": 30},
    "4.4": {"metadata.version": 33, "share.version": 2},
}
"""The levels that each raises, in order."""
_UPGRADE: Final = 1


def finalized(cluster: Mixed, node: int) -> dict[str, int]:
    """Returns the levels of features that a broker tells its clients."""
    answer = cluster.call(node, ApiVersionsRequest("compat", "1"), 4)
    return {each.name: each.max_version_level for each in answer.finalized_features if each.max_version_level}


def raise_to(cluster: Mixed, release: str, node: int) -> None:
    """Asks a broker to raise the features to those of a release, and waits until all brokers know. Raises AssertionError."""
    raise_features(cluster, RELEASES[release], node)


def raise_features(cluster: Mixed, levels: Mapping[str, int], node: int) -> None:
    """Does what `raise_to` does, to these levels."""
    wishes = [FeatureUpdateKey(name, level, upgrade_type=_UPGRADE) for name, level in levels.items()]
    answer = cluster.call(node, UpdateFeaturesRequest(30_000, wishes), 1)
    assert answer.error_code == 0, f"{levels}: {answer.error_message}"
    assert not [each for each in answer.results if each.error_code], f"{levels}: {answer.results}"

    def are_known() -> bool:
        return all(levels.items() <= finalized(cluster, each).items() for each in cluster.brokers)

    wait_for(are_known, lambda: f"{levels}: {[finalized(cluster, each) for each in cluster.brokers]}\n{cluster.tails()}")
