"""Text of the encode functions.

A message becomes a list of buffers. Runs of fixed-width fields go through one `Struct.pack`, the empty tag section
riding as a pad byte; records enter the list as they are (bytes, a memoryview, or a stretch of a file), so that nobody
copies them.
"""

from __future__ import annotations

from compat_tests.reference.definitions import FIXED, Field, Message, Struct, snake
from scripts.wiregen.writer import Writer


class Encoder:
    """Emits the writing of one version of one message into a Writer; generated code calls `put` (a bound list.append)."""

    def __init__(self, w: Writer, version: int, flexible: bool) -> None:
        self.w, self.version, self.flexible = w, version, flexible

    def struct(self, depth: int, struct: Struct, source: str) -> None:
        """Writes code for the struct that the expression `source` names; the run of fixed fields may stay open behind it."""
        plain, tagged = struct.layout(self.version)
        for f in plain:
            self.field(depth, f, f"{source}.{f.name}")
        if tagged:
            writer = self._tag_writer(struct)
            self.w.flush_writes(depth)
            self.w.put(depth, f"if {' or '.join(_is_set(f, source) for f in tagged)}:")
            self.w.put(depth + 1, f"{writer}({source}, put)")
            self.w.put(depth, "else:")
            self.w.put(depth + 1, 'put(b"\\0")')
        elif self.flexible:
            self.w.run.append(("x", ""))

    def field(self, depth: int, f: Field, value: str, *, known: bool = False) -> None:
        """Writes code for one field; `known` says that the code around it has made sure that the value is not None."""
        w = self.w
        if f.fixed:
            w.run.append((f.fixed, value))
            return
        null = self.version in f.nullable and not known
        optional = f.annotation("").endswith("None") and not known
        if f.struct and not f.array and not optional:
            if self.version in f.nullable:
                w.run.append(("b", "1"))
            self.struct(depth, f.struct, value)
            return
        if optional or f.array or f.type != "string":
            if null:
                w.flush_writes(depth)
            local = w.name("v")
            w.put(depth, f"{local} = {value}")
            value = local
        if null:
            w.put(depth, f"if {value} is None:")
            w.put(depth + 1, f"put({self._null(f)})")
            w.put(depth, "else:")
            depth += 1
        elif optional:
            w.put(depth, f"assert {value} is not None")
        self._present(depth, f, value, null)
        if null:
            w.flush_writes(depth)

    def _present(self, depth: int, f: Field, value: str, null: bool) -> None:
        if f.array:
            self._array(depth, f, value)
        elif f.struct:
            if null:
                self.w.put(depth, 'put(b"\\x01")')
            self.struct(depth, f.struct, value)
        else:
            self._text(depth, f, value)

    def _null(self, f: Field) -> str:
        if f.struct and not f.array:
            return 'b"\\0"' if self.version in f.tagged else 'b"\\xff"'
        if self.flexible:
            return 'b"\\0"'
        return 'b"' + "\\xff" * (2 if f.type == "string" and not f.array else 4) + '"'

    def _length(self, depth: int, value: str, fmt: str) -> None:
        """Writes code for the length prefix and leaves no run open, because the value that follows is not part of one."""
        if self.flexible:
            self.w.flush_writes(depth)
            self.w.put(depth, f"put(UV[len({value}) + 1])")
        else:
            self.w.run.append((fmt, f"len({value})"))
            self.w.flush_writes(depth)

    def _text(self, depth: int, f: Field, value: str) -> None:
        if f.type == "string":
            raw = self.w.name("s")
            self.w.put(depth, f"{raw} = {value}.encode()")
            value = raw
        self._length(depth, value, "h" if f.type == "string" else "i")
        self.w.put(depth, f"put({value})")

    def _array(self, depth: int, f: Field, value: str) -> None:
        w = self.w
        self._length(depth, value, "i")
        if f.struct:
            if not f.struct.smallest(self.version, self.flexible):
                return  # elements of no bytes at all
            item = w.name("x")
            w.put(depth, f"for {item} in {value}:")
            self.struct(depth + 1, f.struct, item)
            w.flush_writes(depth + 1)
        elif f.type in FIXED:
            w.put(depth, f'put(pack(f">{{len({value})}}{FIXED[f.type]}", *{value}))')
        elif f.type == "uuid":
            w.put(depth, f'put(b"".join({value}))')
        else:
            item = w.name("x")
            w.put(depth, f"for {item} in {value}:")
            self._text(depth + 1, f, item)

    # -- tagged fields ---------------------------------------------------------------------------------------------

    def _tag_writer(self, struct: Struct) -> str:
        """Returns the function that writes the tag section of this layout, emitted before the one under way."""
        key = ("write tags", struct.name, struct.signature(self.version, self.flexible))
        name = f"_write_{snake(struct.name)}_tags_v{self.version}"
        return self.w.helper(key, name, lambda: self._emit_tag_writer(name, struct))

    def _emit_tag_writer(self, name: str, struct: Struct) -> None:
        w = self.w
        w.put(0, f"def {name}(msg: {struct.name}, put_out: Put) -> None:")
        w.put(1, "count = 0")
        w.put(1, "parts: Parts = []")
        w.put(1, "body: Parts = []")
        w.put(1, "put = body.append")
        for f in struct.layout(self.version)[1]:
            w.put(1, f"if {_is_set(f, 'msg')}:")
            w.put(2, "count += 1")
            self.field(2, f, f"msg.{f.name}", known=f.none_is_default)
            w.flush_writes(2)
            w.put(2, f"put_tag(parts, {f.tag}, body)")
        w.put(1, "put_out(UV[count])")
        w.put(1, "for part in parts:")
        w.put(2, "put_out(part)")


def _is_set(f: Field, source: str) -> str:
    """Returns whether a tagged field differs from its default, as a condition."""
    value, literal = f"{source}.{f.name}", f.literal()
    if literal == "None":
        return f"{value} is not None"
    if literal in ("[]", '""', 'b""', "False"):
        return f"{value} is None or {value}" if f.nullable else value
    return f"not {value}" if literal == "True" else f"{value} != {literal}"


def emit_encoder(w: Writer, name: str, message: Message, version: int) -> None:
    """Writes `def name(msg, out) -> None` for one layout."""
    w.begin_function()
    w.put(0, f"def {name}(msg: {message.root.name}, out: Parts) -> None:")
    before = len(w.lines)
    Encoder(w, version, version in message.flexible).struct(1, message.root, "msg")
    w.flush_writes(1)
    if len(w.lines) == before:
        w.put(1, "del msg, out  # no fields: nothing on the wire")
    else:
        w.lines.insert(before, "    put = out.append")
    w.put(0, "")
    w.put(0, "")
