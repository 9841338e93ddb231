"""The levels of features that this version of ottla knows: what it offers, and what a new directory begins with."""

from __future__ import annotations

from typing import Final

from ottla.server.metadata import eligible
from ottla.wire.metadata_records import METADATA_VERSION, MIN_METADATA_VERSION

SUPPORTED_FEATURES: Final = {
    "metadata.version": (MIN_METADATA_VERSION, METADATA_VERSION),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "share.version": (0, 2),
    "streams.version": (0, 1),
    eligible.FEATURE: (0, 1),
}
"""What this broker registers as able to do: (lowest, highest) level. Clients are shown these and no others; a feature is here
once its promises are kept."""

FORMATTED_FEATURES: Final = {
    "group.version": 1,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
    eligible.FEATURE: 1,
}
"""What else than metadata.version a directory is formatted with, as `kafka-storage format` of 4.4 does."""

CONTROLLERS_REGISTER: Final = 15
"""The level of metadata.version (3.7-IV0) from which controllers register."""
