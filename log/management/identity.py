"""Makes log directories, and sees to it that what is in one belongs to the id under which it is formatted (KIP-858)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from random import Random
from typing import Final

from ottla.log.disk import checkpoint
from ottla.log.disk.checkpoint import MetaProperties
from ottla.log.disk.files import Disk
from ottla.log.errors import InconsistentMetadata

METADATA_TOPIC: Final = "__cluster_metadata"

_RESERVED_IDS: Final = (bytes(16), bytes(15) + b"\x01", bytes(15) + b"\x02")  # KIP-858: unassigned, lost, migrating


def make_directory(disk: Disk, path: str) -> None:
    """Makes a log directory, for its owner alone, with its parents, and durably: what is synced in a directory whose own name is
    lost is lost too. One that exists stays as it is. Raises OSError."""
    missing = []
    above = path
    while not disk.is_dir(above or "."):  # if a file is in the way, the error names that file
        missing.append(above)
        above = os.path.dirname(above)
    for made in reversed(missing):
        disk.makedirs(made, private=made == path)
        disk.sync_dir(os.path.dirname(made) or ".")


def check_empty(disk: Disk, path: str, formatted: Iterable[MetaProperties | None]) -> None:
    """Raises InconsistentMetadata if a directory that is not formatted holds the metadata log, or anything where others are
    (`formatted` has what is known of each directory): under a new id its content would belong to another directory.
    """
    if disk.exists(path):
        held = [name for name in disk.list(path) if disk.is_dir(f"{path}/{name}") and name != "lost+found"]
        others = any(meta is not None for meta in formatted)
        if held and (others or f"{METADATA_TOPIC}-0" in held):
            raise InconsistentMetadata(f"{path} holds {held[0]} but has lost its {checkpoint.META_PROPERTIES}; restore that file")


def new_directory_id(random: Random) -> bytes:
    """Returns a random id that is not reserved and whose text does not begin with a dash, which command lines would take for an
    option.
    """
    while True:
        uuid = random.randbytes(16)
        if uuid not in _RESERVED_IDS and not checkpoint.uuid_text(uuid).startswith("-"):
            return uuid
