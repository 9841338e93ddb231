"""Puts the authorizer into a broker: its settings, the rules that there are, their changes, and the link around the handlers."""

from __future__ import annotations

from ottla.server.dispatch.chain import Chain, Place
from ottla.server.guards.link import Authorization
from ottla.server.metadata.access import rules
from ottla.server.metadata.image import AccessRuleChanged
from ottla.server.requests.context import BrokerContext
from ottla.server.security.audit import Audit
from ottla.server.security.authorizer import Authorizer
from ottla.server.settings.authorizer_settings import AuthorizerSettings


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
        if isinstance(event, AccessRuleChanged):
            authorizer.change(event.removed, event.added)

    context.metadata.subscribe(follow)
    chain.put(Place.AUTHORIZATION, Authorization(authorizer))
