"""Every disk that a power cut may leave at one moment, or, where they are too many, a seeded sample of them.

`survivors` walks through all answers that power_loss.py (server/testkit/disk) may ask for, as an odometer does, and stops if they
are more than `bound`; then it takes the two ends (all lost, all kept) and as many seeded ones as fit. Outcomes that leave one
disk are one.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ottla.server.testkit.disk.power_loss import keep_all, lose_all, random_choice
from tests.memdisk import MemDisk


class _Odometer:
    """Gives the answers of one outcome after the other; `turn` moves to the next and is False after the last."""

    def __init__(self) -> None:
        self._wheels: list[list[int]] = []  # [answer, outcomes]
        self._at = 0

    def __call__(self, outcomes: int) -> int:
        if self._at == len(self._wheels):
            self._wheels.append([0, outcomes])
        answer = self._wheels[self._at][0]
        self._at += 1
        return answer

    def turn(self) -> bool:
        self._at = 0
        while self._wheels:
            wheel = self._wheels[-1]
            if wheel[0] + 1 < wheel[1]:
                wheel[0] += 1
                return True
            self._wheels.pop()
        return False


def survivors(disk: MemDisk, bound: int, seed: int) -> tuple[list[MemDisk], bool]:
    """(the disks that may be left, are they all of them?)"""
    found: dict[tuple[tuple[str, bytes], ...], MemDisk] = {}
    odometer = _Odometer()
    for _ in range(bound):
        other = disk.crashed(odometer)
        found.setdefault(content(other), other)
        if not odometer.turn():
            return list(found.values()), True
    found.clear()
    rng = Random(seed)
    for choose in (lose_all, keep_all, *(random_choice(rng) for _ in range(bound - 2))):
        other = disk.crashed(choose)
        found.setdefault(content(other), other)
    return list(found.values()), False


def content(disk: MemDisk) -> tuple[tuple[str, bytes], ...]:
    """Every path with its bytes; directories have none."""
    return tuple(_walk(disk, ""))


def _walk(disk: MemDisk, directory: str) -> Iterator[tuple[str, bytes]]:
    for name in disk.list(directory or "/"):
        path = f"{directory}/{name}"
        if disk.is_dir(path):
            yield path, b""
            yield from _walk(disk, path)
        else:
            yield path, disk.read_bytes(path)
