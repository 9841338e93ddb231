"""Directories that are a test's, and those that are not."""

from __future__ import annotations

import pytest

from ottla.log.config_def import ConfigError
from ottla.server.broker.marked_directories import MARKER, check_directories
from tests.memdisk import MemDisk

DIRECTORY = "/data"


def disk(*files: str) -> MemDisk:
    made = MemDisk(lambda: 0)
    for name in files:
        made.makedirs(DIRECTORY)
        made.write_bytes(f"{DIRECTORY}/{name}", b"x")
    return made


def check(disk: MemDisk, *, under_test: bool, adopt: bool = False) -> None:
    check_directories(disk, [DIRECTORY], under_test=under_test, adopt=adopt)


@pytest.mark.parametrize("files", [(), ("lost+found",)])
def test_an_empty_directory_becomes_a_tests(files: tuple[str, ...]) -> None:
    made = disk(*files)
    check(made, under_test=True)
    assert made.exists(f"{DIRECTORY}/{MARKER}")
    check(made, under_test=True)


def test_data_that_no_test_has_written_are_not_touched() -> None:
    made = disk("meta.properties")
    with pytest.raises(ConfigError, match=r"^log.dirs: /data has data that are no test's.*--data-dir DIR.*no --test-port"):
        check(made, under_test=True)
    assert made.list(DIRECTORY) == ["meta.properties"]
    check(made, under_test=False)


def test_a_tests_directory_is_used_otherwise_only_if_somebody_says_so() -> None:
    made = disk(MARKER, "meta.properties")
    with pytest.raises(ConfigError, match=r"^log.dirs: /data is a test's.*--test-port N.*--adopt-test-data"):
        check(made, under_test=False)
    check(made, under_test=False, adopt=True)
    assert made.list(DIRECTORY) == ["meta.properties"]
    check(made, under_test=False)


def test_a_usual_start_leaves_nothing_behind() -> None:
    made = disk()
    check(made, under_test=False, adopt=True)
    assert not made.exists(DIRECTORY)
