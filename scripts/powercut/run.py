"""True power cuts: ottla's log writes on a real file system in a User Mode Linux, which is killed with all that it had cached.

`python -m scripts.powercut.run [--cuts 20] [--seed N] [--filesystem ext4] [--size-mib 256]`

The guest is a Linux kernel that runs as a process (Debian: user-mode-linux; no KVM and no root rights needed, mkfs from
e2fsprogs or xfsprogs). Its root is this machine's, read-only; its one disk is a fresh image. SIGKILL takes the guest's page cache
with it, so the image holds what the guest's file system had written out: in full what was fsynced, of the rest what happened to
be on its way. The next start of the guest mounts the same image, which replays its journal, and `writer.py` opens the log, checks
every record against every promise made before all cuts so far, and writes on. After the last cut it checks once more. Between
0.5 and 6 s of load go before each cut, by seed.

A cut that leaves anything wrong ends the run with exit code 1; the image and what the guest said are kept and named.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from pathlib import Path
from random import Random
from shlex import quote

HERE = Path(__file__).resolve().parent
KERNEL = "linux.uml"
_BOOT_SECONDS = 180
_MEMORY = "512M"
MKFS = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}


def guest_command(work: Path, filesystem: str) -> list[str]:
    """Returns what starts the guest, with the disk `work`/disk; it runs the shell command in the file `work`/command."""
    return [
        *(KERNEL, "rootfstype=hostfs", "rootflags=/", "ro", f"init={HERE}/guest.sh", f"mem={_MEMORY}", f"ubd0={work}/disk"),
        *("con=null", "con0=fd:0,fd:1", "con1=null", "ssl=null", "quiet", f"uml_dir={work}/", "umid=guest"),
        *(f"POWERCUT={work}", f"FILESYSTEM={filesystem}"),
    ]


def guest_environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "TMPDIR": "/dev/shm"}  # the guest's memory is a file there


def make_disk(disk: Path, filesystem: str, size_mib: int) -> None:
    """Makes an image with a new file system."""
    disk.parent.mkdir(parents=True, exist_ok=True)
    with disk.open("wb") as file:
        file.truncate(size_mib << 20)
    subprocess.run([*MKFS[filesystem], str(disk)], check=True)


class Guest:
    """One life of the guest, from its start to SIGKILL."""

    def __init__(self, work: Path, filesystem: str, command: str) -> None:
        self.said = work / "said"
        (work / "command").write_text(command)
        with self.said.open("wb") as output:
            self._process = subprocess.Popen(
                guest_command(work, filesystem),
                env=guest_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # the guest's processes are children of its own, in this group
            )

    def lines(self) -> list[str]:
        """Returns what it said, in whole lines."""
        return self.said.read_text(errors="replace").replace("\r", "").split("\n")[:-1]

    def wait_for(self, word: str) -> str:
        """Returns the first line that begins so. Raises AssertionError if the guest ends or fails before."""
        deadline = time.monotonic() + _BOOT_SECONDS
        while time.monotonic() < deadline:
            lines = self.lines()
            found = next((line for line in lines if line.startswith(word)), None)
            if found is not None:
                return found
            wrong = any(line.startswith(("guest ", "Traceback")) for line in lines) or self._process.poll() is not None
            assert not wrong, "\n".join(self.lines()[-30:])
            time.sleep(0.1)
        raise AssertionError(f"no {word!r} after {_BOOT_SECONDS} s:\n" + "\n".join(self.lines()[-30:]))

    def cut(self) -> list[str]:
        """Kills it; what it had said."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        return self.lines()


def run(work: Path, cuts: int, seed: int, filesystem: str, size_mib: int) -> None:
    rng = Random(seed)
    make_disk(work / "disk", filesystem, size_mib)
    promises = work / "promises"
    promises.touch()
    kept = 0
    for number in range(cuts + 1):
        writer = [sys.executable, "-m", "scripts.powercut.writer", "/mnt/data/log", str(promises), str(seed * 1000 + number)]
        guest = Guest(work, filesystem, f"cd {quote(str(HERE.parents[1]))} && {' '.join(map(quote, writer))}")
        try:
            checked = guest.wait_for("checked ")
            if number == cuts:
                break
            guest.wait_for("writing")
            seconds = rng.uniform(0.5, 6)
            time.sleep(seconds)
        finally:
            said = guest.cut()
        new = [line for line in said if line.startswith(("up ", "made ", "gone "))]
        kept += len(new)
        with promises.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        failed = next((line for line in said if line.startswith(("guest ", "Traceback"))), None)
        assert failed is None, "\n".join(said[-30:])
        print(f"cut {number + 1}: {checked}, {len(new)} promises in {seconds:.1f} s", flush=True)
    print(f"{cuts} power cuts on {filesystem}: {checked} records in the end, all {kept} promises kept")


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--filesystem", choices=sorted(MKFS), default="ext4")
    parser.add_argument("--size-mib", type=int, default=256)
    arguments = parser.parse_args()
    for tool in (KERNEL, MKFS[arguments.filesystem][0]):
        if shutil.which(tool) is None:
            parser.error(f"{tool} is missing; on Debian: apt-get install user-mode-linux e2fsprogs xfsprogs")
    work = Path(tempfile.mkdtemp(prefix="powercut-"))
    try:
        run(work, arguments.cuts, arguments.seed, arguments.filesystem, arguments.size_mib)
    except AssertionError as error:
        print(f"{error}\nthe disk and what was said and promised are in {work}", file=sys.stderr)
        raise SystemExit(1) from None
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
