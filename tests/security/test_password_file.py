"""A file of users: which passwords fit, and what is said of a file that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.security import password_file
from ottla.security.password_file import MOST_USERS, BadPasswordFile, credential_of, name_problem, parse, read_users

SALT = bytes(range(16))
ALICE = credential_of("correct horse", SALT, 4096).line("alice")


def test_a_line_holds_what_fits_one_password() -> None:
    users = parse(f"# who may come in\n\n{ALICE}\n{credential_of('battery staple', SALT, 5000).line('bob')}\n")
    assert list(users) == ["alice", "bob"]
    assert users["alice"].fits("correct horse")
    assert [users["alice"].fits(wrong) for wrong in ("", "correct horse ", "battery staple", "correct horse" * 200)] == [
        False
    ] * 4
    assert (users["bob"].mechanism, users["bob"].iterations) == ("SCRAM-SHA-512", 5000)
    assert "correct" not in ALICE


def test_a_credential_of_another_server_counts() -> None:
    """RFC 7677 has this exchange: its user, password, salt and rounds; PostgreSQL keeps the same line."""
    line = "user:SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
    assert parse(line + "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=")["user"].fits("pencil")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there is no user in it"),
        ("alice:secret password", "line 1 is no user; have `ottla console --new-user NAME` print the line"),
        (f"\n{ALICE}\n{ALICE}", "line 3: alice is there twice"),
        (ALICE.replace("alice", "al\u202eice"), "line 1: a name has 1 to 64 characters"),
        (ALICE.replace("$4096", "$4095"), "line 1: 4095 iterations; use 4096 to 2000000"),
        (ALICE.replace("$4096", "$2000001"), "2000001 iterations"),
        (f"{ALICE}*", "line 1: salt and keys are not base64"),
        (ALICE.replace("SHA-512", "SHA-256"), "line 1: salt and keys are cut off"),
        ("\n".join(ALICE.replace("alice", f"a{number}") for number in range(MOST_USERS + 1)), "more than 1000 users"),
    ],
)
def test_what_is_no_file_of_users_is_said_by_line(text: str, says: str) -> None:
    with pytest.raises(BadPasswordFile) as raised:
        parse(text)
    assert says in str(raised.value)


@pytest.mark.parametrize("name", ["", "a:b", "#a", " a", "a" * 65, "a\nb", "a\u202eb"])
def test_names_that_cannot_be(name: str) -> None:
    assert name_problem(name) is not None
    assert name_problem("Alice Übelacker") is None


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(ALICE)
    path.chmod(0o644)
    assert list(read_users(path)) == ["alice"]
    path.chmod(0o664)
    with pytest.raises(BadPasswordFile, match="may write to it"):
        read_users(path)
    path.write_bytes(b"\xff")
    path.chmod(0o600)
    for bad, says in ((path, "not text"), (tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(BadPasswordFile, match=f"{bad}.*{says}"):
            read_users(bad)


def test_a_wrong_password_that_is_far_too_long_costs_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def salted(digest: str, password: str, salt: bytes, iterations: int) -> bytes:
        hashed.append(password)
        return b""

    credential = parse(ALICE)["alice"]
    monkeypatch.setattr(password_file, "salt_password", salted)
    assert not credential.fits("x" * 1_000_000)
    assert [len(each) for each in hashed] == [1024]
