"""The descriptors that are kept for loading modules: used when there are no others, and taken back afterwards."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from functools import partial

import pytest

from ottla.server.dispatch.reserved_descriptors import ReservedDescriptors


def test_it_is_given_away_for_one_more_try() -> None:
    reserved = ReservedDescriptors()
    before = len(os.listdir("/proc/self/fd"))
    during: list[int] = []

    def action() -> str:
        during.append(len(os.listdir("/proc/self/fd")))
        if len(during) == 1:
            raise OSError(errno.EMFILE, "too many")
        return "done"

    assert reserved.run(action) == "done"
    assert during == [before, before - 2]
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_raised_for_other_reasons_or_twice_is_passed_on() -> None:
    reserved, calls = ReservedDescriptors(), []

    def action(code: int) -> None:
        calls.append(code)
        raise OSError(code, "it failed")

    for code in (errno.EIO, errno.ENFILE):
        with pytest.raises(OSError, match="it failed"):
            reserved.run(partial(action, code))
    assert calls == [errno.EIO, errno.ENFILE, errno.ENFILE]


def test_a_handler_is_loaded_in_a_process_without_descriptors() -> None:
    program = """
import os, resource
from types import SimpleNamespace
from ottla.server.dispatch.routes import Dispatch
dispatch = Dispatch(SimpleNamespace(config=SimpleNamespace(values={"ottla.request.max.items": 1000})))
dispatch._open_route(18, 0)
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, 4096))
try:
    os.open(os.devnull, os.O_RDONLY)
except OSError:
    print(dispatch._reserved.run(lambda: dispatch._open_route(1, 12)).head)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Struct" in done.stdout
