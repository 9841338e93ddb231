"""A snapshot as a tar: everything is in it as it was, and nothing leads out of it."""

from __future__ import annotations

import asyncio
import io
import tarfile
from pathlib import Path

import pytest

from ottla.server.http import responder
from ottla.server.testkit.fields import Refused
from ottla.server.testkit.lives import archives
from ottla.server.testkit.lives.archives import Archive
from ottla.testing import Broker
from tests.memdisk import MemDisk
from tests.server.testkit.lives_rig import living, run
from tests.server.testkit.test_port import call

LONG = "t" * 249
"""As long as the name of a topic may be, which the oldest form of a tar has no place for."""


def disk() -> MemDisk:
    made = MemDisk(lambda: 1_700_000_000_000)
    for directory in ("/a/empty", f"/a/{LONG}-0", "/b"):
        made.makedirs(directory)
    made.open(f"/a/{LONG}-0/0.log", create=True).append([bytes(range(256)) * 5])
    made.open("/a/none", create=True)
    made.write_bytes("/b/meta", b"x" * 512)
    return made


def unpacked(archive: Archive) -> dict[str, bytes | None]:
    """The content of every file by name; None for directories."""
    data = b"".join(archive.pieces())
    assert len(data) == archive.size()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = {member.name: tar.extractfile(member) for member in tar}
        assert {member.mtime for member in tar if member.isfile()} == {1_700_000_000}
    return {name: None if file is None else file.read() for name, file in files.items()}


def test_one_log_directory_is_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "PIECE_BYTES", 100)
    assert unpacked(Archive(disk(), ["/a"])) == {
        "empty": None,
        "none": b"",
        f"{LONG}-0": None,
        f"{LONG}-0/0.log": bytes(range(256)) * 5,
    }


def test_several_log_directories_have_one_each_in_their_order() -> None:
    found = unpacked(Archive(disk(), ["/b", "/a"]))
    assert found["log-dir-0/meta"] == b"x" * 512
    assert found["log-dir-1/none"] == b""


def test_what_is_shorter_than_it_was_does_not_become_a_wrong_archive() -> None:
    memory = disk()
    pieces = Archive(memory, ["/b"]).pieces()
    next(pieces)
    memory.open("/b/meta").truncate(5)
    with pytest.raises(OSError, match="became shorter"):
        list(pieces)


def test_only_the_name_of_a_snapshot_finds_one() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders", {"partitions": 1})
            await rig.produce("orders", count=3)
            await rig.call("POST", "/v1/snapshots", {"name": "../seeded"})
            found = unpacked_names(rig.lives.archive("../seeded"))
            assert {"meta.properties", "orders-0/00000000000000000000.log"} <= found
            assert not any(name.startswith(("/", "..")) or "/../" in name for name in found)
            with pytest.raises(Refused, match="there is no snapshot"):
                await rig.call("GET", "/v1/snapshots/seeded/archive")

    run(scenario)


@pytest.mark.parametrize("to_its_end", [True, False])
def test_what_is_read_is_not_deleted_meanwhile(to_its_end: bool) -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("POST", "/v1/snapshots", {"name": "seeded"})
            pieces = rig.lives.archive("seeded").pieces()
            next(pieces)
            with pytest.raises(Refused, match="'seeded' is being archived") as refused:
                await rig.call("DELETE", "/v1/snapshots/seeded")
            assert refused.value.status == 409
            if to_its_end:
                assert len(list(pieces)) > 3
            else:
                del pieces  # as whoever sends it does when the client is gone
            await rig.call("DELETE", "/v1/snapshots/seeded")
            assert await rig.call("GET", "/v1/snapshots") == []

    run(scenario)


def test_by_http_it_is_sent_as_it_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(archives, "PIECE_BYTES", 1000)
    joined: list[object] = []
    monkeypatch.setattr(responder, "_body_of", joined.append)

    async def scenario() -> None:
        async with Broker(test_port=0) as broker:
            await broker.aio.create_topic("orders", 2)
            await broker.aio.snapshot("seeded")
            answer = await call(str(broker.test_url), "GET", "/v1/snapshots/seeded/archive")
            assert (answer.status, answer.fields["content-type"]) == (200, "application/x-tar")
            assert len(answer.body) == int(answer.fields["content-length"])
            await broker.aio.archive("seeded", tmp_path / "seeded.tar")
            assert (tmp_path / "seeded.tar").read_bytes() == answer.body
            assert joined == []

    asyncio.run(scenario())


def unpacked_names(archive: Archive) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(b"".join(archive.pieces()))) as tar:
        return set(tar.getnames())
