"""Each API has one file here, named as the API's module in wire/messages; the existence of the file registers the API.

A module's docstring is the API's contract. Beside it the module declares its traits (`TRAITS`, server/requests/traits.py): the
rights that it needs, the quota that it counts against, and what its answer may hold.

`served()` lists the APIs with the versions that the protocol defines. Dispatch routes by this list and ApiVersions advertises it,
so the two cannot disagree. A module is imported with the first request for it: a broker that is never asked about groups never
loads the code for them.
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
    """Returns the APIs that have a handler and that clients of this role's listeners may ask for, by key, ascending.

    Raises ImportError if a module here is not named as an API's module in wire/messages.
    """
    modules = [module.name for module in pkgutil.iter_modules(__path__)]
    if stray := [name for name in modules if name not in BY_MODULE]:
        raise ImportError(f"server/handlers holds {', '.join(stray)}, but no API has its messages in a module of that name")
    apis = [BY_MODULE[name] for name in modules]
    without = BROKER_ONLY if role == CONTROLLER else frozenset()
    return {api.key: api for api in sorted(apis) if role in api.listeners and api.module not in without}
