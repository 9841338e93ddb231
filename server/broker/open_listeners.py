"""Warns of listeners that other machines reach and on which nobody has to say, or to prove, who they are.

ottla listens on 127.0.0.1 unless it is told otherwise. Whoever tells it otherwise should know what that means.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ottla.security.addresses import is_loopback
from ottla.server.settings.broker_settings import LISTENER_PREFIX
from ottla.server.settings.listeners import LOGS_IN

if TYPE_CHECKING:
    from ottla.server.settings.current import CurrentSettings
    from ottla.server.settings.listeners import ListenerAddress

logger = logging.getLogger("ottla.server.listener")

_UNPROVEN: Final = "OAUTHBEARER"
"""The mechanism whose tokens anybody can write, unless a callback handler is named that checks signed ones."""


def warn_of_open_listeners(listeners: Iterable[ListenerAddress], settings: CurrentSettings) -> None:
    """Logs a line for each listener that other hosts reach without authentication, unless access rules say what these may do. If
    they may choose as whom they log in, no rule helps."""
    for listener in listeners:
        if is_loopback(listener.host):
            continue
        if listener.protocol in LOGS_IN:
            from ottla.server.security.offered_mechanisms import (  # such a broker has loaded them
                ENABLED,
                HANDLER,
                SIGNED_HANDLERS,
            )
            from ottla.server.security.settings import ListenerSecurity

            security = ListenerSecurity(listener.name, listener.protocol, settings.texts, settings.values)
            handler = security.at(security.names_of(HANDLER, _UNPROVEN)[0])
            if _UNPROVEN in security[ENABLED] and handler not in SIGNED_HANDLERS:
                logger.warning(
                    "listeners: whoever reaches %s may log in as anybody, because nobody has to sign a token of %s; name Kafka's "
                    "OAuthBearerValidatorCallbackHandler, leave it out of %s, or listen on 127.0.0.1 (docs/security.md)",
                    listener,
                    _UNPROVEN,
                    ENABLED,
                )
            continue
        if settings["authorizer.class.name"]:
            continue
        if listener.protocol == "SSL":
            own = f"{LISTENER_PREFIX}{listener.name.lower()}.ssl.client.auth"
            if settings.texts.get(own, settings["ssl.client.auth"]).strip() == "required":
                continue
            remedy = "set ssl.client.auth=required"
        else:
            remedy = "use SSL with ssl.client.auth=required"
        logger.warning(
            "listeners: whoever reaches %s may read, write and administrate everything, because nobody logs in there; %s, or "
            "listen on 127.0.0.1 (docs/security.md)",
            listener,
            remedy,
        )
