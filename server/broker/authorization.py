"""Puts the authorizer into a broker: its settings, the rules that there are, their changes, and the link around the handlers."""

from __future__ import annotations

import logging

from ottla.server.dispatch.chain import Chain, Place
from ottla.server.guards.link import Authorization
from ottla.server.metadata.access import rules
from ottla.server.metadata.image import AccessRulesChanged
from ottla.server.requests.context import BrokerContext
from ottla.server.security.audit import Audit
from ottla.server.security.authorizer import CLUSTER_NAME, WILDCARD, Authorizer
from ottla.server.security.principals import ANONYMOUS
from ottla.server.security.rights import Operation, Resource
from ottla.server.settings.authorizer_settings import SUPER_USERS, AuthorizerSettings

logger = logging.getLogger("ottla.server.broker")


def authorize(context: BrokerContext, chain: Chain) -> None:
    """Has all requests authorised from now on, by the rules in the metadata as they are at the time."""
    settings = AuthorizerSettings.from_texts(context.config.texts)
    authorizer = context.authorizer = Authorizer(
        settings.super_users,
        allow_without_rules=settings.allow_without_rules,
        rules=rules(context.metadata),
        audit=Audit(context.clock.monotonic),
    )

    def follow(event: object) -> None:
        if isinstance(event, AccessRulesChanged):
            authorizer.change(event.changes)

    context.metadata.subscribe(follow)
    chain.put(Place.AUTHORIZATION, Authorization(authorizer))


def warn_of_anonymous_brokers(context: BrokerContext) -> None:
    """Logs a line if the other brokers of the cluster come as nobody in particular, and nobody in particular may not act as a
    broker: then their followers get no records from here, without any other sign of what is missing."""
    config, authorizer = context.config, context.authorizer
    if authorizer is None or not config.follows_controllers:
        return
    name = config.inter_broker_listener
    if any(listener.name == name and listener.protocol != "PLAINTEXT" for listener in config.listeners):
        return
    decision = authorizer.decide(ANONYMOUS, WILDCARD, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
    if not decision.allowed:
        logger.warning(
            "%s: other brokers come to listener %s as %s, which may not replicate from here (it has no right to CLUSTER_ACTION); "
            "add %s to %s, and let only brokers reach that listener (docs/security.md)",
            SUPER_USERS,
            name,
            ANONYMOUS,
            ANONYMOUS,
            SUPER_USERS,
        )
