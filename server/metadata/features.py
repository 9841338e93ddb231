"""The levels of features (KIP-584) that the cluster has agreed on, and how they change.

A feature's *finalized* level is the one that every node uses; it may be raised to what all of them support, and lowered again if
the request explicitly says so (a safe downgrade, or an unsafe one, which may lose something). At level 0 the feature is turned
off.

- `metadata.version` says how metadata is written. It can only be lowered past levels that changed nothing in the records.
- `kraft.version` is not kept as a feature's record but as a control record of the log (KIP-853): 1 writes the voters into the
  log. It is never lowered.
- `eligible.leader.replicas.version` needs a metadata.version that can write such replicas, and fixes min.insync.replicas for the
  cluster (eligible.py).
- All others are independent of each other.

A request succeeds or fails as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ottla.server.metadata import eligible
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.operation import Refused
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.register_controller_record import RegisterControllerRecord
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.wire.primitives import WireStruct

Levels = Mapping[str, tuple[int, int]]
"""Feature -> (lowest, highest) level."""

METADATA: Final = "metadata.version"
KRAFT: Final = "kraft.version"
CHANGED_RECORDS: Final = (7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33)
"""The levels of metadata.version that introduced new records or new fields."""

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3
_NO_LEVELS: Final = (0, 0)
_LOSSES: Final = {
    SAFE_DOWNGRADE: "a safe downgrade must not lose any",
    UNSAFE_DOWNGRADE: "ottla makes no unsafe downgrades",
}


class Update(NamedTuple):
    """The result of a request. `raises_kraft` says that kraft.version, which the log writes itself, rises from 0 to 1."""

    records: list[WireStruct]
    raises_kraft: bool
    answer: UpdateFeaturesResponse


def update(image: MetadataImage, node_id: int, supported: Levels, min_isr: int, request: UpdateFeaturesRequest) -> Update:
    """Carries out UpdateFeatures. `supported` are the levels of this node, `min_isr` is the min.insync.replicas with which it was
    started.

    A feature that is named twice gets the later level, and is in the answer twice.
    """
    records: list[WireStruct] = []
    raises_kraft = False
    try:
        wishes = {wish.feature: wish for wish in request.feature_updates}
        for wish in wishes.values():
            _check(image, node_id, supported, wish)
            _check_dependency(image, wishes, wish)
            if wish.feature == eligible.FEATURE and wish.max_version_level > 0:
                records += eligible.min_isr_records(image, min_isr)
            if wish.feature != KRAFT:
                records.append(FeatureLevelRecord(wish.feature, wish.max_version_level))
            elif wish.max_version_level > image.kraft_version:
                raises_kraft = True
    except Refused as refused:
        return Update([], False, UpdateFeaturesResponse(0, refused.code, refused.message))
    results = [UpdatableFeatureResult(wish.feature, ErrorCode.NONE, "NONE") for wish in request.feature_updates]
    answer = UpdateFeaturesResponse(0, ErrorCode.NONE, None, results)
    return Update([], False, answer) if request.validate_only else Update(records, raises_kraft, answer)


def _check(image: MetadataImage, node_id: int, supported: Levels, wish: FeatureUpdateKey) -> None:
    """Checks the update of one feature by itself. Raises Refused with 95 INVALID_UPDATE_VERSION."""
    name, level = wish.feature, wish.max_version_level
    if wish.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid(wish, f"There is no upgrade type {wish.upgrade_type}.")
    if level < 0:
        raise _invalid(wish, "The lowest level is 0.")
    for node, levels in _nodes(image, node_id, supported):
        lowest, highest = levels.get(name, _NO_LEVELS)
        if not lowest <= level <= highest:
            knows = f"supports the levels {lowest} to {highest}" if highest else "does not know the feature"
            raise _invalid(wish, f"{node} {knows}.")
    if name not in supported:
        raise _invalid(wish, "This controller does not know the feature.")
    current = image.finalized.get(name, 0)
    # Kafka's FeatureCommandTest looks for the words of the next two, and for what _invalid and _refused put before them.
    if level < current and wish.upgrade_type == UPGRADE:
        raise _invalid(
            wish,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.",
        )
    if level > current and wish.upgrade_type != UPGRADE:
        raise _invalid(wish, "Can't downgrade to a newer version.")
    if level < current and name == KRAFT:
        raise _invalid(wish, f"{KRAFT} can never be lowered.")
    if name == METADATA and any(level < changed <= current for changed in CHANGED_RECORDS):
        why = f"a level between them brought new records, and {_LOSSES[wish.upgrade_type]}"
        raise _refused(f"{METADATA} cannot be lowered from {current} to {level}: {why}.")


def _check_dependency(image: MetadataImage, wishes: Mapping[str, FeatureUpdateKey], wish: FeatureUpdateKey) -> None:
    """Checks that the feature's prerequisites hold. Raises Refused with 95 INVALID_UPDATE_VERSION."""
    if wish.feature == eligible.FEATURE and wish.max_version_level > 0:
        metadata = wishes[METADATA].max_version_level if METADATA in wishes else image.metadata_version
        if metadata < eligible.NEEDS:
            raise _invalid(wish, f"It needs {METADATA} {eligible.NEEDS} or higher; this is {metadata}.")


def _nodes(image: MetadataImage, node_id: int, supported: Levels) -> Iterator[tuple[str, Levels]]:
    """Yields the name and the levels of this node and of all others that are registered."""
    yield f"Local controller {node_id}", supported
    for broker in image.brokers.values():
        yield f"Broker {broker.broker_id}", broker.features
    for record in image.kept.values():
        if isinstance(record, RegisterControllerRecord):
            levels = {each.name: (each.min_supported_version, each.max_supported_version) for each in record.features}
            yield f"Controller {record.controller_id}", levels


def _invalid(wish: FeatureUpdateKey, why: str) -> Refused:
    return _refused(f"Invalid update version {wish.max_version_level} for feature {wish.feature}. {why}")


def _refused(why: str) -> Refused:
    whole = "The update failed for all features since the following feature had an error"
    return Refused(ErrorCode.INVALID_UPDATE_VERSION, f"{whole}: {why}")
