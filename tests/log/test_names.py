"""log/names.py: what the name of a file or directory says, and names that fit the file system."""

from __future__ import annotations

from random import Random

import pytest

from ottla.log.disk.checkpoint import parse_directory_name
from ottla.log.names import (
    DELETE_DIR_SUFFIX,
    NO_OFFSET,
    STRAY_DIR_SUFFIX,
    future_directory_name,
    future_name_fits,
    offset_in,
    offset_name,
    parse_future_name,
    retired_directory_name,
)


@pytest.mark.parametrize("offset", [0, 7, 2**31, 2**63 - 1])
@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
@pytest.mark.parametrize("temporary", ["", ".deleted", ".cleaned", ".swap", ".tmp"])
def test_an_offset_is_found_in_the_name_of_each_file(offset: int, suffix: str, temporary: str) -> None:
    name = offset_name(offset) + suffix + temporary
    assert len(offset_name(offset)) == 20
    assert offset_in(name) == offset


@pytest.mark.parametrize(
    "name",
    [
        "",
        "0.log",
        f"{0:020d}",
        f"{0:021d}.log",
        f"{0:020d}.log.bak",
        f"{0:020d}.lo",
        f"{0:020d}.swap",
        "-0000000000000000001.log",
        "٠" * 20 + ".log",
        f"{2**63:020d}.log",
        "leader-epoch-checkpoint",
    ],
)
def test_other_names_have_none(name: str) -> None:
    assert offset_in(name) == NO_OFFSET


@pytest.mark.parametrize("suffix", [DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX])
@pytest.mark.parametrize("length", [1, 209, 249])
def test_a_retired_directory_is_no_partition_and_fits_the_file_system(length: int, suffix: str) -> None:
    random = Random(1)
    name, other = (retired_directory_name("x" * length, 12, random, suffix) for _ in range(2))
    assert name != other
    assert name.endswith(suffix)
    assert len(name) <= 255
    assert name.startswith("x" * min(length, 200))
    assert parse_directory_name(name) is None


@pytest.mark.parametrize("topic", ["t", "a-1.b", "x" * 213])
def test_a_copys_name_says_whose_it_is(topic: str) -> None:
    name = future_directory_name(topic, 7, Random(1))
    assert parse_future_name(name) == (topic, 7)
    assert parse_directory_name(name) is None
    assert (len(name) <= 255) == future_name_fits(topic, 7)


def test_a_copys_name_may_be_too_long() -> None:
    assert future_name_fits("x" * 213, 0)
    assert not future_name_fits("x" * 213, 10)
    assert not future_name_fits("x" * 214, 0)


@pytest.mark.parametrize(
    "name",
    [
        "t-0",
        "t-0.abc-future",
        f"t-0.{'g' * 32}-future",
        f"t-0.{'a' * 32}-delete",
        f"-0.{'a' * 32}-future",
        f"t-{2**31}.{'a' * 32}-future",
        f"t-07.{'a' * 32}-future",
        f"t-\u0663.{'a' * 32}-future",  # a digit, but not of ours
        f"a b-0.{'a' * 32}-future",
        f"a\nb-0.{'a' * 32}-future",
    ],
)
def test_other_directories_are_no_copies(name: str) -> None:
    assert parse_future_name(name) is None
