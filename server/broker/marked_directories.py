"""Keeps what a test does away from data that matter: a directory is for tests, or for everything else.

A test may move the clock, after which retention deletes. So a broker with a test port takes only directories that are empty or
that such a broker has marked, and a broker without one takes no marked directory, unless somebody says that its data are to be
kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ottla.log.config_def import ConfigError

if TYPE_CHECKING:
    from ottla.log.disk.files import Disk

MARKER: Final = ".ottla-test"
_TEXT: Final = b"A broker with a test port has written here. Its records may be of any time, and may be deleted at any time.\n"
STAYS: Final = frozenset({MARKER, "lost+found"})
"""The names in a directory that are not a broker's data."""


def is_for_tests(disk: Disk, path: str) -> bool:
    """Returns whether a test may delete what a broker has in a directory: it is marked, or there is nothing. Raises OSError."""
    names = disk.list(path) if disk.is_dir(path) else []
    return MARKER in names or STAYS.issuperset(names)


def check_directories(disk: Disk, directories: Iterable[str], *, under_test: bool, adopt: bool) -> None:
    """Checks that directories may be used, and marks those that are for tests. `adopt` takes the mark away.

    Raises ConfigError if they may not, and OSError.
    """
    for directory in directories:
        marker = f"{directory}/{MARKER}"
        if disk.exists(marker):
            if under_test:
                continue
            if not adopt:
                raise ConfigError(
                    f"log.dirs: {directory} is a test's ({MARKER}); use another directory (--data-dir DIR), give it a test port "
                    "(--test-port N), or keep its data for good (--adopt-test-data)"
                )
            disk.remove(marker)
        elif under_test:
            if not is_for_tests(disk, directory):
                raise ConfigError(
                    f"log.dirs: {directory} has data that are no test's, which a test could delete; use an empty directory "
                    "(--data-dir DIR), or no --test-port"
                )
            disk.makedirs(directory)
            disk.write_bytes(marker, _TEXT)
