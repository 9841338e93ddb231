"""CRC-32C, as every record batch has it, by the extension module of the package crc32c.

The package's own `__init__` looks up its version with importlib.metadata when it is imported. For that Python loads its modules
for e-mail, archives and command lines, 60 of them: 13 ms of the start and 4 MiB of an idle broker, for a text that nobody asks
for. So the extension module is loaded by itself, under its own name, and a later import of the package finds it.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from ottla.wire.primitives import Buffer

_PACKAGE: Final = "crc32c"
_EXTENSION: Final = "crc32c._crc32c"


class _Crc32c(Protocol):
    def __call__(self, data: Buffer, value: int = 0, /) -> int: ...


def _extension() -> Any:
    """Returns the extension module, or the package itself if it has none of that name."""
    if _EXTENSION in sys.modules:
        return sys.modules[_EXTENSION]
    package = find_spec(_PACKAGE)
    spec = PathFinder.find_spec(_EXTENSION, package.submodule_search_locations) if package is not None else None
    if spec is None or spec.loader is None:
        import crc32c as whole

        return whole
    module = sys.modules[_EXTENSION] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


crc32c: Final[_Crc32c] = _extension().crc32c
"""Returns the checksum of the bytes; `value` is the checksum of those before them, if any."""
