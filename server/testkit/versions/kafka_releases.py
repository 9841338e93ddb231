"""The versions of the APIs that releases of Apache Kafka serve, as these said themselves when they were asked by ApiVersions.

`python -m scripts.kafka_versions 3.3.2 3.5.2 3.7.2 3.9.2 4.0.2 4.1.2 4.2.2 4.3.1` starts each of them, as a single node without
ZooKeeper and as it comes, and prints these numbers: the lowest and the highest version by API key, a column a release, and the
levels that features have in a new cluster.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Release(NamedTuple):
    """The versions that one release serves."""

    ranges: dict[int, tuple[int, int]]
    """The lowest and the highest version, by API key."""
    levels: dict[str, int]
    """The levels of features in a new cluster."""


_NO: Final = "no"
_NAMES: Final = ("3.3", "3.5", "3.7", "3.9", "4.0", "4.1", "4.2", "4.3")
_ROWS: Final = {
    0: "0-9 0-9 0-10 0-11 0-12 0-13 0-13 0-13",
    1: "0-13 0-15 0-16 0-17 4-17 4-18 4-18 4-18",
    2: "0-7 0-8 0-8 0-9 1-10 1-10 1-11 1-11",
    3: "0-12 0-12 0-12 0-12 0-13 0-13 0-13 0-13",
    8: "0-8 0-8 0-9 0-9 2-9 2-9 2-10 2-10",
    9: "0-8 0-8 0-9 0-9 1-9 1-9 1-10 1-10",
    10: "0-4 0-4 0-4 0-6 0-6 0-6 0-6 0-6",
    11: "0-9 0-9 0-9 0-9 0-9 0-9 0-9 0-9",
    12: "0-4 0-4 0-4 0-4 0-4 0-4 0-4 0-4",
    13: "0-5 0-5 0-5 0-5 0-5 0-5 0-5 0-5",
    14: "0-5 0-5 0-5 0-5 0-5 0-5 0-5 0-5",
    15: "0-5 0-5 0-5 0-5 0-6 0-6 0-6 0-6",
    16: "0-4 0-4 0-4 0-5 0-5 0-5 0-5 0-5",
    17: "0-1 0-1 0-1 0-1 0-1 0-1 0-1 0-1",
    18: "0-3 0-3 0-3 0-4 0-4 0-4 0-4 0-4",
    19: "0-7 0-7 0-7 0-7 2-7 2-7 2-7 2-7",
    20: "0-6 0-6 0-6 0-6 1-6 1-6 1-6 1-6",
    21: "0-2 0-2 0-2 0-2 0-2 0-2 0-2 0-2",
    22: "0-4 0-4 0-4 0-5 0-5 0-5 0-5 0-5",
    23: "0-4 0-4 0-4 0-4 2-4 2-4 2-4 2-4",
    24: "0-3 0-3 0-4 0-5 0-5 0-5 0-5 0-5",
    25: "0-3 0-3 0-3 0-4 0-4 0-4 0-4 0-4",
    26: "0-3 0-3 0-3 0-4 0-5 0-5 0-5 0-5",
    27: "0-1 0-1 0-1 0-1 1-1 1-1 1-2 1-2",
    28: "0-3 0-3 0-3 0-4 0-5 0-5 0-5 0-5",
    29: "0-3 0-3 0-3 0-3 1-3 1-3 1-3 1-3",
    30: "0-3 0-3 0-3 0-3 1-3 1-3 1-3 1-3",
    31: "0-3 0-3 0-3 0-3 1-3 1-3 1-3 1-3",
    32: "0-4 0-4 0-4 0-4 1-4 1-4 1-4 1-4",
    33: "0-2 0-2 0-2 0-2 0-2 0-2 0-2 0-2",
    34: "0-2 0-2 0-2 0-2 1-2 1-2 1-2 1-2",
    35: "0-4 0-4 0-4 0-4 1-4 1-4 1-4 1-5",
    36: "0-2 0-2 0-2 0-2 0-2 0-2 0-2 0-2",
    37: "0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3",
    38: "no no 0-3 0-3 1-3 1-3 1-3 1-3",
    39: "no no 0-2 0-2 1-2 1-2 1-2 1-2",
    40: "no no 0-2 0-2 1-2 1-2 1-2 1-2",
    41: "no no 0-3 0-3 1-3 1-3 1-3 1-3",
    42: "0-2 0-2 0-2 0-2 0-2 0-2 0-2 0-2",
    43: "0-2 0-2 0-2 0-2 0-2 0-2 0-2 0-2",
    44: "0-1 0-1 0-1 0-1 0-1 0-1 0-1 0-1",
    45: "0-0 0-0 0-0 0-0 0-0 0-1 0-1 0-1",
    46: "0-0 0-0 0-0 0-0 0-0 0-0 0-0 0-0",
    47: "0-0 0-0 0-0 0-0 0-0 0-0 0-0 0-0",
    48: "0-1 0-1 0-1 0-1 0-1 0-1 0-1 0-1",
    49: "0-1 0-1 0-1 0-1 0-1 0-1 0-1 0-1",
    50: "no 0-0 0-0 0-0 0-0 0-0 0-0 0-0",
    51: "no 0-0 0-0 0-0 0-0 0-0 0-0 0-0",
    55: "0-1 0-1 0-1 0-2 0-2 0-2 0-2 0-2",
    57: "0-1 0-1 0-1 0-1 0-2 0-2 0-2 0-2",
    60: "0-0 0-0 0-1 0-1 0-2 0-2 0-2 0-2",
    61: "0-0 0-0 0-0 0-0 0-0 0-0 0-0 0-0",
    64: "0-0 0-0 0-0 0-0 0-0 0-0 0-0 0-0",
    65: "0-0 0-0 0-0 0-0 0-0 0-0 0-0 0-0",
    66: "0-0 0-0 0-0 0-1 0-1 0-2 0-2 0-2",
    68: "no no 0-0 0-0 0-1 0-1 0-1 0-1",
    69: "no no no 0-0 0-1 0-1 0-1 0-1",
    74: "no no 0-0 0-0 0-0 0-1 0-1 0-1",
    75: "no no no 0-0 0-0 0-0 0-0 0-0",
    76: "no no no no no 1-1 1-1 1-1",
    77: "no no no no no 1-1 1-1 1-1",
    78: "no no no no no 1-1 1-2 1-2",
    79: "no no no no no 1-1 1-2 1-2",
    80: "no no no 0-0 0-0 0-0 0-1 0-1",
    81: "no no no 0-0 0-0 0-0 0-0 0-0",
    83: "no no no no no 0-0 0-0 0-0",
    84: "no no no no no 0-0 0-0 0-0",
    85: "no no no no no 0-0 0-1 0-1",
    86: "no no no no no 0-0 0-0 0-0",
    87: "no no no no no 0-0 0-1 0-1",
    88: "no no no no no no 0-0 0-0",
    89: "no no no no no no 0-0 0-0",
    90: "no no no no no 0-0 0-1 0-1",
    91: "no no no no no 0-0 0-0 0-0",
    92: "no no no no no 0-0 0-0 0-0",
}
_LEVELS: Final[dict[str, dict[str, int]]] = {
    "3.3": {"metadata.version": 7},
    "3.5": {"metadata.version": 11},
    "3.7": {"metadata.version": 19},
    "3.9": {"kraft.version": 1, "metadata.version": 21},
    "4.0": {"group.version": 1, "transaction.version": 2, "kraft.version": 1, "metadata.version": 25},
    "4.1": {
        "group.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
        "kraft.version": 1,
        "metadata.version": 27,
    },
    "4.2": {
        "group.version": 1,
        "kraft.version": 1,
        "share.version": 1,
        "metadata.version": 29,
        "streams.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
    },
    "4.3": {
        "group.version": 1,
        "kraft.version": 1,
        "share.version": 1,
        "metadata.version": 30,
        "streams.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
    },
}


def _column(index: int) -> dict[int, tuple[int, int]]:
    """Returns the ranges of the release in a column."""
    cells = ((key, row.split()[index]) for key, row in _ROWS.items())
    bounds = ((key, cell.partition("-")) for key, cell in cells if cell != _NO)
    return {key: (int(low), int(high)) for key, (low, _, high) in bounds}


RELEASES: Final = {name: Release(_column(index), _LEVELS[name]) for index, name in enumerate(_NAMES)}
"""The releases that can be pretended, by their names, the oldest first."""
