"""Files of users for a console's tests, with passwords that are quick to check."""

from __future__ import annotations

from pathlib import Path

from ottla.security.password_file import credential_of

PASSWORD = "correct horse battery"


def line(name: str, password: str = PASSWORD) -> str:
    """Returns a user's line."""
    return credential_of(password, b"0123456789abcdef", 4096).line(name) + "\n"


def write(path: Path, text: str) -> None:
    """Replaces the file, as who changes it should, so that it is another one whatever the clock says."""
    beside = path.with_name("new")
    beside.write_text(text)
    beside.chmod(0o600)
    beside.rename(path)
