"""Every (message, version) with its definition and its generated functions, for tests that go over all of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

from compat_tests.reference import messages
from compat_tests.reference.definitions import Message, make_names_unique, snake
from tests.wire.random_messages import Drawer, build


class Layout(NamedTuple):
    """One version of one message."""

    message: Message
    version: int
    decode: Callable[[Any, int], tuple[Any, int]]
    encode: Callable[[Any, list[Any]], None]
    kind: type[Any]  # the generated class
    module: ModuleType

    @property
    def name(self) -> str:
        return f"{self.message.name} v{self.version}"

    def draw(self, seed: str, *, complete: bool = False) -> Any:
        """A random message of this layout."""
        drawer = Drawer(f"{self.name} {seed}", complete=complete)
        return build(self.kind, self.message.root, drawer.message(self.message, self.version), self.module)

    def bytes(self, message: Any) -> bytes:
        parts: list[Any] = []
        self.encode(message, parts)
        return b"".join(parts)


@cache
def all_layouts() -> list[Layout]:
    return list(_layouts())


def _layouts() -> Iterator[Layout]:
    by_name = {m.name: m for m in messages.definitions()}
    for message in by_name.values():
        if message.kind == "request":
            make_names_unique(message, by_name[message.name.removesuffix("Request") + "Response"])
    for message in by_name.values():
        if message.kind in ("request", "response"):
            suffix = f"_{message.kind.upper()}"
            name = snake(message.name).removesuffix(suffix.lower())
        else:
            name, suffix = f"internal.{snake(message.name)}", ""
        module = importlib.import_module(f"ottla.wire.messages.{name}")
        decode, encode = getattr(module, f"DECODE{suffix}"), getattr(module, f"ENCODE{suffix}")
        assert set(decode) == set(encode) == set(message.valid)
        for version in message.valid:
            yield Layout(message, version, decode[version], encode[version], getattr(module, message.root.name), module)
