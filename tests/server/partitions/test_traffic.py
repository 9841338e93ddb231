"""This test adds the counts of a topic's traffic."""

from __future__ import annotations

from ottla.server.partitions.traffic import FIELDS, Traffic


def test_every_count_is_added() -> None:
    total, one = Traffic(), Traffic()
    for number, name in enumerate(FIELDS, 1):
        setattr(one, name, number)
    total.add(one)
    total.add(one)
    assert [getattr(total, name) for name in FIELDS] == [2 * number for number in range(1, len(FIELDS) + 1)]
