"""The names of files and directories in a log directory. Their endings say what they are, and all of them are Kafka's.

A segment's files are named by its base offset in 20 digits. While a file is not yet, or no longer, part of the log, its name has
one more suffix: `.cleaned`, `.swap`, `.deleted` or `.tmp` (`log.opening.temporary_files` explains them).

A partition's directory is `<topic>-<partition>`. A directory that is not yet, or no longer, a partition's is
`<topic>-<partition>.<32 hex digits><suffix>`; the digits are random, so that a topic of the same name can be made and deleted
again.
"""

from __future__ import annotations

import re
from random import Random
from typing import Final

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TMP_SUFFIX: Final = ".tmp"

DAMAGED_SUFFIX: Final = ".damaged"
"""Ends the name of a file with what a start or `ottla log repair` took out of a log: `<segment>.log.<position>.damaged`."""

DELETE_DIR_SUFFIX: Final = "-delete"
"""The directory is removed after `file.delete.delay.ms`, or by the next start."""
STRAY_DIR_SUFFIX: Final = "-stray"
"""No topic claims the directory: a crash came between the deletion of a topic and that of its files, or the metadata is lost. As
in Kafka it is out of the way and never removed."""
FUTURE_DIR_SUFFIX: Final = "-future"
"""The directory holds a copy on its way to another log directory (log/management/moving.py)."""

NO_OFFSET: Final = -1
_OFFSET_DIGITS: Final = 20
_MAX_OFFSET: Final = 2**63 - 1
_MAX_NAME_BYTES: Final = 255
_FILE_SUFFIXES: Final = frozenset(
    suffix + temporary
    for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX)
    for temporary in ("", DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TMP_SUFFIX)
)
_MAX_PARTITION: Final = 2**31 - 1
_FUTURE_NAME: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>0|[1-9][0-9]{0,9})\.[0-9a-f]{32}-future")


def offset_name(offset: int) -> str:
    """Returns an offset as file names have it: 20 digits."""
    return f"{offset:020d}"


def offset_in(name: str) -> int:
    """Returns the offset in the name of a segment's or snapshot's file; NO_OFFSET for any other name, such as that of a copy made
    by hand.
    """
    digits = name[:_OFFSET_DIGITS]
    if name[_OFFSET_DIGITS:] not in _FILE_SUFFIXES or not (digits.isascii() and digits.isdigit()):
        return NO_OFFSET
    offset = int(digits)
    return offset if offset <= _MAX_OFFSET else NO_OFFSET


def retired_directory_name(topic: str, partition: int, random: Random, suffix: str) -> str:
    """Returns a new name for the directory of a partition that is removed; a long topic name is cut to fit the file system."""
    ending = f"-{partition}.{random.getrandbits(128):032x}{suffix}"
    return f"{topic[: _MAX_NAME_BYTES - len(ending)]}{ending}"


def future_directory_name(topic: str, partition: int, random: Random) -> str:
    """Returns a name for the directory of a partition's copy."""
    return f"{topic}-{partition}.{random.getrandbits(128):032x}{FUTURE_DIR_SUFFIX}"


def future_name_fits(topic: str, partition: int) -> bool:
    """Returns whether the file system allows `future_directory_name`: with a topic of 200 characters or more it is too long."""
    return len(topic) + len(f"-{partition}.{'0' * 32}{FUTURE_DIR_SUFFIX}") <= _MAX_NAME_BYTES


def parse_future_name(name: str) -> tuple[str, int] | None:
    """Returns (topic, partition) of the directory of a partition's copy; None if the name is not that of such a directory."""
    match = _FUTURE_NAME.fullmatch(name)
    if match is None or (partition := int(match["partition"])) > _MAX_PARTITION:
        return None
    return match["topic"], partition
