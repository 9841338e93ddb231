"""Random messages in Kafka's JSON form, made from the definitions, and the comparison of a decoded message with such
a JSON.

This knows nothing of our codecs: a message is drawn from its definition, Kafka's own classes turn the JSON into
bytes, and what we decode from those bytes must hold the same values. Every draw leans towards the edges: null, empty,
127 and 128 elements, the ends of integer ranges, tags present and absent.
"""

from __future__ import annotations

import base64
import random
from typing import Any

from compat_tests.reference.definitions import Field, Message, Struct

RANGES = {"int8": (-(2**7), 2**7 - 1), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1), "int32": (-(2**31), 2**31 - 1)}
RANGES |= {"uint32": (0, 2**32 - 1), "int64": (-(2**63), 2**63 - 1)}
ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789._- äöüßéλ→中文𝄞😀"\\\n'


class Drawer:
    """Draws messages from one seeded source. `budget` bounds the elements of one message, since arrays nest.

    A complete drawer makes short messages with everything in them: each tag, each array with an element, nothing null.
    """

    def __init__(self, seed: str, *, complete: bool = False) -> None:
        self.random = random.Random(seed)
        self.complete = complete
        self.budget = 0

    def message(self, message: Message, version: int) -> dict[str, Any]:
        self.budget = self.random.choice((5, 30, 400))
        return self.struct(message.root, version)

    def struct(self, struct: Struct, version: int) -> dict[str, Any]:
        drawn = {}
        plain, tagged = struct.layout(version)
        for f in plain + [f for f in tagged if self.complete or self.random.random() < 0.6]:
            drawn[json_name(f)] = self.value(f, version)
        return drawn

    def value(self, f: Field, version: int) -> Any:
        if version in f.nullable and not self.complete and self.random.random() < 0.25:
            return None
        if not f.array:
            return self.element(f, version)
        if self.complete:
            return [self.element(f, version)]
        many = (2, 4) if f.struct else (127, 128)
        count = min(self.budget, self.random.choice((0, 1, 1, 2, 3, 130, *many)))
        self.budget -= count
        return [self.element(f, version) for _ in range(count)]

    def element(self, f: Field, version: int) -> Any:
        if f.struct:
            return self.struct(f.struct, version)
        if f.type in RANGES:
            low, high = RANGES[f.type]
            return self.random.choice((low, high, 0, 1, self.random.randint(low, high), self.random.randint(0, 100)))
        if f.type == "bool":
            return self.random.random() < 0.5
        if f.type == "float64":
            return self.random.choice((0.0, -1.5, 1e300, 5e-324, self.random.random()))
        if f.type == "uuid":
            return base64.urlsafe_b64encode(self.random.choice((bytes(16), self.random.randbytes(16)))).decode().rstrip("=")
        length = (
            2
            if self.complete
            else self.random.choice((0, 1, 5, 20, 126, 127, 128, 300, 20_000 if self.random.random() < 0.02 else 3))
        )
        if f.type == "string":
            return "".join(self.random.choices(ALPHABET, k=min(length, 8_000)))
        return base64.b64encode(self.random.randbytes(length)).decode()


def json_name(f: Field) -> str:
    return f.json_name[0].lower() + f.json_name[1:]


def build(kind: type[Any], struct: Struct, drawn: dict[str, Any], module: Any) -> Any:
    """The drawn message as an object of the generated class, constructed by keyword."""
    values = {}
    for f in struct.fields:
        if json_name(f) not in drawn:
            continue
        value = expected(f, drawn[json_name(f)])
        if f.struct and value is not None:
            inner = getattr(module, f.struct.name)
            value = [build(inner, f.struct, v, module) for v in value] if f.array else build(inner, f.struct, value, module)
            if f.tagged and not f.nullable and not f.array and value == inner():
                value = None  # Kafka leaves out a tagged struct of nothing but defaults
        values[f.name] = value
    return kind(**values)


def differences(struct: Struct, version: int, drawn: dict[str, Any], decoded: Any, path: str = "") -> list[str]:
    """Returns the places where a decoded message holds something else than was drawn; [] is equality."""
    found = []
    for f in struct.fields:
        value, where = getattr(decoded, f.name), f"{path}.{f.name}"
        if json_name(f) not in drawn:
            default = getattr(type(decoded)(), f.name)
            if value != default:
                found.append(f"{where}: {value!r} is not the default {default!r}")
        elif f.struct and not f.array:
            found += _nested_difference(f, f.struct, version, drawn[json_name(f)], value, where)
        elif f.struct and drawn[json_name(f)] is not None and value is not None:
            wanted = drawn[json_name(f)]
            if len(wanted) != len(value):
                found.append(f"{where}: {len(value)} elements, not {len(wanted)}")
            for k, (one, other) in enumerate(zip(wanted, value, strict=False)):
                found += differences(f.struct, version, one, other, f"{where}[{k}]")
        elif (wanted := expected(f, drawn[json_name(f)])) != value:
            found.append(f"{where}: {value!r}, not {wanted!r}")
    return found


def _nested_difference(f: Field, struct: Struct, version: int, drawn: Any, value: Any, where: str) -> list[str]:
    if drawn is None or value is None:
        if drawn is None and value is None:
            return []
        if drawn is not None and f.tagged and version not in f.nullable:  # all defaults: Kafka leaves the tag out
            return []
        return [f"{where}: {value!r}, not {drawn!r}"]
    return differences(struct, version, drawn, value, where)


def expected(f: Field, drawn: Any) -> Any:
    """The Python value that stands for a drawn JSON value."""
    if isinstance(drawn, list):
        return [expected(f, one) for one in drawn]
    if drawn is None or f.type not in ("uuid", "bytes", "records"):
        return drawn
    return base64.urlsafe_b64decode(drawn + "==") if f.type == "uuid" else base64.b64decode(drawn)
