"""Java's hash of strings."""

from __future__ import annotations

import pytest

from ottla.server.java_hash import java_hash_bucket


@pytest.mark.parametrize(
    ("text", "bucket"),
    [("", 0), ("g", 3), ("my-group", 12), ("polygenelubricants", 0), ("Gruppe-ä", 26), ("\U0001f600", 49)],
)
def test_names_hash_as_java_strings_do(text: str, bucket: int) -> None:
    # Checked against java.lang.String.hashCode; "polygenelubricants" hashes to the smallest int.
    assert java_hash_bucket(text, 50) == bucket
