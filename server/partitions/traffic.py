"""Counts the records and bytes that go into a topic's partitions and out of them."""

from __future__ import annotations

from typing import Final

FIELDS: Final = ("appends", "bytes_in", "bytes_out", "failed_fetches", "fetches", "messages_in", "refused")


class Traffic:
    """The traffic of a topic's partitions on this broker since it started, in plain integers that server/metrics reads.

    `appends` counts batches written, including those of coordinators, and `refused` those that the log of a partition refused;
    `fetches` counts reads of a partition, of which a delayed fetch takes several, and `failed_fetches` those that ended in an
    error. Kafka counts the same.
    """

    __slots__ = FIELDS

    def __init__(self) -> None:
        self.appends = 0
        self.refused = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.fetches = 0
        self.failed_fetches = 0

    def add(self, other: Traffic) -> None:
        for name in FIELDS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
