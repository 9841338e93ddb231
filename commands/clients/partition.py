"""A partition as the commands name it, in requests and towards the user."""

from __future__ import annotations

from typing import NamedTuple


class Partition(NamedTuple):
    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic} [{self.number}]"
