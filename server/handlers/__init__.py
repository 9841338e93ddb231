"""One file an API, named as the API's module in wire/messages. The file's existence is its registration.

`served()` is that list, with the versions that the protocol defines. Dispatch routes by it and ApiVersions advertises it, so the
two cannot disagree. Modules are imported with their first request: a broker that nobody asks for groups never loads them.
"""

from __future__ import annotations

import functools
import pkgutil

from ottla.wire.api import BY_MODULE, Api


@functools.cache
def served() -> dict[int, Api]:
    """The APIs that have a handler, by key, ascending."""
    apis = [BY_MODULE[module.name] for module in pkgutil.iter_modules(__path__)]
    return {api.key: api for api in sorted(apis)}
