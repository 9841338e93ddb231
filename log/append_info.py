"""The result of an append to a partition's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

if TYPE_CHECKING:
    from ottla.log.joined_write import JoinedWrite


class AppendInfo:
    """The result of an append. `log_append_time_ms` is -1 if the topic keeps the producer's timestamps.

    For a duplicate, the offsets are those of the first time and the time is the batch's greatest timestamp (row I3 of
    docs/kafka-behaviour.md). `waits` says that the acknowledgement has to wait: for a flush that `flush.messages` made due
    (log/flush.py), or, if all replicas are to have the batch, for the high watermark. `joined` is what has to be written before
    the acknowledgement (log/joined_write.py), None if the bytes are in the file.
    """

    __slots__ = ("base_offset", "duplicate", "joined", "last_offset", "log_append_time_ms", "log_start_offset", "waits")

    def __init__(
        self,
        base_offset: i64,
        last_offset: i64,
        log_append_time_ms: i64,
        log_start_offset: i64,
        *,
        duplicate: bool = False,
        waits: bool = False,
        joined: JoinedWrite | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate
        self.waits = waits
        self.joined = joined
