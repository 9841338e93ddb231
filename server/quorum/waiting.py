"""`ImageWaits`: lets whoever has asked the controllers for something wait until the local image shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.server.base.clock import wait_at_most

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.metadata.image import MetadataImage


class ImageWaits:
    """Conditions on the image and those who wait for them. `look` is called when the image may have changed.

    While the events of a change are still going out, no condition holds: whoever waits wants the broker to know of it as well.
    """

    def __init__(self, clock: Clock, image: MetadataImage) -> None:
        self._clock = clock
        self._image = image
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Waits until the condition holds, at most so long; returns whether it does."""
        if self._holds(condition):
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = condition
        try:
            return await wait_at_most(self._clock, seconds, (future,))
        finally:
            self._waiting.pop(future, None)

    def look(self) -> None:
        """Wakes those whose condition holds now."""
        for future, condition in list(self._waiting.items()):
            if not future.done() and self._holds(condition):
                future.set_result(None)

    def _holds(self, condition: Callable[[], bool]) -> bool:
        return not self._image.is_reporting and condition()
