"""Finds out whether anything limits the clients of a broker. The code that enforces limits (quotas_in_force.py) is loaded only
then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.metadata.image import BROKER
from ottla.server.settings.listeners import MAX_CREATION_RATE

if TYPE_CHECKING:
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.settings.broker_config import BrokerConfig


def quotas_configured(config: BrokerConfig, image: MetadataImage) -> bool:
    """Returns whether any client has a quota, or `max.connection.creation.rate` is set for the broker or one of its listeners.

    The setting may come from the broker's properties file, or have been set while the broker was running.
    """
    if image.has_quotas:
        return True
    written = (config.texts, image.config_of(BROKER, ""), image.config_of(BROKER, str(config.node_id)))
    return any(name == MAX_CREATION_RATE or name.endswith(f".{MAX_CREATION_RATE}") for texts in written for name in texts)
