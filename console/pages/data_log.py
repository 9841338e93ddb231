"""A log on disk: its segments as a strip, what retention takes next and when, its offsets, and the files beside the segments."""

from __future__ import annotations

import shlex
import time
from typing import Final

from ottla.commands.config_rows import Kind
from ottla.commands.log.checks.directory import LogDirectoryCheck
from ottla.commands.log.known_topics import METADATA_DIRECTORY
from ottla.commands.output import Failure
from ottla.console.ask import Answer, Ask, Page, paged
from ottla.console.disk.batches import read_indexes, read_part
from ottla.console.disk.directory import Directory, LogFiles, open_file
from ottla.console.disk.pictures import of_log, of_offsets
from ottla.console.disk.retained import NAMES, config_of, what_goes
from ottla.console.errors import Missing
from ottla.console.pages.data_directory import holding
from ottla.console.rendering.templates import segment
from ottla.log.disk.checkpoint import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    EpochEntry,
    read_epochs,
)
from ottla.log.disk.files import OsDisk
from ottla.log.errors import CorruptSnapshot

SIZE: Final = 200
_MAX_WALK: Final = 64 << 20
"""The size of the largest last segment without an index whose end is looked for on this page."""
MEANINGS: Final = {
    "deleted": "removed from the log; its file goes after file.delete.delay.ms, or with the next start",
    "cleaned": "written by a compaction that is under way, or was interrupted",
    "swap": "the complete output of a compaction, about to replace segments",
    "tmp": "left behind by an interrupted step, or being written",
    "damaged": "what a start or a repair took out of the log",
}


def log(ask: Ask) -> Answer:
    """Shows one log."""
    source, name = holding(ask, ask.args["log"])
    files = source.log(name)
    about = source.about()
    page = paged(ask, files.segments, SIZE)
    is_end = bool(page.shown) and page.shown[-1] is files.segments[-1]
    offsets = _offsets(about, files)
    settings, whence, note = _settings(ask, source, files, about)
    config = config_of(settings, files.log.topic)
    is_in_use = not files.log.state and files.log.name != METADATA_DIRECTORY
    retained = what_goes(
        files,
        config,
        log_start_offset=offsets["log start"],
        high_watermark=offsets["high watermark"],
        now_ms=time.time_ns() // 1_000_000,
    )
    out_of_use = [one for one in files.others if one.kind == "log" and one.state]
    epochs, epochs_wrong = _epochs(files)
    due = max(0, retained.due - (page.first - 1)) if is_in_use else 0
    return Page(
        "data_log.html",
        {
            "files": files,
            "is_in_use": is_in_use,
            "page": page,
            "is_end": is_end,
            "picture": of_log(
                page.shown, out_of_use[:SIZE] if is_end else [], due, is_end=is_end, link=f"/files/{segment(files.key)}/"
            ),
            "retained": retained,
            "whence": whence,
            "notes": [one for one in (note, epochs_wrong) if one],
            "marks": of_offsets(list(offsets.items())),
            "offsets": offsets,
            "cleaned_upto": about.checkpoints[CLEANER_OFFSETS].get(files.log.where),
            "epochs": epochs,
            "others": files.others[:SIZE],
            "more_others": max(0, len(files.others) - SIZE),
            "meanings": MEANINGS,
            "verify": f"ottla log verify {shlex.quote(str(files.path))}",
        },
    )


def _offsets(about: LogDirectoryCheck, files: LogFiles) -> dict[str, int | None]:
    """Returns the offsets that the checkpoints and the segments tell, by name; None where they do not."""
    where = files.log.where
    first = files.segments[0].base_offset if files.segments else None
    known = {name: about.checkpoints[name].get(where) for name in (LOG_START_OFFSETS, RECOVERY_POINTS, HIGH_WATERMARKS)}
    in_use = not files.log.state
    start = known[LOG_START_OFFSETS]
    return {
        "log start": first if start is None or not in_use else max(start, first or 0),
        "recovery point": known[RECOVERY_POINTS] if in_use else None,
        "high watermark": known[HIGH_WATERMARKS] if in_use else None,
        "end": _end_offset(files),
    }


def _end_offset(files: LogFiles) -> int | None:
    """Returns the offset after the last sound batch; None if finding it would take too long."""
    if not files.segments:
        return None
    last = files.segments[-1]
    base = last.base_offset or 0
    indexes = read_indexes(files.path / last.name, base)
    last_position = indexes.offsets[len(indexes.offsets) - 1][1] if len(indexes.offsets) else 0
    if last.size - last_position > _MAX_WALK:
        return None
    file = open_file(files.path / last.name)
    if not file.size:
        return base
    part = read_part(file, indexes, at=last_position, count=1 << 30, clock=time.monotonic)
    return None if part.is_cut or part.next is not None else part.next_offset


def _settings(ask: Ask, source: Directory, files: LogFiles, about: LogDirectoryCheck) -> tuple[dict[str, str], str, str]:
    """Returns the topic's settings, where they come from, and a note."""
    topic = files.log.topic
    note = ""
    if ask.has_cluster and about.meta is not None and not files.log.state and files.log.name != METADATA_DIRECTORY:
        try:
            if ask.source.summary().cluster_id != about.meta.cluster_id:
                note = "The cluster is not the one that this directory belongs to."
            else:
                found = {one.name: one.value for one in ask.source.settings(Kind.TOPIC, topic) if one.value is not None}
                return {name: found[name] for name in NAMES if name in found}, "as the cluster has them", ""
        except (Failure, Missing) as failure:
            note = f"The topic's settings could not be read from the cluster: {failure}"
    known = (one.topics() for one in (source, *ask.directories))
    topics = next((one for one in known if one is not None), None)
    if topics is None:
        return {}, "Kafka's defaults: the metadata log is in no directory that is shown here", note
    told = "as the metadata log has them; where it says nothing, Kafka's defaults stand in for the broker's settings"
    return topics.settings.get(topic, {}), told, note


def _epochs(files: LogFiles) -> tuple[list[EpochEntry], str]:
    try:
        return read_epochs(OsDisk(), str(files.path / LEADER_EPOCHS))[-SIZE:], ""
    except (CorruptSnapshot, OSError) as error:
        return [], f"{LEADER_EPOCHS} cannot be read: {error}; ottla log repair rewrites it from the batches"
