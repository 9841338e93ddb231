"""Eligible leader replicas (KIP-966): what `eligible.leader.replicas.version` 1 asks of the settings.

A replica that leaves the in-sync replicas when there are only `min.insync.replicas` of them stays eligible to lead, because it
has all that was committed. Which replicas are eligible, and which one wins, is decided where partitions change:
lost_directories.py, standalone_elections.py, elect_leaders.py. All nodes must use the same number. So it is recorded for the
whole cluster, by the first leader or when the feature is turned on, cannot be removed, and cannot be set for one broker. When
it changes, no replica stays eligible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.server.metadata.image import BROKER, TOPIC, MetadataImage

if TYPE_CHECKING:
    from ottla.wire.primitives import WireStruct

FEATURE: Final = "eligible.leader.replicas.version"
MIN_ISR: Final = "min.insync.replicas"
NEEDS: Final = 23
"""metadata.version 4.0-IV1, the first whose records can name eligible replicas."""


def is_on(image: MetadataImage) -> bool:
    return image.features.get(FEATURE, 0) > 0


def check(image: MetadataImage, kind: int, name: str, changes: Mapping[str, str | None]) -> None:
    """Checks changes to the settings of one resource, where None removes one. Raises Refused with 40 INVALID_CONFIG."""
    if kind != BROKER or MIN_ISR not in changes or not is_on(image):
        return
    from ottla.server.metadata.operation import Refused
    from ottla.wire.errors import ErrorCode

    if name:
        raise Refused(ErrorCode.INVALID_CONFIG, f"While {FEATURE} is on, {MIN_ISR} cannot be set for a single broker.")
    if changes[MIN_ISR] is None:
        raise Refused(
            ErrorCode.INVALID_CONFIG, f"While {FEATURE} is on, {MIN_ISR} of all brokers can be changed but not removed."
        )


def clearing_records(image: MetadataImage, changes: Iterable[WireStruct]) -> list[WireStruct]:
    """Returns the records that must accompany these: a setting that changes the number clears the replicas eligible by the old
    one."""
    if not is_on(image):
        return []
    from ottla.wire.messages.internal.clear_elr_record import ClearElrRecord
    from ottla.wire.messages.internal.config_record import ConfigRecord

    return [
        ClearElrRecord(record.resource_name if record.resource_type == TOPIC else "")
        for record in changes
        if isinstance(record, ConfigRecord) and record.name == MIN_ISR
    ]


def min_isr_records(image: MetadataImage, min_isr: int) -> list[WireStruct]:
    """Returns the records that set the number for the cluster when the feature is turned on: `min_isr`, unless it is set
    already."""
    from ottla.wire.messages.internal.config_record import ConfigRecord

    records: list[WireStruct] = []
    if MIN_ISR not in image.config_of(BROKER, ""):
        records.append(ConfigRecord(BROKER, "", MIN_ISR, str(min_isr)))
    own = [name for (kind, name), texts in image.configs.items() if kind == BROKER and name and MIN_ISR in texts]
    return records + [ConfigRecord(BROKER, name, MIN_ISR, None) for name in own]
