"""Text of the decode functions.

A run of fixed-width fields is read by one `Struct`, and the byte that follows it rides along: the first byte of a
compact length, or the count of tagged fields. Compact lengths stay as they are on the wire (length + 1, 0 = null) in
the generated locals, which saves a subtraction.

What a hostile frame can do: a length below zero where null is not allowed is a ValueError (else a position could move
backwards); a length beyond the frame leaves `pos` behind its end, which the next read or the caller's final check
sees; and arrays whose elements could be made of nothing at all check their count against the bytes left before they
build anything.
"""

from __future__ import annotations

from compat_tests.reference.definitions import FIXED, SIZES, Field, Message, Struct, snake
from scripts.wiregen.writer import Writer

# bytes are copied: nothing but records may keep hold of a receive buffer.
_SLICES = {"string": 'str(buf[pos:end], "utf-8", "replace")', "bytes": "bytes(buf[pos:end])", "records": "view[pos:end]"}


class Decoder:
    """Emits the reading of one version of one message into a Writer."""

    def __init__(self, w: Writer, version: int, flexible: bool, records: str) -> None:
        self.w, self.version, self.flexible, self.records = w, version, flexible, records

    def struct(self, depth: int, struct: Struct, target: str) -> None:
        """Writes code that reads a struct at `pos` into the local `target`."""
        w = self.w
        plain, tagged = struct.layout(self.version)
        values = {f.name: self.field(depth, f) for f in plain}
        tags = ""
        if self.flexible:
            tags = self._byte(depth, w.name("t"))
        w.flush_reads(depth)
        w.put(depth, f"{target} = {struct.name}({', '.join(values.get(f.name, f.literal()) for f in struct.fields)})")
        if tags:
            w.put(depth, f"if {tags}:")
            reader = self._tag_reader(struct) if tagged else ""
            w.put(depth + 1, f"pos = {reader}(buf, pos, {tags}, {target})" if tagged else f"pos = skip_tags(buf, pos, {tags})")

    def field(self, depth: int, f: Field) -> str:
        """Writes code that reads one field; returns the local (or expression) that holds its value."""
        w = self.w
        if f.fixed:
            w.run.append((f.fixed, w.name(f.name)))
            return w.run[-1][1]
        if f.array:
            return self._array(depth, f)
        if f.struct:
            return self._nested(depth, f, f.struct)
        value = w.name(f.name)
        self._text(depth, f, value, self.version in f.nullable)
        return value

    # -- lengths ---------------------------------------------------------------------------------------------------

    def _byte(self, depth: int, name: str) -> str:
        """Writes code that reads one byte, in the run that is under way if there is one."""
        if self.w.run:
            self.w.run.append(("B", name))
            self.w.flush_reads(depth)
        else:
            self.w.put(depth, f"{name} = buf[pos]")
            self.w.put(depth, "pos += 1")
        return name

    def _length(self, depth: int, fmt: str, null: bool) -> str:
        """Writes code that reads a length prefix into a fresh local, which stays raw if it is compact (length + 1)."""
        w = self.w
        n = w.name("n")
        if self.flexible:
            self._byte(depth, n)
            w.put(depth, f"if {n} > 127:" if null else f"if not 0 < {n} < 128:")
            w.put(depth + 1, f"{n}, pos = {'uvarint' if null else 'compact_length'}(buf, pos - 1)")
        else:
            w.run.append((fmt, n))
            w.flush_reads(depth)
            if not null:
                w.put(depth, f"if {n} < 0:")
                w.put(depth + 1, f"raise negative_length({n})")
        return n

    def _present(self, n: str) -> str:
        return n if self.flexible else f"{n} >= 0"

    def _plain(self, n: str) -> str:
        return f"{n} - 1" if self.flexible else n

    # -- kinds of fields -------------------------------------------------------------------------------------------

    def _text(self, depth: int, f: Field, value: str, null: bool) -> None:
        """Writes code that reads a string, bytes or records with the length prefix."""
        w = self.w
        n = self._length(depth, "h" if f.type == "string" else "i", null)
        if null:
            kind = {"string": "str", "bytes": "bytes"}.get(f.type, self.records)
            w.put(depth, f"{value}: {kind} | None = None")
            w.put(depth, f"if {self._present(n)}:")
            depth += 1
        w.put(depth, f"end = pos + {self._plain(n)}")
        w.put(depth, f"{value} = {_SLICES[f.type]}")
        w.put(depth, "pos = end")

    def _nested(self, depth: int, f: Field, struct: Struct) -> str:
        w = self.w
        value = w.name(f.name)
        if self.version not in f.nullable:
            self.struct(depth, struct, value)
            return value
        w.flush_reads(depth)
        w.put(depth, f"{value}: {struct.name} | None = None")
        w.put(depth, "pos += 1")
        # In line the presence is an int8, below zero for null; as a tagged field it is a varint, zero for null.
        w.put(depth, "if buf[pos - 1]:" if self.version in f.tagged else "if buf[pos - 1] < 128:")
        self.struct(depth + 1, struct, value)
        return value

    def _array(self, depth: int, f: Field) -> str:
        w = self.w
        null = self.version in f.nullable
        value = w.name(f.name)
        n = self._length(depth, "i", null)
        kind = f.annotation(self.records).removesuffix(" | None")
        head = f"{value}: {kind}{' | None' if null else ''}"
        if null:
            w.put(depth, f"{head} = None")
            w.put(depth, f"if {self._present(n)}:")
            depth, head = depth + 1, value
        if f.struct:
            self._struct_array(depth, f.struct, value, n, head)
        elif f.type in FIXED:
            w.put(depth, f'{head} = list(unpack_from(f">{{{self._plain(n)}}}{FIXED[f.type]}", buf, pos))')
            w.put(depth, f"pos += {self._times(n, SIZES[FIXED[f.type]])}")
        elif f.type == "uuid":
            w.put(depth, f"end = pos + {self._times(n, 16)}")
            w.put(depth, "if end > len(buf):")
            w.put(depth + 1, f"raise too_long({self._plain(n)})")
            w.put(depth, f"{head} = [bytes(buf[p : p + 16]) for p in range(pos, end, 16)]")
            w.put(depth, "pos = end")
        else:
            w.put(depth, f"{head} = []")
            w.put(depth, f"for _ in range({self._plain(n)}):")
            item = w.name("x")
            self._text(depth + 1, f, item, False)
            w.put(depth + 1, f"{value}.append({item})")
        return value

    def _times(self, n: str, size: int) -> str:
        plain = f"({n} - 1)" if self.flexible else n
        return plain.strip("()") if size == 1 else f"{plain} * {size}"

    def _struct_array(self, depth: int, struct: Struct, value: str, n: str, head: str) -> None:
        w = self.w
        if not struct.smallest(self.version, self.flexible):
            w.put(depth, f"if {self._plain(n)} > len(buf) - pos:")
            w.put(depth + 1, f"raise too_long({self._plain(n)})")
        w.put(depth, f"{head} = []")
        w.put(depth, f"for _ in range({self._plain(n)}):")
        item = w.name("x")
        self.struct(depth + 1, struct, item)
        w.put(depth + 1, f"{value}.append({item})")

    # -- tagged fields ---------------------------------------------------------------------------------------------

    def _tag_reader(self, struct: Struct) -> str:
        """Returns the function that reads the tag section of this layout, written before the one under way."""
        key = ("read tags", struct.name, struct.signature(self.version, self.flexible))
        name = f"_read_{snake(struct.name)}_tags_v{self.version}"
        return self.w.helper(key, name, lambda: self._emit_tag_reader(name, struct))

    def _emit_tag_reader(self, name: str, struct: Struct) -> None:
        w = self.w
        w.put(0, f"def {name}(buf: Buffer, pos: int, count: int, msg: {struct.name}) -> int:")
        w.put(1, "if count > 127:")
        w.put(2, "count, pos = uvarint(buf, pos - 1)")
        w.put(1, "for _ in range(count):")
        w.put(2, "tag, pos = uvarint(buf, pos)")
        w.put(2, "size, pos = uvarint(buf, pos)")
        w.put(2, "after = pos + size")
        for k, f in enumerate(struct.layout(self.version)[1]):
            w.put(2, f"{'elif' if k else 'if'} tag == {f.tag}:")
            value = self.field(3, f)
            w.flush_reads(3)
            w.put(3, f"msg.{f.name} = {value}")
        w.put(2, "else:")
        w.put(3, "pos = after")
        w.put(2, "if pos != after:")
        w.put(3, "raise wrong_tag_size(tag, size)")
        w.put(1, "return pos")


def emit_decoder(w: Writer, name: str, message: Message, version: int, records: str) -> None:
    """Writes `def name(buf, pos) -> (message, pos)` for one layout."""
    w.begin_function()
    w.put(0, f"def {name}(buf: Buffer, pos: int) -> tuple[{message.root.name}, int]:")
    if message.carries_records(version):
        w.put(1, "view = memoryview(buf)")
    Decoder(w, version, version in message.flexible, records).struct(1, message.root, "msg")
    w.put(1, "return msg, pos")
    w.put(0, "")
    w.put(0, "")
