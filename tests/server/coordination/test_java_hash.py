"""These tests compare Java's hash of strings with known values."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.server.coordination.java_hash import java_hash_bucket


@pytest.mark.parametrize(
    ("text", "bucket"),
    [("", 0), ("g", 3), ("my-group", 12), ("polygenelubricants", 0), ("Gruppe-ä", 26), ("\U0001f600", 49)],
)
def test_names_hash_as_java_strings_do(text: str, bucket: int) -> None:
    # Checked against java.lang.String.hashCode; "polygenelubricants" hashes to the smallest int.
    assert java_hash_bucket(text, 50) == bucket


def test_no_name_needs_a_file_to_be_opened() -> None:
    """Python imports a codec when it is first used, so a broker without file descriptors could not find any group any more."""
    script = "import ottla.server.coordination.java_hash, sys; print('encodings.utf_16_le' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout == "True\n"
