"""Tests of how a guest that runs ottla is stopped for a while, and killed."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from compat_tests.waiting import wait_for
from scripts.powercut.broker import Guest


def state(pid: int) -> str:
    """Returns the letter that the kernel has for what a process does; "" if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # gone, or gone while it was read
        return ""
    return text.rpartition(")")[2].split()[0]


def test_only_the_guests_kernel_is_stopped_for_a_while() -> None:
    """It took a process of its own that was stopped for one that had crashed, in the checker's runs of power and pause."""
    with Guest(["sh", "-c", "sleep 100 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True) as guest:
        assert guest.stdout is not None
        inside = int(guest.stdout.readline())
        try:
            guest.send_signal(signal.SIGSTOP)
            wait_for(lambda: state(guest.pid) == "T", "it is not stopped")
            wait_for(lambda: state(inside) == "S", "what runs in it is stopped, too")  # it may still be starting
            guest.send_signal(signal.SIGCONT)
            wait_for(lambda: state(guest.pid) == "S", "it does not go on")
        finally:
            guest.kill()
    wait_for(lambda: state(inside) in ("", "Z"), "what ran in it is still there")
