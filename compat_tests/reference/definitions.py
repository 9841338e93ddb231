"""Kafka's message definitions as plain objects.

A definition is a JSON file with `//` comments inside an official Kafka jar. We keep the facts that shape bytes
(names, types, versions, nullability, tags, defaults) and drop the prose, so that nothing but facts reaches the
generated text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

FIXED = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "float64": "d"}
SIZES = {"?": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "x": 1, "16s": 16}
NO_VERSION = 32767


def snake(name: str) -> str:
    """Turns `TopicId` into `topic_id`; KRaft counts as one word."""
    name = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@dataclass(frozen=True)
class Versions:
    """A closed range of versions; low > high means none."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        if text is None or text == "none":
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), NO_VERSION)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __bool__(self) -> bool:
        return self.low <= self.high

    def __iter__(self) -> Any:
        return iter(range(self.low, self.high + 1))


@dataclass
class Field:
    """One field of a struct: its Python name, wire type, and the versions in which each of its properties holds."""

    name: str
    json_name: str  # in the definition, and (first letter small) in Kafka's JSON form of a message
    type: str  # of the element where it is an array; a struct's name where `struct` is set
    array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    default: Any
    struct: Struct | None = None

    @property
    def fixed(self) -> str | None:
        """Returns the `struct` format character of a scalar of fixed width."""
        return None if self.array or self.struct else "16s" if self.type == "uuid" else FIXED.get(self.type)

    @property
    def none_is_default(self) -> bool:
        """Returns whether an absent tagged struct is None, which saves an object for what is hardly ever there; not if null has a
        meaning of its own."""
        return self.default == "null" or bool(self.struct and not self.array and self.tagged and not self.nullable)

    def literal(self) -> str:
        """Returns the value of the field in a version that does not carry it, as Python text."""
        if self.none_is_default:
            return "None"
        if self.array:
            return "[]"
        if self.struct:
            return f"{self.struct.name}()"
        return self._scalar_literal()

    def _scalar_literal(self) -> str:
        default = self.default
        if self.type == "string":
            return json.dumps(default or "")
        if self.type in ("bytes", "records"):
            return 'b""'
        if self.type == "uuid":
            assert default in (None, ""), default
            return "ZERO_UUID"
        if self.type == "bool":
            return str(default in (True, "true"))
        if self.type == "float64":
            return repr(float(default or 0))
        return str(int(str(default), 0)) if default not in (None, "") else "0"

    def annotation(self, records: str) -> str:
        base = self.struct.name if self.struct else _PYTHON_TYPES.get(self.type, records)
        text = f"list[{base}]" if self.array else base
        return f"{text} | None" if self.nullable or self.none_is_default else text


_PYTHON_TYPES = {**dict.fromkeys(FIXED, "int"), "bool": "bool", "float64": "float", "string": "str"}
_PYTHON_TYPES |= {"bytes": "bytes", "uuid": "bytes"}


@dataclass
class Struct:
    """A named list of fields, the union over all versions."""

    name: str
    fields: list[Field] = field(default_factory=list)

    def layout(self, version: int) -> tuple[list[Field], list[Field]]:
        """Returns the fields that a version carries: those in line, and those in the tag section by rising tag."""
        live = [f for f in self.fields if version in f.versions]
        tagged = [f for f in live if version in f.tagged]
        return [f for f in live if version not in f.tagged], sorted(tagged, key=lambda f: f.tag)

    def signature(self, version: int, flexible: bool) -> tuple[Any, ...]:
        """Versions with equal signatures have the same bytes on the wire, and share one function."""

        def one(f: Field) -> tuple[Any, ...]:
            inner = f.struct.signature(version, flexible) if f.struct else f.type
            return f.name, f.array, version in f.nullable, inner

        plain, tagged = self.layout(version)
        return flexible, tuple(map(one, plain)), tuple((f.tag, *one(f)) for f in tagged)

    def smallest(self, version: int, flexible: bool) -> int:
        """Returns the least number of bytes that the struct can take."""
        plain, _ = self.layout(version)
        return sum(_smallest_field(f, version, flexible) for f in plain) + flexible


def _smallest_field(f: Field, version: int, flexible: bool) -> int:
    if f.fixed:
        return SIZES[f.fixed]
    if f.struct and not f.array:
        return 1 if version in f.nullable else f.struct.smallest(version, flexible)
    if flexible:
        return 1
    return 2 if f.type == "string" and not f.array else 4


@dataclass
class Message:
    """One definition: a request, a response, or a record."""

    name: str
    kind: str  # request, response, data, metadata, coordinator-key, coordinator-value
    source: str  # artifact that it came from, "kafka-clients 4.4.0"
    api_key: int | None
    listeners: frozenset[str]
    newest_is_unstable: bool
    valid: Versions
    flexible: Versions
    root: Struct
    structs: list[Struct]  # nested ones, innermost first

    @property
    def all_structs(self) -> list[Struct]:
        return [*self.structs, self.root]

    def carries_records(self, version: int) -> bool:
        return any(f.type == "records" and version in f.versions for s in self.all_structs for f in s.fields)


def parse(text: str, source: str) -> Message:
    """Reads one definition; `source` names the artifact in line 1 of what is generated from it."""
    raw = json.loads("\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//")))
    structs: dict[str, Struct] = {}
    common = {c["name"]: c["fields"] for c in raw.get("commonStructs", ())}

    def build(name: str, fields: list[dict[str, Any]]) -> Struct:
        if name not in structs:
            made = Struct(name, [one(f) for f in fields])
            structs[name] = made
        return structs[name]

    def one(f: dict[str, Any]) -> Field:
        kind: str = f["type"]
        array = kind.startswith("[]")
        kind = kind.removeprefix("[]")
        fields = f.get("fields") or common.get(kind)
        tagged = Versions.parse(f.get("taggedVersions"))
        versions = Versions.parse(f.get("versions", f.get("taggedVersions")))  # a tagged field may leave them out
        assert not tagged or tagged.low <= versions.low, f"{raw['name']}.{f['name']} is tagged in some of its versions only"
        return Field(
            snake(f["name"]),
            f["name"],
            kind,
            array,
            versions,
            Versions.parse(f.get("nullableVersions")),
            tagged,
            f.get("tag", -1),
            f.get("default"),
            build(kind, fields) if fields else None,
        )

    root = Struct(raw["name"], [one(f) for f in raw.get("fields", ())])
    return Message(
        raw["name"],
        raw["type"],
        source,
        raw.get("apiKey"),
        frozenset(raw.get("listeners", ())),
        raw.get("latestVersionUnstable", False),
        Versions.parse(raw["validVersions"]),
        Versions.parse(raw.get("flexibleVersions")),
        root,
        list(structs.values()),
    )


def make_names_unique(request: Message, response: Message) -> None:
    """Gives nested structs of the same name in request and response a prefix in each, because one module holds both."""
    shared = {s.name for s in request.structs} & {s.name for s in response.structs}
    for message, prefix in ((request, "Request"), (response, "Response")):
        for struct in message.structs:
            if struct.name in shared:
                struct.name = prefix + struct.name
