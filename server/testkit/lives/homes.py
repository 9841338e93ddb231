"""The places of the log directories of a broker for tests, and how a life of it begins with empty ones.

A `Scratch` makes new directories below one that is the test's own, so that nobody waits until the old ones are removed. A `Given`
empties the directories that somebody named, and only if what is in them was written by a test.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from ottla.server.broker.marked_directories import STAYS, is_for_tests
from ottla.server.testkit.disk.memory_disk import remove_for_good
from ottla.server.testkit.fields import Refused

if TYPE_CHECKING:
    from ottla.log.disk.files import Disk


class Home(Protocol):
    """A place where a broker lives."""

    snapshots: str
    """The directory for snapshots, which need not exist yet."""

    def check(self) -> None:
        """Raises Refused if nothing may be deleted here, not even by moving the clock."""

    async def move(self, directories: Sequence[str]) -> list[str]:
        """Returns as many directories as there are in `directories`, for a life that begins with empty ones: they are empty or do
        not exist. The broker that used `directories` is closed. Raises Refused, and OSError."""
        ...

    async def close(self) -> None:
        """Removes what nobody needs after the last life."""


class Scratch:
    """Homes below a directory of which nothing is kept. `remove` removes a directory, now or later."""

    def __init__(self, root: str, remove: Callable[[str], object]) -> None:
        self.snapshots = f"{root}/snapshots"
        self._root = root
        self._remove = remove
        self._lives = 0

    def first(self) -> str:
        """Returns the directory for the first life."""
        return f"{self._root}/data"

    def check(self) -> None:
        """See Home."""

    async def close(self) -> None:
        """See Home. Whoever made the directory removes it."""

    async def move(self, directories: Sequence[str]) -> list[str]:
        """See Home."""
        self._lives += 1
        for directory in directories:
            self._remove(directory)
        return [f"{self._root}/data-{self._lives}-{index}" for index in range(len(directories))]


class Given:
    """Directories that somebody named. `snapshots` is where snapshots go."""

    def __init__(self, disk: Disk, directories: Sequence[str], snapshots: str) -> None:
        self.snapshots = snapshots
        self._disk = disk
        self._kept = next((each for each in directories if not is_for_tests(disk, each)), None)

    def check(self) -> None:
        """See Home."""
        if self._kept is not None:
            raise Refused(
                f"{self._kept} held data before the test, which this would delete; start the broker on an empty directory",
                HTTPStatus.CONFLICT,
            )

    async def close(self) -> None:
        """See Home."""
        if self._disk.exists(self.snapshots):
            await asyncio.get_running_loop().run_in_executor(None, remove_for_good, self._disk, self.snapshots)

    async def move(self, directories: Sequence[str]) -> list[str]:
        """See Home."""
        self.check()
        await asyncio.get_running_loop().run_in_executor(None, partial(self._empty, directories))
        return list(directories)

    def _empty(self, directories: Sequence[str]) -> None:
        for directory in directories:
            for name in set(self._disk.list(directory)) - STAYS:
                path = f"{directory}/{name}"
                if self._disk.is_dir(path):
                    remove_for_good(self._disk, path)
                else:
                    self._disk.remove(path)
