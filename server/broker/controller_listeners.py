"""Opens the listeners of this node as a controller, which only administrators use, the last of all listeners."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.server.network.listener import Listener
    from ottla.server.network.socket_settings import SocketSettings
    from ottla.server.settings.listeners import ListenerAddress

logger = logging.getLogger("ottla.server.broker")


async def open_controller_listeners(
    made: Iterable[tuple[ListenerAddress, Listener]], settings: SocketSettings, opened: list[Listener]
) -> None:
    """Opens the listeners that were `made`, and adds those that listen to `opened`. A failure is only logged, because no client
    of the broker depends on them, and a file may still have their old address although --port moved the broker.

    A listener with port 0 stays closed, because the metadata has the addresses of controllers before any port is bound.
    """
    for address, listener in made:
        listener.settings = settings
        try:
            await listener.open(address.host, address.port)
            await listener.accept()
        except OSError as error:
            listener.stop_accepting()
            logger.warning("listeners: cannot open %s, so the controller has no address of its own: %s", address, error)
        else:
            opened.append(listener)
