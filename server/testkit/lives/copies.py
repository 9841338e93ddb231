"""Copies of log directories, made while nothing else runs: what a process that is killed at this moment would leave.

A large segment that is not the last of its partition is linked and not copied, where the disk can link: nothing is appended to it
any more. What replaces or deletes it makes another file, or takes the name away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.log.names import LOG_SUFFIX
from ottla.server.broker.marked_directories import MARKER

if TYPE_CHECKING:
    from ottla.log.disk.files import Disk

Link = Callable[[str, str], object]
"""Gives a file a second name, as os.link does."""

LINKED_BYTES: Final = 1024 * 1024
"""Segments from this size on are linked: below, a copy takes no longer, and whoever damages it for a test damages it alone."""
PIECE_BYTES: Final = 4 * 1024 * 1024
NOT_COPIED: Final = frozenset({".lock", MARKER})
"""A process that closes any descriptor of the lock loses the lock that it has. The mark is the directory's, not the data's."""


def copy_tree(disk: Disk, source: str, target: str, link: Link | None = None) -> int:
    """Copies a directory with what is in it to a new one; returns how many files. Raises OSError."""
    disk.makedirs(target)
    names = disk.list(source)
    last_segment = max((name for name in names if name.endswith(LOG_SUFFIX)), default=None)
    copied = 0
    for name in names:
        old, new = f"{source}/{name}", f"{target}/{name}"
        if disk.is_dir(old):
            copied += copy_tree(disk, old, new, link)
        elif name not in NOT_COPIED:
            closed = name.endswith(LOG_SUFFIX) and name != last_segment
            if link is not None and closed and disk.size(old) >= LINKED_BYTES:
                link(old, new)
            else:
                _copy(disk, old, new)
            copied += 1
    return copied


def _copy(disk: Disk, old: str, new: str) -> None:
    source, target = disk.open(old), disk.open(new, create=True)
    try:
        while piece := source.pread(min(PIECE_BYTES, source.size - target.size), target.size):
            target.append([piece])
    finally:
        source.close()
        target.close()
    if old.endswith(LOG_SUFFIX):
        disk.set_modified_ms(new, disk.modified_ms(old))
