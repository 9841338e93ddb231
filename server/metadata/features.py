"""Levels of features (KIP-584): what the cluster has agreed on, and how that changes.

A feature's *finalized* level is what every node goes by; it may be raised to what all of them support, and lowered again by who
says that he means it (a safe downgrade, or an unsafe one, which may lose something). Level 0 is the feature turned off.

- `metadata.version` says how metadata is written. It is lowered only past levels that changed nothing in the records.
- `kraft.version` is not kept as a feature's record but as a control record of the log (KIP-853): 1 writes the voters into the
  log. It is never lowered.
- All others are independent of each other.

A request succeeds or fails as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

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
"""The levels of metadata.version that brought new records, or new fields."""

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3
_NO_LEVELS: Final = (0, 0)


class Update(NamedTuple):
    """What a request comes to. `raises_kraft`: kraft.version, which the log writes itself, goes from 0 to 1."""

    records: list[WireStruct]
    raises_kraft: bool
    answer: UpdateFeaturesResponse


def update(image: MetadataImage, supported: Levels, request: UpdateFeaturesRequest) -> Update:
    """`supported` are this node's levels. A feature that is named twice gets the later level, and is answered twice."""
    records: list[WireStruct] = []
    raises_kraft = False
    try:
        for wish in {wish.feature: wish for wish in request.feature_updates}.values():
            _check(image, supported, wish)
            if wish.feature != KRAFT:
                records.append(FeatureLevelRecord(wish.feature, wish.max_version_level))
            elif wish.max_version_level > image.kraft_version:
                raises_kraft = True
    except Refused as refused:
        return Update([], False, UpdateFeaturesResponse(0, refused.code, refused.message))
    results = [UpdatableFeatureResult(wish.feature, ErrorCode.NONE, "NONE") for wish in request.feature_updates]  # Kafka's text
    answer = UpdateFeaturesResponse(0, ErrorCode.NONE, None, results)
    return Update([], False, answer) if request.validate_only else Update(records, raises_kraft, answer)


def _check(image: MetadataImage, supported: Levels, wish: FeatureUpdateKey) -> None:
    """Refused: 95, always."""
    name, level = wish.feature, wish.max_version_level
    if wish.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid(wish, f"{wish.upgrade_type} is no type of upgrade")
    if level < 0:
        raise _invalid(wish, "levels begin at 0")
    if name not in supported:
        raise _invalid(wish, "this node does not know the feature")
    for node, levels in _nodes(image, supported):
        lowest, highest = levels.get(name, _NO_LEVELS)
        if not lowest <= level <= highest:
            raise _invalid(wish, f"{node} supports levels {lowest} to {highest}")
    current = image.finalized.get(name, 0)
    if level < current and wish.upgrade_type == UPGRADE:
        raise _invalid(wish, f"it is {current} now; a lower level has to be asked for as a downgrade, safe or unsafe")
    if level > current and wish.upgrade_type != UPGRADE:
        raise _invalid(wish, f"it is {current} now, and that would be no downgrade")
    if level < current and name == KRAFT:
        raise _invalid(wish, "it cannot be lowered")
    if name == METADATA and any(level < changed <= current for changed in CHANGED_RECORDS):
        raise _invalid(wish, f"it is {current} now, and what has been written since might be lost")


def _nodes(image: MetadataImage, supported: Levels) -> Iterator[tuple[str, Levels]]:
    """Whoever is registered, and this node."""
    yield "this node", supported
    for broker in image.brokers.values():
        yield f"broker {broker.broker_id}", broker.features
    for record in image.kept.values():
        if isinstance(record, RegisterControllerRecord):
            levels = {each.name: (each.min_supported_version, each.max_supported_version) for each in record.features}
            yield f"controller {record.controller_id}", levels


def _invalid(wish: FeatureUpdateKey, why: str) -> Refused:
    text = f"Nothing was changed: {wish.feature or 'a feature without a name'} cannot become {wish.max_version_level}, for {why}."
    return Refused(ErrorCode.INVALID_UPDATE_VERSION, text)
