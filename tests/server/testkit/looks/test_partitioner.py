"""Keys go where Java's clients put them."""

from __future__ import annotations

import pytest

from ottla.server.testkit.looks.partitioner import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"", 275646681), (b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)],
)
def test_the_hash_is_that_of_other_clients(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed % 2**32


def test_a_partition_is_one_of_the_topic() -> None:
    assert {partition_of(bytes([number]), 3) for number in range(50)} == {0, 1, 2}
