"""The link of the dispatch chain that authorises requests, by the rights that handlers declare. A broker without an authorizer
does not load it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ottla.server.guards import GUARD_MODULES
from ottla.server.guards.ask import Guard
from ottla.server.requests.link import Handle, Steps
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.authorizer import Ask, Authorizer
from ottla.server.security.rights import Inside, Open, Rights, Whole
from ottla.wire.api import Api


class UnguardedApi(Exception):
    """A handler declares rights that no guard enforces, which a test finds; its requests fail."""


class Authorization:
    """Stands around every handler that needs a right."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        """See Link. Raises UnguardedApi."""
        guard = find_guard(api.module, traits.rights)
        if guard is None:
            return steps
        if api.module == "produce":
            return steps._replace(handle=self._guarded_produce(guard, steps.handle, api.name))
        return steps._replace(handle=self._guarded(guard, steps.handle, api.name))

    def _guarded(self, guard: Guard, handle: Handle, name: str) -> Handle:
        authorizer, audit = self._authorizer, self._authorizer.audit

        def handle_guarded(body: Any, request: Request) -> Any:
            session = request.session
            rights = authorizer.rights(session.principal, session.client_host)
            if rights.is_super and not audit.notes_allowed:
                return handle(body, request)
            return guard(Ask(rights, audit, name), handle, body, request)

        return handle_guarded

    def _guarded_produce(self, guard: Guard, handle: Handle, name: str) -> Handle:
        """Does the same for Produce, the smallest of which is so quick that a guard would be a tenth of it: most are to topics to
        which the client has written before, and then what was decided is looked up."""
        from ottla.server.guards.records import count_known

        audit, rights_of = self._authorizer.audit, self._authorizer.kept_rights
        guarded = self._guarded(guard, handle, name)

        def handle_produce(body: Any, request: Request) -> Any:
            session = request.session
            rights = rights_of.get((session.principal, session.client_host))
            if rights is not None and not audit.notes_allowed:
                if rights.is_super:
                    return handle(body, request)
                known = count_known(rights.writable, body)
                if known:
                    audit.allowed += known
                    return handle(body, request)
            return guarded(body, request)

        return handle_produce


def find_guard(module: str, rights: Rights) -> Guard | None:
    """Returns what enforces the rights of a handler; None if it needs none, or asks itself. Raises UnguardedApi."""
    if isinstance(rights, Inside) and rights.in_handler:
        return None
    if isinstance(rights, Whole):
        from ottla.server.guards.whole import guard_whole

        return guard_whole(module, rights)
    place = GUARD_MODULES.get(module)
    if place is not None:
        guard: Guard = getattr(import_module(f"ottla.server.guards.{place}"), module)
        return guard
    if isinstance(rights, Inside):
        raise UnguardedApi(
            f"server/handlers/{module}.py declares rights that nothing in server/guards enforces: write a guard {module} there,"
            " and name it in __init__.py"
        )
    assert isinstance(rights, Open)
    return None
