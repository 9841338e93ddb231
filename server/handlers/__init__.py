"""One file an API, named as the API's module in wire/messages. The file's existence is its registration.

Beside its contract each declares its traits (`TRAITS`, server/requests/traits.py): rights, quotas, what its answer may be.

`served()` is the list of them, with the versions that the protocol defines. Dispatch routes by it and ApiVersions advertises it,
so the two cannot disagree. Modules are imported with their first request: a broker that nobody asks for groups never loads them.
"""

from __future__ import annotations

import functools
import pkgutil
from typing import Final

from ottla.wire.api import BY_MODULE, Api

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
BROKER_ONLY: Final = frozenset({"fetch"})
"""The handlers whose traits say `broker_only`, kept here because lists of APIs are made without importing any handler; a test
holds this against the declarations. The controllers' Fetch reads the log of the metadata, which is for nodes only."""


@functools.cache
def served(role: str = BROKER) -> dict[int, Api]:
    """Returns the APIs that have a handler and that clients of this role's listeners may ask for, by key, ascending."""
    apis = [BY_MODULE[module.name] for module in pkgutil.iter_modules(__path__)]
    without = BROKER_ONLY if role == CONTROLLER else frozenset()
    return {api.key: api for api in sorted(apis) if role in api.listeners and api.module not in without}
