"""The users of a file as it is now: who is taken out is out, and what cannot be read changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from compat_tests.password_files import PASSWORD, line, write
from ottla.console.web.users import Users
from ottla.security.password_file import BadPasswordFile, Credential, credential_of


def test_users_come_and_go(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "users"
    write(path, line("alice"))
    users = Users(path)
    assert users.fits("alice", PASSWORD)
    assert not users.fits("alice", PASSWORD + "x")
    assert not users.fits("bob", PASSWORD)
    mark = users.mark("alice")
    write(path, line("alice", "another password") + line("bob"))
    assert users.fits("bob", PASSWORD)
    assert not users.fits("alice", PASSWORD)
    assert users.mark("alice") not in {mark, None}
    write(path, line("bob"))
    assert "alice" not in users
    assert users.mark("alice") is None
    assert caplog.messages == []
    path.unlink()
    assert "bob" in users
    write(path, "nonsense")
    assert [users.fits("bob", PASSWORD) for _ in range(3)] == [True] * 3
    assert [message.partition(": ")[2][:20] for message in caplog.messages] == [str(path)[:20]] * 2  # gone, then nonsense
    write(path, line("carol"))
    assert "carol" in users


def test_who_is_not_there_is_looked_for_as_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "users"
    write(path, line("alice"))
    users = Users(path)
    slow = credential_of("slow and better", b"0123456789abcdef", 6000).line("carol")
    rounds: list[int] = []
    monkeypatch.setattr(Credential, "fits", lambda self, _: not rounds.append(self.iterations))  # type: ignore[func-returns-value]  # None is no answer
    assert users.fits("alice", PASSWORD)
    assert not users.fits("bob", "")  # whatever fits nobody
    assert rounds == [4096, 4096]
    write(path, line("alice") + slow)  # the file of now counts, and the slowest in it
    rounds.clear()
    assert [users.fits(name, PASSWORD) for name in ("carol", "bob", "alice")] == [True, False, True]
    assert rounds == [6000, 6000, 4096, 1904]


def test_a_file_that_cannot_be_used_at_the_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadPasswordFile, match=os.fspath(tmp_path)):
        Users(tmp_path / "none")
