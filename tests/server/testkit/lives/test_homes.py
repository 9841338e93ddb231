"""Tests of where a broker for tests lives, and what may be deleted there."""

from __future__ import annotations

import asyncio

import pytest

from ottla.log.disk.files import remove_tree
from ottla.server.broker.marked_directories import MARKER
from ottla.server.testkit.fields import Refused
from ottla.server.testkit.lives.homes import Given, Scratch
from tests.server.broker.whole_broker import disk


def test_scratch_moves_on_and_has_the_old_ones_removed() -> None:
    removed: list[str] = []
    home = Scratch("/kit", removed.append)
    lives = [[home.first(), "/kit/other"]]
    for _ in range(2):
        lives.append(asyncio.run(home.move(lives[-1])))
    assert removed == [*lives[0], *lives[1]]
    assert len({path for life in lives for path in life}) == 6
    assert all(path.startswith("/kit/") for life in lives for path in life)
    home.check()


@pytest.mark.parametrize(("files", "allowed"), [((), True), ((MARKER, "orders"), True), (("orders",), False)])
def test_directories_are_emptied_if_they_were_empty_or_have_the_mark(files: tuple[str, ...], allowed: bool) -> None:
    on = disk()
    on.makedirs("/data")
    for name in files:
        on.write_bytes(f"/data/{name}", b"")
    home = Given(on, ["/missing", "/data"], "/snapshots")
    on.makedirs("/data/orders-0/inner")
    on.write_bytes("/data/meta.properties", b"")
    if allowed:
        assert asyncio.run(home.move(["/data"])) == ["/data"]
        assert on.list("/data") == ([MARKER] if MARKER in files else [])
    else:
        with pytest.raises(Refused, match="/data held data before the test, which this would delete; start the broker on an"):
            asyncio.run(home.move(["/data"]))
        assert "orders-0" in on.list("/data")
    remove_tree(on, "/data")
