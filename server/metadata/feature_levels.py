"""The levels of features that this version of ottla supports, and those with which a new directory begins."""

from __future__ import annotations

from typing import Final

from ottla.server.metadata import eligible
from ottla.wire.metadata_records import METADATA_VERSION, MIN_METADATA_VERSION

GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
TRANSACTION_VERSION: Final = "transaction.version"

SUPPORTED_FEATURES: Final = {
    "metadata.version": (MIN_METADATA_VERSION, METADATA_VERSION),
    "kraft.version": (0, 1),
    TRANSACTION_VERSION: (0, 2),
    GROUP_VERSION: (0, 1),
    SHARE_VERSION: (0, 2),
    STREAMS_VERSION: (0, 1),
    eligible.FEATURE: (0, 1),
}
"""The features that this broker registers, with the (lowest, highest) level. Clients see these and no others; a feature is here
only if it is fully supported."""

FORMATTED_FEATURES: Final = {
    GROUP_VERSION: 1,
    SHARE_VERSION: 2,
    STREAMS_VERSION: 1,
    TRANSACTION_VERSION: 2,
    eligible.FEATURE: 1,
}
"""The features besides metadata.version with which a directory is formatted, as by `kafka-storage format` of 4.4."""

CONTROLLERS_REGISTER: Final = 15
"""The level of metadata.version (3.7-IV0) from which controllers register."""
