"""The generator on definitions of our own, for what Kafka's happen not to have, or have too seldom to rely on."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest

from compat_tests.reference.definitions import parse, snake
from ottla.wire.frame import MALFORMED, decode_whole
from scripts.wiregen import modules
from scripts.wiregen.writer import WIDTH, wrapped


def generated(fields: list[dict[str, Any]], *, valid: str = "0-1", flexible: str = "1+", **more: Any) -> ModuleType:
    """The module generated for a record of these fields."""
    raw = {"name": "Thing", "type": "data", "validVersions": valid, "flexibleVersions": flexible, "fields": fields, **more}
    module = ModuleType("thing")
    exec(modules.record_module(parse("// a comment\n" + json.dumps(raw), "tests 1")), module.__dict__)
    return module


def field(name: str, kind: str, versions: str = "0+", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "versions": versions, "about": "prose that stays where it is", **more}


def encoded(module: ModuleType, version: int, message: Any) -> bytes:
    parts: list[bytes] = []
    module.ENCODE[version](message, parts)
    return b"".join(parts)


def test_elements_of_no_bytes_at_all_are_counted_against_the_frame() -> None:
    """In version 0 an element carries nothing, so nothing but its count would bound the list."""
    nothing = field("Things", "[]Nothing", fields=[field("Late", "int32", "1+")])
    module = generated([nothing, field("Padding", "int64")])
    assert decode_whole(module.DECODE[0], b"\0\0\0\2" + bytes(8)) == module.Thing([module.Nothing()] * 2)
    with pytest.raises(ValueError, match="do not fit"):
        module.DECODE[0](b"\x7f\xff\xff\xff" + bytes(8), 0)


def test_defaults() -> None:
    module = generated(
        [
            field("Plain", "int32"),
            field("Hex", "int32", default="0x7fffffff"),
            field("Minus", "int64", default=-1),
            field("Yes", "bool", default="true"),
            field("Half", "float64", default="0.5"),
            field("Text", "string", default='a "quoted" one'),
            field("Null", "string", nullableVersions="0+", default="null"),
            field("Numbers", "[]int16"),
            field("NoNumbers", "[]int16", nullableVersions="0+", default="null"),
            field("Inner", "Inner", fields=[field("Deep", "int8", default="7")]),
        ]
    )
    thing = module.Thing()
    assert (thing.plain, thing.hex, thing.minus, thing.yes, thing.half) == (0, 2**31 - 1, -1, True, 0.5)
    assert (thing.text, thing.null, thing.numbers, thing.no_numbers) == ('a "quoted" one', None, [], None)
    assert thing.inner == module.Inner(7)
    assert thing.inner is not module.Thing().inner


@pytest.mark.parametrize("version", [0, 1])
def test_names_that_python_or_the_generated_code_have_taken(version: int) -> None:
    names = ["Buf", "Pos", "End", "Range", "Len", "Str", "Bytes", "List", "View", "Put", "Msg", "Tag", "N", "X", "V", "S"]
    module = generated([field(n, "string") for n in names] + [field(f"{n}s", "[]string") for n in names])
    thing = module.Thing(*names, *([n, n] for n in names))
    assert decode_whole(module.DECODE[version], encoded(module, version, thing)) == thing


@pytest.mark.parametrize(
    ("kind", "value", "raw"),
    [
        ("uint16", 65535, b"\xff\xff"),
        ("uint32", 2**32 - 1, b"\xff" * 4),
        ("int8", -1, b"\xff"),
        ("float64", 1.0, b"\x3f\xf0" + bytes(6)),
        ("bool", True, b"\1"),
        ("uuid", bytes(range(16)), bytes(range(16))),
        ("[]bool", [True, False], b"\0\0\0\2\1\0"),
        ("[]uint16", [1, 2], b"\0\0\0\2\0\1\0\2"),
        ("[]uuid", [bytes(range(16))], b"\0\0\0\1" + bytes(range(16))),
        ("[]bytes", [b"ab"], b"\0\0\0\1\0\0\0\2ab"),
        ("bytes", b"ab", b"\0\0\0\2ab"),
        ("string", "\N{SNOWMAN}", b"\0\3\xe2\x98\x83"),
    ],
)
def test_bytes_of_each_kind(kind: str, value: object, raw: bytes) -> None:
    module = generated([field("Value", kind)])
    assert encoded(module, 0, module.Thing(value)) == raw
    for buffer in (raw, bytearray(raw), memoryview(raw)):
        decoded = decode_whole(module.DECODE[0], buffer)
        assert decoded.value == value
        assert type(decoded.value) is type(value)


def test_only_records_refer_to_the_receive_buffer() -> None:
    kinds = {"Text": "string", "Raw": "bytes", "Id": "uuid", "Ids": "[]uuid", "Raws": "[]bytes", "Batch": "records"}
    module = generated([field(n, k) for n, k in kinds.items()])
    thing = module.Thing("text", b"raw", bytes(16), [bytes(16)], [b"x"], b"batch")
    shared = bytearray(encoded(module, 1, thing))
    decoded = decode_whole(module.DECODE[1], memoryview(shared))
    shared[:] = b"\xee" * len(shared)
    assert (decoded.text, decoded.raw, decoded.id, decoded.ids, decoded.raws) == (
        thing.text,
        thing.raw,
        thing.id,
        thing.ids,
        thing.raws,
    )
    assert decoded.batch == b"\xee" * 5


def test_invalid_utf_8_is_replaced() -> None:
    module = generated([field("Text", "string")])
    assert module.DECODE[0](b"\0\2\xff\xfe", 0)[0].text == "\ufffd\ufffd"


def test_nulls_inside_a_tagged_struct() -> None:
    inner = [field("Text", "string", nullableVersions="0+"), field("Numbers", "[]int8", nullableVersions="0+", default="null")]
    tagged = {"taggedVersions": "1+", "tag": 3}
    module = generated([field("Inner", "Inner", "1+", fields=inner, **tagged), field("Plain", "int8")])
    for value in (None, module.Inner(None, None), module.Inner("a", [1])):
        thing = module.Thing(value, 5)
        assert decode_whole(module.DECODE[1], encoded(module, 1, thing)) == thing
    assert encoded(module, 1, module.Thing(None, 5)) == b"\5\0"
    assert encoded(module, 0, module.Thing(module.Inner("a"), 5)) == b"\5"  # version 0 does not carry it


def test_versions_with_equal_bytes_share_a_function() -> None:
    module = generated([field("A", "int8"), field("B", "int8", "2+")], valid="0-3", flexible="none")
    assert module.DECODE[0] is module.DECODE[1]
    assert module.DECODE[2] is module.DECODE[3]
    assert module.DECODE[1] is not module.DECODE[2]
    assert (module.MIN_VERSION, module.MAX_VERSION) == (0, 3)


def test_no_word_of_the_definitions_prose_is_copied() -> None:
    raw = {"name": "Thing", "type": "data", "validVersions": "0", "flexibleVersions": "none", "fields": [field("A", "int8")]}
    text = modules.record_module(parse(json.dumps(raw), "tests 1"))
    assert "prose" not in text
    assert text.startswith('"""Generated by scripts/generate_wire.py from Thing.json of tests 1; do not edit."""\n')


def test_snake_case() -> None:
    names = ["TopicId", "protocolType", "KRaftVersionRecord", "SCRAMCredential", "ISR", "Host2Port"]
    assert [snake(n) for n in names] == [
        "topic_id",
        "protocol_type",
        "kraft_version_record",
        "scram_credential",
        "isr",
        "host2_port",
    ]


def test_long_statements_are_broken_inside_parentheses() -> None:
    names = ", ".join(f"a_rather_long_name_{k}" for k in range(12))
    for text in (f"put(_iiii.pack({names}))", f"{names} = _iiii.unpack_from(buf, pos)", f"if {names.replace(', ', ' or ')}:"):
        lines = wrapped(1, text)
        assert len(lines) > 2
        assert max(map(len, lines)) <= WIDTH
        compile("def f():\n" + "\n".join(lines) + ("\n        pass" if text.endswith(":") else ""), "wrapped", "exec")


def test_a_cut_record_is_malformed() -> None:
    module = generated([field("Id", "uuid"), field("Text", "string")])
    raw = encoded(module, 1, module.Thing(bytes(16), "text"))
    for cut in range(len(raw)):
        with pytest.raises(MALFORMED):
            decode_whole(module.DECODE[1], raw[:cut])
