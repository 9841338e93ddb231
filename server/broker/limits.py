"""Finds out whether anything limits the clients of a broker. The code that enforces limits (quotas_in_force.py) is loaded only
then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.server.metadata.image import BROKER

if TYPE_CHECKING:
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.settings.broker_config import BrokerConfig

_MAX_RATE: Final = "max.connection.creation.rate"


def limits_clients(config: BrokerConfig, image: MetadataImage) -> bool:
    """Returns whether somebody has a quota, or `max.connection.creation.rate` is set for the broker or a listener of it.

    The setting counts from the broker's file and from what was written while it ran.
    """
    if image.has_quotas:
        return True
    written = (config.texts, image.config_of(BROKER, ""), image.config_of(BROKER, str(config.node_id)))
    return any(name == _MAX_RATE or name.endswith(f".{_MAX_RATE}") for texts in written for name in texts)
