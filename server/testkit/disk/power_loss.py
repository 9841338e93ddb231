"""The losses that a power cut may cause to a disk in memory (memory_disk.py).

POSIX promises nothing that was not fsynced; file systems promise more, and not the same. The rules here are the union of what
the study behind ALICE and BOB found on ext3, ext4, btrfs, xfs and others (Pillai and others, "All File Systems Are Not Created
Equal", OSDI 2014) and of what ext4's and xfs's own documents say of delayed allocation. So a log that survives every outcome
allowed here needs no favour of any file system.

Bytes of a file that were not fsynced:

- Size and bytes are lost apart from each other. The size is one that the file had since its last fsync, or lies at a border of a
  sector between the least and the greatest of them: a write is torn there.
- Every sector that was written holds, whatever its neighbours hold: what it held at the last fsync, or after any write since, or,
  where the file had grown, zeros (allocated and never written: xfs, ext4 with delayed allocation) or another file's bytes
  (ext4 with data=writeback). A sector itself is never torn: bytes fsynced before survive an append into their sector.
- A cut is as unsafe as a write: the old size may come back, with the old bytes or new ones behind it.

Names that no fsync of their directory covers: each create, rename, remove and mkdir is there or not, on its own (btrfs) or, if
`ordered`, only together with all before it (ext4 and xfs, which keep one journal). On its own still means after what happened
before it to the same name or the same file. A rename is one step: the file is there under one of the names, never under both or
none. fsync of a file makes its name no safer (POSIX; most file systems are kinder), and
fsync of a directory only its own entries, not the directory's own name. Names and bytes have nothing to do with each other: an
unsynced file that was renamed over another may be there and empty.

Not allowed, because no file system that is worth a log does it: loss or change of what was fsynced, a sector half written, a file
under two names after a rename.

What is lost is asked of a `Choose`: given n outcomes, from "all of it lost" to "all of it there", it says which. So one function
serves a seed (`random_choice`), the worst case (`lose_all`) and a search through every outcome (tests/sim/losses.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from ottla.log.disk.files import Buffer

SECTOR_BYTES: Final = 512
_FOREIGN: Final = b"\x5a"  # what was in a block before it became this file's

Choose = Callable[[int], int]
"""Of `n` > 0 outcomes, the number of one, 0 <= it < n: 0 is the last durable state, n - 1 what the process saw."""


def lose_all(outcomes: int) -> int:
    """Chooses the outcome in which everything that was not synced is gone."""
    return 0


def keep_all(outcomes: int) -> int:
    """Chooses the outcome in which everything arrived, as after a kill of the process alone."""
    return outcomes - 1


def random_choice(rng: random.Random) -> Choose:
    """Makes a choice of outcomes by a seed, in one of three moods (most lost, most kept, neither), so that extremes are as
    frequent as mixtures."""
    kept = rng.choice((0.05, 0.5, 0.95))

    def choose(outcomes: int) -> int:
        mood = rng.random()
        if mood < kept * 0.8:
            return outcomes - 1
        return rng.randrange(outcomes) if mood < 0.9 else 0

    return choose


class Inode:
    """A file's bytes: `data` as processes see them, `synced` as of the last fsync, and every change between the two."""

    __slots__ = ("changes", "data", "modified_ms", "synced")

    def __init__(self, modified_ms: int, synced: Buffer = b"") -> None:
        self.data = bytearray(synced)
        self.synced = bytearray(synced)
        self.changes: list[tuple[int, bytes | None]] = []  # (position, bytes written there), or (size, None): cut to that
        self.modified_ms = modified_ms

    def write(self, position: int, data: bytes) -> None:
        _change(self.data, position, data)
        self.changes.append((position, data))

    def cut(self, size: int) -> None:
        """Cuts the file to `size` bytes, or extends it with zeros up to them."""
        _change(self.data, size, None)
        self.changes.append((size, None))

    def sync(self) -> None:
        """Makes all changes durable. That takes as long as they are large, not as the file is."""
        for position, data in self.changes:
            _change(self.synced, position, data)
        self.changes.clear()

    def copied(self) -> Inode:
        """Returns the same file once more."""
        other = Inode(self.modified_ms, self.synced)
        other.data, other.changes = self.data.copy(), self.changes.copy()
        return other

    def surviving(self, choose: Choose, sector_bytes: int) -> bytes:
        """Returns the bytes after a power cut."""
        if not self.changes:
            return bytes(self.synced)
        sizes, sectors = self._outcomes(sector_bytes)
        size = sizes[choose(len(sizes))]
        result = bytearray()
        for sector in range(-(-size // sector_bytes)):
            contents = sectors.get(sector, [bytes(sector_bytes)])
            result += contents[choose(len(contents)) if len(contents) > 1 else 0]
        return bytes(result[:size])

    def _outcomes(self, sector_bytes: int) -> tuple[list[int], dict[int, list[bytes]]]:
        """Returns every size, and for every sector every content, each from the durable one to the newest."""
        now = bytearray(self.synced)
        seen = [len(now)]
        sectors = {at: [_sector(now, at, sector_bytes)] for at in range(-(-len(now) // sector_bytes))}
        for position, data in self.changes:
            if data is None:
                del now[position:]
            touched_from = min(position, len(now))
            now += bytes(max(0, position + len(data or b"") - len(now)))
            if data is not None:
                now[position : position + len(data)] = data
            seen.append(len(now))
            for at in range(touched_from // sector_bytes, -(-len(now) // sector_bytes)):
                contents = sectors.setdefault(at, [bytes(sector_bytes), _FOREIGN * sector_bytes])
                content = _sector(now, at, sector_bytes)
                if contents[-1] != content:
                    contents.append(content)
        least, greatest = min(seen), max(seen)
        borders = range(-(-least // sector_bytes) * sector_bytes, greatest, sector_bytes)
        between = sorted({*seen, *borders} - {len(self.synced), len(now)})
        return [len(self.synced), *between, *([len(now)] if len(now) != len(self.synced) else [])], sectors


def _change(content: bytearray, position: int, data: bytes | None) -> None:
    """Writes data at a position, or cuts the content there if that is None; what was not there before is zeros."""
    if data is None:
        del content[position:]
    if position > len(content):
        content += bytes(position - len(content))
    if data is not None:
        content[position : position + len(data)] = data


def _sector(data: bytearray, at: int, sector_bytes: int) -> bytes:
    return bytes(data[at * sector_bytes : (at + 1) * sector_bytes]).ljust(sector_bytes, b"\0")


class Directory:
    """A directory's names: `entries` as processes see them, `durable` as fsync left them."""

    __slots__ = ("durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node = Inode | Directory
Entry = tuple[Directory, str, Node | None]
"""A name in a directory, and what it now stands for; None: nothing."""


class _Step:
    """One change of names: durable whole or not at all. `nodes`: the files and directories it is about; `touches`: these, and the
    names."""

    __slots__ = ("entries", "nodes", "touches")

    def __init__(self, entries: tuple[Entry, ...], nodes: set[Node]) -> None:
        self.entries = entries
        self.nodes = nodes
        self.touches: set[object] = {(directory, name) for directory, name, _ in entries} | nodes

    def apply(self, tables: Callable[[Directory], dict[str, Node]]) -> None:
        for directory, name, node in self.entries:
            if node is None:
                tables(directory).pop(name, None)
            else:
                tables(directory)[name] = node


class Names:
    """The tree of names, and the changes of it that no fsync has covered yet, in order."""

    def __init__(self, *, ordered: bool) -> None:
        self.root = Directory()
        self._ordered = ordered
        self._pending: list[_Step] = []

    def change(self, *entries: Entry) -> None:
        """Changes names in one step: each now stands for its node, or for nothing."""
        step = _Step(entries, {each for at, name, node in entries for each in (node, at.entries.get(name)) if each is not None})
        step.apply(lambda directory: directory.entries)
        self._pending.append(step)

    def sync(self, directory: Directory) -> None:
        """Makes the directory's own entries durable, with what they depend on; in one journal, everything before them too."""
        rest: list[_Step] = []
        covered: list[_Step] = []
        needed: set[object] = set()
        for step in reversed(self._pending):
            own = any(d is directory for d, _, _ in step.entries)
            if own or not needed.isdisjoint(step.touches) or (covered and self._ordered):
                needed |= step.touches
                covered.append(step)
            else:
                rest.append(step)
        for step in reversed(covered):
            step.apply(lambda directory: directory.durable)
        self._pending = rest[::-1]

    def forget_unreachable(self) -> None:
        """Forgets changes of names in directories that no outcome of a power cut can bring back, with the files they held."""
        reachable: set[Directory] = set()
        found: list[Node] = [self.root]
        rest, unseen = list[_Step](), self._pending
        while found:
            while found:
                node = found.pop()
                if isinstance(node, Directory) and node not in reachable:
                    reachable.add(node)
                    found += (*node.entries.values(), *node.durable.values())
            steps, unseen = unseen, []
            for step in steps:
                if any(directory in reachable for directory, _, _ in step.entries):
                    rest.append(step)
                    found += step.nodes
                else:
                    unseen.append(step)
        kept = set(map(id, rest))
        self._pending = [step for step in self._pending if id(step) in kept]

    def copied(self) -> Names:
        """Returns the same tree once more, with its changes. By hand, because a general deep copy takes ten times as long."""
        copies: dict[Node, Node] = {}

        def copied_directory(old: Directory) -> Directory:
            new = copies.get(old)
            if new is None:
                new = copies[old] = Directory()
                new.entries = {name: copied_node(node) for name, node in old.entries.items()}
                new.durable = {name: copied_node(node) for name, node in old.durable.items()}
            assert isinstance(new, Directory)
            return new

        def copied_node(old: Node) -> Node:
            if isinstance(old, Directory):
                return copied_directory(old)
            new = copies.get(old)
            if new is None:
                new = copies[old] = old.copied()
            return new

        result = Names(ordered=self._ordered)
        result.root = copied_directory(self.root)
        result._pending = [
            _Step(
                tuple(
                    (copied_directory(at), name, copied_node(node) if node is not None else None)
                    for at, name, node in step.entries
                ),
                {copied_node(node) for node in step.nodes},
            )
            for step in self._pending
        ]
        return result

    def _kept(self, choose: Choose) -> list[_Step]:
        if self._ordered:
            return self._pending[: choose(len(self._pending) + 1)]
        kept: list[_Step] = []
        lost: set[object] = set()
        for step in self._pending:
            if lost.isdisjoint(step.touches) and choose(2):
                kept.append(step)
            else:
                lost |= step.touches
        return kept

    def survivors(self, choose: Choose, file: Callable[[Inode], Inode]) -> Names:
        """Returns the tree after a power cut; `file` says what became of a file."""
        changed: dict[Directory, dict[str, Node]] = {}
        for step in self._kept(choose):
            step.apply(lambda directory: changed.setdefault(directory, dict(directory.durable)))
        result = Names(ordered=self._ordered)

        def rebuild(old: Directory, new: Directory) -> None:
            for name, node in changed.get(old, old.durable).items():
                if isinstance(node, Directory):
                    inner = Directory()
                    rebuild(node, inner)
                    new.durable[name] = new.entries[name] = inner
                else:
                    new.durable[name] = new.entries[name] = file(node)

        rebuild(self.root, result.root)
        return result
