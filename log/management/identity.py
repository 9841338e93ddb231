"""Makes log directories, and sees to it that what is in one belongs to the id under which it is formatted (KIP-858).

A directory is formatted once, by a broker's start or by `ottla format`: it gets a meta.properties that names the cluster, the
node and the directory itself, for life. Whoever formats several first checks all of them, and writes nothing if one does not fit.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from random import Random
from typing import Final, NamedTuple

from ottla.log.disk import checkpoint
from ottla.log.disk.checkpoint import MetaProperties
from ottla.log.disk.files import Disk
from ottla.log.errors import InconsistentMetadata

METADATA_TOPIC: Final = "__cluster_metadata"

_log = logging.getLogger("ottla.log.manager")

_RESERVED_IDS: Final = (bytes(16), bytes(15) + b"\x01", bytes(15) + b"\x02")  # KIP-858: unassigned, lost, migrating


class Identities(NamedTuple):
    """The identities that several log directories state, by path."""

    formatted: dict[str, MetaProperties]
    new: list[str]
    """The paths of those that are not formatted, or do not exist."""
    unreadable: dict[str, OSError]


def meta_path(directory: str) -> str:
    """Returns where the meta.properties of a directory is."""
    return f"{directory}/{checkpoint.META_PROPERTIES}"


def read_identities(disk: Disk, paths: Iterable[str]) -> Identities:
    """Reads the meta.properties of directories, which need not exist. Raises InconsistentMetadata if one makes no sense."""
    found = Identities({}, [], {})
    for path in dict.fromkeys(paths):
        try:
            meta = checkpoint.read_meta_properties(disk, meta_path(path))
        except OSError as error:
            found.unreadable[path] = error
            continue
        if meta is None:
            found.new.append(path)
        else:
            found.formatted[path] = meta
    return found


def check_owner(formatted: Mapping[str, MetaProperties], cluster_id: str, node_id: int) -> None:
    """Raises InconsistentMetadata unless all these directories belong to the node, each by an id of its own."""
    for path, meta in formatted.items():
        if (meta.cluster_id, meta.node_id) != (cluster_id, node_id):
            raise InconsistentMetadata(
                f"{path} belongs to node {meta.node_id} of cluster {meta.cluster_id}; this is node {node_id} of {cluster_id}"
            )
    if len({meta.directory_id for meta in formatted.values()}) < len(formatted):
        raise InconsistentMetadata(f"two of {', '.join(formatted)} have the same directory.id")


def write_identity(disk: Disk, path: str, cluster_id: str, node_id: int, random: Random, now_ms: int) -> MetaProperties:
    """Formats a directory that exists; returns what it is now. Raises OSError."""
    meta = MetaProperties(cluster_id, node_id, checkpoint.uuid_text(new_directory_id(random)))
    disk.write_bytes(meta_path(path), checkpoint.encode_meta_properties(meta, now_ms))
    _log.info("formatted %s for cluster %s, node %d", path, cluster_id, node_id)
    return meta


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
