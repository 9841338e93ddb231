"""Planted faults: the broker is broken on purpose, one way at a time, and the simulation has to find each under its right name.

Each is an edit of sources: `old` is in the file exactly once and `new` takes its place. `plant` has the edited module loaded
instead, in this process and before anything of ottla is imported; all modules then come from their sources, because compiled ones
would call past the edit.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
MOST_SEEDS: Final = 400


class Planted(NamedTuple):
    """A fault. `names` are the anomalies that it is: at least one of them has to be found. `edits` are pairs (old, new)."""

    name: str
    names: frozenset[str]
    file: str
    edits: tuple[tuple[str, str], ...]


def fault(name: str, names: str, file: str, *edits: tuple[str, str]) -> Planted:
    """Returns a fault; its anomalies are given as one text."""
    return Planted(name, frozenset(names.split()), file, edits)


PLANTED: Final = (
    fault(
        "a batch that is sent again is written again",
        "duplicate",
        "log/producers.py",
        ("            if duplicate is not None:\n                return duplicate\n", ""),
        ("            _check_sequence(header, state)\n", "            pass\n"),
    ),
    fault(
        "a restart forgets what producers have written",
        "duplicate",
        "log/rebuild.py",
        (
            "    producers.end_offset = end_offset\n    return from_offset\n",
            "    for each in [state for state in producers if not state.has_open_transaction]:\n"
            "        del producers._states[each.producer_id]\n"
            "    producers.end_offset = end_offset\n    return from_offset\n",
        ),
    ),
    fault(
        "an append is acknowledged before its flush",
        "lost-write unseen",
        "server/handlers/produce.py",
        ("    if info.waits and (body.acks", "    if not info and (body.acks"),
    ),
    fault(
        "a flush does not sync the records",
        "lost-write unseen vanished",
        "log/flush.py",
        ("                file.sync()\n", '                if "/t-" not in self._path:\n                    file.sync()\n'),
    ),
    fault(
        "the high watermark does not wait for the flush",
        "vanished hw-backwards",
        "log/appending.py",
        (
            "            self._awaiting_flush.append(end_offset)\n",
            "            self.high_watermark = end_offset\n            self._awaiting_flush.append(end_offset)\n",
        ),
    ),
    fault(
        "the last stable offset passes open transactions",
        "precommitted-read",
        "log/partition.py",
        (
            "return high_watermark if first is None or first > high_watermark else max(first, self.log_start_offset)",
            "return high_watermark",
        ),
    ),
    fault(
        "a fetch does not say what was aborted",
        "G1a",
        "server/partitions/fetch_answers.py",
        ("for entry in aborted_in_read(log, fetch_offset, records)]", "for entry in ()]"),
    ),
    fault(
        "the marker of an aborted transaction is lost",
        "stuck G1a",
        "server/txn/shard.py",
        (
            "        code = self._write_marker(*partition, marker)\n",
            "        code = self._write_marker(*partition, marker) if marker.committed else ErrorCode.NONE\n",
        ),
    ),
    fault(
        "a transaction is committed in one partition only",
        "lost-write",
        "server/txn/shard.py",
        (
            "        code = self._write_marker(*partition, marker)\n",
            "        half = marker if partition[1] == 0 else marker._replace(committed=False)\n"
            "        code = self._write_marker(*partition, half)\n",
        ),
    ),
    fault(
        "a producer is not fenced by the one that takes its place",
        "zombie-write",
        "server/txn/state.py",
        (
            "    if expected is None:\n        epoch, last = epoch + 1, NO_EPOCH",
            "    if expected is None:\n        epoch, last = max(epoch, 0), NO_EPOCH",
        ),
    ),
    fault(
        "an offset is given twice after a restart",
        "inconsistent-offsets",
        "log/opening/recovery.py",
        (
            "        self.end_offset = self._settle_ends()\n",
            "        self.end_offset = max(self._settle_ends() - 1, self.segments[-1].base_offset)\n",
        ),
    ),
    fault(
        "recovery cuts a torn segment at its beginning",
        "lost-write unseen vanished inconsistent-offsets",
        "log/opening/torn_tail.py",
        ("            self._cut(segment, position, why)\n", "            self._cut(segment, 0, why)\n"),
    ),
    fault(
        "a restart misses a group's last commit",
        "lost-commit",
        "server/coordination/shard.py",
        (
            "        for batch in read():\n",
            '        for batch in list(read())[: -1 if self.topic == "__consumer_offsets" else None]:\n',
        ),
    ),
    fault(
        "an accepted record is forgotten by a restart",
        "redelivered",
        "server/share/changes.py",
        (
            "        self.rows.append(StateBatch(run.first, run.last, run.delivery_count, state))\n",
            "        kept = AVAILABLE if state is RecordState.ACKNOWLEDGED else state\n"
            "        self.rows.append(StateBatch(run.first, run.last, run.delivery_count, kept))\n",
        ),
    ),
    fault(
        "a restart takes released records for accepted ones",
        "undelivered",
        "server/share/share_partition.py",
        (
            "AVAILABLE if state is ACQUIRED else state for state in RecordState}",
            "state if state in TERMINAL else RecordState.ACKNOWLEDGED for state in RecordState}",
        ),
    ),
    fault(
        "a released record is delivered without end",
        "delivered-too-often",
        "server/share/changes.py",
        ("if state is AVAILABLE and run.delivery_count >= delivery_limit:", "if state is AVAILABLE and run.delivery_count < 0:"),
    ),
    fault(
        "a fetch begins behind its offset",
        "poll-skip int-poll-skip",
        "log/partition.py",
        (
            "            return self.segments.read(offset, max_bytes, min(upto, end_offset), end_offset, min_one_batch)\n",
            "            offset = min(offset + (offset % 5 == 3), end_offset)\n"
            "            return self.segments.read(offset, max_bytes, min(upto, end_offset), end_offset, min_one_batch)\n",
        ),
    ),
)


def named(name: str, faults: Sequence[Planted] = PLANTED) -> Planted:
    """Returns the fault of this name. Raises KeyError."""
    return {each.name: each for each in faults}[name]


def edited(fault: Planted) -> str:
    """Returns the source with the fault in it. Raises ValueError where an edit does not apply."""
    text = (ROOT / fault.file).read_text()
    for old, new in fault.edits:
        if text.count(old) != 1:
            raise ValueError(f"{fault.name}: what it changes is {text.count(old)} times in {fault.file}")
        text = text.replace(old, new)
    return text


def plant(fault: Planted) -> None:
    """Has the fault's module loaded with the fault in it, from now on. Nothing of ottla may be imported yet."""
    loaded = [module for module in sys.modules if module.startswith("ottla.")]
    assert not loaded, f"too late: {loaded[:3]} are imported"
    sys.meta_path.insert(0, _Sources(fault))


class _Sources(importlib.abc.MetaPathFinder):
    """Finds ottla's modules in their sources."""

    def __init__(self, fault: Planted) -> None:
        self._fault = fault

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("ottla."):
            return None
        inner = "/".join(fullname.split(".")[1:])
        for file in (f"{inner}.py", f"{inner}/__init__.py"):
            found = str(ROOT / "ottla" / file)
            if Path(found).exists():
                if file == self._fault.file:
                    loader: importlib.machinery.SourceFileLoader = _Edited(fullname, found, self._fault)
                else:
                    loader = importlib.machinery.SourceFileLoader(fullname, found)
                return importlib.util.spec_from_file_location(fullname, found, loader=loader)
        return None


class _Edited(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, fault: Planted) -> None:
        super().__init__(fullname, path)
        self._fault = fault

    def get_code(self, fullname: str) -> CodeType:
        return compile(edited(self._fault), self.path, "exec", dont_inherit=True)
