"""Every handler that declares rights has a guard, which is nowhere else; and who is a super user passes by all of them."""

from __future__ import annotations

from importlib import import_module

import pytest

from ottla.server.guards import GUARD_MODULES, IN_HANDLER
from ottla.server.guards.link import Authorization, UnguardedApi, find_guard
from ottla.server.requests.link import Steps
from ottla.server.requests.traits import Traits
from ottla.server.security.authorizer import Authorizer
from ottla.server.security.rights import Inside, Need, Open, Operation, Resource
from ottla.wire.api import BY_MODULE
from tests.server.handlers.test_traits import MODULES, source, traits


@pytest.mark.parametrize("module", MODULES)
def test_declared_rights_are_enforced(module: str) -> None:
    rights = traits(module).rights
    guard = find_guard(module, rights)
    if module in IN_HANDLER:
        assert ".ask()" in source(module)
        assert guard is None
    elif isinstance(rights, Open):
        assert (guard is not None) == (module == "describe_cluster"), "whose bits are the client's"
    else:
        assert guard is not None


def test_a_handler_without_a_guard_is_found() -> None:
    with pytest.raises(UnguardedApi, match="astray"):
        find_guard("astray", Inside(Need(Operation.READ, Resource.TOPIC)))


def test_the_table_names_no_api_that_there_is_not() -> None:
    assert GUARD_MODULES.keys() <= set(MODULES)
    for api, place in GUARD_MODULES.items():
        guard = getattr(import_module(f"ottla.server.guards.{place}"), api)
        assert callable(guard)


def test_what_needs_no_right_is_left_alone() -> None:
    steps = Steps(lambda frame, pos: (None, 0), lambda body, request: None, lambda answer, parts: None)
    link = Authorization(Authorizer())
    assert link.around(BY_MODULE["api_versions"], Traits(Open("any")), steps) is steps
    heartbeat = link.around(BY_MODULE["heartbeat"], traits("heartbeat"), steps)
    assert heartbeat.handle is not steps.handle
    assert heartbeat[::2] == steps[::2]
